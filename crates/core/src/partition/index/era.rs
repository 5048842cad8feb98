//! The lanes of one era, with the first of every open lane at hand. Whether the era was cleared is not known here: an index
//! asks only the eras that can be seen, so a clear changes nothing in them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, SubAssign};

use crate::containers::SortedMap;
use crate::effort::{self, Looked};
use crate::id::ItemNumber;
use crate::partition::groups::index::GroupIndex;
use crate::partition::index::kinds::KindIndex;
use crate::partition::index::lanes::{Key, Lane, Standing};

#[derive(Default)]
pub(in crate::partition) struct Era {
    /// No lane is empty: the last removal drops it.
    lanes: BTreeMap<Lane, SortedMap<Key, ()>>,
    /// The first key of every open lane, kind by kind.
    heads: BTreeSet<(KindIndex, Key, Lane)>,
    /// The first of `heads` for every kind that is not stopped.
    firsts: BTreeSet<(Key, KindIndex)>,
    /// Lanes of groups that were cancelled.
    gone: BTreeSet<Lane>,
    /// The keys of every group's lanes in one order, so that a list looks into no lane of theirs.
    members: SortedMap<Key, GroupIndex>,
    /// By the position of the kind.
    by_kind: Vec<Tally>,
    total: Tally,
    /// How many keys all lanes have, those that are gone too.
    len: u64,
}

/// How many keys stand in lanes that are not gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::partition) struct Tally {
    pub(in crate::partition) open: u64,
    pub(in crate::partition) held: u64,
}

impl Tally {
    pub(in crate::partition) fn of(standing: Standing, len: u64) -> Self {
        match standing {
            Standing::Open => Self { open: len, held: 0 },
            Standing::Held => Self { open: 0, held: len },
            Standing::Gone => Self::default(),
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.open += other.open;
        self.held += other.held;
    }
}

impl SubAssign for Tally {
    fn sub_assign(&mut self, other: Self) {
        self.open -= other.open;
        self.held -= other.held;
    }
}

/// State that all eras of an index share.
#[derive(Default)]
pub(in crate::partition) struct Kinds {
    pub(in crate::partition) stopped: BTreeSet<KindIndex>,
    pub(in crate::partition) moved: Moved,
}

/// Kinds whose first key may be another one than before, in the order in which they came, each once.
#[derive(Default)]
pub(in crate::partition) struct Moved {
    kinds: Vec<KindIndex>,
    /// By the position of the kind.
    is_in: Vec<bool>,
}

impl Moved {
    pub(in crate::partition) fn add(&mut self, kind: KindIndex) {
        let at = kind.position();
        if at >= self.is_in.len() {
            self.is_in.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.is_in[at], true) {
            self.kinds.push(kind);
        }
    }

    pub(in crate::partition) fn take(&mut self) -> Vec<KindIndex> {
        for kind in &self.kinds {
            self.is_in[kind.position()] = false;
        }
        std::mem::take(&mut self.kinds)
    }
}

impl Era {
    pub(in crate::partition) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(in crate::partition) fn insert(
        &mut self,
        lane: Lane,
        key: Key,
        standing: Standing,
        kinds: &mut Kinds,
    ) {
        let keys = self.lanes.entry(lane).or_default();
        let before = keys.first().map(|(first, ())| first);
        if keys.insert(key, ()).is_none() {
            self.len += 1;
            self.add(lane.kind, Tally::of(standing, 1));
            if let Some(group) = lane.group {
                self.members.insert(key, group);
            }
        }
        if before.is_none_or(|first| key < first) {
            self.head_moved(lane, before, Some(key), standing, kinds);
        }
    }

    pub(in crate::partition) fn remove(
        &mut self,
        lane: Lane,
        key: Key,
        standing: Standing,
        kinds: &mut Kinds,
    ) {
        let keys = self.lanes.get_mut(&lane).expect("an indexed item has a lane");
        let before = keys.first().map(|(first, ())| first);
        let was_there = keys.remove(&key).is_some();
        let after = keys.first().map(|(first, ())| first);
        if was_there {
            self.len -= 1;
            self.take_off(lane.kind, Tally::of(standing, 1));
            if lane.group.is_some() {
                self.members.remove(&key);
            }
        }
        if before == Some(key) {
            self.head_moved(lane, before, after, standing, kinds);
        }
    }

