//! Pieces of files that the disk has and cannot read: such an error may pass, or the piece is lost.

use std::collections::BTreeMap;

use crate::store::StoreError;

/// `EIO`, the same on every Unix.
const EIO: i32 = 5;

/// The meaning of an error that the disk reports for a piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The error may pass.
    MayPass,
    /// The error was waited out long enough: the piece is lost.
    IsLost,
}

impl Unreadable {
    /// Whether an error means that what was to be read is lost.
    pub(crate) fn loses(self, error: &StoreError) -> bool {
        match self {
            Self::MayPass => false,
            Self::IsLost => is_unreadable(error),
        }
    }
}

/// Attempts in a row, with a minute between the first and the last, after which what cannot be read of a partition is
/// lost. The disk works otherwise: what is written without the piece is durable before it counts.
const UNREADABLE_MAX: u32 = 8;

/// The attempts at a snapshot that each partition has made fail, because something of it could not be read.
#[derive(Debug, Default)]
pub(crate) struct UnreadableAttempts(BTreeMap<u32, u32>);

impl UnreadableAttempts {
    /// An error is lost patience with only where it has come up often: elsewhere the first one may pass.
    pub(crate) fn patience_with(&self, partition: u32) -> Unreadable {
        let attempts = self.0.get(&partition).copied().unwrap_or_default();
        if attempts < UNREADABLE_MAX { Unreadable::MayPass } else { Unreadable::IsLost }
    }

    pub(crate) fn count(&mut self, partition: u32) {
        *self.0.entry(partition).or_default() += 1;
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Whether the disk has the piece that was asked for, and cannot read it.
pub(crate) fn is_unreadable(error: &StoreError) -> bool {
    match error {
        StoreError::Io { action, source, .. } => {
            *action == "cannot read" && source.raw_os_error() == Some(EIO)
        }
        StoreError::Fenced
        | StoreError::Full
        | StoreError::TooLarge { .. }
        | StoreError::Closed
        | StoreError::Damaged { .. }
        | StoreError::Incomplete { .. }
        | StoreError::Unusable(_) => false,
    }
}
