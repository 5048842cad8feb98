//! [`Again`]: polls a future again at once if it was woken while it was polled.
//!
//! hyper wakes its own task in the midst of a request, when the handler first asks for the body. tokio would put such a task
//! behind all others, and wake another thread for fear that this one has too much to do.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::alarm::Alarm;

/// A future that wakes itself more often than this in a row gives others their turn.
const TIMES_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Again {
    alarm: Arc<Alarm>,
    /// The same `alarm`, as the future knows it.
    waker: Waker,
}

impl Again {
    pub(super) fn new() -> Self {
        let alarm = Arc::new(Alarm::default());
        Self { waker: Waker::from(Arc::clone(&alarm)), alarm }
    }

    pub(super) fn poll<F: Future>(&self, mut future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.alarm.wakes(cx.waker());
        for _ in 0..TIMES_MAX {
            self.alarm.hold();
            let polled = future.as_mut().poll(&mut Context::from_waker(&self.waker));
            if polled.is_ready() || !self.alarm.let_go() {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How often the future is polled, and its task woken, if the future wakes itself so many times.
    fn woken(times: usize) -> (usize, usize) {
        let (task, polls) = (Arc::new(Task::default()), AtomicUsize::new(0));
        let future = poll_fn(|cx| {
            if polls.fetch_add(1, Ordering::SeqCst) < times {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        let polled =
            Again::new().poll(pin!(future), &mut Context::from_waker(&Waker::from(Arc::clone(&task))));
        assert!(polled.is_pending());
        (polls.load(Ordering::SeqCst), task.0.load(Ordering::SeqCst))
    }

    #[test]
    fn a_future_that_wakes_itself_is_polled_again_without_its_task() {
        assert_eq!((woken(0), woken(1), woken(TIMES_MAX - 1)), ((1, 0), (2, 0), (TIMES_MAX, 0)));
    }

    #[test]
    fn a_future_that_never_stops_waking_itself_lets_others_go_on() {
        assert_eq!(woken(usize::MAX), (TIMES_MAX, 1));
    }

    #[test]
    fn a_wake_up_between_two_polls_reaches_the_task() {
        let (task, again) = (Arc::new(Task::default()), Again::new());
        let mut future = pin!(pending::<()>());
        let waker = Waker::from(Arc::clone(&task));
        assert!(again.poll(future.as_mut(), &mut Context::from_waker(&waker)).is_pending());
        again.waker.wake_by_ref();
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
    }
}
