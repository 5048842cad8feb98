//! [`Blocking`]: which threads of a runtime may block, and who takes over when one of them blocks for long.
//!
//! A commit that takes a fraction of a millisecond is best waited for by the thread that brought it. But tokio does not know
//! that such a thread blocks, and may have no other thread look for what comes in meanwhile. So one thread of the runtime
//! always stays free, and a watcher wakes it when a commit takes longer than a tick: a disk that stalls holds up nobody who
//! does not need it.
//!
//! Only tokio's slot for the task that was woken last cannot be taken over: whoever blocks must not have woken a task since
//! it was polled.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

/// How often the watcher looks while threads block now and then.
const TICK: Duration = Duration::from_millis(5);
/// The watcher sleeps after so many ticks during which no thread blocked.
const QUIET_TICKS: u32 = 200;

#[derive(Debug)]
pub(super) struct Blocking {
    runtime: Handle,
    /// Threads that may block at the same time.
    threads_max: usize,
    /// Threads that block now.
    threads: AtomicUsize,
    /// How often a thread began to block.
    begun: AtomicU64,
    watcher: OnceLock<Thread>,
    watcher_sleeps: AtomicBool,
}

/// A thread that blocks, until this is dropped.
#[derive(Debug)]
pub struct Blocked(Option<Arc<Blocking>>);

impl Blocked {
    /// For an [`super::Env`] whose threads nobody else needs.
    pub fn unwatched() -> Self {
        Self(None)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(blocking) = &self.0 {
            blocking.threads.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Blocking {
    pub(super) fn new(runtime: Handle) -> Arc<Self> {
        // On a runtime of one thread nobody could take over.
        let several = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
        let threads_max = if several { runtime.metrics().num_workers() - 1 } else { 0 };
        Arc::new(Self {
            runtime,
            threads_max,
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
        Some(Blocked(Some(Arc::clone(self))))
    }

    /// A task that does nothing wakes a thread of the runtime, which then looks for what others left behind and comes in.
    fn have_another_thread_take_over(&self) {
        self.runtime.spawn(async {});
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
            blocking.have_another_thread_take_over();
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn one_thread_of_a_runtime_always_stays_free() {
        let blocking = Blocking::new(Handle::current());
        let (first, second) = (blocking.begin(), blocking.begin());
        assert!(first.is_some() && second.is_some());
        assert!(blocking.begin().is_none());
        drop(first);
        assert!(blocking.begin().is_some());
    }

    #[tokio::test]
    async fn the_only_thread_of_a_runtime_may_not_block() {
        assert!(Blocking::new(Handle::current()).begin().is_none());
    }

    /// `Seen::tick` is called here as the watcher calls it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_watcher_has_another_thread_take_over_once_for_each_thread_that_blocks_on() {
        let blocking = Blocking::new(Handle::current());
        let mut seen = Seen::default();
        let _blocked = blocking.begin();
        let mut taken_over = Vec::new();
        for _ in 0..3 {
            assert!(!seen.tick(&blocking), "a watcher does not sleep while a thread blocks");
            taken_over.push(seen.taken_over);
        }
        assert_eq!(taken_over, [0, 1, 1], "not at the first tick, and then once");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_watcher_sleeps_once_no_thread_blocks() {
        let blocking = Blocking::new(Handle::current());
        let mut seen = Seen::default();
        let ticks = (1..).find(|_| seen.tick(&blocking));
        assert_eq!(ticks, Some(QUIET_TICKS));
        assert!(blocking.watcher_sleeps.load(Ordering::SeqCst));
    }
}
