//! Items in an order, kept apart by group, kind and era, with the first of every open lane at hand.
//!
//! A lane of an era before `visible_from` was cleared, and one of a group that was cancelled is gone as well; one of a
//! group that is not started is held. Such lanes are not among the heads, whatever they hold: so a clear costs as much
//! as there are lanes, the start or cancel of a group as much as that has, and rows may arrive in any order.
//!
//! A kind that is stopped keeps its heads, and only what stands for it among the kinds is taken out: so to stop one, or
//! all, costs the same whatever there is of them.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::GroupIndex;
use super::kinds::KindIndex;
use crate::id::ItemNumber;
use crate::mutant::{self, Mutant};
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
    /// The first key of every open lane, kind by kind.
    heads: BTreeSet<(KindIndex, Key, Lane)>,
    /// The first of them for every kind that is not stopped.
    firsts: BTreeSet<(Key, KindIndex)>,
    stopped: BTreeSet<KindIndex>,
    all_stopped: bool,
    /// Kinds whose first key to be had may be another one since [`Index::take_moved`].
    moved: Moved,
    /// How many keys the open lanes of each kind have.
    open_by_kind: Vec<u64>,
    gone: BTreeSet<Lane>,
}

/// Kinds in the order in which they came, each once.
#[derive(Default)]
struct Moved {
    kinds: Vec<KindIndex>,
    /// By position.
    is_in: Vec<bool>,
}

impl Moved {
    fn add(&mut self, kind: KindIndex) {
        let at = kind.position();
        if at >= self.is_in.len() {
            self.is_in.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.is_in[at], true) {
            self.kinds.push(kind);
        }
    }

    fn take(&mut self) -> Vec<KindIndex> {
        for kind in &self.kinds {
            self.is_in[kind.position()] = false;
        }
        std::mem::take(&mut self.kinds)
    }
}

impl Index {
    pub(super) fn insert(&mut self, lane: Lane, key: Key) {
        let keys = self.lanes.entry(lane).or_default();
        let before = keys.first().map(|(first, ())| first);
        let is_new = keys.insert(key, ()).is_none();
        if is_new && self.standing(lane) == Standing::Open {
            *self.open_of(lane.kind) += 1;
        }
        if before.is_none_or(|first| key < first) {
            self.head_moved(lane, before, Some(key));
        }
    }

