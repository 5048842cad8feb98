//! The groups of the partition: each row once, items hold its index. Everything here is derived from rows, those of groups
//! and those of items, in whatever order they come.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::effort::{self, Looked};
use crate::group::{Group, GroupState};
use crate::id::{GroupNumber, ItemNumber};
use crate::item::State;
use crate::mutant::{self, Mutant};
use crate::partition::entry::Entry;
use crate::partition::index::counts::{
    Counts, as_leased, as_scheduled, as_suspended, as_waiting, decrement, increment,
};
use crate::partition::index::era::Tally;
use crate::partition::index::lanes::Standing;
use crate::partition::index::standing::{Gone, goes_with_group, standings};
use crate::partition::index::traces::Trace;
use crate::row::{Clearable, Cleared};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::partition) struct GroupIndex(NonZeroU32);

impl GroupIndex {
    pub(in crate::partition) const MIN: Self = Self(NonZeroU32::MIN);
}

#[derive(Default)]
pub(in crate::partition) struct Groups {
    slots: Vec<Slot>,
    free: Vec<GroupIndex>,
    by_number: BTreeMap<GroupNumber, GroupIndex>,
    /// Those that are not deleted.
    by_name: BTreeMap<Arc<str>, GroupIndex>,
    /// Every row by its name, deleted ones too: their members still show it.
    named: BTreeSet<(Arc<str>, GroupNumber)>,
    /// Those of `by_name` that are done or aborted.
    over: BTreeSet<(Timestamp, GroupNumber)>,
    /// Those that are to be ended, or whose row is not needed any more.
    due: BTreeSet<GroupNumber>,
    visible: Visible,
}

/// The first era of each state that was not cleared.
#[derive(Default)]
struct Visible {
    waiting: u32,
    scheduled: u32,
    leased: u32,
    suspended: u32,
}

impl Visible {
    fn of(cleared: &Cleared) -> Self {
        Self {
            waiting: cleared.before(Clearable::Waiting),
            scheduled: cleared.before(Clearable::Scheduled),
            leased: cleared.before(Clearable::Leased),
            suspended: cleared.before(Clearable::Suspended),
        }
    }

    fn shows(&self, (which, era): &(Clearable, u32)) -> bool {
        let from = match which {
            Clearable::Waiting => self.waiting,
            Clearable::Scheduled => self.scheduled,
            Clearable::Leased => self.leased,
            Clearable::Suspended => self.suspended,
        };
        *era >= from
    }
}

/// A group and what is known of its members.
#[derive(Debug)]
pub(in crate::partition) struct Slot {
    pub(in crate::partition) number: GroupNumber,
    /// Unset until it comes, if it ever does: a damaged log may lack it, and its members are then as others are.
    pub(in crate::partition) row: Option<Box<Group>>,
    pub(in crate::partition) members: Members,
}

#[derive(Debug, Default, PartialEq)]
pub(in crate::partition) struct Members {
    /// Items that name the group. With neither them nor a row the slot is free.
    items: u64,
    /// Those that have not ended, by their rows: the ones that were taken away all at once included.
    unended: BTreeMap<(Clearable, u32), u64>,
    /// Those that wait or are held, by era and priority.
    pub(in crate::partition) priorities: BTreeMap<(u32, u8), u64>,
    /// As those of the partition.
    pub(in crate::partition) traces: BTreeMap<(Clearable, u32), u64>,
}

impl Members {
    /// For a full count.
    pub(in crate::partition) fn add(&mut self, entry: &Entry) {
        self.items += 1;
        if let Some(which) = Clearable::of(&entry.state) {
            increment(&mut self.unended, (which, entry.era));
        }
        if matches!(entry.state, State::Waiting { .. }) {
            increment(&mut self.priorities, (entry.era, entry.priority));
        }
        if let Some(trace) = Trace::of(entry).filter(|trace| trace.has_something_to_show) {
            increment(&mut self.traces, trace.of);
        }
    }
}

impl Slot {
    fn new(number: GroupNumber) -> Self {
        Self { number, row: None, members: Members::default() }
    }

    pub(in crate::partition) fn state(&self) -> Option<GroupState> {
        self.row.as_ref().map(|row| row.state)
    }

    /// Whether the group was cancelled while its queue kept all that ended.
    pub(in crate::partition) fn keeps_all(&self) -> bool {
        self.row.as_ref().is_some_and(|row| row.keeps_all)
    }

    /// How the members went that nobody worked on, if the group was cancelled.
    pub(in crate::partition) fn cancelled(&self) -> Option<Gone> {
        let row = self.row.as_ref()?;
        Some(Gone { at: row.state.cancelled_at()?, keeps_payload: !row.drops_payload })
    }

