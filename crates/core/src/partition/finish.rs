//! How items end. What has something to show is kept for the queue's retention, everything else forgotten at once.

use bytes::Bytes;

use super::entry::Entry;
use super::groups::end::count_end;
use super::verbs::suspend::drop_input;
use super::{Output, Partition};
use crate::id::ItemNumber;
use crate::item::{End, Outcome, PayloadSize, State};
use crate::mutant::{self, Mutant};
use crate::row::{Change, Part};
use crate::settings::{Keep, RetainPayload};
use crate::time::Timestamp;

impl Partition {
    /// `last` is the item as it was last seen; its state does not matter any more. `at` is when the item ended: earlier than
    /// the verb if it fell due before.
    pub(super) fn finish(
        &mut self,
        at: Timestamp,
        number: ItemNumber,
        last: Entry,
        end: End,
        out: &mut Output,
    ) {
        self.finish_with(at, number, last, end, None, out);
    }

    pub(super) fn finish_with(
        &mut self,
        at: Timestamp,
        number: ItemNumber,
        mut last: Entry,
        end: End,
        result: Option<Bytes>,
        out: &mut Output,
    ) {
        match end {
            End::Completed => out.totals.completed += 1,
            End::Failed => out.totals.failed += 1,
            End::Cancelled => out.totals.cancelled += 1,
            End::Expired => out.totals.expired += 1,
        }
        count_end(last.group, end, out);
        let outcome = self.outcome(at, number, &last, end, result.as_ref()).noticed_at(out.now);
        self.tell_end(number, &last, outcome.clone(), result.as_ref(), out);
        if result.is_none() && !self.keeps(&last) {
            self.erase(number, out);
            return;
        }
        drop_input(number, &last, out);
        let payload_kept = outcome.payload_kept;
        last.state = State::Final(Box::new(outcome));
        self.write(number, last, out);
        if !payload_kept || mutant::active(Mutant::PayloadLostWithItemKept) {
            out.changes.push(Change::RemoveBody { number, part: Part::Payload });
        }
        if let Some(body) = result {
            out.changes.push(Change::PutBody { number, part: Part::Result, body });
        }
    }

    /// Whether an item that ends without a result is kept.
    pub(super) fn keeps(&self, last: &Entry) -> bool {
        last.has_something_to_show() || self.keeps_all()
    }

    /// Whether an item that ends now is kept also if it has nothing to show.
    pub(super) fn keeps_all(&self) -> bool {
        match self.settings.keep {
            Keep::All => true,
            Keep::Shown => false,
        }
    }

    /// Whether the payload of an item that is cancelled now is kept.
    pub(super) fn retains_cancelled(&self) -> bool {
        self.retains(End::Cancelled)
    }

    fn retains(&self, end: End) -> bool {
        match (self.settings.retain_payload, end) {
            (RetainPayload::All, _) => true,
            (RetainPayload::None, _) | (RetainPayload::Failed, End::Completed) => false,
            (RetainPayload::Failed, End::Failed | End::Expired | End::Cancelled) => true,
        }
    }

    /// The state of an item that ends.
    pub(super) fn ended(
        &self,
        at: Timestamp,
        number: ItemNumber,
        last: &Entry,
        end: End,
        result: Option<&Bytes>,
    ) -> State {
        State::Final(Box::new(self.outcome(at, number, last, end, result)))
    }

    /// What is kept of an item that ends here and goes nowhere else.
    pub(super) fn outcome(
        &self,
        at: Timestamp,
        number: ItemNumber,
        last: &Entry,
        end: End,
        result: Option<&Bytes>,
    ) -> Outcome {
        let outcome = self.outcome_without_payload(at, number, last, end, result);
        if self.retains(end) { outcome.with_payload_of(last) } else { outcome }
    }

    pub(super) fn outcome_without_payload(
        &self,
        at: Timestamp,
        number: ItemNumber,
        last: &Entry,
        end: End,
        result: Option<&Bytes>,
    ) -> Outcome {
        let event_overhead = self.events.overhead(number);
        let extras = last.extras.as_ref().map_or(0, |extras| extras.kept_bytes(event_overhead));
        Outcome {
            end,
            changed_at: at,
            finished_at: at,
            kept_bytes: extras + result.map_or(0, Bytes::len) as u64,
            has_result: result.is_some(),
            payload_kept: false,
            outgoing: None,
        }
    }
}

impl Outcome {
    /// An item that fell due counts as ended only once that was noticed: what ended while no server ran is kept from the start
    /// of the server on, and shown for as long as anything else.
    pub(super) fn noticed_at(self, now: Timestamp) -> Self {
        Self { finished_at: now, ..self }
    }

    /// The payload is kept, unless it is lost.
    pub(super) fn with_payload_of(self, last: &Entry) -> Self {
        if last.payload_lost() { self } else { self.with_payload(last.payload_size) }
    }

    pub(super) fn with_payload(self, size: PayloadSize) -> Self {
        Self { payload_kept: true, kept_bytes: self.kept_bytes + size.bytes(), ..self }
    }

    /// The payload is gone, or is about to go.
    pub(super) fn without_payload(self, size: PayloadSize) -> Self {
        let payload = if self.payload_kept { size.bytes() } else { 0 };
        Self { payload_kept: false, kept_bytes: self.kept_bytes - payload, ..self }
    }
}
