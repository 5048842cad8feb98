//! A partition's time: `max(last + elapsed on the boot clock, wall clock)`.
//!
//! A wall clock set back neither repeats nor delays anything. One that jumps forward by more than a minute is
//! believed only after the jump has stood for a minute, for it ends leases and starts scheduled items. All partitions of
//! a server go by one such judgement, new ones too. A partition's clock outlives the writers that read it: a partition
//! acquired anew in the same process goes on with the same time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::warn;
use windlass_core::time::{Span, Timestamp};

use crate::env::Env;
use crate::lock::lock;

const JUMP: Span = Span::from_secs(60);
const JUMP_STANDS: Duration = Duration::from_secs(60);

/// A sleep is cut to this, so that a wall clock that moved forward is noticed in time.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The time of one partition.
#[derive(Debug)]
pub(crate) struct Clock {
    server: Arc<ServerTime>,
    reading: Mutex<Reading>,
}

/// The time of a partition, and what the server takes it to be at that moment, which the partition may be ahead of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) now: Timestamp,
    pub(crate) of_server: Timestamp,
}

/// What the server takes the time to be: one judgement of the wall clock for all partitions, so that a partition that
/// is new, or was idle, neither believes a wall clock that the others do not believe, nor doubts one that they do.
#[derive(Debug)]
struct ServerTime {
    env: Arc<dyn Env>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    reading: Reading,
    jump: Option<Jump>,
}

/// A time, and the boot clock at that time.
#[derive(Clone, Copy, Debug)]
struct Reading {
    last: Timestamp,
    at: Duration,
}

impl Reading {
    fn steady(self, boot: Duration) -> Timestamp {
        self.last + Span::from(boot.saturating_sub(self.at))
    }
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
    pub(crate) fn start(env: Arc<dyn Env>) -> Self {
        let reading = Reading { last: env.wall(), at: env.boot() };
        let state = Mutex::new(State { reading, jump: None });
        Self { server: Arc::new(ServerTime { env, state }), reading: Mutex::new(reading) }
    }

    /// For another partition of the same server, which begins with the time that the server goes by.
    pub(crate) fn another(&self) -> Self {
        let server = Arc::clone(&self.server);
        let reading = server.read();
        Self { server, reading: Mutex::new(reading) }
    }

    /// From here on no earlier than `last`, the time of the last commit.
    pub(crate) fn carry_on(&self, last: Timestamp) {
        let now = self.now();
        lock(&self.reading).last = now.max(last);
    }

    /// Never earlier than before.
    pub(crate) fn now(&self) -> Timestamp {
        self.read().now
    }

    pub(crate) fn read(&self) -> Times {
        let mut own = lock(&self.reading);
        let server = self.server.read();
        *own = Reading { last: own.steady(server.at).max(server.last), at: server.at };
        Times { now: own.last, of_server: server.last }
    }

    /// When to look again for something due at `due`, on the boot clock.
    pub(crate) fn wake_at(&self, due: Timestamp) -> Duration {
        let reading = lock(&self.reading);
        reading.at + Duration::from(due - reading.last).min(SLEEP_MAX)
    }
}

impl ServerTime {
    fn read(&self) -> Reading {
        let mut state = lock(&self.state);
        // Nobody else meanwhile, and the wall clock first: what passes between the two must not count twice.
        let wall = self.env.wall();
        let boot = self.env.boot();
        let steady = state.reading.steady(boot);
        let believed = wall <= steady + JUMP || has_stood(&mut state.jump, boot, wall - steady);
        if believed {
            state.jump = None;
        }
        state.reading = Reading { last: if believed { steady.max(wall) } else { steady }, at: boot };
        state.reading
    }
}

fn has_stood(jump: &mut Option<Jump>, boot: Duration, ahead: Span) -> bool {
    let ahead_ms = ahead.as_micros() / 1000;
    match *jump {
        Some(jump) if ahead <= Span(jump.ahead.0.saturating_add(JUMP.0)) => {
            let stood = boot.saturating_sub(jump.seen_at) >= JUMP_STANDS;
            if stood {
                warn!(ahead_ms, "wall clock stayed ahead: adopted");
            }
            stood
        }
        // The first jump, or one further still, which has to stand for a minute of its own.
        Some(_) | None => {
            warn!(ahead_ms, "wall clock jumped forward: waiting whether it stays");
            *jump = Some(Jump { seen_at: boot, ahead });
            false
        }
    }
}
