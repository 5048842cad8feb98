//! [`Deadlines`]: one timer for many that wait, each for a time of its own.
//!
//! Nearly all who wait for a time stop waiting before it comes: requests are answered before their timeout, leases ended
//! before their deadline. With tokio's own timers, each that is earlier than those before it wakes the thread that waits for
//! sockets. Here the one timer stays as it is until it fires, and only a time before that one moves it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::lock::lock;

/// Belongs to the runtime on which it is waited for first.
#[derive(Debug, Default)]
pub struct Deadlines {
    shared: Arc<Shared>,
    /// The task that sleeps, ended when this is dropped.
    task: OnceLock<AbortHandle>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Somebody waits for a time before that of the timer.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<Place, Waker>,
    last: u64,
    /// When the timer fires.
    timer: Option<Instant>,
}

/// The time that somebody waits for, and a number, because others may wait for the same time.
type Place = (Instant, u64);

impl Deadlines {
    /// Ends no earlier than `at`.
    pub fn until(&self, at: Instant) -> Until {
        self.task.get_or_init(|| start(Arc::clone(&self.shared)));
        Until { shared: Arc::clone(&self.shared), at, place: None }
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where the clock comes in")]
fn start(shared: Arc<Shared>) -> AbortHandle {
    tokio::spawn(async move { shared.serve().await }).abort_handle()
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    async fn serve(&self) {
        loop {
            let timer = self.state().timer;
            tokio::select! {
                biased;
                () = self.sooner.notified() => {}
                () = asleep(timer) => self.ring(Instant::now()),
            }
        }
    }

    /// Wakes those whose time has come, and sets the timer to the next.
    fn ring(&self, now: Instant) {
        let woken = {
            let mut state = self.state();
            let later = state.waiting.split_off(&(now, u64::MAX));
            let woken = std::mem::replace(&mut state.waiting, later);
            state.timer = state.waiting.keys().next().map(|(at, _)| *at);
            woken
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// Whether somebody still waits in this place, from now on with this waker.
    fn still_waits(&self, place: &Place, waker: &Waker) -> bool {
        let mut state = self.state();
        let Some(known) = state.waiting.get_mut(place) else { return false };
        if known.will_wake(waker) {
            return true;
        }
        let before = std::mem::replace(known, waker.clone());
        drop(state);
        // Outside of the lock: a waker may do anything when it is dropped.
        drop(before);
        true
    }

    fn enter(&self, at: Instant, waker: Waker) -> Place {
        let mut state = self.state();
        state.last += 1;
        let place = (at, state.last);
        state.waiting.insert(place, waker);
        if state.timer.is_none_or(|timer| at < timer) {
            state.timer = Some(at);
            self.sooner.notify_one();
        }
        place
    }
}

async fn asleep(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Waits for a time.
pub struct Until {
    shared: Arc<Shared>,
    at: Instant,
    place: Option<Place>,
}

impl Future for Until {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &self.place {
            // Only `ring` takes somebody out whose time has come.
            Some(place) if !self.shared.still_waits(place, cx.waker()) => return Poll::Ready(()),
            Some(_) => {}
            None => self.place = Some(self.shared.enter(self.at, cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let left = self.shared.state().waiting.remove(&place);
            // Outside of the lock: a waker may do anything when it is dropped.
            drop(left);
        }
    }
}

impl fmt::Debug for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Until").field("at", &self.at).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn after(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn each_waits_for_its_own_time() {
        let (deadlines, began) = (Deadlines::default(), Instant::now());
        let waits = [3, 1, 2, 2].map(|seconds| {
            let wait = deadlines.until(after(seconds));
            async move {
                wait.await;
                (seconds, began.elapsed().as_secs())
            }
        });
        let [first, second, third, fourth] = waits;
        let waited = tokio::join!(first, second, third, fourth);
        assert_eq!(waited, ((3, 3), (1, 1), (2, 2), (2, 2)));
        assert_eq!(began.elapsed().as_secs(), 3, "they wait at the same time");
        assert!(deadlines.shared.state().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_before_all_others_is_not_waited_for_too_long() {
        let (deadlines, began) = (Deadlines::default(), Instant::now());
        let mut later = deadlines.until(after(60));
        assert!(std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut later).poll(cx).is_pending())).await);
        deadlines.until(after(1)).await;
        assert_eq!(began.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_leaves_nothing_behind_and_the_timer_alone() {
        let deadlines = Deadlines::default();
        let mut first = deadlines.until(after(5));
        assert!(std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut first).poll(cx).is_pending())).await);
        drop(first);
        let timer = deadlines.shared.state().timer.expect("the timer is set");
        for _ in 0..100 {
            let mut next = deadlines.until(timer + Duration::from_millis(1));
            assert!(std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut next).poll(cx).is_pending())).await);
        }
        let state = deadlines.shared.state();
        assert_eq!((state.timer, state.waiting.len()), (Some(timer), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_has_passed_is_not_waited_for() {
        let deadlines = Deadlines::default();
        deadlines.until(Instant::now()).await;
        assert!(deadlines.shared.state().timer.is_none());
    }
}
