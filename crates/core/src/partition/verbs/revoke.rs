//! Work taken away from its worker.

use crate::attempt::{Attempt, AttemptEnd};
use crate::footprint::Footprint;
use crate::item::{LeaseEnd, State};
use crate::limits::{Invalid, check_batch};
use crate::partition::death::Death;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};
use crate::verbs::Held;

/// Takes leased items away from their workers.
#[derive(Clone, Debug)]
pub struct Revoke(pub Vec<Held>);

impl Verb for Revoke {
    type Reply = Each<()>;
    const FOOTPRINT: Footprint = Footprint::Rewrites;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("items", self.0.len())
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        out.changes.reserve(self.0.len());
        Ok(self.0.into_iter().map(|held| partition.revoke_one(now, held, out)).collect())
    }
}

impl Partition {
    /// As if the lease had expired, but always back to its own place: it was not the item's fault.
    fn revoke_one(&mut self, now: Timestamp, held: Held, out: &mut Output) -> Result<(), Refusal> {
        let (entry, lease) = self.held(held, now)?;
        out.totals.revoked += 1;
        let cancelled = self.cancel_requested(entry, lease);
        let mut attempt = Attempt::ending(entry.attempts, lease, now, AttemptEnd::Revoked);
        if cancelled {
            attempt.end = AttemptEnd::Cancelled;
        }
        let mut next = entry.after_lease(now, lease, LeaseEnd::Revoked, State::Waiting { since: now });
        self.log_attempt(held.id.number, &mut next, attempt, out);
        if let Some(next) = self.after_charged(now, held.id.number, next, cancelled, Death::Revoked, out) {
            self.write(held.id.number, next, out);
        }
        Ok(())
    }
}