    pub(super) fn remove(&mut self, lane: Lane, key: Key) {
        let keys = self.lanes.get_mut(&lane).expect("an indexed item has a lane");
        let before = keys.first().map(|(first, ())| first);
        let was_there = keys.remove(&key).is_some();
        let after = keys.first().map(|(first, ())| first);
        if was_there && self.standing(lane) == Standing::Open {
            *self.open_of(lane.kind) -= 1;
        }
        if before == Some(key) {
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
                let before = self.head_of(lane.kind);
                self.heads.insert((lane.kind, first, lane));
                if before.is_none_or(|head| first < head) {
                    self.first_moved(lane.kind, before, Some(first));
                }
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
                self.heads.remove(&(lane.kind, first, lane));
                let after = self.head_of(lane.kind);
                if after.is_none_or(|head| first < head) {
                    self.first_moved(lane.kind, Some(first), after);
                }
            }
            Standing::Held => {}
            Standing::Gone => {
                self.gone.remove(&lane);
            }
        }
    }

    fn first_moved(&mut self, kind: KindIndex, before: Option<Key>, after: Option<Key>) {
        if self.stopped.contains(&kind) {
            return;
        }
        if let Some(before) = before {
            self.firsts.remove(&(before, kind));
        }
        if let Some(after) = after {
            self.firsts.insert((after, kind));
            self.moved.add(kind);
        }
    }

    /// Stops a kind, or lets it go on.
    pub(super) fn set_stopped(&mut self, kind: KindIndex, stopped: bool) {
        let head = self.head_of(kind).map(|head| (head, kind));
        if stopped && self.stopped.insert(kind) {
            head.map(|head| self.firsts.remove(&head));
        } else if !stopped && self.stopped.remove(&kind) {
            self.firsts.extend(head);
            self.moved.add(kind);
        }
    }

    /// Stops every kind, or lets those go on that are not stopped themselves.
    pub(super) fn set_all_stopped(&mut self, stopped: bool) {
        self.all_stopped = stopped;
        if !stopped {
            self.firsts.iter().for_each(|(_, kind)| self.moved.add(*kind));
        }
    }

    /// The kinds whose first key to be had may be another one than when this was last asked. Only kinds that have one.
    pub(super) fn take_moved(&mut self) -> Vec<KindIndex> {
        let mut moved = self.moved.take();
        moved.retain(|kind| self.first_of_kind(*kind).is_some());
        moved
    }

    pub(super) fn all_stopped(&self) -> bool {
        self.all_stopped
    }

    fn holds_all(&self) -> bool {
        self.all_stopped && !mutant::active(Mutant::IgnoreRule)
    }

    /// The kinds that are stopped themselves.
    pub(super) fn stopped(&self) -> impl Iterator<Item = KindIndex> {
        self.stopped.iter().copied()
    }

    pub(super) fn is_stopped(&self, kind: KindIndex) -> bool {
        self.stopped.contains(&kind)
    }

    /// Whether somebody can have what stands there.
    pub(super) fn can_be_had(&self, lane: Lane) -> bool {
        let stopped = || self.holds_all() || self.is_stopped(lane.kind);
        self.standing(lane) == Standing::Open && !stopped()
    }

    /// How many keys the open lanes of a kind have.
    pub(super) fn open_count(&self, kind: KindIndex) -> u64 {
        self.open_by_kind.get(kind.position()).copied().unwrap_or(0)
    }

    fn open_of(&mut self, kind: KindIndex) -> &mut u64 {
        let at = kind.position();
        if at >= self.open_by_kind.len() {
            self.open_by_kind.resize(at + 1, 0);
        }
        &mut self.open_by_kind[at]
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
        self.firsts.clear();
        self.gone.clear();
        self.open_by_kind.clear();
        let lanes: Vec<_> = firsts(&self.lanes).collect();
        for (lane, first, len) in lanes {
            self.file(lane, first);
            self.count_if_open(lane, len);
        }
    }

    fn count_if_open(&mut self, lane: Lane, len: u64) {
        if self.standing(lane) == Standing::Open {
            *self.open_of(lane.kind) += len;
        }
    }

    /// Of a group's lanes, but for those that were cleared.
    pub(super) fn standing_of(&self, group: GroupIndex) -> Standing {
        self.shut.get(&group).copied().unwrap_or(Standing::Open)
    }

    /// Opens or shuts the lanes of a group.
    pub(super) fn set_standing(&mut self, group: GroupIndex, standing: Standing) {
        let lanes: Vec<_> = firsts(self.range_of(group)).collect();
        for (lane, first, len) in &lanes {
            self.unfile(*lane, *first);
            if self.standing(*lane) == Standing::Open {
                *self.open_of(lane.kind) -= len;
            }
        }
        match standing {
            Standing::Open => self.shut.remove(&group),
            Standing::Held | Standing::Gone => self.shut.insert(group, standing),
        };
        for (lane, first, len) in lanes {
            self.file(lane, first);
            self.count_if_open(lane, len);
        }
    }

    fn range_of(&self, group: GroupIndex) -> impl Iterator<Item = (&Lane, &SortedMap<Key, ()>)> {
        let group = Some(group);
        let first = Lane { group, kind: KindIndex::MIN, era: 0 };
        let last = Lane { group, kind: KindIndex::MAX, era: u32::MAX };
        self.lanes.range(first..=last)
    }

    /// The first of all that can be had.
    pub(super) fn first(&self) -> Option<Key> {
        self.firsts.first().filter(|_| !self.holds_all()).map(|(first, _)| *first)
    }

    /// The first of a kind that can be had.
    pub(super) fn first_of_kind(&self, kind: KindIndex) -> Option<Key> {
        self.head_of(kind).filter(|_| !self.holds_all() && !self.is_stopped(kind))
    }

    /// The first of a kind, stopped or not.
    fn head_of(&self, kind: KindIndex) -> Option<Key> {
        let least = Lane { group: None, kind: KindIndex::MIN, era: 0 };
        let from = (kind, (0, ItemNumber(0)), least);
        let (of, key, _) = *self.heads.range(from..).next()?;
        (of == kind).then_some(key)
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
        self.heads.iter().map(|(_, key, lane)| (*key, *lane))
    }

    /// The first of every kind that is not stopped, in their order.
    pub(super) fn firsts(&self) -> impl Iterator<Item = Key> {
        self.firsts.iter().map(|(first, _)| *first)
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

    /// Whether heads, counts and lanes that are gone are what the lanes say.
    pub(super) fn audit(&self) -> Result<(), String> {
        let (shut, stopped) = (self.shut.clone(), self.stopped.clone());
        let mut fresh = Self { visible_from: self.visible_from, shut, stopped, ..Self::default() };
        for (&lane, keys) in &self.lanes {
            let (first, ()) = keys.first().ok_or_else(|| format!("{lane:?} is empty"))?;
            fresh.file(lane, first);
            fresh.count_if_open(lane, keys.len() as u64);
        }
        if fresh.heads != self.heads || fresh.firsts != self.firsts {
            return Err(format!("heads are {:?} and should be {:?}", self.heads, fresh.heads));
        }
        fresh.open_by_kind.resize(fresh.open_by_kind.len().max(self.open_by_kind.len()), 0);
        let kept = self.open_by_kind.iter().copied().chain(std::iter::repeat(0));
        if !kept.take(fresh.open_by_kind.len()).eq(fresh.open_by_kind.iter().copied()) {
            let (kept, counted) = (&self.open_by_kind, &fresh.open_by_kind);
            return Err(format!("open by kind: kept {kept:?}, counted {counted:?}"));
        }
        if fresh.gone != self.gone {
            return Err(format!("gone are {:?} and should be {:?}", self.gone, fresh.gone));
        }
        Ok(())
    }
}

/// Lanes with their first keys and how many they have.
fn firsts<'a>(
    lanes: impl IntoIterator<Item = (&'a Lane, &'a SortedMap<Key, ()>)>,
) -> impl Iterator<Item = (Lane, Key, u64)> {
    let of = |(&lane, keys): (&Lane, &SortedMap<Key, ()>)| {
        keys.first().map(|(first, ())| (lane, first, keys.len() as u64))
    };
    lanes.into_iter().filter_map(of)
}
