//! Items in an order, kept apart by group, kind and era, with the first of every open lane at hand.
//!
//! A lane of an era before `visible_from` was cleared, and one of a group that was cancelled is gone as well; one of a
//! group that is not started is held. Such lanes are not among the heads, whatever they hold: so a clear costs as much
//! as there are lanes, the start or cancel of a group as much as that has, and rows may arrive in any order.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::GroupIndex;
use super::kinds::KindIndex;
use crate::id::ItemNumber;
use crate::sorted::SortedMap;

/// What an index is ordered by, and the item. The number makes it unique.
pub(super) type Key = (u64, ItemNumber);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) group: Option<GroupIndex>,
    pub(super) kind: KindIndex,
    pub(super) era: u32,
}

/// Whether the items of a lane can be seen, and had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Open,
    Held,
    Gone,
}

#[derive(Default)]
pub(super) struct Index {
    visible_from: u32,
    /// Of groups whose lanes are not open.
    shut: BTreeMap<GroupIndex, Standing>,
    /// None is empty.
    lanes: BTreeMap<Lane, SortedMap<Key, ()>>,
    /// The first key of every open lane.
    heads: BTreeSet<(Key, Lane)>,
    /// The same, kind by kind.
    heads_by_kind: BTreeSet<(KindIndex, Key, Lane)>,
    gone: BTreeSet<Lane>,
}

impl Index {
    pub(super) fn insert(&mut self, lane: Lane, key: Key) {
        let keys = self.lanes.entry(lane).or_default();
        let before = keys.first().map(|(first, ())| first);
        keys.insert(key, ());
        if before.is_none_or(|first| key < first) {
            self.head_moved(lane, before, Some(key));
        }
    }

    pub(super) fn remove(&mut self, lane: Lane, key: Key) {
        let keys = self.lanes.get_mut(&lane).expect("an indexed item has a lane");
        let before = keys.first().map(|(first, ())| first);
        keys.remove(&key);
        if before == Some(key) {
            let after = keys.first().map(|(first, ())| first);
            self.head_moved(lane, before, after);
        }
    }

    fn head_moved(&mut self, lane: Lane, before: Option<Key>, after: Option<Key>) {
        if let Some(before) = before {
            self.unfile(lane, before);
        }
        match after {
            Some(after) => self.file(lane, after),
            None => {
                self.lanes.remove(&lane);
            }
        }
    }

    fn file(&mut self, lane: Lane, first: Key) {
        match self.standing(lane) {
            Standing::Open => {
                self.heads.insert((first, lane));
                self.heads_by_kind.insert((lane.kind, first, lane));
            }
            Standing::Held => {}
            Standing::Gone => {
                self.gone.insert(lane);
            }
        }
    }

    fn unfile(&mut self, lane: Lane, first: Key) {
        match self.standing(lane) {
            Standing::Open => {
                self.heads.remove(&(first, lane));
                self.heads_by_kind.remove(&(lane.kind, first, lane));
            }
            Standing::Held => {}
            Standing::Gone => {
                self.gone.remove(&lane);
            }
        }
    }

    pub(super) fn standing(&self, lane: Lane) -> Standing {
        if lane.era < self.visible_from {
            return Standing::Gone;
        }
        lane.group.map_or(Standing::Open, |group| self.standing_of(group))
    }

    /// Also backwards: a log that is replayed passes through old states.
    pub(super) fn show_from(&mut self, era: u32) {
        if era == self.visible_from {
            return;
        }
        self.visible_from = era;
        self.heads.clear();
        self.heads_by_kind.clear();
        self.gone.clear();
        let lanes: Vec<_> = firsts(&self.lanes).collect();
        for (lane, first) in lanes {
            self.file(lane, first);
        }
    }

    /// Of a group's lanes, but for those that were cleared.
    pub(super) fn standing_of(&self, group: GroupIndex) -> Standing {
        self.shut.get(&group).copied().unwrap_or(Standing::Open)
    }

    /// Opens or shuts the lanes of a group.
    pub(super) fn set_standing(&mut self, group: GroupIndex, standing: Standing) {
        let lanes: Vec<_> = firsts(self.range_of(group)).collect();
        for (lane, first) in &lanes {
            self.unfile(*lane, *first);
        }
        match standing {
            Standing::Open => self.shut.remove(&group),
            Standing::Held | Standing::Gone => self.shut.insert(group, standing),
        };
        for (lane, first) in lanes {
            self.file(lane, first);
        }
    }

