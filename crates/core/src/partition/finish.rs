//! How items end. What has something to show is kept for the queue's retention, everything else forgotten at once.

use bytes::Bytes;

use super::entry::Entry;
use super::groups::end::count_end;
use super::verbs::suspend::drop_input;
use super::{Output, Partition};
use crate::id::ItemNumber;
use crate::item::{End, Outcome, State};
use crate::row::{Change, Part};
use crate::time::Timestamp;

impl Partition {
    /// `last` is the item as it was last seen; its state does not matter any more.
    pub(super) fn finish(
        &mut self,
        now: Timestamp,
        number: ItemNumber,
        last: Entry,
        end: End,
        out: &mut Output,
    ) {
        self.finish_with(now, number, last, end, None, out);
    }

    pub(super) fn finish_with(
        &mut self,
        now: Timestamp,
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
        self.tell_end(now, number, &last, end, result.as_ref(), out);
        if result.is_none() && !last.has_something_to_show() {
            self.erase(number, out);
            return;
        }
        drop_input(number, &last, out);
        last.state = self.ended(now, number, &last, end, result.as_ref());
        self.write(number, last, out);
        out.changes.push(Change::RemoveBody { number, part: Part::Payload });
        if let Some(body) = result {
            out.changes.push(Change::PutBody { number, part: Part::Result, body });
        }
    }

    /// The state of an item that ends.
    pub(super) fn ended(
        &self,
        now: Timestamp,
        number: ItemNumber,
        last: &Entry,
        end: End,
        result: Option<&Bytes>,
    ) -> State {
        let event_overhead = self.events.overhead(number);
        let extras = last.extras.as_ref().map_or(0, |extras| extras.kept_bytes(event_overhead));
        State::Final(Box::new(Outcome {
            end,
            finished_at: now,
            kept_bytes: extras + result.map_or(0, Bytes::len) as u64,
            has_result: result.is_some(),
            outgoing: None,
        }))
    }
}
