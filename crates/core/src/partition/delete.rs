//! Items taken out by an operator: whatever they were about to be, nothing of them is kept.

use super::group_end::count_end;
use super::{Output, Partition};
use crate::command::{Refusal, Reply};
use crate::id::ItemNumber;
use crate::item::End;
use crate::time::Timestamp;

impl Partition {
    pub(super) fn delete(&mut self, now: Timestamp, numbers: &[ItemNumber], out: &mut Output) -> Reply {
        out.changes.reserve(numbers.len());
        Reply::Done(numbers.iter().map(|&number| self.delete_one(now, number, out)).collect())
    }

    /// A permit to it is void from here on, like one to an item that never was.
    fn delete_one(&mut self, now: Timestamp, number: ItemNumber, out: &mut Output) -> Result<(), Refusal> {
        let Some(entry) = self.visible(number) else {
            return Err(self.left_of_gone(number).map_or(Refusal::NotFound, |_final| Refusal::Ended));
        };
        if entry.state.phase().is_final() {
            return Err(Refusal::Ended);
        }
        let last = entry.clone();
        out.totals.cancelled += 1;
        count_end(last.group, End::Cancelled, out);
        self.tell_end(now, number, &last, End::Cancelled, None, out);
        self.erase(number, out);
        Ok(())
    }
}
