//! The log of an item's attempts that did not complete. Each attempt is a body of its own; the store holds the newest ten, and
//! memory no more than how many there were.

use std::sync::Arc;

use bytes::Bytes;

use crate::codec::{self, DecodeError};
use crate::item::{Extras, ItemError, Lease};
use crate::row::Part;
use crate::time::Timestamp;

/// Attempts that are kept of an item.
pub const LOGGED_MAX: u32 = 10;

/// An attempt that did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The attempt's number in its item.
    pub attempt: u32,
    pub client_id: Arc<str>,
    pub leased_at: Timestamp,
    pub ended_at: Timestamp,
    pub end: AttemptEnd,
    /// What the worker said of this attempt.
    pub error: Option<ItemError>,
}

/// How the lease of an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    Retried,
    Expired,
    Revoked,
    /// By a retry that left the item no further attempt.
    Dead,
    /// The item was cancelled or cleared meanwhile, or given up after a request to cancel it.
    Cancelled,
}

impl AttemptEnd {
    /// As clients read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retried => "retried",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Attempt {
    /// An attempt that ends now, without a word of its worker.
    pub(crate) fn ending(attempt: u32, lease: &Lease, now: Timestamp, end: AttemptEnd) -> Self {
        let (client_id, leased_at) = (Arc::clone(&lease.client_id), lease.leased_at);
        Self { attempt, client_id, leased_at, ended_at: now, end, error: None }
    }

    pub fn encode(&self) -> Bytes {
        codec::encode_attempt(self).into()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        codec::decode_attempt(bytes)
    }
}

/// The bodies of the attempts that are kept of so many, the oldest first.
pub fn parts(logged: u32) -> impl DoubleEndedIterator<Item = Part> {
    (logged.saturating_sub(LOGGED_MAX)..logged).map(part)
}

/// The body of an attempt, by how many were logged before it: it takes the place of the tenth before it.
fn part(before: u32) -> Part {
    Part::Attempt((before % LOGGED_MAX) as u8)
}

impl Extras {
    /// Takes note of one more attempt, and says which body it is.
    pub(crate) fn log_attempt(&mut self, bytes: usize) -> Part {
        let part = part(self.attempts_logged);
        self.attempts_logged = self.attempts_logged.saturating_add(1);
        self.attempt_bytes = self.attempt_bytes.saturating_add(bytes.try_into().unwrap_or(u32::MAX));
        if self.attempts_logged > LOGGED_MAX {
            // The eleventh attempt replaces the oldest, whose length is not stored: subtract the average.
            self.attempt_bytes -= self.attempt_bytes / (LOGGED_MAX + 1);
        }
        part
    }
}