    /// The members that are kept if they go with their group, by state and era.
    pub(in crate::partition) fn kept_with_group(
        &self,
        keeps_all: bool,
    ) -> impl Iterator<Item = (&(Clearable, u32), &u64)> {
        let kept = if keeps_all { &self.members.unended } else { &self.members.traces };
        kept.iter().filter(|((which, _), _)| goes_with_group(*which))
    }

    /// Whether an item names it.
    pub(in crate::partition) fn is_named(&self) -> bool {
        self.members.items > 0
    }

    /// Members that can be seen. There are few eras, however many members.
    fn live(&self, visible: &Visible) -> Counts {
        let (waiting, others) = standings(self.state());
        let mut live = Counts::default();
        for ((which, _), count) in self.members.unended.iter().filter(|(of, _)| visible.shows(of)) {
            live += match which {
                Clearable::Waiting => as_waiting(Tally::of(waiting, *count)),
                Clearable::Scheduled => as_scheduled(Tally::of(others, *count)),
                Clearable::Leased => as_leased(Tally::of(Standing::Open, *count)),
                Clearable::Suspended => as_suspended(Tally::of(others, *count)),
            };
        }
        live
    }

    fn is_ending(&self, visible: &Visible) -> bool {
        let runs = match self.state() {
            Some(GroupState::Started | GroupState::Cancelled { .. }) => true,
            Some(GroupState::Open | GroupState::Done { .. } | GroupState::Aborted { .. }) | None => false,
        };
        let forgets_leased =
            mutant::active(Mutant::AbortEarly) && matches!(self.state(), Some(GroupState::Cancelled { .. }));
        runs && (forgets_leased || self.live(visible).live() == 0)
    }

    /// Whether nobody needs its row any more.
    pub(in crate::partition) fn is_forgotten(&self) -> bool {
        !self.is_named() && self.row.as_ref().is_some_and(|row| row.deleted)
    }
}

impl Groups {
    /// Those that are not deleted. There are no more of the others than items that name them.
    pub(in crate::partition) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Members that can be seen.
    pub(in crate::partition) fn live(&self, group: GroupIndex) -> Counts {
        self.slot(group).live(&self.visible)
    }

    /// Members that were taken away all at once and that the sweep has not come by at yet.
    pub(in crate::partition) fn unswept(&self, group: GroupIndex) -> u64 {
        let unended: u64 = self.slot(group).members.unended.values().sum();
        unended - self.live(group).live()
    }

    /// Whether the group waits for nothing but its end.
    pub(in crate::partition) fn is_ending(&self, group: GroupIndex) -> bool {
        self.slot(group).is_ending(&self.visible)
    }

    /// Whether the group is to be ended, or its row is not needed any more.
    pub(in crate::partition) fn should_be_due(&self, group: GroupIndex) -> bool {
        self.is_ending(group) || self.slot(group).is_forgotten()
    }

    pub(in crate::partition) fn show_from(&mut self, cleared: &Cleared) {
        self.visible = Visible::of(cleared);
    }

    /// Groups that are known to end next, or whose row is not needed any more.
    pub(in crate::partition) fn due(&self) -> impl Iterator<Item = GroupIndex> {
        self.due.iter().map(|number| self.by_number[number])
    }

    /// Those that something will still come of.
    pub(in crate::partition) fn not_over(&self) -> u64 {
        (self.by_name.len() - self.over.len()) as u64
    }

    pub(in crate::partition) fn slot(&self, group: GroupIndex) -> &Slot {
        &self.slots[group.0.get() as usize - 1]
    }

    pub(in crate::partition) fn slot_mut(&mut self, group: GroupIndex) -> &mut Slot {
        &mut self.slots[group.0.get() as usize - 1]
    }

    pub(in crate::partition) fn find(&self, name: &str) -> Option<(GroupIndex, &Group)> {
        let group = *self.by_name.get(name)?;
        self.slot(group).row.as_deref().map(|row| (group, row))
    }

    /// All of a name that may have members in this span, deleted ones too, by number. Groups and items share one sequence of
    /// numbers, and a group has its name to itself until it is deleted and takes no more members: those of one group come before
    /// those of the next group of its name.
    pub(in crate::partition) fn of_name(
        &self,
        name: &Arc<str>,
        members: RangeInclusive<ItemNumber>,
    ) -> impl DoubleEndedIterator<Item = GroupIndex> {
        let at = |number| (Arc::clone(name), GroupNumber(number));
        let (ItemNumber(first), ItemNumber(last)) = members.into_inner();
        let before = self.named.range(at(0)..=at(first)).next_back();
        let named = self.named.range(before.cloned().unwrap_or_else(|| at(first))..=at(last));
        let named = named.inspect(|_| effort::look(Looked::Indexed));
        named.map(|(_, number)| self.by_number[number])
    }

    /// Every row by its name. For a full count.
    pub(in crate::partition) fn named(&self) -> &BTreeSet<(Arc<str>, GroupNumber)> {
        &self.named
    }