    fn head_moved(
        &mut self,
        lane: Lane,
        before: Option<Key>,
        after: Option<Key>,
        standing: Standing,
        kinds: &mut Kinds,
    ) {
        if let Some(before) = before {
            self.unfile(lane, before, standing, kinds);
        }
        match after {
            Some(after) => self.file(lane, after, standing, kinds),
            None => {
                self.lanes.remove(&lane);
            }
        }
    }

    fn file(&mut self, lane: Lane, first: Key, standing: Standing, kinds: &mut Kinds) {
        match standing {
            Standing::Open => {
                let before = self.head_of(lane.kind);
                self.heads.insert((lane.kind, first, lane));
                if before.is_none_or(|head| first < head) {
                    self.first_moved(lane.kind, before, Some(first), kinds);
                }
            }
            Standing::Held => {}
            Standing::Gone => {
                self.gone.insert(lane);
            }
        }
    }

    fn unfile(&mut self, lane: Lane, first: Key, standing: Standing, kinds: &mut Kinds) {
        match standing {
            Standing::Open => {
                self.heads.remove(&(lane.kind, first, lane));
                let after = self.head_of(lane.kind);
                if after.is_none_or(|head| first < head) {
                    self.first_moved(lane.kind, Some(first), after, kinds);
                }
            }
            Standing::Held => {}
            Standing::Gone => {
                self.gone.remove(&lane);
            }
        }
    }

    fn first_moved(&mut self, kind: KindIndex, before: Option<Key>, after: Option<Key>, kinds: &mut Kinds) {
        if kinds.stopped.contains(&kind) {
            return;
        }
        if let Some(before) = before {
            self.firsts.remove(&(before, kind));
        }
        if let Some(after) = after {
            self.firsts.insert((after, kind));
            kinds.moved.add(kind);
        }
    }

    /// Takes the first of a kind out of the line, or puts it back.
    pub(in crate::partition) fn set_stopped(&mut self, kind: KindIndex, stopped: bool) {
        let Some(head) = self.head_of(kind) else { return };
        if stopped {
            self.firsts.remove(&(head, kind));
        } else {
            self.firsts.insert((head, kind));
        }
    }

    /// Opens or shuts the lanes of a group.
    pub(in crate::partition) fn set_standing(
        &mut self,
        group: GroupIndex,
        before: Standing,
        after: Standing,
        kinds: &mut Kinds,
    ) {
        let lanes: Vec<(Lane, Key, u64)> = self
            .lanes_of(group)
            .filter_map(|(lane, keys)| Some((lane, keys.first()?.0, keys.len() as u64)))
            .collect();
        for (lane, first, len) in lanes {
            self.unfile(lane, first, before, kinds);
            self.file(lane, first, after, kinds);
            self.take_off(lane.kind, Tally::of(before, len));
            self.add(lane.kind, Tally::of(after, len));
        }
    }

    fn add(&mut self, kind: KindIndex, tally: Tally) {
        *self.tally_mut(kind) += tally;
        self.total += tally;
    }

    fn take_off(&mut self, kind: KindIndex, tally: Tally) {
        *self.tally_mut(kind) -= tally;
        self.total -= tally;
    }

    fn tally_mut(&mut self, kind: KindIndex) -> &mut Tally {
        let at = kind.position();
        if at >= self.by_kind.len() {
            self.by_kind.resize(at + 1, Tally::default());
        }
        &mut self.by_kind[at]
    }

    pub(in crate::partition) fn tally(&self, kind: KindIndex) -> Tally {
        self.by_kind.get(kind.position()).copied().unwrap_or_default()
    }

    /// Tallies of the kinds that have any key here.
    pub(in crate::partition) fn tallies(&self) -> impl Iterator<Item = (KindIndex, Tally)> {
        let of_kind = |(at, tally): (usize, &Tally)| (KindIndex::at(at), *tally);
        self.by_kind.iter().enumerate().map(of_kind).filter(|(_, tally)| *tally != Tally::default())
    }

    pub(in crate::partition) fn len(&self) -> u64 {
        self.len
    }

    pub(in crate::partition) fn total(&self) -> Tally {
        self.total
    }

    /// The first of all kinds that are not stopped.
    pub(in crate::partition) fn first(&self) -> Option<Key> {
        self.firsts.first().map(|(first, _)| *first)
    }

    /// The first of a kind, stopped or not.
    pub(in crate::partition) fn head_of(&self, kind: KindIndex) -> Option<Key> {
        self.heads_of(kind).next().map(|(head, _)| head)
    }

