//! What a caller of the engine can be told, one variant per thing it can do about it.

use std::sync::Arc;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::refusal::Refusal;

use crate::store::{CommitError, StoreError};

#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// The core said no: nothing was changed, and sending again would change nothing either.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// An item of that address is not final yet: this one.
    #[error("the address is that of item {id}, which is not final yet")]
    DuplicateAddress { id: ItemId },
    /// Try again a little later.
    #[error("too many {what}: at most {max} at once")]
    Overloaded { what: &'static str, max: usize },
    /// The process takes up more memory than it may. Try again once items have been completed.
    #[error("the process takes up {bytes} bytes of memory, and at most {max} are allowed")]
    OutOfMemory { bytes: u64, max: u64 },
    /// The request cannot ever be done as it is.
    #[error("{0}")]
    TooLarge(StoreError),
    /// The partition or its store cannot serve now.
    #[error("{reason} ({})", .outcome.describe())]
    Unavailable {
        outcome: Outcome,
        reason: String,
        /// The store whose full disk is the reason, if it is.
        full: Option<Arc<str>>,
    },
}

/// What became of a request that was not answered properly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing of it happened: it is safe to send again.
    NotApplied,
    /// It may have happened.
    Unknown,
}

impl Outcome {
    fn describe(self) -> &'static str {
        match self {
            Self::NotApplied => "nothing was changed: it is safe to send again",
            Self::Unknown => "it may or may not have been done",
        }
    }
}

impl EngineError {
    pub(crate) fn not_applied(reason: impl Into<String>) -> Self {
        Self::Unavailable { outcome: Outcome::NotApplied, reason: reason.into(), full: None }
    }

    pub(crate) fn unknown(reason: impl Into<String>) -> Self {
        Self::Unavailable { outcome: Outcome::Unknown, reason: reason.into(), full: None }
    }

    pub(crate) fn store_full(store: Arc<str>) -> Self {
        let reason = format!("store `{store}`: {}", StoreError::Full);
        Self::Unavailable { outcome: Outcome::NotApplied, reason, full: Some(store) }
    }

    /// Whether nothing was done because a store's disk is full.
    pub fn is_store_full(&self) -> bool {
        matches!(self, Self::Unavailable { full: Some(_), .. })
    }

    /// Whether it may have happened.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unavailable { outcome: Outcome::Unknown, .. })
    }

    pub(crate) fn faulty(partition: PartitionId, cause: &str) -> Self {
        Self::not_applied(format!("partition {partition} is faulty: {cause}"))
    }
}

/// The result of an item that does not belong to the partition it was sent to: see [`Refusal::Moved`].
pub(crate) fn moved<T>() -> Result<T, EngineError> {
    Err(EngineError::Refused(Refusal::Moved))
}

pub(crate) fn was_moved<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::Refused(Refusal::Moved)))
}

impl From<Refusal> for EngineError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<&CommitError> for EngineError {
    fn from(error: &CommitError) -> Self {
        match error {
            CommitError::NotApplied(too_large @ StoreError::TooLarge { .. }) => {
                Self::TooLarge(too_large.clone())
            }
            CommitError::NotApplied(cause) => Self::not_applied(cause.to_string()),
            CommitError::Unknown(cause) => Self::unknown(cause.to_string()),
        }
    }
}
