//! Items in an order, kept apart by group, kind and era, with the first of every open lane at hand.
//!
//! A lane of an era before `visible_from` was cleared, and one of a group that was cancelled is gone as well; one of a
//! group that is not started is held. Such lanes are not among the heads, whatever they hold. Everything derived from lanes
//! is kept era by era: so a clear costs the same whatever there is, the start or cancel of a group as much as it has lanes,
//! and rows may arrive in any order. But for eras that the sweep has still to empty, there is one.
//!
//! A kind that is stopped keeps its heads, and only what stands for it among the kinds is taken out: so to stop one, or
//! all, costs the same whatever there is of them. To let all go on costs as much as there are kinds.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::containers::SortedMap;
use crate::effort::{self, Looked};
use crate::id::ItemNumber;
use crate::mutant::{self, Mutant};
use crate::partition::groups::index::GroupIndex;
use crate::partition::index::era::{Era, Kinds, Tally};
use crate::partition::index::kinds::KindIndex;

/// What an index is ordered by, and the item. The number makes it unique.
pub(in crate::partition) type Key = (u64, ItemNumber);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::partition) struct Lane {
    pub(in crate::partition) group: Option<GroupIndex>,
    pub(in crate::partition) kind: KindIndex,
    pub(in crate::partition) era: u32,
}

/// Whether the items of a lane can be seen, and had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::partition) enum Standing {
    Open,
    Held,
    Gone,
}

#[derive(Default)]
pub(in crate::partition) struct Index {
    visible_from: u32,
    /// Of groups whose lanes are not open.
    shut: BTreeMap<GroupIndex, Standing>,
    /// No era that was cleared is empty.
    eras: BTreeMap<u32, Era>,
    kinds: Kinds,
    all_stopped: bool,
}

impl Index {
    pub(in crate::partition) fn insert(&mut self, lane: Lane, key: Key) {
        let standing = self.standing_by_group(lane);
        self.eras.entry(lane.era).or_default().insert(lane, key, standing, &mut self.kinds);
    }

    pub(in crate::partition) fn remove(&mut self, lane: Lane, key: Key) {
        let standing = self.standing_by_group(lane);
        let era = self.eras.get_mut(&lane.era).expect("an indexed item has a lane in its era");
        era.remove(lane, key, standing, &mut self.kinds);
        if lane.era < self.visible_from && era.is_empty() {
            self.eras.remove(&lane.era);
        }
    }

    /// Stops a kind, or lets it go on.
    pub(in crate::partition) fn set_stopped(&mut self, kind: KindIndex, stopped: bool) {
        let changed =
            if stopped { self.kinds.stopped.insert(kind) } else { self.kinds.stopped.remove(&kind) };
        if !changed {
            return;
        }
        self.eras.values_mut().for_each(|era| era.set_stopped(kind, stopped));
        self.kinds.moved.add(kind);
    }

    /// Stops every kind, or lets those go on that are not stopped themselves.
    pub(in crate::partition) fn set_all_stopped(&mut self, stopped: bool) {
        self.all_stopped = stopped;
        if !stopped {
            let firsts = self.eras.values().flat_map(Era::firsts);
            firsts.for_each(|(_, kind)| self.kinds.moved.add(kind));
        }
    }

    /// The kinds whose first key to be had may be another one than when this was last asked. Only kinds that have one.
    pub(in crate::partition) fn take_moved(&mut self) -> Vec<KindIndex> {
        let mut moved = self.kinds.moved.take();
        moved.retain(|kind| self.first_of_kind(*kind).is_some());
        moved
    }

    pub(in crate::partition) fn all_stopped(&self) -> bool {
        self.all_stopped
    }

    fn holds_all(&self) -> bool {
        self.all_stopped && !mutant::active(Mutant::IgnoreRule)
    }

    /// The kinds that are stopped themselves.
    pub(in crate::partition) fn stopped(&self) -> impl Iterator<Item = KindIndex> {
        self.kinds.stopped.iter().copied()
    }

