//! Items that the store has lost a body of. Each fails by itself, with the error code `damaged`.

use crate::footprint::Footprint;
use crate::id::ItemNumber;
use crate::item::{End, LeaseEnd, State};
use crate::limits::{Invalid, check_batch};
use crate::partition::death::Death;
use crate::partition::entry::Entry;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::time::Timestamp;
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::Held;

/// Ends leased items that no worker can be given, because a body of theirs is lost.
#[derive(Clone, Debug)]
pub struct FailDamaged(pub Vec<Damaged>);

/// A leased item with a body that the store has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub held: Held,
    /// The payload is lost. If not, the input of a resumed item is.
    pub payload_lost: bool,
}

impl Verb for FailDamaged {
    type Reply = Each<()>;
    const FOOTPRINT: Footprint = Footprint::Frees;
    const URGENCY: Urgency = Urgency::Settling;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("items", self.0.len())
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(self.0.into_iter().map(|damaged| partition.fail_one_damaged(now, damaged, out)).collect())
    }
}

impl Partition {
    /// The attempt is not counted: no worker was given the item.
    fn fail_one_damaged(
        &mut self,
        now: Timestamp,
        Damaged { held, payload_lost }: Damaged,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let (entry, lease) = self.held(held, now)?;
        let cancelled = self.cancel_requested(entry, lease);
        let mut next = entry.after_lease(now, lease, LeaseEnd::Released, State::Waiting { since: now });
        next.attempts = next.attempts.saturating_sub(1);
        next.extras.get_or_insert_default().payload_lost = payload_lost;
        out.totals.damaged += 1;
        if cancelled {
            self.finish(now, held.id.number, next, End::Cancelled, out);
            return Ok(());
        }
        self.die(now, held.id.number, as_damaged(next), Death::Damaged, out);
        Ok(())
    }

    /// Whether the item was moved here without its payload.
    pub(in crate::partition) fn lacks_payload(&self, number: ItemNumber) -> bool {
        self.items.get(&number).is_some_and(Entry::payload_lost)
    }

    /// Ends an item that was moved here without its payload. A dead queue does not take it: two queues that are each
    /// other's dead queue would send it to and fro for ever.
    pub(in crate::partition) fn fail_without_payload(
        &mut self,
        now: Timestamp,
        number: ItemNumber,
        out: &mut Output,
    ) {
        let last = self.items.get(&number).expect("items in lanes are always in `items`").clone();
        self.die_here(now, number, as_damaged(last), Death::Damaged, out);
    }
}

/// The item with the error `damaged`, whatever its error was before.
fn as_damaged(mut last: Entry) -> Entry {
    let error = Death::Damaged.error(&last);
    last.extras.get_or_insert_default().error = Some(error);
    last
}
