//! New items: all of a command's or none, but for those whose address is taken.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::entry::Entry;
use super::groups::GroupIndex;
use super::intake::Keys;
use super::{Output, Partition};
use crate::command::{Each, NewItem, Produce, Produced, Refusal};
use crate::footprint::Footprint;
use crate::id::ItemNumber;
use crate::item::{Extras, Phase, State};
use crate::limits::{Invalid, KINDS_MAX, check_items};
use crate::row::{Change, Part};
use crate::time::{Span, Timestamp};
use crate::verb::{Decided, Verb};

impl Verb for Produce {
    type Reply = Each<Produced>;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_items(&self.items)
    }

    fn body_bytes(&self) -> usize {
        self.items.iter().map(NewItem::bytes).sum()
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.produce(now, self.items, out)
    }
}

impl Partition {
    fn produce(
        &mut self,
        now: Timestamp,
        items: Vec<NewItem>,
        out: &mut Output,
    ) -> Result<Each<Produced>, Refusal> {
        self.check_intake(items.iter().map(Keys::of_new))?;
        self.check_all(now, items.iter())?;
        // A row and a body each, and the numbers.
        out.changes.reserve(2 * items.len() + 1);
        Ok(items.into_iter().map(|item| self.produce_single(now, item, out)).collect())
    }

    pub(super) fn check_all<'a>(
        &self,
        now: Timestamp,
        items: impl ExactSizeIterator<Item = &'a NewItem>,
    ) -> Result<(), Refusal> {
        self.check_numbers_left(now, items.len())?;
        self.check_kinds_left(items.map(|item| &*item.kind))
    }

    /// Unless its group does not take it, or its address is not free.
    pub(super) fn produce_single(
        &mut self,
        now: Timestamp,
        item: NewItem,
        out: &mut Output,
    ) -> Result<Produced, Refusal> {
        let group = self.group_to_join(item.group.as_deref())?;
        self.check_address_free(item.address.as_ref())?;
        Ok(self.produce_one(now, item, group, out))
    }

    /// What a new item of that group and address would be told now, if it would not be made.
    pub fn refusal(&self, group: Option<&str>, address: Option<&Arc<str>>) -> Option<Refusal> {
        self.group_to_join(group).and_then(|_| self.check_address_free(address)).err()
    }

    /// The group that a new item is to be a member of.
    pub(super) fn group_to_join(&self, name: Option<&str>) -> Result<Option<GroupIndex>, Refusal> {
        let Some(name) = name else { return Ok(None) };
        let (group, row) = self.groups.find(name).ok_or(Refusal::NoSuchGroup)?;
        if row.state.is_finished() { Err(Refusal::GroupFinished) } else { Ok(Some(group)) }
    }

    /// Its group takes it, and its address is free.
    pub(super) fn produce_one(
        &mut self,
        now: Timestamp,
        new: NewItem,
        group: Option<GroupIndex>,
        out: &mut Output,
    ) -> Produced {
        let number = self.issue_number(now, out);
        let state = at_its_time(now, new.due_at(now));
        let extras = Extras {
            max_attempts: new.max_attempts,
            dead_timeout: self.dead_timeout(new.dead_timeout),
            address: new.address,
            facts_bytes: facts_bytes(new.facts.as_ref()),
            ..Extras::default()
        };
        let entry = Entry {
            place: number.0,
            created_at: now,
            state,
            extras: (extras != Extras::default()).then(|| Box::new(extras)),
            group,
            kind: self.kinds.index(&new.kind),
            attempts: 0,
            era: 0,
            priority: new.priority,
        };
        let phase = self.phase(&entry);
        self.write(number, entry, out);
        out.totals.produced += 1;
        put_bodies(number, new.body, new.facts, out);
        Produced { number, phase }
    }

    pub(super) fn phase(&self, entry: &Entry) -> Phase {
        if self.is_held(entry) { Phase::Held } else { entry.state.phase() }
    }

    /// What an item keeps: its own timeout, else the queue's; none if it may grow any age.
    pub(super) fn dead_timeout(&self, own: Option<Span>) -> Option<Span> {
        Some(own.unwrap_or(self.settings.dead_timeout)).filter(|timeout| *timeout != Span::ZERO)
    }

    pub(super) fn check_kinds_left<'a>(
        &self,
        kinds: impl ExactSizeIterator<Item = &'a str>,
    ) -> Result<(), Refusal> {
        if self.kinds.len() + kinds.len() <= KINDS_MAX {
            return Ok(());
        }
        let new: BTreeSet<&str> = kinds.filter(|kind| self.kinds.find(kind).is_none()).collect();
        // At the bound, kinds that are there already still work.
        if new.is_empty() || self.kinds.len() + new.len() <= KINDS_MAX {
            return Ok(());
        }
        Err(Refusal::TooMany { what: "kinds in a partition", max: KINDS_MAX })
    }
}

/// The first state of an item that is due then; unset or past: at once.
pub(super) fn at_its_time(now: Timestamp, due_at: Option<Timestamp>) -> State {
    match due_at {
        Some(due_at) if due_at > now => State::Scheduled { due_at },
        Some(_) | None => State::Waiting,
    }
}

/// What an item brings along goes to the store. An item that was moved may have lost its payload.
pub(super) fn put_bodies(
    number: ItemNumber,
    payload: impl Into<Option<Bytes>>,
    facts: Option<Bytes>,
    out: &mut Output,
) {
    let bodies = [(Part::Payload, payload.into()), (Part::Facts, facts)].into_iter();
    out.changes.extend(bodies.filter_map(|(part, body)| Some(Change::PutBody { number, part, body: body? })));
}

pub(super) fn facts_bytes(facts: Option<&Bytes>) -> u64 {
    facts.map_or(0, |facts| facts.len() as u64)
}
