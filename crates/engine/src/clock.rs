//! A partition's time: `max(last + elapsed on the boot clock, wall clock)`.
//!
//! A wall clock set back neither repeats nor delays anything. One that jumps forward by more than a minute is
//! believed only after the jump has stood for a minute, for it ends leases and starts scheduled items. The clock
//! outlives the writers that read it: a partition acquired anew in the same process goes on with the same time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::warn;
use windlass_core::id::PartitionId;
use windlass_core::time::{Span, Timestamp};

use crate::env::Env;
use crate::lock::lock;

const JUMP: Span = Span::from_secs(60);
const JUMP_STANDS: Duration = Duration::from_secs(60);

/// A sleep is cut to this, so that a wall clock that moved forward is noticed in time.
const SLEEP_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Clock {
    env: Arc<dyn Env>,
    partition: PartitionId,
    reading: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    last: Timestamp,
    /// The boot clock at `last`.
    at: Duration,
    jump: Option<Jump>,
}

/// A wall clock that is ahead, and is not believed yet.
#[derive(Clone, Copy, Debug)]
struct Jump {
    /// On the boot clock.
    seen_at: Duration,
    ahead: Span,
}

impl Clock {
    /// Begins with the wall clock: how long this process did not run, nothing else knows.
    pub(crate) fn start(env: Arc<dyn Env>, partition: PartitionId) -> Self {
        let reading = Reading { last: env.wall(), at: env.boot(), jump: None };
        Self { env, partition, reading: Mutex::new(reading) }
    }

    /// From here on no earlier than `last`, the time of the last commit.
    pub(crate) fn carry_on(&self, last: Timestamp) {
        let now = self.now();
        lock(&self.reading).last = now.max(last);
    }

    /// Never earlier than before.
    pub(crate) fn now(&self) -> Timestamp {
        let mut reading = lock(&self.reading);
        // Nobody else meanwhile, and the wall clock first: what passes between the two must not count twice.
        let wall = self.env.wall();
        let boot = self.env.boot();
        let steady = reading.last + Span::from(boot.saturating_sub(reading.at));
        let believed = wall <= steady + JUMP || self.has_stood(&mut reading, boot, wall - steady);
        if believed {
            reading.jump = None;
        }
        reading.last = if believed { steady.max(wall) } else { steady };
        reading.at = boot;
        reading.last
    }

    fn has_stood(&self, reading: &mut Reading, boot: Duration, ahead: Span) -> bool {
        let ahead_ms = ahead.as_micros() / 1000;
        match reading.jump {
            Some(jump) if ahead <= Span(jump.ahead.0.saturating_add(JUMP.0)) => {
                let stood = boot.saturating_sub(jump.seen_at) >= JUMP_STANDS;
                if stood {
                    warn!(partition = %self.partition, ahead_ms, "wall clock stayed ahead: adopted");
                }
                stood
            }
            // The first, or one further still, which has to stand for a minute of its own.
            Some(_) | None => {
                warn!(partition = %self.partition, ahead_ms, "wall clock jumped forward: waiting whether it stays");
                reading.jump = Some(Jump { seen_at: boot, ahead });
                false
            }
        }
    }

    /// When to look again for something due at `due`, on the boot clock.
    pub(crate) fn wake_at(&self, due: Timestamp) -> Duration {
        let reading = lock(&self.reading);
        reading.at + Duration::from(due - reading.last).min(SLEEP_MAX)
    }
}
