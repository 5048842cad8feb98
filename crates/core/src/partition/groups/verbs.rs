//! Groups made, started, cancelled and deleted. Each writes one row of the group, whatever number of members it has.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::footprint::Footprint;
use crate::group::{Ended, Group, GroupState, GroupView, Template};
use crate::id::{GroupNumber, ItemNumber};
use crate::limits::{GROUPS_MAX, Invalid, check_end, check_items, check_name};
use crate::partition::create::{facts_bytes, put_bodies};
use crate::partition::groups::index::GroupIndex;
use crate::partition::verbs::route::Keys;
use crate::partition::{Output, Partition};
use crate::refusal::Refusal;
use crate::row::{Change, Key, Part, Row};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};
use crate::verbs::{NewItem, Produced};

#[derive(Clone, Debug)]
pub struct StartGroup(pub Arc<str>);

#[derive(Clone, Debug)]
pub struct CancelGroup(pub Arc<str>);

#[derive(Clone, Debug)]
pub struct DeleteGroup(pub Arc<str>);

/// Makes a group, its first members with it, and starts it if it is asked to.
#[derive(Clone, Debug)]
pub struct CreateGroup {
    pub name: Arc<str>,
    pub end: Option<NewEnd>,
    pub abort: Option<NewEnd>,
    /// Members from the first, whatever group they name.
    pub items: Vec<NewItem>,
    pub start: bool,
}

/// Says what is made at the end of a group.
#[derive(Clone, Debug)]
pub struct SetGroupEnd {
    pub name: Arc<str>,
    /// Unset: as it was.
    pub end: Option<NewEnd>,
    /// Unset: as it was.
    pub abort: Option<NewEnd>,
}

/// An item that is made when a group is done or aborted. It is no member of the group.
#[derive(Clone, Debug)]
pub struct NewEnd {
    /// Unset: its own queue.
    pub queue: Option<Arc<str>>,
    pub item: NewItem,
}

/// Answers [`CreateGroup`].
#[derive(Clone, Debug, PartialEq)]
pub struct GroupCreated {
    pub group: GroupView,
    pub items: Vec<Produced>,
}

const GIVEN_TWICE: Invalid =
    Invalid { field: "address", rule: "another one for each item of a group's call" };

impl Verb for CreateGroup {
    type Reply = GroupCreated;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_name("group", &self.name)?;
        check_end("end", self.end.as_ref())?;
        check_end("abort", self.abort.as_ref())?;
        // There need not be any.
        if self.items.is_empty() { Ok(()) } else { check_items(&self.items) }
    }

    fn body_bytes(&self) -> usize {
        let ends = [&self.end, &self.abort].into_iter().flatten().map(|end| &end.item);
        self.items.iter().chain(ends).map(NewItem::bytes).sum()
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.create_group(now, self, out)
    }
}

impl Verb for SetGroupEnd {
    type Reply = GroupView;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_end("end", self.end.as_ref())?;
        check_end("abort", self.abort.as_ref())
    }

    fn body_bytes(&self) -> usize {
        [&self.end, &self.abort].into_iter().flatten().map(|end| end.item.bytes()).sum()
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.set_group_end(now, self, out)
    }
}

impl Verb for StartGroup {
    type Reply = GroupView;
    const FOOTPRINT: Footprint = Footprint::Rewrites;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.start_group(now, &self.0, out)
    }
}

impl Verb for CancelGroup {
    type Reply = GroupView;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.cancel_group(now, &self.0, out)
    }
}

/// Answered by the group as it was.
impl Verb for DeleteGroup {
    type Reply = GroupView;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, partition: &mut Partition, _now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.delete_group(&self.0, out)
    }
}

