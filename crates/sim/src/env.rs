//! The engine's outside world, played by the executor.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use windlass_core::time::Timestamp;
use windlass_engine::env::{BoxFuture, Env, MayBlock};

use crate::executor::Handle;
use crate::rng::Rng;

/// What the machine's clock says at virtual time 0: some day in 2025.
pub const WALL_AT_START: u64 = 1_750_000_000_000_000;

/// The machine's clock. It outlives processes, and can be set.
#[derive(Clone, Debug, Default)]
pub struct WallClock {
    offset_micros: Arc<AtomicI64>,
    /// The highest offset so far.
    highest: Arc<AtomicI64>,
}

impl WallClock {
    pub fn at(&self, now_micros: u64) -> Timestamp {
        shifted(now_micros, self.offset_micros.load(Ordering::Relaxed))
    }

    pub fn step(&self, micros: i64) {
        let offset = self.offset_micros.fetch_add(micros, Ordering::Relaxed) + micros;
        self.highest.fetch_max(offset, Ordering::Relaxed);
    }

    /// No engine can believe it to be later than this: clocks that only follow the machine's and their own
    /// never pass the highest it could have been.
    pub fn latest_possible(&self, now_micros: u64) -> Timestamp {
        shifted(now_micros, self.highest.load(Ordering::Relaxed))
    }
}

fn shifted(now_micros: u64, offset: i64) -> Timestamp {
    Timestamp((WALL_AT_START + now_micros).saturating_add_signed(offset))
}

/// One process. A new one begins its boot clock at zero.
pub struct SimEnv {
    handle: Handle,
    wall: WallClock,
    booted_at_nanos: u64,
    /// How many random numbers were drawn.
    drawn: AtomicU64,
}

impl SimEnv {
    pub fn new(handle: Handle, wall: WallClock) -> Self {
        let booted_at_nanos = handle.now_nanos();
        Self { handle, wall, booted_at_nanos, drawn: AtomicU64::new(0) }
    }
}

impl fmt::Debug for SimEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimEnv").field("boot", &self.boot()).finish_non_exhaustive()
    }
}

impl Env for SimEnv {
    fn boot(&self) -> Duration {
        Duration::from_nanos(self.handle.now_nanos() - self.booted_at_nanos)
    }

    fn wall(&self) -> Timestamp {
        self.wall.at(self.handle.now_micros())
    }

    /// From the virtual time, which the seed decides.
    fn random(&self) -> u64 {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        Rng::new(self.handle.now_nanos().rotate_left(16) ^ drawn).draw()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        let at_nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX).saturating_add(self.booted_at_nanos);
        Box::pin(self.handle.sleep_until_nanos(at_nanos))
    }

    fn spawn_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.handle.spawn(name, future);
    }

    fn spawn_thread_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.handle.spawn(name, future);
    }

    /// Sometimes, so that commits are carried out both by who brings them and by the committer's thread.
    fn may_block(&self) -> Option<MayBlock> {
        self.random().is_multiple_of(2).then(MayBlock::unwatched)
    }
}
