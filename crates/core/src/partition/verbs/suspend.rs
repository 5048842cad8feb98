//! Work that cannot go on until somebody answers.

use std::sync::Arc;

use bytes::Bytes;

use crate::attempt::{Attempt, AttemptEnd};
use crate::event::NewEvent;
use crate::footprint::Footprint;
use crate::id::ItemNumber;
use crate::item::{End, LeaseEnd, State, Suspension};
use crate::limits::{Invalid, check_batch, check_reason};
use crate::mutant::{self, Mutant};
use crate::partition::death::Death;
use crate::partition::entry::Entry;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::row::{Change, Part};
use crate::time::Timestamp;
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::Held;

/// Workers give items up until somebody answers.
#[derive(Clone, Debug)]
pub struct Suspend(pub Vec<SuspendItem>);

#[derive(Clone, Debug)]
pub struct SuspendItem {
    pub held: Held,
    pub reason: Option<Arc<str>>,
}

/// Answers a suspended item.
#[derive(Clone, Debug)]
pub struct Resume {
    pub number: ItemNumber,
    pub input: Option<Input>,
}

/// The answer to a suspended item: an event of its stream, and a body for the workers that come after.
#[derive(Clone, Debug)]
pub struct Input {
    pub event: NewEvent,
    /// Passed through to the store.
    pub body: Bytes,
}

impl SuspendItem {
    pub(in crate::partition) fn check(&self) -> Result<(), Invalid> {
        self.reason.as_deref().map_or(Ok(()), check_reason)
    }
}

impl Verb for Suspend {
    type Reply = Each<()>;
    const FOOTPRINT: Footprint = Footprint::Rewrites;
    const URGENCY: Urgency = Urgency::Settling;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("items", self.0.len())?;
        self.0.iter().try_for_each(SuspendItem::check)
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(self.0.into_iter().map(|suspend| partition.suspend_one(now, suspend, out)).collect())
    }
}

impl Verb for Resume {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn body_bytes(&self) -> usize {
        self.input.as_ref().map_or(0, |input| input.event.content.len() + input.body.len())
    }

    fn footprint(&self, _partition: &Partition, _now: Timestamp) -> Footprint {
        if self.input.is_some() { Footprint::Grows } else { Footprint::Rewrites }
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.resume(now, self, out)
    }
}

impl Partition {
    /// The worker gives it up, and the attempt is not counted.
    pub(in crate::partition) fn suspend_one(
        &mut self,
        now: Timestamp,
        suspend: SuspendItem,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let SuspendItem { held, reason } = suspend;
        let (entry, lease) = self.held(held, now)?;
        out.totals.suspended += 1;
        let cancelled = self.cancel_requested(entry, lease);
        let state = if mutant::active(Mutant::LeaseSuspended) {
            State::Waiting { since: now }
        } else {
            suspended(reason)
        };
        let attempt = Attempt::ending(entry.attempts, lease, now, AttemptEnd::Cancelled);
        let mut next = entry.after_lease(now, lease, LeaseEnd::Suspended, state);
        if !mutant::active(Mutant::ChargeSuspended) {
            next.attempts = next.attempts.saturating_sub(1);
        }
        if cancelled {
            self.log_attempt(held.id.number, &mut next, attempt, out);
            self.finish(now, held.id.number, next, End::Cancelled, out);
        } else if next.is_overdue(now) {
            self.die(now, held.id.number, next, Death::TooOld, out);
        } else {
            // An answer to an earlier question is none to this one.
            if !mutant::active(Mutant::KeepInput) {
                drop_input(held.id.number, &next, out);
                next.extras.get_or_insert_default().has_input = false;
            }
            self.write(held.id.number, next, out);
        }
        Ok(())
    }

    /// It waits again at its own place. Each lease from now on carries the answer, until it is suspended again.
    fn resume(&mut self, now: Timestamp, resume: Resume, out: &mut Output) -> Result<(), Refusal> {
        let Resume { number, input } = resume;
        let Some(entry) = self.visible(number) else {
            return Err(self.left_of_gone(number).map_or(Refusal::NotFound, |_final| Refusal::NotSuspended));
        };
        if !matches!(entry.state, State::Suspended(_)) {
            return Err(Refusal::NotSuspended);
        }
        let mut next = entry.clone();
        next.turn(now, State::Waiting { since: now });
        if let Some(Input { event, body }) = input {
            self.append(now, number, &mut next, &[event], out);
            next.extras.get_or_insert_default().has_input = !mutant::active(Mutant::LoseInput);
            out.changes.push(Change::PutBody { number, part: Part::Input, body });
        }
        self.write(number, next, out);
        out.totals.resumed += 1;
        Ok(())
    }
}

/// A reason that says nothing is none.
pub(in crate::partition) fn suspended(reason: Option<std::sync::Arc<str>>) -> State {
    let reason = reason.filter(|reason| !reason.is_empty());
    State::Suspended(Box::new(Suspension { reason }))
}

/// The store does not need the answer any more.
pub(in crate::partition) fn drop_input(number: ItemNumber, last: &Entry, out: &mut Output) {
    if last.extras.as_ref().is_some_and(|extras| extras.has_input) {
        out.changes.push(Change::RemoveBody { number, part: Part::Input });
    }
}