    pub(in crate::partition) fn is_stopped(&self, kind: KindIndex) -> bool {
        self.kinds.stopped.contains(&kind)
    }

    /// Whether somebody can have what stands there.
    pub(in crate::partition) fn can_be_had(&self, lane: Lane) -> bool {
        let stopped = || self.holds_all() || self.is_stopped(lane.kind);
        self.standing(lane) == Standing::Open && !stopped()
    }

    /// How many keys the open lanes of a kind have.
    pub(in crate::partition) fn open_count(&self, kind: KindIndex) -> u64 {
        self.visible().map(|era| era.tally(kind).open).sum()
    }

    /// How many keys each kind has in lanes that are not gone; of kinds that have any.
    pub(in crate::partition) fn tallies(&self) -> impl Iterator<Item = (KindIndex, Tally)> {
        self.visible().flat_map(Era::tallies)
    }

    /// How many keys an era has, in whatever lanes.
    pub(in crate::partition) fn len_of(&self, era: u32) -> u64 {
        self.eras.get(&era).map_or(0, Era::len)
    }

    /// How many keys there are in lanes that are not gone.
    pub(in crate::partition) fn tally(&self) -> Tally {
        let mut total = Tally::default();
        self.visible().for_each(|era| total += era.total());
        total
    }

    pub(in crate::partition) fn standing(&self, lane: Lane) -> Standing {
        if lane.era < self.visible_from { Standing::Gone } else { self.standing_by_group(lane) }
    }

    fn standing_by_group(&self, lane: Lane) -> Standing {
        lane.group.map_or(Standing::Open, |group| self.standing_of(group))
    }

    /// Also backwards: a log that is replayed passes through old states.
    pub(in crate::partition) fn show_from(&mut self, era: u32) {
        self.visible_from = era;
        self.eras.retain(|of, lanes| *of >= era || !lanes.is_empty());
    }

    /// The groups that have lanes in some of the eras. One with lanes in several comes several times.
    pub(in crate::partition) fn groups_in(&self, eras: Range<u32>) -> impl Iterator<Item = GroupIndex> {
        // Where the end is before the start, none.
        let end = eras.end.max(eras.start);
        self.eras.range(eras.start..end).flat_map(|(_, era)| era.groups())
    }

    /// Standing of a group's lanes, without the lanes that were cleared.
    pub(in crate::partition) fn standing_of(&self, group: GroupIndex) -> Standing {
        self.shut.get(&group).copied().unwrap_or(Standing::Open)
    }

    /// Opens or shuts the lanes of a group.
    pub(in crate::partition) fn set_standing(&mut self, group: GroupIndex, standing: Standing) {
        let before = self.standing_of(group);
        match standing {
            Standing::Open => self.shut.remove(&group),
            Standing::Held | Standing::Gone => self.shut.insert(group, standing),
        };
        for era in self.eras.values_mut() {
            era.set_standing(group, before, standing, &mut self.kinds);
        }
    }

    fn visible(&self) -> impl Iterator<Item = &Era> {
        self.eras.range(self.visible_from..).map(|(_, era)| era)
    }

    /// The first of all that can be had.
    pub(in crate::partition) fn first(&self) -> Option<Key> {
        if self.holds_all() { None } else { self.visible().filter_map(Era::first).min() }
    }

    /// The first of a kind that can be had.
    pub(in crate::partition) fn first_of_kind(&self, kind: KindIndex) -> Option<Key> {
        if self.holds_all() || self.is_stopped(kind) {
            return None;
        }
        self.visible().filter_map(|era| era.head_of(kind)).min()
    }

    pub(in crate::partition) fn first_of(&self, lane: Lane) -> Option<Key> {
        self.lane(lane)?.first().map(|(first, ())| first)
    }

    pub(in crate::partition) fn first_gone(&self) -> Option<Key> {
        let cleared = || self.eras.range(..self.visible_from).find_map(|(_, era)| era.lanes().next());
        let cancelled = || self.visible().find_map(Era::first_gone);
        self.first_of(cleared().map(|(lane, _)| lane).or_else(cancelled)?)
    }