impl Partition {
    /// All of it or nothing.
    fn create_group(
        &mut self,
        now: Timestamp,
        create: CreateGroup,
        out: &mut Output,
    ) -> Result<GroupCreated, Refusal> {
        if self.groups.find(&create.name).is_some() {
            return Err(Refusal::GroupExists);
        }
        self.check_open()?;
        self.check_at_home(&create.name)?;
        self.check_intake(create.items.iter().map(|item| Keys { group: None, ..Keys::of_new(item) }))?;
        if self.groups.len() >= GROUPS_MAX && self.groups.first_over().is_none() {
            return Err(Refusal::TooMany { what: "groups in a partition", max: GROUPS_MAX });
        }
        self.check_addresses_free(&create.items)?;
        let ends = [&create.end, &create.abort];
        let templates = ends.into_iter().flatten().map(|end| &*end.item.kind);
        let kinds: Vec<&str> = create.items.iter().map(|item| &*item.kind).chain(templates).collect();
        self.check_kinds_left(kinds.into_iter())?;
        // The group's own and those of its templates.
        self.check_numbers_left(now, create.items.len() + 3)?;
        self.make_room_for_a_group(out);
        let number = GroupNumber(self.issue_number(now, out).0);
        let group = Group {
            number,
            name: create.name.clone(),
            created_at: now,
            state: if create.start { GroupState::Started } else { GroupState::Open },
            ended: Ended::default(),
            end: create.end.map(|end| self.template(now, end, out)),
            abort: create.abort.map(|abort| self.template(now, abort, out)),
            deleted: false,
            started_at: create.start.then_some(now),
            keeps_all: false,
            drops_payload: false,
            unknown: Vec::new(),
        };
        self.record(Row::Group(Box::new(group)), out);
        let index = self.groups.index(number);
        let items = create.items.into_iter();
        let items = items.map(|item| self.produce_one(now, item, Some(index), out)).collect();
        self.settle_if_due(now, index, out);
        Ok(GroupCreated { group: self.view(index), items })
    }

    /// At the bound the one that has been over for longest is forgotten, as what is kept always is.
    fn make_room_for_a_group(&mut self, out: &mut Output) {
        if self.groups.len() >= GROUPS_MAX
            && let Some((_, over)) = self.groups.first_over()
        {
            self.forget_group(over, out);
        }
    }

    /// Of the items of a call that makes all of them or none.
    fn check_addresses_free(&self, items: &[NewItem]) -> Result<(), Refusal> {
        let mut given = BTreeSet::new();
        for address in items.iter().filter_map(|item| item.address.as_ref()) {
            self.check_address_free(Some(address))?;
            if !given.insert(address) {
                return Err(Refusal::Invalid(GIVEN_TWICE));
            }
        }
        Ok(())
    }

    fn set_group_end(
        &mut self,
        now: Timestamp,
        set: SetGroupEnd,
        out: &mut Output,
    ) -> Result<GroupView, Refusal> {
        let (index, group) = self.groups.find(&set.name).ok_or(Refusal::NoSuchGroup)?;
        if group.state.is_finished() {
            return Err(Refusal::GroupFinished);
        }
        let mut group = group.clone();
        let kinds: Vec<&str> =
            [&set.end, &set.abort].into_iter().flatten().map(|end| &*end.item.kind).collect();
        self.check_kinds_left(kinds.into_iter())?;
        self.check_numbers_left(now, 2)?;
        for (now_set, given) in [(&mut group.end, set.end), (&mut group.abort, set.abort)] {
            if let Some(given) = given {
                let new = self.template(now, given, out);
                if let Some(old) = now_set.replace(new) {
                    remove_bodies(&old, out);
                }
            }
        }
        self.record(Row::Group(Box::new(group)), out);
        Ok(self.view(index))
    }

    fn template(&self, now: Timestamp, new: NewEnd, out: &mut Output) -> Box<Template> {
        let number = self.issue_number(now, out);
        Box::new(template(number, new.queue, new.item, out))
    }

    fn start_group(&mut self, now: Timestamp, name: &str, out: &mut Output) -> Result<GroupView, Refusal> {
        let (index, group) = self.groups.find(name).ok_or(Refusal::NoSuchGroup)?;
        match group.state {
            GroupState::Open => {
                let started = Group { state: GroupState::Started, started_at: Some(now), ..group.clone() };
                self.record(Row::Group(Box::new(started)), out);
                out.available |= self.groups.live(index).waiting > 0;
                self.tell_started(now, index, out);
                self.settle_if_due(now, index, out);
            }
            GroupState::Started => {}
            GroupState::Done { .. } | GroupState::Cancelled { .. } | GroupState::Aborted { .. } => {
                return Err(Refusal::GroupFinished);
            }
        }
        Ok(self.view(index))
    }

