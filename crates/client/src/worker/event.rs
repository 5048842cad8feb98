//! What a worker tells of itself while it runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info, warn};
use windlass_api::error::Failed;

use super::cancellation::Reason;
use crate::error::ClientError;

/// What became of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Completed,
    /// It is tried again later.
    Retried,
    /// It failed for good.
    Dead,
    /// It was given back, its attempt not counted.
    Released,
    /// It waits for an answer, its attempt not counted.
    Suspended,
    /// The lease ended before the handler did, or the server could not be told.
    Lost,
}

/// What happens in a worker, for [`Builder::observe`](super::Builder::observe). It is all told to `tracing` too.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// No items could be asked for; it is tried again after the pause.
    LeaseFailed {
        error: &'a ClientError,
        pause: Duration,
    },
    /// No lease could be extended; it is tried again soon.
    ExtendFailed {
        error: &'a ClientError,
    },
    /// A handler is told not to go on.
    Cancelled {
        id: &'a str,
        reason: Reason,
    },
    /// Events of an item were refused, or could not be sent in time: no more of this attempt are sent.
    EmitFailed {
        id: &'a str,
        error: &'a ClientError,
    },
    /// What became of an item could not be told; it is tried again until the lease ends.
    TellFailed {
        id: &'a str,
        error: &'a ClientError,
    },
    /// What became of an item was never told: it will be tried again.
    NotTold {
        id: &'a str,
        why: &'a NotTold,
    },
    Ended {
        id: &'a str,
        fate: Fate,
    },
    /// No more items are taken; the running ones have the grace to end.
    Stopping {
        running: usize,
        grace: Duration,
    },
}

/// Why the server was never told.
#[derive(Debug)]
pub enum NotTold {
    /// The server does not want to hear it of this item.
    Refused(Box<Failed>),
    /// The call cannot be made.
    Failed(ClientError),
    LeaseEnded,
    Stopping,
}

impl fmt::Display for NotTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "{} ({})", refusal.message, refusal.code),
            Self::Failed(error) => error.fmt(f),
            Self::LeaseEnded => f.write_str("its lease is over. It will be tried again"),
            Self::Stopping => f.write_str("this worker stops. It will be tried again when its lease ends"),
        }
    }
}

type Observe = dyn Fn(Event<'_>) + Send + Sync;

/// Who is told.
#[derive(Clone, Default)]
pub(super) struct Observer(pub(super) Option<Arc<Observe>>);

impl Observer {
    pub(super) fn tell(&self, event: Event<'_>) {
        trace(event);
        if let Some(observe) = &self.0 {
            observe(event);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

fn trace(event: Event<'_>) {
    match event {
        Event::LeaseFailed { error, pause } => warn!(%error, ?pause, "no items could be leased"),
        Event::ExtendFailed { error } => warn!(%error, "leases could not be extended"),
        Event::Cancelled { id, reason } => info!(id, ?reason, "handler cancelled"),
        Event::EmitFailed { id, error } => warn!(id, %error, "item's events are not sent any more"),
        Event::TellFailed { id, error } => warn!(id, %error, "item's end could not be told"),
        Event::NotTold { id, why } => warn!(id, %why, "item's end was never told"),
        Event::Ended { id, fate } => debug!(id, ?fate, "item ended"),
        Event::Stopping { running, grace } => info!(running, ?grace, "worker stopping"),
    }
}
