//! New items: all of a command's or none, but for those whose address is taken.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::command::{Each, NewItem, Produce, Produced, Refusal};
use crate::footprint::Footprint;
use crate::item::Extras;
use crate::limits::{Invalid, KINDS_MAX, check_items};
use crate::partition::create::{Bodies, Draft};
use crate::partition::groups::index::GroupIndex;
use crate::partition::verbs::route::Keys;
use crate::partition::{Output, Partition};
use crate::time::Timestamp;
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
        let bodies = Bodies::Given { payload: Some(new.body), facts: new.facts };
        let extras = Extras {
            max_attempts: new.max_attempts,
            dead_timeout: self.dead_timeout(new.dead_timeout),
            address: new.address,
            ..Extras::default()
        };
        let draft =
            Draft { priority: new.priority, group, extras, ..Draft::new(now, &new.kind, due_at, bodies) };
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
