//! Attempts that did not complete, as they end: each becomes a body beside its item, unless nothing of the item is kept.

use bytes::Bytes;

use super::entry::Entry;
use super::{Output, Partition};
use crate::attempt::{self, Attempt};
use crate::id::ItemNumber;
use crate::row::{Change, Part};

/// An attempt that ended, until its item is written or erased.
#[derive(Debug)]
pub(super) struct Logged {
    number: ItemNumber,
    part: Part,
    body: Bytes,
}

impl Partition {
    /// Takes note of an attempt in the item as it is about to be written, or to be forgotten.
    pub(super) fn log_attempt(
        &self,
        number: ItemNumber,
        next: &mut Entry,
        attempt: Attempt,
        out: &mut Output,
    ) {
        out.attempt = Some(Logged::of(number, next, &attempt));
    }
}

impl Logged {
    pub(super) fn of(number: ItemNumber, next: &mut Entry, attempt: &Attempt) -> Self {
        let body = attempt.encode();
        let part = next.extras.get_or_insert_default().log_attempt(body.len());
        Self { number, part, body }
    }
}

impl Output {
    /// To be called when an item is written.
    pub(super) fn put_attempt(&mut self, number: ItemNumber) {
        if let Some(Logged { part, body, .. }) = self.take_attempt(number) {
            self.changes.push(Change::PutBody { number, part, body });
        }
    }

    /// The attempt that was logged of an item, if one was.
    pub(super) fn take_attempt(&mut self, number: ItemNumber) -> Option<Logged> {
        self.attempt.take_if(|logged| logged.number == number)
    }

    /// The store does not need the attempts of an item any more.
    pub(super) fn remove_attempts(&mut self, number: ItemNumber, logged: u32) {
        self.changes.extend(attempt::parts(logged).map(|part| Change::RemoveBody { number, part }));
    }
}