    /// The first keys of the open lanes of a kind, in their order.
    pub(in crate::partition) fn heads_of(&self, kind: KindIndex) -> impl Iterator<Item = (Key, Lane)> {
        let least = Lane { group: None, kind: KindIndex::MIN, era: 0 };
        let from = (kind, (0, ItemNumber(0)), least);
        let heads = self.heads.range(from..).take_while(move |(of, _, _)| *of == kind);
        heads.map(|(_, key, lane)| (*key, *lane))
    }

    pub(in crate::partition) fn heads(&self) -> impl Iterator<Item = (Key, Lane)> {
        self.heads.iter().map(|(_, key, lane)| (*key, *lane))
    }

    pub(in crate::partition) fn firsts(&self) -> impl Iterator<Item = (Key, KindIndex)> {
        self.firsts.iter().copied()
    }

    /// The first lane of a group that was cancelled.
    pub(in crate::partition) fn first_gone(&self) -> Option<Lane> {
        self.gone.first().copied()
    }

    pub(in crate::partition) fn gone(&self) -> impl Iterator<Item = Lane> {
        self.gone.iter().copied()
    }

    pub(in crate::partition) fn lane(&self, lane: Lane) -> Option<&SortedMap<Key, ()>> {
        self.lanes.get(&lane)
    }

    pub(in crate::partition) fn lanes(&self) -> impl Iterator<Item = (Lane, &SortedMap<Key, ()>)> {
        self.lanes.iter().map(|(&lane, keys)| (lane, keys)).inspect(|_| effort::look(Looked::Indexed))
    }

    /// The lanes of items without a group: as many as there are kinds.
    pub(in crate::partition) fn lanes_without_group(&self) -> impl Iterator<Item = &SortedMap<Key, ()>> {
        self.lanes().take_while(|(lane, _)| lane.group.is_none()).map(|(_, keys)| keys)
    }

    pub(in crate::partition) fn lanes_of(
        &self,
        group: GroupIndex,
    ) -> impl Iterator<Item = (Lane, &SortedMap<Key, ()>)> {
        let group = Some(group);
        let first = Lane { group, kind: KindIndex::MIN, era: 0 };
        let last = Lane { group, kind: KindIndex::MAX, era: u32::MAX };
        self.lanes.range(first..=last).map(|(&lane, keys)| (lane, keys))
    }

    /// The groups that have lanes here.
    pub(in crate::partition) fn groups(&self) -> impl Iterator<Item = GroupIndex> {
        let least = Lane { group: Some(GroupIndex::MIN), kind: KindIndex::MIN, era: 0 };
        let mut last = None;
        let groups = self.lanes.range(least..).filter_map(|(lane, _)| lane.group);
        groups
            .filter(move |group| last.replace(*group) != Some(*group))
            .inspect(|_| effort::look(Looked::Indexed))
    }

    /// Members of groups from a key on, in their order.
    pub(in crate::partition) fn members_from(&self, from: Key) -> impl Iterator<Item = (Key, GroupIndex)> {
        self.members
            .range(from..)
            .map(|(key, group)| (key, *group))
            .inspect(|_| effort::look(Looked::Indexed))
    }

    /// Whether everything derived is what the lanes say.
    pub(in crate::partition) fn audit(
        &self,
        standing: impl Fn(Lane) -> Standing,
        stopped: &BTreeSet<KindIndex>,
    ) -> Result<(), String> {
        let mut fresh = Self::default();
        let mut kinds = Kinds { stopped: stopped.clone(), ..Kinds::default() };
        for (&lane, keys) in &self.lanes {
            if keys.is_empty() {
                return Err(format!("{lane:?} is empty"));
            }
            keys.iter().for_each(|(key, ())| fresh.insert(lane, key, standing(lane), &mut kinds));
        }
        same("heads", &self.heads, &fresh.heads)?;
        same("firsts", &self.firsts, &fresh.firsts)?;
        same("lanes that are gone", &self.gone, &fresh.gone)?;
        same("members", &self.members, &fresh.members)?;
        same("total", &self.total, &fresh.total)?;
        same("length", &self.len, &fresh.len)?;
        same("tallies", &self.tallies().collect::<Vec<_>>(), &fresh.tallies().collect())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, kept: &T, counted: &T) -> Result<(), String> {
    if kept == counted { Ok(()) } else { Err(format!("{what}: kept {kept:?}, counted {counted:?}")) }
}
