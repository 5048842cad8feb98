//! What clears leave behind. A cleared item with something to show has ended as cancelled, and is kept like any other that
//! ended; the marker says so at once for all of them, and the sweep writes it down item by item.

use super::{Output, Partition};
use crate::id::ItemNumber;
use crate::item::Item;
use crate::row::{Change, Clearable, Part, Row};

impl Partition {
    pub(super) fn enter_trace(&mut self, trace: Option<(Clearable, u32)>) {
        if let Some(trace) = trace {
            *self.traces.entry(trace).or_default() += 1;
        }
    }

    pub(super) fn leave_trace(&mut self, trace: Option<(Clearable, u32)>) {
        let Some(trace) = trace else { return };
        let count = self.traces.get_mut(&trace).expect("an item with something to show is counted");
        *count -= 1;
        if *count == 0 {
            self.traces.remove(&trace);
        }
    }

    /// How many cleared items are kept that the sweep has still to write down. There are few eras, whatever the backlog.
    pub(super) fn unswept_kept(&self) -> u64 {
        let cleared = self.traces.iter().filter(|((which, era), _)| *era < self.cleared.before(*which));
        cleared.map(|(_, count)| count).sum()
    }

    /// What is to be seen of an item that was cleared and not swept up yet.
    pub(super) fn left_of_cleared(&self, number: ItemNumber) -> Option<Item> {
        let entry = self.items.get(&number).filter(|entry| self.was_cleared(entry))?;
        self.cleared.seen(self.item(number, entry))
    }

    /// Writes down what became of an item that was cleared.
    pub(super) fn settle_cleared(&mut self, number: ItemNumber, out: &mut Output) {
        match self.left_of_cleared(number) {
            Some(item) => {
                self.record(Row::Item(item), out);
                out.changes.push(Change::RemoveBody { number, part: Part::Payload });
            }
            None => self.erase(number, out),
        }
    }
}
