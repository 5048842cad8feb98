//! What becomes of many items at once, by one row: a clear, and the start or cancel of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::group::{Group, GroupState, Member};
use crate::id::GroupNumber;
use crate::item::{Item, Lease, State};
use crate::mutant::{self, Mutant};
use crate::partition::Partition;
use crate::partition::entry::Entry;
use crate::partition::groups::index::GroupIndex;
use crate::partition::index::lanes::{Index, Lane, Standing};
use crate::row::{Clearable, Cleared};
use crate::time::Timestamp;

/// Of the groups that lose members by a clear, so many are looked at in the same step, for each state.
const GROUPS_AT_ONCE: usize = 100;

/// How the lanes of a group's waiting members stand, and those of its scheduled and suspended ones. Leased members are never
/// shut away: they are asked to stop.
pub(in crate::partition) fn standings(state: Option<GroupState>) -> (Standing, Standing) {
    match state {
        Some(GroupState::Open) if !mutant::active(Mutant::LeaseHeld) => (Standing::Held, Standing::Open),
        Some(GroupState::Open | GroupState::Started | GroupState::Done { .. }) | None => {
            (Standing::Open, Standing::Open)
        }
        Some(GroupState::Cancelled { .. } | GroupState::Aborted { .. }) => (Standing::Gone, Standing::Gone),
    }
}

/// Whether members in that state go away when their group is cancelled.
pub(in crate::partition) fn goes_with_group(which: Clearable) -> bool {
    match which {
        Clearable::Waiting | Clearable::Scheduled | Clearable::Suspended => true,
        Clearable::Leased => false,
    }
}

/// How an item went that was taken away with many others.
#[derive(Clone, Copy, Debug)]
pub(in crate::partition) struct Gone {
    pub(in crate::partition) at: Timestamp,
    /// Whether its payload is kept, if the item is.
    pub(in crate::partition) keeps_payload: bool,
}

fn take_off<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, count: u64) {
    let total = counts.get_mut(&key).expect("what leaves was counted when it came");
    *total -= count;
    if *total == 0 {
        counts.remove(&key);
    }
}

