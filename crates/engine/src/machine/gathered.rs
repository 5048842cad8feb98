//! What a writer has gathered for its next commit.

use std::sync::Arc;

use windlass_core::machine::Applied;
use windlass_core::news::News;
use windlass_core::refusal::Refusal;
use windlass_core::row::{BodyCopy, Change};
use windlass_core::time::Timestamp;

use super::Served;
use super::in_flight::InFlight;

pub(crate) struct Gathered<M: Served> {
    pub(crate) now: Timestamp,
    pub(crate) main: Part<M>,
    /// The last verb, if it might make the batch too large for the store: a commit of its own.
    pub(super) apart: Option<Part<M>>,
    pub(super) messages: usize,
    pub(super) sweeps: usize,
    /// Somebody new waits, or there is something new to be had.
    pub(crate) look_for_waiters: bool,
}

/// What goes into one commit.
pub(crate) struct Part<M: Served> {
    pub(super) changes: Vec<Change>,
    pub(super) copies: Vec<BodyCopy>,
    /// About what `changes` and `copies` come to.
    pub(crate) bytes: usize,
    pub(crate) in_flight: InFlight<M>,
}

impl<M: Served> Gathered<M> {
    pub(super) fn new(now: Timestamp, main: Part<M>) -> Self {
        Self { now, main, apart: None, messages: 0, sweeps: 0, look_for_waiters: false }
    }

    /// The part that takes the next changes and answers: `apart` once there is one, because no verb comes after it.
    pub(crate) fn last(&mut self) -> &mut Part<M> {
        self.apart.as_mut().unwrap_or(&mut self.main)
    }

    pub(crate) fn add<R>(&mut self, applied: Applied<R>) -> Result<R, Refusal> {
        self.look_for_waiters |= applied.news.contains(&News::Available);
        self.last().add(applied)
    }
}

impl<M: Served> Part<M> {
    /// `at`: see [`InFlight::at`].
    pub(super) fn new(handle: &Arc<M::Handle>, sequence: u64, at: Timestamp) -> Self {
        let in_flight = InFlight::new(handle, sequence, at);
        Self { changes: Vec::new(), copies: Vec::new(), bytes: 0, in_flight }
    }

    fn add<R>(&mut self, applied: Applied<R>) -> Result<R, Refusal> {
        self.bytes += bytes_of(&applied);
        let Applied { reply, mut changes, copies, news, totals, waited } = applied;
        self.copies.extend(copies);
        if self.changes.is_empty() {
            self.changes = changes;
        } else {
            self.changes.append(&mut changes);
        }
        self.in_flight.note(news, totals, waited);
        reply
    }
}

/// About how many bytes a verb takes in a store, rather more than less.
pub(super) fn bytes_of<R>(applied: &Applied<R>) -> usize {
    let changes = applied.changes.iter().map(Change::bytes).sum::<usize>();
    changes + applied.copies.iter().map(|copy| copy.bytes as usize).sum::<usize>()
}
