//! Items taken out by an operator: whatever they were about to be, nothing of them is kept.

use crate::footprint::Footprint;
use crate::id::ItemNumber;
use crate::item::End;
use crate::limits::{Invalid, check_batch};
use crate::partition::groups::end::count_end;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};

/// Takes items out without a trace that have not ended.
#[derive(Clone, Debug)]
pub struct Delete(pub Vec<ItemNumber>);

/// Takes items out without a trace, also those that have ended. One on its way to another queue arrives there all the same.
#[derive(Clone, Debug)]
pub struct DeleteAny(pub Vec<ItemNumber>);

impl Verb for Delete {
    type Reply = Each<()>;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("ids", self.0.len())
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        out.changes.reserve(self.0.len());
        Ok(self.0.into_iter().map(|number| partition.delete_one(now, number, out)).collect())
    }
}

impl Verb for DeleteAny {
    type Reply = Each<()>;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("ids", self.0.len())
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        out.changes.reserve(self.0.len());
        Ok(self.0.into_iter().map(|number| partition.delete_any_one(now, number, out)).collect())
    }
}

impl Partition {
    fn delete_any_one(
        &mut self,
        now: Timestamp,
        number: ItemNumber,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        match self.delete_one(now, number, out) {
            Err(Refusal::Ended) => {
                self.write_down_gone(number, out);
                self.forget_deleted(number, out);
                Ok(())
            }
            done => done,
        }
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
        let outcome = self.outcome_without_payload(now, number, &last, End::Cancelled, None);
        self.tell_end(number, &last, outcome, None, out);
        self.erase(number, out);
        Ok(())
    }
}
