//! Items changed while nobody works on them.

use bytes::Bytes;

use crate::footprint::Footprint;
use crate::group::Member;
use crate::headers::Hashes;
use crate::id::ItemNumber;
use crate::item::{Item, PayloadSize, State};
use crate::limits::{Invalid, check_batch, check_item_time};
use crate::partition::create::{facts_bytes, put_bodies};
use crate::partition::death::Death;
use crate::partition::entry::Entry;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::row::{Change, Part};
use crate::time::{Span, Timestamp};
use crate::verb::{Decided, Verb};

/// Changes items that are scheduled, waiting, held or suspended. Each is changed as asked for, or not at all.
#[derive(Clone, Debug)]
pub struct Update(pub Vec<UpdateItem>);

/// What is to become of an item. A field that is unset stays as it is.
#[derive(Clone, Debug)]
pub struct UpdateItem {
    pub number: ItemNumber,
    pub priority: Option<u8>,
    /// In the past: at once. Only for items that are scheduled or waiting, and so is `delay`.
    pub enqueue_at: Option<Timestamp>,
    /// How long after the verb the item is due. At most one of `enqueue_at` and `delay` is set.
    pub delay: Option<Span>,
    /// An item that has made as many attempts already has one more.
    pub max_attempts: Option<u32>,
    /// Counted from the making of the item. Zero: it may grow any age.
    pub dead_timeout: Option<Span>,
    /// `body` and `facts` as in [`crate::verbs::NewItem`], in place of both.
    pub record: Option<(Bytes, Option<Bytes>)>,
    /// With `record`: as in [`crate::verbs::NewItem`].
    pub hashes: Hashes,
}

/// The item after an [`Update`]: changed, or expired if its new `dead_timeout` is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Updated {
    pub item: Item,
    pub member: Option<Member>,
}

impl UpdateItem {
    /// Changes nothing yet.
    pub fn new(number: ItemNumber) -> Self {
        Self {
            number,
            priority: None,
            enqueue_at: None,
            delay: None,
            max_attempts: None,
            dead_timeout: None,
            record: None,
            hashes: Hashes::default(),
        }
    }

    fn bytes(&self) -> usize {
        let bodies = self.record.iter().flat_map(|(body, facts)| std::iter::once(body).chain(facts));
        bodies.map(Bytes::len).sum()
    }

    /// When the item is to be due, if that is to change.
    fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.delay.map(|delay| now + delay).or(self.enqueue_at)
    }
}

impl Verb for Update {
    type Reply = Each<Updated>;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("ids", self.0.len())?;
        self.0.iter().try_for_each(|update| check_item_time(update.enqueue_at, update.delay))
    }

    fn body_bytes(&self) -> usize {
        self.0.iter().map(UpdateItem::bytes).sum()
    }

    fn footprint(&self, _partition: &Partition, _now: Timestamp) -> Footprint {
        let grows = self.0.iter().any(|update| update.record.is_some());
        if grows { Footprint::Grows } else { Footprint::Rewrites }
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        out.changes.reserve(self.0.len());
        Ok(self.0.into_iter().map(|update| partition.update_one(now, update, out)).collect())
    }
}

impl Partition {
    fn update_one(
        &mut self,
        now: Timestamp,
        update: UpdateItem,
        out: &mut Output,
    ) -> Result<Updated, Refusal> {
        let number = update.number;
        let due_at = update.due_at(now);
        let mut next = self.changeable(number, due_at.is_some())?.clone();
        next.priority = update.priority.unwrap_or(next.priority);
        if let Some(max_attempts) = update.max_attempts {
            next.extras.get_or_insert_default().max_attempts = Some(max_attempts);
        }
        if let Some(timeout) = update.dead_timeout {
            let timeout = Some(timeout).filter(|timeout| *timeout != Span::ZERO);
            next.extras.get_or_insert_default().dead_timeout = timeout;
        }
        if let Some((body, facts)) = update.record {
            let header_hashes = self.header_hashes(&update.hashes, facts_bytes(facts.as_ref()));
            replace_bodies(number, &mut next, body, facts, out);
            if next.extras.is_some() || !header_hashes.is_empty() {
                next.extras.get_or_insert_default().header_hashes = header_hashes;
            }
        }
        next.drop_empty_extras();
        if next.is_overdue(now) {
            self.die(now, number, next, Death::TooOld, out);
        } else {
            if let Some(due_at) = due_at {
                self.make_due(now, due_at, &mut next, out);
            }
            self.write(number, next, out);
        }
        let item =
            self.get(number).expect("what was updated is there, and what expired is kept with its error");
        Ok(Updated { member: self.member(&item), item })
    }

    /// The item, if it can be changed; also the time at which it is due, if that is asked for.
    fn changeable(&self, number: ItemNumber, due: bool) -> Result<&Entry, Refusal> {
        let Some(entry) = self.visible(number) else {
            let left = self.left_of_gone(number).ok_or(Refusal::NotFound)?;
            return Err(Refusal::WrongPhase { phase: left.state.phase() });
        };
        let changeable = match &entry.state {
            State::Scheduled { .. } => true,
            State::Waiting { .. } => !(due && self.is_held(entry)),
            State::Suspended(_) => !due,
            State::Leased(_) | State::Final(_) => false,
        };
        if changeable { Ok(entry) } else { Err(Refusal::WrongPhase { phase: self.phase(entry) }) }
    }

    /// An item that waits keeps its place, and so does one that becomes due another time.
    fn make_due(&self, now: Timestamp, due_at: Timestamp, next: &mut Entry, out: &mut Output) {
        match (&next.state, due_at > now) {
            (State::Scheduled { .. }, true) => next.state = State::Scheduled { due_at },
            (State::Scheduled { .. }, false) => {
                next.place = self.place_when_due(now, next, out);
                next.turn(now, State::Waiting { since: now });
            }
            (State::Waiting { .. }, true) => next.turn(now, State::Scheduled { due_at }),
            (State::Waiting { .. }, false) => {}
            (State::Leased(_) | State::Suspended(_) | State::Final(_), _) => {
                unreachable!("only scheduled and waiting items have a time")
            }
        }
    }
}

/// A payload that was lost is there again.
fn replace_bodies(number: ItemNumber, next: &mut Entry, body: Bytes, facts: Option<Bytes>, out: &mut Output) {
    next.payload_size = PayloadSize::of(body.len() as u64);
    let new_facts_bytes = facts_bytes(facts.as_ref());
    let had_facts = next.extras.as_ref().is_some_and(|extras| extras.facts_bytes > 0);
    if had_facts && facts.is_none() {
        out.changes.push(Change::RemoveBody { number, part: Part::Facts });
    }
    if next.extras.is_some() || new_facts_bytes > 0 {
        let extras = next.extras.get_or_insert_default();
        extras.facts_bytes = new_facts_bytes;
        extras.payload_lost = false;
    }
    put_bodies(number, Some(body), facts, out);
}
