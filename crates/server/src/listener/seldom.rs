//! [`Seldom`]: a future that is polled only when it was woken itself, however often its task is.
//!
//! The task of a connection is woken for every request, and also waits for what happens once in a connection's life. Each
//! such wait would be looked at again with every request, at a cost that is not small beside that of the request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::alarm::Alarm;

pub(super) struct Seldom<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
    alarm: Arc<Alarm>,
    /// The same `alarm`, as the future knows it.
    waker: Waker,
    /// The future was not polled yet.
    is_new: bool,
}

impl<'a, T> Seldom<'a, T> {
    pub(super) fn new(future: impl Future<Output = T> + Send + 'a) -> Self {
        let alarm = Arc::new(Alarm::default());
        Self { future: Box::pin(future), waker: Waker::from(Arc::clone(&alarm)), alarm, is_new: true }
    }
}

impl<T> Future for Seldom<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // In this order: a wake-up in between is seen, or wakes the task.
        self.alarm.wakes(cx.waker());
        if !self.alarm.rang() && !std::mem::take(&mut self.is_new) {
            return Poll::Pending;
        }
        let Self { future, waker, .. } = &mut *self;
        future.as_mut().poll(&mut Context::from_waker(waker))
    }
}

impl<T> fmt::Debug for Seldom<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seldom").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn the_future_is_polled_at_first_and_when_it_is_woken() {
        let (polls, told) = (AtomicUsize::new(0), Notify::new());
        let mut notified = std::pin::pin!(told.notified());
        let mut seldom = Seldom::new(std::future::poll_fn(|cx| {
            polls.fetch_add(1, Ordering::SeqCst);
            notified.as_mut().poll(cx)
        }));
        for _ in 0..10 {
            let polled = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut seldom).poll(cx))).await;
            assert_eq!((polled, polls.load(Ordering::SeqCst)), (Poll::Pending, 1));
        }
        told.notify_waiters();
        (&mut seldom).await;
        assert_eq!(polls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_wake_up_reaches_the_task_that_polled_last() {
        let told = Arc::new(Notify::new());
        let mut seldom = Seldom::new({
            let told = Arc::clone(&told);
            async move { told.notified().await }
        });
        let first = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut seldom).poll(cx))).await;
        assert_eq!(first, Poll::Pending);
        let waiting = tokio::spawn(seldom);
        tokio::task::yield_now().await;
        told.notify_waiters();
        waiting.await.expect("the other task is woken");
    }
}
