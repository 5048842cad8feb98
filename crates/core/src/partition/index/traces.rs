//! What is left of items that were taken away all at once, by a clear or with their group. One with something to show has
//! ended as cancelled, and is kept like any other that ended; one row says so at once for all of them, and the sweep writes
//! it down item by item.

use crate::id::ItemNumber;
use crate::item::{End, Item};
use crate::partition::groups::end::count_end;
use crate::partition::groups::index::GroupIndex;
use crate::partition::index::counts::{decrement, increment};
use crate::partition::verbs::suspend::drop_input;
use crate::partition::{Output, Partition};
use crate::row::{Change, Clearable, Part, Row};

impl Partition {
    pub(in crate::partition) fn enter_trace(
        &mut self,
        group: Option<GroupIndex>,
        trace: Option<(Clearable, u32)>,
    ) {
        let Some(trace) = trace else { return };
        increment(&mut self.traces, trace);
        if let Some(group) = group {
            increment(&mut self.groups.slot_mut(group).members.traces, trace);
            if self.goes_with_cancelled(group, trace.0) {
                increment(&mut self.kept_of_cancelled, trace);
            }
        }
    }

    pub(in crate::partition) fn leave_trace(
        &mut self,
        group: Option<GroupIndex>,
        trace: Option<(Clearable, u32)>,
    ) {
        let Some(trace) = trace else { return };
        decrement(&mut self.traces, trace);
        if let Some(group) = group {
            decrement(&mut self.groups.slot_mut(group).members.traces, trace);
            if self.goes_with_cancelled(group, trace.0) {
                decrement(&mut self.kept_of_cancelled, trace);
            }
        }
    }

    /// How many items that are gone are kept, and have still to be written down by the sweep. There are few eras, whatever
    /// the backlog.
    pub(in crate::partition) fn unswept_kept(&self) -> u64 {
        let was_cleared = |(which, era): &(Clearable, u32)| *era < self.cleared.before(*which);
        let cleared = self.traces.iter().filter(|(of, _)| was_cleared(of));
        let cancelled = self.kept_of_cancelled.iter().filter(|(of, _)| !was_cleared(of));
        cleared.chain(cancelled).map(|(_, count)| count).sum()
    }

    /// What is to be seen of an item that is gone and not swept up yet.
    pub(in crate::partition) fn left_of_gone(&self, number: ItemNumber) -> Option<Item> {
        let entry = self.items.get(&number).filter(|entry| self.is_gone(entry))?;
        let item = self.item(number, entry);
        let at = self.gone_at(&item, entry);
        item.taken_away(at, self.events.overhead(number))
    }

    /// Writes down what became of an item that is gone.
    pub(in crate::partition) fn settle_gone(&mut self, number: ItemNumber, out: &mut Output) {
        let group = self.items.get(&number).and_then(|entry| entry.group);
        count_end(group, End::Cancelled, out);
        if let Some(entry) = self.items.get(&number) {
            drop_input(number, entry, out);
        }
        match self.left_of_gone(number) {
            Some(item) => {
                self.record(Row::Item(item), out);
                out.changes.push(Change::RemoveBody { number, part: Part::Payload });
            }
            None => self.erase(number, out),
        }
    }
}
