//! Work given back untouched.

use crate::attempt::{Attempt, AttemptEnd};
use crate::footprint::Footprint;
use crate::item::{End, LeaseEnd, State};
use crate::limits::{Invalid, check_batch};
use crate::mutant::{self, Mutant};
use crate::partition::death::Death;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::time::{Span, Timestamp};
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::Held;

/// Gives leased items back, uncharged.
#[derive(Clone, Debug)]
pub struct Release(pub Vec<Held>);

/// Leased items that are to wait for so long, uncharged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutOff {
    pub items: Vec<Held>,
    pub delay: Span,
}

impl Verb for Release {
    type Reply = Each<()>;
    const FOOTPRINT: Footprint = Footprint::Rewrites;
    const URGENCY: Urgency = Urgency::Settling;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("items", self.0.len())
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        out.changes.reserve(self.0.len());
        let release = |held| partition.release_one(now, held, State::Waiting { since: now }, out);
        Ok(self.0.into_iter().map(release).collect())
    }
}

/// As a release, but nobody is given the items before the delay is over.
impl Verb for PutOff {
    type Reply = Each<()>;
    const FOOTPRINT: Footprint = Footprint::Rewrites;
    const URGENCY: Urgency = Urgency::Settling;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("items", self.items.len())
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        out.changes.reserve(self.items.len());
        let until = || State::Scheduled { due_at: now + self.delay };
        Ok(self.items.into_iter().map(|held| partition.release_one(now, held, until(), out)).collect())
    }
}

impl Partition {
    /// Back to its own place, and the attempt is not counted.
    pub(in crate::partition) fn release_one(
        &mut self,
        now: Timestamp,
        held: Held,
        state: State,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let (entry, lease) = self.held(held, now)?;
        out.totals.released += 1;
        let cancelled = self.cancel_requested(entry, lease);
        let attempt = Attempt::ending(entry.attempts, lease, now, AttemptEnd::Cancelled);
        let mut next = entry.after_lease(now, lease, LeaseEnd::Released, state);
        next.attempts = next.attempts.saturating_sub(1);
        if cancelled {
            self.log_attempt(held.id.number, &mut next, attempt, out);
            self.finish(now, held.id.number, next, End::Cancelled, out);
            return Ok(());
        }
        if next.is_overdue(now) {
            self.die(now, held.id.number, next, Death::TooOld, out);
            return Ok(());
        }
        if mutant::active(Mutant::LoseOrder) {
            next.place = self.issue_tail_place(now, next.place, out);
        }
        self.write(held.id.number, next, out);
        Ok(())
    }
}
