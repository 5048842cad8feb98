//! Items on their way to a queue that does not exist. They may take as much as the queue keeps of final items; beyond that the
//! oldest stay in their own queue as they ended, also those that were forgotten since. Deleted ones are gone for good.

use std::sync::Arc;

use crate::footprint::Footprint;
use crate::id::ItemNumber;
use crate::item::{Outcome, State};
use crate::partition::{Output, Partition};
use crate::time::Timestamp;
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};

/// Takes the oldest items bound for the missing queue `queue` out of the outbox, until the rest fit `retention_max_bytes`.
#[derive(Clone, Debug)]
pub struct FallBack {
    pub queue: Arc<str>,
    pub limit: usize,
}

/// Answered by the number of items that fell back, or were deleted and are gone now.
impl Verb for FallBack {
    type Reply = usize;
    const FOOTPRINT: Footprint = Footprint::Frees;
    const URGENCY: Urgency = Urgency::Settling;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(partition.fall_back(now, &self, out))
    }
}

impl Partition {
    /// Whether items bound for `queue` exceed this partition's share of `retention_max_bytes`.
    pub fn overflows(&self, queue: &str) -> bool {
        self.outbox.bytes_to(queue) > self.share_of(self.settings.retention_max_bytes)
    }

    fn fall_back(&mut self, now: Timestamp, fall_back: &FallBack, out: &mut Output) -> usize {
        let may_fall_back = |number| self.may_fall_back(number);
        let oldest = self.outbox.first_unassigned_that(&fall_back.queue, fall_back.limit, may_fall_back);
        let mut count = 0;
        for number in oldest {
            if !self.overflows(&fall_back.queue) {
                break;
            }
            self.fall_back_one(now, number, out);
            count += 1;
        }
        count
    }

    /// The end item of a group was no item here.
    fn may_fall_back(&self, number: ItemNumber) -> bool {
        let (_, _, outgoing) = self.leaving(number);
        !outgoing.reason.is_of_group()
    }

    /// It counts as ended now, and its payload is kept, whatever the queue says of payloads. Of one that was deleted on its way
    /// nothing is kept.
    fn fall_back_one(&mut self, now: Timestamp, number: ItemNumber, out: &mut Output) {
        let (entry, outcome, outgoing) = self.leaving(number);
        if outgoing.deleted {
            self.erase(number, out);
            return;
        }
        let mut outcome = Outcome { outgoing: None, finished_at: now, ..outcome.clone() };
        if !entry.payload_lost() && !outcome.payload_kept {
            outcome = outcome.with_payload(entry.payload_size);
        }
        let next = entry.with_state(State::Final(Box::new(outcome)));
        self.write(number, next, out);
    }
}
