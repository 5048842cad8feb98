//! Bytes that clients may hold at once, and who gives way when there is no room.
//!
//! A [`Budget`] bounds what all its [`Share`]s hold together. A share whose client is slow can be listed as giving way: when
//! somebody needs room, the share that has been slow for longest is evicted. So few connections cannot lock out the others
//! for longer than it takes to call them slow, however many bytes they hold and however they drip.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::books::{Books, Room};
use super::latch::Latch;

#[derive(Debug, Default)]
pub(super) struct Budget {
    /// A share that has been slow for less than this does not give way.
    slow_after: Duration,
    books: Mutex<Books>,
    /// Told when bytes are given back.
    freed: Notify,
    /// How many listen to `freed`.
    listeners: AtomicUsize,
}

impl Budget {
    pub(super) fn new(slow_after: Duration) -> Self {
        Self { slow_after, ..Self::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.books().bytes
    }

    /// A share without bytes.
    pub(super) fn share(self: &Arc<Self>) -> Share {
        let number = self.books().next_number();
        Share { budget: Arc::clone(self), number, bytes: 0, eviction: OnceLock::new() }
    }

    /// After the books have changed: whoever waits for room looks again.
    fn tell_freed(&self) {
        if self.listeners.load(Ordering::SeqCst) > 0 {
            self.freed.notify_waiters();
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nothing panics while this lock is held")
    }
}

/// What one body or one reply takes of a budget, until it is dropped.
pub(super) struct Share {
    budget: Arc<Budget>,
    number: u64,
    bytes: usize,
    /// Made when somebody asks for it: most shares are never slow.
    eviction: OnceLock<Arc<Latch>>,
}

/// Listens to [`Budget::freed`] until it is dropped.
struct Listening<'a>(&'a Budget);

impl<'a> Listening<'a> {
    fn to(budget: &'a Budget) -> Self {
        budget.listeners.fetch_add(1, Ordering::SeqCst);
        Self(budget)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.listeners.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Share {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Set when this share is to be dropped because it was too slow.
    pub(super) fn eviction(&self) -> Arc<Latch> {
        Arc::clone(self.eviction.get_or_init(Arc::default))
    }

    fn is_evicted(&self) -> bool {
        self.eviction.get().is_some_and(|eviction| eviction.is_set())
    }

    /// Takes more if all shares together then have at most `bytes_max`, or if no other has any. Nobody is evicted.
    pub(super) fn try_grow(&mut self, bytes: usize, bytes_max: usize) -> bool {
        let budget = Arc::clone(&self.budget);
        self.take(&mut budget.books(), bytes, bytes_max)
    }

    /// Takes more as `try_grow` does, and has slower shares give way. `false`: there is no room, or this share is evicted itself.
    pub(super) async fn grow(&mut self, bytes: usize, bytes_max: usize) -> bool {
        match self.ask(bytes, bytes_max, Instant::now) {
            Room::Here => return true,
            Room::Nowhere => return false,
            Room::Soon => {}
        }
        let (budget, eviction) = (Arc::clone(&self.budget), self.eviction());
        let listening = Listening::to(&budget);
        loop {
            // `freed` is listened to before the look: what is given back in between is not missed.
            let freed = listening.0.freed.notified();
            match self.ask(bytes, bytes_max, Instant::now) {
                Room::Here => return true,
                Room::Nowhere => return false,
                Room::Soon => {}
            }
            tokio::select! {
                () = freed => {}
                () = eviction.wait() => return false,
            }
        }
    }

    fn ask(&mut self, bytes: usize, bytes_max: usize, now: impl FnOnce() -> Instant) -> Room {
        let budget = Arc::clone(&self.budget);
        let mut books = budget.books();
        if self.is_evicted() {
            return Room::Nowhere;
        }
        if self.take(&mut books, bytes, bytes_max) {
            return Room::Here;
        }
        let stays = books.bytes - books.leaving;
        let excess = stays.saturating_sub(bytes_max.saturating_sub(bytes));
        if excess == 0 {
            return Room::Soon;
        }
        let now = now();
        let own = books.slow_since(self.number).unwrap_or(now);
        let slow_before = now.checked_sub(budget.slow_after).unwrap_or(now).min(own);
        books.evict(excess, slow_before)
    }

    fn take(&mut self, books: &mut Books, bytes: usize, bytes_max: usize) -> bool {
        let fits = books.bytes <= bytes_max.saturating_sub(bytes);
        if fits {
            books.bytes += bytes;
            self.bytes += bytes;
            books.resize(self.number, self.bytes);
        }
        fits
    }

    /// From now on this share gives way to others once it has been slow for long enough.
    pub(super) fn gives_way(&self, slow_since: Instant) {
        self.budget.books().list(self.number, slow_since, self.bytes, &self.eviction());
    }

    /// What the share waited for has come: it gives way no more.
    pub(super) fn is_settled(&self) {
        self.budget.books().unlist(self.number);
        // For those who waited for this share to leave.
        self.budget.tell_freed();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut books = self.budget.books();
        books.bytes -= self.bytes;
        books.unlist(self.number);
        drop(books);
        self.budget.tell_freed();
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MAX: usize = 100;
    const SLOW_AFTER: Duration = Duration::from_secs(1);

    fn budget() -> Arc<Budget> {
        Arc::new(Budget::new(SLOW_AFTER))
    }

    fn slow(budget: &Arc<Budget>, bytes: usize) -> Share {
        let mut share = budget.share();
        assert!(share.try_grow(bytes, MAX));
        share.gives_way(Instant::now());
        share
    }

    /// Drops the share once it is evicted.
    fn obedient(share: Share) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move { share.eviction().wait().await })
    }

    #[tokio::test(start_paused = true)]
    async fn the_share_that_was_slow_for_longest_gives_way() {
        let budget = budget();
        let first = slow(&budget, 50);
        advance(SLOW_AFTER / 2).await;
        let second = slow(&budget, 50);
        advance(2 * SLOW_AFTER).await;
        let eviction = second.eviction();
        let (first, second) = (obedient(first), obedient(second));
        let mut asker = budget.share();
        assert!(asker.grow(30, MAX).await);
        first.await.unwrap();
        assert!(!eviction.is_set());
        assert_eq!(budget.bytes(), 80);
        drop(asker);
        second.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_that_keeps_up_does_not_give_way() {
        let budget = budget();
        let fast = slow(&budget, MAX);
        for _ in 0..10 {
            advance(SLOW_AFTER / 2).await;
            fast.gives_way(Instant::now());
            assert!(!budget.share().grow(1, MAX).await);
        }
        assert!(!fast.eviction().is_set());
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_share_gets_no_more_and_evicts_no_other() {
        let budget = budget();
        let mut slowest = slow(&budget, 50);
        advance(SLOW_AFTER).await;
        let other = slow(&budget, 50);
        advance(2 * SLOW_AFTER).await;
        assert!(!slowest.grow(1, MAX).await);
        assert!(!other.eviction().is_set());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_evicted_when_that_would_not_make_enough_room() {
        let budget = budget();
        let mut settled = budget.share();
        assert!(settled.try_grow(90, MAX));
        let share = slow(&budget, 10);
        advance(2 * SLOW_AFTER).await;
        assert!(!budget.share().grow(20, MAX).await);
        assert!(!share.eviction().is_set());
        settled.gives_way(Instant::now());
        settled.is_settled();
        advance(2 * SLOW_AFTER).await;
        assert!(!budget.share().grow(20, MAX).await);
    }

    #[tokio::test(start_paused = true)]
    async fn room_that_is_being_made_is_waited_for() {
        let budget = budget();
        let (first, second) = (slow(&budget, 50), slow(&budget, 50));
        advance(2 * SLOW_AFTER).await;
        let (mut one, mut other) = (budget.share(), budget.share());
        assert_eq!(one.ask(20, MAX, Instant::now), Room::Soon);
        assert_eq!(other.ask(20, MAX, Instant::now), Room::Soon);
        // The room of the first is enough for both.
        assert!(first.eviction().is_set() && !second.eviction().is_set());
        let waiting = tokio::spawn(async move { (one.grow(20, MAX).await, other.grow(20, MAX).await) });
        tokio::task::yield_now().await;
        drop(first);
        assert_eq!(waiting.await.unwrap(), (true, true));
        assert_eq!(budget.bytes(), 50);
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_that_is_evicted_too_late_leaves_the_books_as_they_were() {
        let budget = budget();
        let mut late = slow(&budget, 50);
        advance(2 * SLOW_AFTER).await;
        assert_eq!(budget.share().ask(MAX, MAX, Instant::now), Room::Soon);
        assert!(late.eviction().is_set());
        assert!(late.try_grow(10, MAX));
        late.is_settled();
        late.gives_way(Instant::now());
        assert_eq!(budget.books().leaving, 0);
        drop(late);
        assert_eq!(budget.bytes(), 0);
        assert_eq!(budget.books().leaving, 0);
    }

    #[tokio::test]
    async fn more_than_all_is_taken_alone() {
        let budget = budget();
        let mut alone = budget.share();
        assert!(alone.try_grow(3 * MAX, MAX));
        assert!(!budget.share().try_grow(1, MAX));
        drop(alone);
        assert_eq!(budget.bytes(), 0);
    }
}
