//! `item.rerun`: a new item from one that ended. The old one stays as it ended, with `moved_to`.

use std::sync::Arc;

use crate::footprint::Footprint;
use crate::id::{ItemId, ItemNumber};
use crate::item::{Extras, Item, MoveReason, MovedTo, Origin, Outcome, Outgoing, State};
use crate::mutant::{self, Mutant};
use crate::partition::create::{Bodies, Draft};
use crate::partition::{Output, Partition};
use crate::refusal::Refusal;
use crate::row::{Change, Part};
use crate::time::{Span, Timestamp};
use crate::verb::{Decided, Verb};
use crate::verbs::Produced;

/// Makes a final item anew, in the same partition and the same commit. Refused as moved if the new item is at home elsewhere.
#[derive(Clone, Debug)]
pub struct Rerun {
    pub number: ItemNumber,
    /// The name of the queue.
    pub queue: Arc<str>,
    /// How long after the verb the item is due; unset: at once.
    pub delay: Option<Span>,
}

/// Sends a final item to another partition of its queue, where it is rerun. Whether its address is free there is checked
/// before.
#[derive(Clone, Debug)]
pub struct RerunElsewhere(pub Rerun);

impl Verb for Rerun {
    type Reply = Produced;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.rerun(now, self, out)
    }
}

impl Verb for RerunElsewhere {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Rewrites;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.rerun_elsewhere(now, self.0, out)
    }
}

impl Partition {
    /// The item, if it can be rerun.
    fn rerunnable(&self, number: ItemNumber) -> Result<(Item, Outcome), Refusal> {
        let item = self.get(number).ok_or(Refusal::NotFound)?;
        let State::Final(outcome) = &item.state else { return Err(Refusal::NotEnded) };
        let extras = item.extras.as_deref();
        if let Some(moved_to) = extras.and_then(|extras| extras.moved_to.as_deref()) {
            return Err(Refusal::MovedOn { id: moved_to.id });
        }
        if outcome.outgoing.is_some() {
            return Err(Refusal::Leaving);
        }
        if !outcome.payload_kept {
            return Err(Refusal::NoPayload { lost: extras.is_some_and(|extras| extras.payload_lost) });
        }
        let outcome = Outcome::clone(outcome);
        Ok((item, outcome))
    }

    /// The item, if it can be rerun, here or elsewhere.
    pub fn to_rerun(&self, number: ItemNumber) -> Result<Item, Refusal> {
        self.rerunnable(number).map(|(item, _)| item)
    }

    /// Whether the item would be made here, and not in another partition of the queue.
    pub fn reruns_here(&self, item: &Item) -> bool {
        let address = item.extras.as_ref().and_then(|extras| extras.address.as_ref());
        self.check_takes(address).is_ok()
    }

    /// Whether the item could be rerun here now.
    fn check_rerun(&self, number: ItemNumber) -> Result<(), Refusal> {
        let (item, _) = self.rerunnable(number)?;
        let address = item.extras.as_ref().and_then(|extras| extras.address.as_ref());
        self.check_takes(address)?;
        self.check_address_free(address)
    }

    fn rerun(&mut self, now: Timestamp, rerun: Rerun, out: &mut Output) -> Result<Produced, Refusal> {
        let Rerun { number, queue, delay } = rerun;
        self.check_rerun(number)?;
        self.check_numbers_left(now, 1)?;
        let (item, outcome) = self.rerunnable(number)?;
        self.write_down_gone(number, out);
        let old = self.items.get(&number).expect("an item that can be rerun is in `items`").clone();
        let id = ItemId { partition: self.id, number };
        let extras = item.extras.as_deref();
        let draft = Draft {
            priority: item.priority,
            hashes: self.hashes_of(number, &old),
            extras: Extras {
                max_attempts: extras.and_then(|extras| extras.max_attempts),
                dead_timeout: extras.and_then(|extras| extras.dead_timeout),
                address: extras.and_then(|extras| extras.address.clone()),
                origin: Some(Box::new(self.origin_of_rerun(now, &queue, id, &item))),
                cron: extras.and_then(|extras| extras.cron.clone()),
                ..Extras::default()
            },
            ..Draft::new(
                now,
                &item.kind,
                delay.map(|delay| now + delay),
                Bodies::CopiedFromItem(number, &old),
            )
        };
        out.totals.produced += 1;
        let produced = self.create(now, draft, out);
        if mutant::active(Mutant::RerunTwice) {
            return Ok(produced);
        }
        let mut next = old.with_state(State::Final(Box::new(outcome.without_payload(old.payload_size))));
        let there = ItemId { partition: self.id, number: produced.number };
        next.extras.get_or_insert_default().moved_to = Some(Box::new(MovedTo::new(queue, there)));
        self.write(number, next, out);
        out.changes.push(Change::RemoveBody { number, part: Part::Payload });
        Ok(produced)
    }

    fn origin_of_rerun(&self, now: Timestamp, queue: &Arc<str>, id: ItemId, item: &Item) -> Origin {
        let extras = item.extras.as_deref();
        Origin {
            queue: Arc::clone(queue),
            id: Some(id),
            group: self.member(item).map(|member| member.group),
            address: extras.and_then(|extras| extras.address.clone()),
            attempts: Some(item.attempts),
            reason: MoveReason::Rerun,
            error: extras.and_then(|extras| extras.error.clone()),
            moved_at: now,
            unknown: Vec::new(),
        }
    }

    fn rerun_elsewhere(&mut self, now: Timestamp, rerun: Rerun, out: &mut Output) -> Result<(), Refusal> {
        let (item, outcome) = self.rerunnable(rerun.number)?;
        self.write_down_gone(rerun.number, out);
        let outgoing = Outgoing {
            to: rerun.queue,
            reason: MoveReason::Rerun,
            due_at: rerun.delay.map(|delay| now + delay),
            left_at: Some(now),
            forgotten: false,
            deleted: false,
            address: item.extras.as_ref().and_then(|extras| extras.address.clone()),
            assigned: None,
            unknown: Vec::new(),
        };
        let outcome = Outcome { outgoing: Some(Box::new(outgoing)), ..outcome };
        let old = self.items.get(&rerun.number).expect("an item that can be rerun is in `items`");
        let next = old.with_state(State::Final(Box::new(outcome)));
        self.write(rerun.number, next, out);
        out.outgoing = true;
        Ok(())
    }

    /// An item that was cleared becomes a final one at last.
    pub(in crate::partition) fn write_down_gone(&mut self, number: ItemNumber, out: &mut Output) {
        if self.items.get(&number).is_some_and(|entry| self.is_gone(entry)) {
            self.settle_gone(number, out);
        }
    }
}