    fn range_of(&self, group: GroupIndex) -> impl Iterator<Item = (&Lane, &SortedMap<Key, ()>)> {
        let group = Some(group);
        let first = Lane { group, kind: KindIndex::MIN, era: 0 };
        let last = Lane { group, kind: KindIndex::MAX, era: u32::MAX };
        self.lanes.range(first..=last)
    }

    /// The first of all that can be had.
    pub(super) fn first(&self) -> Option<(Key, Lane)> {
        self.heads.first().copied()
    }

    /// The first of a kind that can be had.
    pub(super) fn first_of_kind(&self, kind: KindIndex) -> Option<(Key, Lane)> {
        let least = Lane { group: None, kind: KindIndex::MIN, era: 0 };
        let from = (kind, (0, ItemNumber(0)), least);
        let (of, key, lane) = *self.heads_by_kind.range(from..).next()?;
        (of == kind).then_some((key, lane))
    }

    pub(super) fn first_of(&self, lane: Lane) -> Option<Key> {
        self.lanes.get(&lane)?.first().map(|(first, ())| first)
    }

    pub(super) fn first_gone(&self) -> Option<Key> {
        self.first_of(*self.gone.first()?)
    }

    pub(super) fn open_lane(&self, lane: Lane) -> Option<&SortedMap<Key, ()>> {
        self.lanes.get(&lane).filter(|_| self.standing(lane) == Standing::Open)
    }

    pub(super) fn open(&self) -> impl Iterator<Item = (Lane, &SortedMap<Key, ()>)> {
        self.lanes().filter(|(lane, _)| self.standing(*lane) == Standing::Open)
    }

    /// Those whose items are to be seen.
    pub(super) fn shown(&self) -> impl Iterator<Item = (Lane, &SortedMap<Key, ()>)> {
        self.lanes().filter(|(lane, _)| self.standing(*lane) != Standing::Gone)
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = (Lane, &SortedMap<Key, ()>)> {
        self.lanes.iter().map(|(&lane, keys)| (lane, keys))
    }

    pub(super) fn lanes_of(&self, group: GroupIndex) -> impl Iterator<Item = (Lane, &SortedMap<Key, ()>)> {
        self.range_of(group).map(|(&lane, keys)| (lane, keys))
    }

    pub(super) fn heads(&self) -> impl Iterator<Item = (Key, Lane)> {
        self.heads.iter().copied()
    }

    pub(super) fn gone(&self) -> impl Iterator<Item = Lane> {
        self.gone.iter().copied()
    }

    pub(super) fn contains(&self, lane: Lane, key: Key) -> bool {
        self.lanes.get(&lane).is_some_and(|keys| keys.contains_key(&key))
    }

    pub(super) fn keys_of(&self, lane: Lane) -> impl Iterator<Item = Key> {
        self.lanes.get(&lane).into_iter().flat_map(|keys| keys.iter().map(|(key, ())| key))
    }

    pub(super) fn total(&self) -> usize {
        self.lanes.values().map(SortedMap::len).sum()
    }

    /// Whether heads and lanes that are gone are what the lanes say.
    pub(super) fn audit(&self) -> Result<(), String> {
        let mut fresh = Self { visible_from: self.visible_from, shut: self.shut.clone(), ..Self::default() };
        for (&lane, keys) in &self.lanes {
            let (first, ()) = keys.first().ok_or_else(|| format!("{lane:?} is empty"))?;
            fresh.file(lane, first);
        }
        if fresh.heads != self.heads || fresh.heads_by_kind != self.heads_by_kind {
            return Err(format!("heads are {:?} and should be {:?}", self.heads, fresh.heads));
        }
        if fresh.gone != self.gone {
            return Err(format!("gone are {:?} and should be {:?}", self.gone, fresh.gone));
        }
        Ok(())
    }
}

fn firsts<'a>(
    lanes: impl IntoIterator<Item = (&'a Lane, &'a SortedMap<Key, ()>)>,
) -> impl Iterator<Item = (Lane, Key)> {
    lanes.into_iter().filter_map(|(&lane, keys)| keys.first().map(|(first, ())| (lane, first)))
}
