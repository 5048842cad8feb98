//! Work done.

use bytes::Bytes;

use crate::footprint::Footprint;
use crate::item::{End, LeaseEnd, State};
use crate::limits::{Invalid, check_batch};
use crate::partition::groups::end::count_end;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::time::Timestamp;
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::Held;

/// Ends leased items whose work is done.
#[derive(Clone, Debug)]
pub struct Complete(pub Vec<Completion>);

#[derive(Clone, Debug)]
pub struct Completion {
    pub held: Held,
    /// Passed through to the store.
    pub result: Option<Bytes>,
}

impl Verb for Complete {
    type Reply = Each<()>;
    const FOOTPRINT: Footprint = Footprint::Frees;
    const URGENCY: Urgency = Urgency::Settling;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("items", self.0.len())
    }

    fn body_bytes(&self) -> usize {
        self.0.iter().filter_map(|item| item.result.as_ref()).map(Bytes::len).sum()
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        out.changes.reserve(self.0.len());
        Ok(self.0.into_iter().map(|completion| partition.complete_one(now, completion, out)).collect())
    }
}

impl Partition {
    /// A completion counts even if a cancel was asked for meanwhile: the work is done.
    pub(in crate::partition) fn complete_one(
        &mut self,
        now: Timestamp,
        completion: Completion,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let Completion { held, result } = completion;
        let (entry, lease) = self.held(held, now)?;
        // Most leave nothing behind and have nobody to be told.
        if result.is_none() && !self.keeps(entry) && !self.is_watched(held.id.number) {
            out.totals.completed += 1;
            count_end(entry.group, End::Completed, out);
            self.erase(held.id.number, out);
            return Ok(());
        }
        let last = entry.after_lease(now, lease, LeaseEnd::Completed, State::Waiting { since: now });
        self.finish_with(now, held.id.number, last, End::Completed, result, out);
        Ok(())
    }
}
