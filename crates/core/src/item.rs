//! One piece of work and the states of its life.

use std::sync::Arc;

use crate::id::{ItemNumber, Permit};
use crate::time::{Span, Timestamp};

/// An item as its row holds it: everything but the body (payload, headers, reference), which only the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub number: ItemNumber,
    /// Where it stands among the waiting items of its priority: its own number until it is sent to the tail.
    pub place: u64,
    pub kind: Arc<str>,
    /// 0 goes first.
    pub priority: u8,
    pub created_at: Timestamp,
    /// Leases granted so far, less those given back uncharged.
    pub attempts: u32,
    /// How often items of this state had been cleared when the row was written: see [`crate::row::Cleared`].
    pub era: u32,
    pub state: State,
    /// What most items do not have.
    pub extras: Option<Box<Extras>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Scheduled { due_at: Timestamp },
    Waiting,
    Leased(Box<Lease>),
    Final(Box<Outcome>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub permit: Permit,
    pub client_id: Arc<str>,
    pub leased_at: Timestamp,
    pub deadline: Timestamp,
    /// What an extension without one of its own adds, counted from then.
    pub timeout: Span,
    pub cancel_requested: bool,
}

/// How an item ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Completed,
    Failed,
    Cancelled,
    Expired,
}

/// What is kept of an item that ended and has something to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub end: End,
    pub finished_at: Timestamp,
    /// Bytes that count against the queue's `retention_max_bytes`: the result, the error and the facts.
    pub kept_bytes: u64,
    /// Whether the store holds a result body for it.
    pub has_result: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Its own limit; otherwise the queue's counts.
    pub max_attempts: Option<u32>,
    /// The latest lease that ended, so that a late worker can be told what became of its permit.
    pub last_lease: Option<(Permit, LeaseEnd)>,
    /// The worker's last word on a failed attempt, or the server's.
    pub error: Option<ItemError>,
    /// How many bytes of facts the store holds for it. 0: none.
    pub facts_bytes: u64,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

impl Extras {
    /// The bytes of it that are kept once the item is final.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let error = self.error.as_ref();
        let error_len =
            error.map_or(0, |error| error.message.len() + error.code.as_ref().map_or(0, |code| code.len()));
        error_len as u64 + self.facts_bytes
    }
}

/// Why a lease is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseEnd {
    Expired,
    Revoked,
    Cancelled,
    Completed,
    Retried,
    Released,
    Suspended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemError {
    pub code: Option<Arc<str>>,
    pub message: Arc<str>,
}

/// The state's name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Scheduled,
    Waiting,
    Leased,
    Completed,
    Failed,
    Cancelled,
    Expired,
}

impl State {
    /// The bytes of it that have no fixed length.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Leased(lease) => lease.client_id.len(),
            Self::Scheduled { .. } | Self::Waiting | Self::Final(_) => 0,
        }
    }

    pub fn phase(&self) -> Phase {
        match self {
            Self::Scheduled { .. } => Phase::Scheduled,
            Self::Waiting => Phase::Waiting,
            Self::Leased(_) => Phase::Leased,
            Self::Final(outcome) => match outcome.end {
                End::Completed => Phase::Completed,
                End::Failed => Phase::Failed,
                End::Cancelled => Phase::Cancelled,
                End::Expired => Phase::Expired,
            },
        }
    }
}

impl Phase {
    pub fn is_final(self) -> bool {
        match self {
            Self::Scheduled | Self::Waiting | Self::Leased => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired => true,
        }
    }
}
