//! A partition's time: `max(last + elapsed on the boot clock, wall clock)`.
//!
//! A wall clock set back neither repeats nor delays anything. One that jumps forward by more than a minute is
//! believed only after the jump has stood for a minute, for it ends leases and starts scheduled items.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use windlass_core::id::PartitionId;
use windlass_core::time::{Span, Timestamp};

use crate::env::Env;

const JUMP: Span = Span::from_secs(60);
const JUMP_STANDS: Duration = Duration::from_secs(60);

/// A sleep is cut to this, so that a wall clock that moved forward is noticed in time.
const SLEEP_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Clock {
    env: Arc<dyn Env>,
    partition: PartitionId,
    last: Timestamp,
    /// The boot clock at `last`.
    at: Duration,
    /// When a jump forward was first seen that has stood since, on the boot clock.
    jumped_at: Option<Duration>,
}

impl Clock {
    /// Carries on after the last commit, `last`. How long nobody owned the partition, only the wall clock knows.
    pub(crate) fn resume(env: Arc<dyn Env>, partition: PartitionId, last: Timestamp) -> Self {
        let (at, last) = (env.boot(), last.max(env.wall()));
        Self { env, partition, last, at, jumped_at: None }
    }

    /// Never earlier than before.
    pub(crate) fn now(&mut self) -> Timestamp {
        let boot = self.env.boot();
        let steady = self.last + Span::from(boot.saturating_sub(self.at));
        let wall = self.env.wall();
        self.last =
            if wall > steady + JUMP { self.doubt(boot, steady, wall) } else { self.trust(steady.max(wall)) };
        self.at = boot;
        self.last
    }

    fn trust(&mut self, now: Timestamp) -> Timestamp {
        self.jumped_at = None;
        now
    }

    fn doubt(&mut self, boot: Duration, steady: Timestamp, wall: Timestamp) -> Timestamp {
        let ahead_ms = (wall - steady).as_micros() / 1000;
        match self.jumped_at {
            None => {
                warn!(partition = %self.partition, ahead_ms, "wall clock jumped forward: waiting whether it stays");
                self.jumped_at = Some(boot);
                steady
            }
            Some(since) if boot.saturating_sub(since) >= JUMP_STANDS => {
                warn!(partition = %self.partition, ahead_ms, "wall clock stayed ahead: adopted");
                self.trust(wall)
            }
            Some(_) => steady,
        }
    }

    /// When to look again for something due at `due`, on the boot clock.
    pub(crate) fn wake_at(&self, due: Timestamp) -> Duration {
        self.at + Duration::from(due - self.last).min(SLEEP_MAX)
    }
}
