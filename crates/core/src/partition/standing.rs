//! What becomes of many items at once, by one row: a clear, and the start or cancel of a group.

use std::sync::Arc;

use super::Partition;
use super::groups::GroupIndex;
use super::index::Standing;
use super::{Counts, entry::Entry};
use crate::group::{Group, GroupState, Member};
use crate::id::GroupNumber;
use crate::item::{Item, Lease, State};
use crate::mutant::{self, Mutant};
use crate::row::Clearable;
use crate::time::Timestamp;

impl Partition {
    /// Takes a group's row in, or away.
    pub(super) fn put_group(&mut self, number: GroupNumber, row: Option<Box<Group>>) {
        let group = self.groups.index(number);
        let state = row.as_ref().map(|row| row.state);
        // The kinds of templates are kept in mind, so that there is room for them at the group's end.
        for template in row.iter().flat_map(|row| row.templates()) {
            let kind = self.kinds.index(&template.kind);
            self.kinds.join(kind);
        }
        let name = row.as_ref().or(self.groups.slot(group).row.as_ref()).map(|row| Arc::clone(&row.name));
        let was_known = name.as_ref().is_some_and(|name| self.has_group(name));
        if let Some(before) = self.groups.set_row(group, row) {
            for template in before.templates() {
                let kind = self.kinds.find(&template.kind).expect("it was joined when the row came");
                self.kinds.part(kind);
            }
        }
        if let Some(name) = name {
            match (was_known, self.has_group(&name)) {
                (false, true) => self.key_came(&name),
                (true, false) => self.key_went(&name),
                (true, true) | (false, false) => {}
            }
        }
        self.set_standing(group, state);
        self.groups.refresh(group);
    }

    /// Leased members are never shut away: they are asked to stop.
    fn set_standing(&mut self, group: GroupIndex, state: Option<GroupState>) {
        let (waiting, others) = match state {
            Some(GroupState::Open) if !mutant::active(Mutant::LeaseHeld) => (Standing::Held, Standing::Open),
            Some(GroupState::Open | GroupState::Started | GroupState::Done { .. }) | None => {
                (Standing::Open, Standing::Open)
            }
            Some(GroupState::Cancelled { .. } | GroupState::Aborted { .. }) => {
                (Standing::Gone, Standing::Gone)
            }
        };
        let before = self.lanes.standing_of(group);
        if before == waiting {
            return;
        }
        self.kept_of_cancelled -= self.kept_of(group);
        self.lanes.set_standing(group, waiting);
        self.schedule.set_standing(group, others);
        self.suspended.set_standing(group, others);
        self.kept_of_cancelled += self.kept_of(group);
        self.ages.all_touched(self.lanes.lanes_of(group).map(|(lane, _)| lane));
        self.shift_priorities(group, before, waiting);
        self.recount_group(group);
    }

    fn shift_priorities(&mut self, group: GroupIndex, before: Standing, after: Standing) {
        for (of, count) in &self.groups.slot(group).members.priorities {
            if before == Standing::Open {
                let total = self.priorities.get_mut(of).expect("open lanes are in the sum");
                *total -= count;
                if *total == 0 {
                    self.priorities.remove(of);
                }
            }
            if after == Standing::Open {
                *self.priorities.entry(*of).or_default() += count;
            }
        }
    }

    fn recount_group(&mut self, group: GroupIndex) {
        let live = self.live_of(group);
        let before = std::mem::replace(&mut self.groups.slot_mut(group).members.live, live);
        self.counts -= before;
        self.counts += live;
    }

    pub(super) fn live_of(&self, group: GroupIndex) -> Counts {
        let mut live = Counts::default();
        for (index, as_counts) in self.counted_indexes() {
            for (lane, keys) in index.lanes_of(group) {
                live += as_counts(index.standing(lane), keys.len());
            }
        }
        live
    }

    /// After a clear. Costs as much as there are lanes and groups.
    pub(super) fn recount(&mut self) {
        let mut counts = Counts::default();
        for (index, as_counts) in self.counted_indexes() {
            for (lane, keys) in index.shown() {
                counts += as_counts(index.standing(lane), keys.len());
            }
        }
        self.counts = counts;
        let groups: Vec<GroupIndex> = self.groups.iter().collect();
        for group in &groups {
            self.groups.slot_mut(*group).members.live = self.live_of(*group);
            self.groups.refresh(*group);
        }
        self.kept_of_cancelled = groups.iter().map(|group| self.kept_of(*group)).sum();
    }

    /// How many members with something to show went away with their group's cancel, and were not cleared before.
    pub(super) fn kept_of(&self, group: GroupIndex) -> u64 {
        let traces = self.groups.slot(group).members.traces.iter();
        traces.filter(|(trace, _)| self.went_with(group, **trace)).map(|(_, count)| count).sum()
    }

    /// Whether what counts there went away with the group's cancel, and was not cleared before.
    pub(super) fn went_with(&self, group: GroupIndex, (which, era): (Clearable, u32)) -> bool {
        let unless_cleared = era >= self.cleared.before(which);
        match which {
            Clearable::Waiting | Clearable::Scheduled | Clearable::Suspended => {
                unless_cleared && self.lanes.standing_of(group) == Standing::Gone
            }
            Clearable::Leased => false,
        }
    }

    /// Whether an item was cleared, or cancelled with its group.
    pub(super) fn is_gone(&self, entry: &Entry) -> bool {
        let standing = match &entry.state {
            State::Waiting => self.lanes.standing(entry.lane()),
            State::Scheduled { .. } => self.schedule.standing(entry.lane()),
            State::Leased(_) => self.deadlines.standing(entry.lane()),
            State::Suspended(_) => self.suspended.standing(entry.lane()),
            State::Final(_) => return false,
        };
        standing == Standing::Gone
    }

    /// When an item that is gone went: what came first counts.
    pub(super) fn gone_at(&self, item: &Item, entry: &Entry) -> Timestamp {
        let with_group = match &entry.state {
            State::Waiting | State::Scheduled { .. } | State::Suspended(_) => {
                entry.group.and_then(|group| self.groups.slot(group).state()?.cancelled_at())
            }
            State::Leased(_) | State::Final(_) => None,
        };
        let went = [self.cleared.cleared_at(item), with_group].into_iter().flatten().min();
        went.unwrap_or(item.created_at)
    }

    pub(super) fn is_held(&self, entry: &Entry) -> bool {
        let shut = || entry.group.is_some_and(|group| self.lanes.standing_of(group) == Standing::Held);
        matches!(entry.state, State::Waiting) && shut()
    }

    /// Whether the worker is asked to stop: about this item, or about all members of its group.
    pub(super) fn cancel_requested(&self, entry: &Entry, lease: &Lease) -> bool {
        let with_group = || entry.group.is_some_and(|group| self.lanes.standing_of(group) == Standing::Gone);
        lease.cancel_requested || with_group()
    }

    /// What an item is to its group, if it has one.
    pub fn member(&self, item: &Item) -> Option<Member> {
        self.member_of(self.items.get(&item.number)?)
    }

    pub(super) fn member_of(&self, entry: &Entry) -> Option<Member> {
        let group = self.group_name(entry.group?)?;
        Some(Member { group, held: !self.is_gone(entry) && self.is_held(entry) })
    }

    pub(super) fn group_name(&self, group: GroupIndex) -> Option<Arc<str>> {
        self.groups.slot(group).row.as_ref().map(|row| row.name.clone())
    }
}