impl Partition {
    /// Takes a group's row in, or away.
    pub(in crate::partition) fn put_group(&mut self, number: GroupNumber, row: Option<Box<Group>>) {
        let group = self.groups.index(number);
        let state = row.as_ref().map(|row| row.state);
        // The kinds of templates are kept in mind, so that there is room for them at the group's end.
        for template in row.iter().flat_map(|row| row.templates()) {
            let kind = self.kinds.index(&template.kind);
            self.kinds.join(kind);
        }
        let name = row.as_ref().or(self.groups.slot(group).row.as_ref()).map(|row| Arc::clone(&row.name));
        let was_known = name.as_ref().is_some_and(|name| self.has_group(name));
        let before = self.groups.set_row(group, row);
        let kept_all = before.as_ref().is_some_and(|before| before.keeps_all);
        if let Some(before) = before {
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
        self.set_standing(group, state, kept_all);
        self.groups.refresh(group);
    }

    /// `kept_all` is as the group's row said before.
    fn set_standing(&mut self, group: GroupIndex, state: Option<GroupState>, kept_all: bool) {
        let (waiting, others) = standings(state);
        let before = self.lanes.standing_of(group);
        if before == waiting {
            return;
        }
        self.lanes.set_standing(group, waiting);
        self.schedule.set_standing(group, others);
        self.suspended.set_standing(group, others);
        self.ages.all_touched(self.lanes.lanes_of(group).map(|(lane, _)| lane));
        self.shift_kept(group, (before, kept_all), waiting);
        self.shift_priorities(group, before, waiting);
        self.counts = self.tally();
    }

    /// Members that go with their group are kept if they have something to show, or the group keeps all of them.
    fn shift_kept(&mut self, group: GroupIndex, (before, kept_all): (Standing, bool), after: Standing) {
        let slot = self.groups.slot(group);
        if before == Standing::Gone {
            for (of, count) in slot.kept_with_group(kept_all) {
                take_off(&mut self.kept_of_cancelled, *of, *count);
            }
        }
        if after == Standing::Gone {
            for (of, count) in slot.kept_with_group(slot.keeps_all()) {
                *self.kept_of_cancelled.entry(*of).or_default() += count;
            }
        }
    }

    fn shift_priorities(&mut self, group: GroupIndex, before: Standing, after: Standing) {
        for (of, count) in &self.groups.slot(group).members.priorities {
            if before == Standing::Open {
                take_off(&mut self.priorities, *of, *count);
            }
            if after == Standing::Open {
                *self.priorities.entry(*of).or_default() += count;
            }
        }
    }

    /// Hides what was cleared. Looks at a few of the groups that lose members, so that they end at once; the sweep meets a
    /// member of every other one.
    pub(in crate::partition) fn put_cleared(&mut self, cleared: Cleared) {
        let touched = self.groups_touched_by(&cleared);
        if self.shows_more_than(&cleared) {
            self.ages.all_touched(self.lanes.lanes().map(|(lane, _)| lane));
        }
        self.lanes.show_from(cleared.waiting_before);
        self.schedule.show_from(cleared.scheduled_before);
        self.deadlines.show_from(cleared.leased_before);
        self.leased_places.show_from(cleared.leased_before);
        self.leased.show_from(cleared.leased_before);
        self.suspended.show_from(cleared.suspended_before);
        self.finders.show_from(cleared.suspended_before);
        self.groups.show_from(&cleared);
        self.ages.show_from(cleared.waiting_before);
        self.cleared = cleared;
        self.counts = self.tally();
        touched.into_iter().for_each(|group| self.groups.refresh(group));
    }

    fn groups_touched_by(&self, cleared: &Cleared) -> BTreeSet<GroupIndex> {
        if self.shows_more_than(cleared) {
            return self.groups.iter().collect();
        }
        let hidden = |(index, which): (&Index, Clearable)| -> Vec<GroupIndex> {
            let eras = self.cleared.before(which)..cleared.before(which);
            index.groups_in(eras).take(GROUPS_AT_ONCE).collect()
        };
        self.clearable_indexes().into_iter().flat_map(hidden).collect()
    }

    /// Whether something can be seen again: only while a log is replayed, which passes through old states.
    fn shows_more_than(&self, cleared: &Cleared) -> bool {
        let earlier = |which| cleared.before(which) < self.cleared.before(which);
        self.clearable_indexes().into_iter().any(|(_, which)| earlier(which))
    }

    /// How many items there are of a state and era, whether or not they are gone.
    pub(in crate::partition) fn in_era(&self, (which, era): (Clearable, u32)) -> u64 {
        match which {
            Clearable::Waiting => self.lanes.len_of(era),
            Clearable::Scheduled => self.schedule.len_of(era),
            Clearable::Leased => self.deadlines.len_of(era),
            Clearable::Suspended => self.suspended.len_of(era),
        }
    }

    fn clearable_indexes(&self) -> [(&Index, Clearable); 4] {
        [
            (&self.lanes, Clearable::Waiting),
            (&self.schedule, Clearable::Scheduled),
            (&self.deadlines, Clearable::Leased),
            (&self.suspended, Clearable::Suspended),
        ]
    }

    /// Whether what counts there belongs to a group that was cancelled, and goes with it.
    pub(in crate::partition) fn goes_with_cancelled(&self, group: GroupIndex, which: Clearable) -> bool {
        goes_with_group(which) && self.lanes.standing_of(group) == Standing::Gone
    }

    /// Whether an item was cleared, or cancelled with its group.
    pub(in crate::partition) fn is_gone(&self, entry: &Entry) -> bool {
        let standing = match &entry.state {
            State::Waiting { .. } => self.lanes.standing(entry.lane()),
            State::Scheduled { .. } => self.schedule.standing(entry.lane()),
            State::Leased(_) => self.deadlines.standing(entry.lane()),
            State::Suspended(_) => self.suspended.standing(entry.lane()),
            State::Final(_) => return false,
        };
        standing == Standing::Gone
    }

    /// How an item went that is gone: what came first counts.
    pub(in crate::partition) fn gone(&self, item: &Item, entry: &Entry) -> Gone {
        let cleared = self.cleared.cleared_at(item).map(|at| Gone {
            at,
            keeps_payload: Clearable::of(&item.state)
                .is_some_and(|which| !self.cleared.drops_payload.contains(&(which, item.era))),
        });
        let with_group = match &entry.state {
            State::Waiting { .. } | State::Scheduled { .. } | State::Suspended(_) => {
                entry.group.and_then(|group| self.groups.slot(group).cancelled())
            }
            State::Leased(_) | State::Final(_) => None,
        };
        let went = [cleared, with_group].into_iter().flatten().min_by_key(|gone| gone.at);
        went.unwrap_or(Gone { at: item.created_at, keeps_payload: true })
    }

    /// Whether a member that went with its group, and that the sweep has not come by at yet, was to be kept by another rule
    /// than the one that counts now. Costs as much as there are lanes of such members.
    pub(in crate::partition) fn has_gone_by_another_rule(&self, keeps_all: bool) -> bool {
        let differs = |lane: Lane| {
            lane.group.is_some_and(|group| {
                self.lanes.standing_of(group) == Standing::Gone
                    && self.groups.slot(group).keeps_all() != keeps_all
            })
        };
        [&self.lanes, &self.schedule, &self.suspended].into_iter().any(|index| index.gone().any(differs))
    }

    pub(in crate::partition) fn is_held(&self, entry: &Entry) -> bool {
        let shut = || entry.group.is_some_and(|group| self.lanes.standing_of(group) == Standing::Held);
        matches!(entry.state, State::Waiting { .. }) && shut()
    }

    /// Whether the worker is asked to stop: about this item, or about all members of its group.
    pub(in crate::partition) fn cancel_requested(&self, entry: &Entry, lease: &Lease) -> bool {
        let with_group = || entry.group.is_some_and(|group| self.lanes.standing_of(group) == Standing::Gone);
        lease.cancel_requested || with_group()
    }

    /// What an item is to its group, if it has one.
    pub fn member(&self, item: &Item) -> Option<Member> {
        self.member_of(self.items.get(&item.number)?)
    }

    pub(in crate::partition) fn member_of(&self, entry: &Entry) -> Option<Member> {
        let group = self.group_name(entry.group?)?;
        Some(Member { group, held: !self.is_gone(entry) && self.is_held(entry) })
    }

    pub(in crate::partition) fn group_name(&self, group: GroupIndex) -> Option<Arc<str>> {
        self.groups.slot(group).row.as_ref().map(|row| row.name.clone())
    }
}