    /// Members that nobody works on are gone at once; the sweep writes down what became of them. Workers are asked to stop
    /// for as long as the group says so.
    fn cancel_group(&mut self, now: Timestamp, name: &str, out: &mut Output) -> Result<GroupView, Refusal> {
        let (index, group) = self.groups.find(name).ok_or(Refusal::NoSuchGroup)?;
        match group.state {
            GroupState::Open | GroupState::Started => {
                let group = group.clone();
                let before = self.groups.live(index).live();
                self.tell_cancelled(now, index, out);
                let cancelled = Group {
                    state: GroupState::Cancelled { at: now },
                    keeps_all: self.keeps_all(),
                    drops_payload: !self.retains_cancelled(),
                    ..group
                };
                self.record(Row::Group(Box::new(cancelled)), out);
                out.totals.cancelled += before - self.groups.live(index).live();
                self.settle_if_due(now, index, out);
            }
            GroupState::Cancelled { .. } | GroupState::Aborted { .. } => {}
            GroupState::Done { .. } => return Err(Refusal::GroupFinished),
        }
        Ok(self.view(index))
    }

    fn delete_group(&mut self, name: &str, out: &mut Output) -> Result<GroupView, Refusal> {
        let (index, group) = self.groups.find(name).ok_or(Refusal::NoSuchGroup)?;
        if group.state.over_since().is_none() {
            return Err(Refusal::GroupNotOver);
        }
        let view = self.view(index);
        self.forget_group(index, out);
        Ok(view)
    }

    /// Its row stays for as long as an item names it: it tells the name, and what is gone.
    pub(in crate::partition) fn forget_group(&mut self, group: GroupIndex, out: &mut Output) {
        let slot = self.groups.slot(group);
        let row = slot.row.as_deref().expect("a group that is over has a row");
        if slot.is_named() {
            let deleted = Group { deleted: true, ..row.clone() };
            self.record(Row::Group(Box::new(deleted)), out);
        } else {
            self.erase_group(row.number, out);
        }
    }

    pub(in crate::partition) fn erase_group(&mut self, number: GroupNumber, out: &mut Output) {
        self.erase_row(Key::Group(number), out);
    }

    /// A group as it can be seen.
    pub fn group(&self, name: &str) -> Option<GroupView> {
        self.groups.find(name).map(|(group, _)| self.view(group))
    }

    pub fn has_group(&self, name: &str) -> bool {
        self.groups.find(name).is_some()
    }

    /// Groups by name, from the first one after `pivot` on.
    pub fn list_groups(&self, pivot: Option<&str>, limit: usize) -> Vec<GroupView> {
        self.groups.named_after(pivot).take(limit).map(|(_, group)| self.view(group)).collect()
    }

    pub(in crate::partition) fn view(&self, group: GroupIndex) -> GroupView {
        let slot = self.groups.slot(group);
        let row = slot.row.as_deref().expect("a group that was found has a row");
        let mut ended = row.ended;
        ended.cancelled += self.groups.unswept(group);
        GroupView {
            name: Arc::clone(&row.name),
            created_at: row.created_at,
            state: row.state,
            live: self.groups.live(group),
            ended,
        }
    }
}

/// What is to be made of an item later on. Its bodies go to the store under a number that no item has.
pub(in crate::partition) fn template(
    number: ItemNumber,
    queue: Option<Arc<str>>,
    item: NewItem,
    out: &mut Output,
) -> Template {
    let template = Template {
        body: number,
        body_bytes: item.body.len() as u64,
        facts_bytes: facts_bytes(item.facts.as_ref()),
        hashes: item.hashes,
        queue,
        kind: item.kind,
        priority: item.priority,
        due_at: item.enqueue_at,
        delay: item.delay,
        max_attempts: item.max_attempts,
        dead_timeout: item.dead_timeout,
        unknown: Vec::new(),
    };
    put_bodies(number, Some(item.body), item.facts, out);
    template
}

/// The store does not need a template's bodies any more.
pub(in crate::partition) fn remove_bodies(template: &Template, out: &mut Output) {
    let number = template.body;
    out.changes.push(Change::RemoveBody { number, part: Part::Payload });
    if template.facts_bytes > 0 {
        out.changes.push(Change::RemoveBody { number, part: Part::Facts });
    }
}