    fn lane(&self, lane: Lane) -> Option<&SortedMap<Key, ()>> {
        self.eras.get(&lane.era)?.lane(lane)
    }

    pub(in crate::partition) fn open_lane(&self, lane: Lane) -> Option<&SortedMap<Key, ()>> {
        self.lane(lane).filter(|_| self.standing(lane) == Standing::Open)
    }

    pub(in crate::partition) fn open(&self) -> impl Iterator<Item = (Lane, &SortedMap<Key, ()>)> {
        self.lanes().filter(|(lane, _)| self.standing(*lane) == Standing::Open)
    }

    /// The open lanes of a kind whose first key is not above one.
    pub(in crate::partition) fn open_up_to(
        &self,
        kind: KindIndex,
        key: Key,
    ) -> impl Iterator<Item = &SortedMap<Key, ()>> {
        let heads =
            self.visible().flat_map(move |era| era.heads_of(kind).take_while(move |(head, _)| *head <= key));
        heads.filter_map(|(_, lane)| self.lane(lane)).inspect(|_| effort::look(Looked::Indexed))
    }

    /// The lanes of items without a group that can be seen: as many as there are kinds.
    pub(in crate::partition) fn without_group(&self) -> impl Iterator<Item = &SortedMap<Key, ()>> {
        self.visible().flat_map(Era::lanes_without_group)
    }

    /// The members of groups that can be seen, from a key on: one order for each era.
    pub(in crate::partition) fn members_from(
        &self,
        from: Key,
    ) -> impl Iterator<Item = impl Iterator<Item = Key>> {
        let can_be_seen = |(_, group): &(Key, GroupIndex)| self.standing_of(*group) != Standing::Gone;
        self.visible().map(move |era| era.members_from(from).filter(can_be_seen).map(|(key, _)| key))
    }

    pub(in crate::partition) fn lanes(&self) -> impl Iterator<Item = (Lane, &SortedMap<Key, ()>)> {
        self.eras.values().flat_map(Era::lanes)
    }

    pub(in crate::partition) fn lanes_of(
        &self,
        group: GroupIndex,
    ) -> impl Iterator<Item = (Lane, &SortedMap<Key, ()>)> {
        self.eras.values().flat_map(move |era| era.lanes_of(group))
    }

    pub(in crate::partition) fn heads(&self) -> impl Iterator<Item = (Key, Lane)> {
        self.visible().flat_map(Era::heads)
    }

    /// The first of every kind that is not stopped, in their order within an era.
    pub(in crate::partition) fn firsts(&self) -> impl Iterator<Item = Key> {
        self.visible().flat_map(Era::firsts).map(|(first, _)| first)
    }

    /// Lanes of groups that were cancelled, and were not cleared.
    pub(in crate::partition) fn gone(&self) -> impl Iterator<Item = Lane> {
        self.visible().flat_map(Era::gone)
    }

    pub(in crate::partition) fn contains(&self, lane: Lane, key: Key) -> bool {
        self.lane(lane).is_some_and(|keys| keys.contains_key(&key))
    }

    pub(in crate::partition) fn keys_of(&self, lane: Lane) -> impl Iterator<Item = Key> {
        self.lane(lane).into_iter().flat_map(|keys| keys.iter().map(|(key, ())| key))
    }

    pub(in crate::partition) fn total(&self) -> usize {
        self.lanes().map(|(_, keys)| keys.len()).sum()
    }

    /// Whether what is derived is what the lanes say.
    pub(in crate::partition) fn audit(&self) -> Result<(), String> {
        for (number, era) in &self.eras {
            if *number < self.visible_from && era.is_empty() {
                return Err(format!("era {number} was cleared and is empty"));
            }
            era.audit(|lane| self.standing_by_group(lane), &self.kinds.stopped)?;
        }
        Ok(())
    }
}
