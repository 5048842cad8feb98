//! New items: all of a verb's or none, but for those whose address is taken.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::footprint::Footprint;
use crate::headers::Hashes;
use crate::id::ItemNumber;
use crate::item::{Extras, Phase};
use crate::limits::{Invalid, KINDS_MAX, check_items};
use crate::partition::create::{Bodies, Draft};
use crate::partition::groups::index::GroupIndex;
use crate::partition::verbs::route::Keys;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::time::{Span, Timestamp};
use crate::verb::{Decided, Verb};

#[derive(Clone, Debug)]
pub struct Produce {
    pub items: Vec<NewItem>,
}

#[derive(Clone, Debug)]
pub struct NewItem {
    pub kind: Arc<str>,
    pub priority: u8,
    /// The name of the group it is to be a member of.
    pub group: Option<Arc<str>>,
    /// In the past or unset: waiting at once.
    pub enqueue_at: Option<Timestamp>,
    /// How long after the verb the item is due. At most one of `enqueue_at` and `delay` is set.
    pub delay: Option<Span>,
    pub max_attempts: Option<u32>,
    /// Unset: the queue's. Zero: it may grow any age.
    pub dead_timeout: Option<Span>,
    /// Refused, by itself, while an item of that address is not final.
    pub address: Option<Arc<str>>,
    /// Passed through to the store, which may keep it in memory: let it not be a small part of something large. The
    /// core never looks inside and does not keep it.
    pub body: Bytes,
    /// What of the body is still to be seen once the item is final, and counts against the queue's retention: passed
    /// through like it.
    pub facts: Option<Bytes>,
    /// Of its headers and reference, as [`crate::settings::Settings::hashes`] tells them.
    pub hashes: Hashes,
}

impl NewItem {
    /// Waiting at once, and with nothing special about it.
    pub fn plain(kind: impl Into<Arc<str>>, body: Bytes) -> Self {
        Self {
            kind: kind.into(),
            priority: 0,
            group: None,
            enqueue_at: None,
            delay: None,
            max_attempts: None,
            dead_timeout: None,
            address: None,
            body,
            facts: None,
            hashes: Hashes::Unknown,
        }
    }

    /// When an item is due that is made at `now`; unset: at once.
    pub(crate) fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.delay.map(|delay| now + delay).or(self.enqueue_at)
    }

    /// What it is at home by, if anything.
    pub fn key(&self) -> Option<&str> {
        self.group.as_deref().or(self.address.as_deref())
    }

    pub(crate) fn bytes(&self) -> usize {
        stored_bytes(&self.body, self.facts.as_ref(), self.address.as_ref())
    }
}

pub(super) fn stored_bytes(body: &Bytes, facts: Option<&Bytes>, address: Option<&Arc<str>>) -> usize {
    body.len() + facts.map_or(0, Bytes::len) + address.map_or(0, |address| address.len())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    pub number: ItemNumber,
    pub phase: Phase,
}

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

    pub(in crate::partition) fn check_all<'a>(
        &self,
        now: Timestamp,
        items: impl ExactSizeIterator<Item = &'a NewItem>,
    ) -> Result<(), Refusal> {
        self.check_numbers_left(now, items.len())?;
        self.check_kinds_left(items.map(|item| &*item.kind))
    }

    /// Unless its group does not take it, or its address is not free.
    pub(in crate::partition) fn produce_single(
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
    pub(in crate::partition) fn group_to_join(
        &self,
        name: Option<&str>,
    ) -> Result<Option<GroupIndex>, Refusal> {
        let Some(name) = name else { return Ok(None) };
        let (group, row) = self.groups.find(name).ok_or(Refusal::NoSuchGroup)?;
        if row.state.is_finished() { Err(Refusal::GroupFinished) } else { Ok(Some(group)) }
    }

    /// Its group takes it, and its address is free.
    pub(in crate::partition) fn produce_one(
        &mut self,
        now: Timestamp,
        new: NewItem,
        group: Option<GroupIndex>,
        out: &mut Output,
    ) -> Produced {
        out.totals.produced += 1;
        let due_at = new.due_at(now);
        let bodies = Bodies::given(new.body, new.facts);
        let extras = Extras {
            max_attempts: new.max_attempts,
            dead_timeout: self.dead_timeout(new.dead_timeout),
            address: new.address,
            ..Extras::default()
        };
        let draft = Draft {
            priority: new.priority,
            group,
            extras,
            hashes: new.hashes,
            ..Draft::new(now, &new.kind, due_at, bodies)
        };
        self.create(now, draft, out)
    }

    pub(in crate::partition) fn check_kinds_left<'a>(
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