    /// By name, from the first one after `pivot` on.
    pub(in crate::partition) fn named_after(
        &self,
        pivot: Option<&str>,
    ) -> impl Iterator<Item = (&Arc<str>, GroupIndex)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = pivot.map_or(Unbounded, Excluded);
        self.by_name.range::<str, _>((from, Unbounded)).map(|(name, group)| (name, *group))
    }

    pub(in crate::partition) fn iter(&self) -> impl Iterator<Item = GroupIndex> {
        self.by_number.values().copied().inspect(|_| effort::look(Looked::Indexed))
    }

    /// Every row, by number.
    pub(in crate::partition) fn rows(&self) -> impl Iterator<Item = &Group> {
        self.iter().filter_map(|group| self.slot(group).row.as_deref())
    }

    /// The group that has been over for longest.
    pub(in crate::partition) fn first_over(&self) -> Option<(Timestamp, GroupIndex)> {
        self.over.first().map(|(since, number)| (*since, self.by_number[number]))
    }

    /// Those that are to be ended, or whose row is not needed any more.
    pub(in crate::partition) fn first_due(&self) -> Option<GroupIndex> {
        self.due.first().map(|number| self.by_number[number])
    }

    /// The index for a number, new or not. It is kept by a row or an item, one of which must follow.
    pub(in crate::partition) fn index(&mut self, number: GroupNumber) -> GroupIndex {
        if let Some(group) = self.by_number.get(&number) {
            return *group;
        }
        let slot = Slot::new(number);
        let group = match self.free.pop() {
            Some(group) => {
                *self.slot_mut(group) = slot;
                group
            }
            None => {
                self.slots.push(slot);
                let index = u32::try_from(self.slots.len()).ok().and_then(NonZeroU32::new);
                GroupIndex(index.expect("groups are bounded far below"))
            }
        };
        self.by_number.insert(number, group);
        group
    }

    /// Gives the row that was there before.
    pub(in crate::partition) fn set_row(
        &mut self,
        group: GroupIndex,
        row: Option<Box<Group>>,
    ) -> Option<Box<Group>> {
        let number = self.slot(group).number;
        let before = std::mem::replace(&mut self.slot_mut(group).row, row);
        if let Some(before) = &before {
            self.named.remove(&(Arc::clone(&before.name), number));
        }
        if let Some(after) = self.slot(group).row.as_deref() {
            let name = Arc::clone(&after.name);
            self.named.insert((name, number));
        }
        if let Some(before) = before.as_deref().filter(|before| !before.deleted) {
            // While rows come in, an earlier group of the name may still look alive.
            if self.by_name.get(&before.name) == Some(&group) {
                self.by_name.remove(&before.name);
            }
            if let Some(since) = before.state.over_since() {
                self.over.remove(&(since, number));
            }
        }
        let after = self.slot(group).row.as_deref().filter(|after| !after.deleted);
        if let Some((name, over_since)) = after.map(|after| (after.name.clone(), after.state.over_since())) {
            let named = *self.by_name.entry(name.clone()).or_insert(group);
            if self.slot(named).number < number {
                self.by_name.insert(name, group);
            }
            self.over.extend(over_since.map(|since| (since, number)));
        }
        before
    }

    pub(in crate::partition) fn join(&mut self, group: GroupIndex) {
        self.slot_mut(group).members.items += 1;
        self.refresh(group);
    }

    pub(in crate::partition) fn part(&mut self, group: GroupIndex) {
        self.slot_mut(group).members.items -= 1;
        self.refresh(group);
    }

    /// A member by its row not ended, in that state and era.
    pub(in crate::partition) fn enter(&mut self, group: GroupIndex, of: (Clearable, u32)) {
        increment(&mut self.slot_mut(group).members.unended, of);
        self.refresh(group);
    }

    pub(in crate::partition) fn leave(&mut self, group: GroupIndex, of: (Clearable, u32)) {
        decrement(&mut self.slot_mut(group).members.unended, of);
        self.refresh(group);
    }

    pub(in crate::partition) fn enter_priority(&mut self, group: GroupIndex, of: (u32, u8)) {
        increment(&mut self.slot_mut(group).members.priorities, of);
    }

    pub(in crate::partition) fn leave_priority(&mut self, group: GroupIndex, of: (u32, u8)) {
        decrement(&mut self.slot_mut(group).members.priorities, of);
    }

    pub(in crate::partition) fn is_due(&self, group: GroupIndex) -> bool {
        self.due.contains(&self.slot(group).number)
    }

    /// Looks at a group anew after something changed.
    pub(in crate::partition) fn refresh(&mut self, group: GroupIndex) {
        let slot = self.slot(group);
        let (number, is_free) = (slot.number, slot.row.is_none() && !slot.is_named());
        if self.should_be_due(group) {
            self.due.insert(number);
        } else {
            self.due.remove(&number);
        }
        if is_free {
            self.by_number.remove(&number);
            self.free.push(group);
        }
    }
}
