//! [`Blocking`]: threads that others need and that block now, and who takes over from one that blocks for long.
//!
//! A commit that takes a fraction of a millisecond is best waited for by the thread that brought it: to hand it to another would
//! cost more. But nobody serves in its place what comes in meanwhile. So a watcher has another thread take over when a commit takes
//! longer than a tick: a disk that stalls holds up nobody who does not need it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often the watcher looks while threads block now and then.
const TICK: Duration = Duration::from_millis(5);
/// The watcher sleeps after so many ticks during which no thread blocked.
const QUIET_TICKS: u32 = 200;

pub(super) struct Blocking {
    /// Threads that may block at the same time.
    threads_max: usize,
    /// Has another thread do what a thread that blocks does not.
    take_over: Box<dyn Fn() + Send + Sync>,
    /// Threads that block now.
    threads: AtomicUsize,
    /// How often a thread began to block.
    begun: AtomicU64,
    watcher: OnceLock<Thread>,
    watcher_sleeps: AtomicBool,
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("threads_max", &self.threads_max).finish_non_exhaustive()
    }
}

/// A thread that blocks, until this is dropped.
#[derive(Debug)]
pub(super) struct Blocked(Arc<Blocking>);

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.threads.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Blocking {
    pub(super) fn new(threads_max: usize, take_over: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            threads_max,
            take_over: Box::new(take_over),
            threads: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            watcher: OnceLock::new(),
            watcher_sleeps: AtomicBool::new(false),
        })
    }

    pub(super) fn begin(self: &Arc<Self>) -> Option<Blocked> {
        let one_more = |threads| (threads < self.threads_max).then_some(threads + 1);
        self.threads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
        self.begun.fetch_add(1, Ordering::SeqCst);
        let watcher = self.watcher.get_or_init(|| watch(Arc::downgrade(self)));
        if self.watcher_sleeps.load(Ordering::SeqCst) && self.watcher_sleeps.swap(false, Ordering::SeqCst) {
            watcher.unpark();
        }
        Some(Blocked(Arc::clone(self)))
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.get() {
            watcher.unpark();
        }
    }
}

/// What the watcher saw at its last tick.
#[derive(Default)]
struct Seen {
    begun: u64,
    quiet_ticks: u32,
    /// The last beginning that another thread was woken for.
    taken_over: u64,
}

/// Starts the watcher, which ends when `blocking` is dropped.
#[expect(clippy::disallowed_methods, reason = "this is where threads come in")]
fn watch(blocking: Weak<Blocking>) -> Thread {
    let watching = move || {
        let mut seen = Seen::default();
        while let Some(asleep) = blocking.upgrade().map(|blocking| seen.tick(&blocking)) {
            if asleep { thread::park() } else { thread::sleep(TICK) }
        }
    };
    let started = thread::Builder::new().name("blocking-watch".to_owned()).spawn(watching);
    started.expect("a thread can be started").thread().clone()
}

impl Seen {
    /// Tells whether the watcher may sleep until a thread blocks again.
    fn tick(&mut self, blocking: &Blocking) -> bool {
        let begun = blocking.begun.load(Ordering::SeqCst);
        let blocked = blocking.threads.load(Ordering::SeqCst) > 0;
        let is_same = begun == std::mem::replace(&mut self.begun, begun);
        if is_same && blocked && self.taken_over != begun {
            self.taken_over = begun;
            (blocking.take_over)();
        }
        self.quiet_ticks = if is_same && !blocked { self.quiet_ticks + 1 } else { 0 };
        self.quiet_ticks >= QUIET_TICKS && blocking.may_sleep(begun)
    }
}

impl Blocking {
    /// Whoever begins after this wakes the watcher; whoever began before is seen here.
    fn may_sleep(&self, begun: u64) -> bool {
        self.watcher_sleeps.store(true, Ordering::SeqCst);
        let quiet = self.begun.load(Ordering::SeqCst) == begun;
        if !quiet {
            self.watcher_sleeps.store(false, Ordering::SeqCst);
        }
        quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(threads_max: usize) -> (Arc<Blocking>, Arc<AtomicUsize>) {
        let taken_over = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&taken_over);
        let take_over = move || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        (Blocking::new(threads_max, take_over), taken_over)
    }

    #[test]
    fn no_more_threads_block_than_may() {
        let (blocking, _) = counted(2);
        let (first, second) = (blocking.begin(), blocking.begin());
        assert!(first.is_some() && second.is_some());
        assert!(blocking.begin().is_none());
        drop(first);
        assert!(blocking.begin().is_some());
    }

    /// `Seen::tick` is called here as the watcher calls it.
    #[test]
    fn the_watcher_has_another_thread_take_over_once_for_each_thread_that_blocks_on() {
        let (blocking, taken_over) = counted(1);
        // In place of the watcher's own thread, which would count too.
        blocking.watcher.set(thread::current()).expect("there is no watcher yet");
        let mut seen = Seen::default();
        let _blocked = blocking.begin();
        let mut counts = Vec::new();
        for _ in 0..3 {
            assert!(!seen.tick(&blocking), "a watcher does not sleep while a thread blocks");
            counts.push(taken_over.load(Ordering::SeqCst));
        }
        assert_eq!(counts, [0, 1, 1], "not at the first tick, and then once");
    }

    #[test]
    fn the_watcher_sleeps_once_no_thread_blocks() {
        let (blocking, _) = counted(1);
        let mut seen = Seen::default();
        let ticks = (1..).find(|_| seen.tick(&blocking));
        assert_eq!(ticks, Some(QUIET_TICKS));
        assert!(blocking.watcher_sleeps.load(Ordering::SeqCst));
    }
}
