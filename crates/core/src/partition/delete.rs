//! Items taken out by an operator: whatever they were about to be, nothing of them is kept.

use super::group_end::count_end;
use super::{Output, Partition};
use crate::command::{Refusal, Reply};
use crate::id::ItemNumber;
use crate::item::End;

impl Partition {
    pub(super) fn delete(&mut self, numbers: &[ItemNumber], out: &mut Output) -> Reply {
        out.changes.reserve(numbers.len());
        Reply::Done(numbers.iter().map(|&number| self.delete_one(number, out)).collect())
    }

    /// A permit to it is void from here on, like one to an item that never was.
    fn delete_one(&mut self, number: ItemNumber, out: &mut Output) -> Result<(), Refusal> {
        let item = self.get(number).ok_or(Refusal::NotFound)?;
        if item.state.phase().is_final() {
            return Err(Refusal::Ended);
        }
        out.totals.cancelled += 1;
        let group = self.items.get(&number).and_then(|entry| entry.group);
        count_end(group, End::Cancelled, out);
        self.erase(number, out);
        Ok(())
    }
}
