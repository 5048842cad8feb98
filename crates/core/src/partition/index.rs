//! Items in an order, kept apart by kind and era, with the first of every visible group at hand.
//!
//! Groups of an era before `visible_from` have been cleared: they are not among the heads, whatever they hold, so that
//! a clear costs as much as there are groups, and rows may arrive in any order.

use std::collections::{BTreeMap, BTreeSet};

use super::kinds::KindIndex;
use crate::id::ItemNumber;
use crate::sorted::SortedMap;

/// What an index is ordered by, and the item. The number makes it unique.
pub(super) type Key = (u64, ItemNumber);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) kind: KindIndex,
    pub(super) era: u32,
}

#[derive(Default)]
pub(super) struct Index {
    visible_from: u32,
    /// None is empty.
    groups: BTreeMap<Group, SortedMap<Key, ()>>,
    /// The first key of every visible group.
    heads: BTreeSet<(Key, Group)>,
    hidden: BTreeSet<Group>,
}

impl Index {
    pub(super) fn insert(&mut self, group: Group, key: Key) {
        let keys = self.groups.entry(group).or_default();
        let before = keys.first().map(|(first, ())| first);
        keys.insert(key, ());
        if before.is_none_or(|first| key < first) {
            self.head_moved(group, before, Some(key));
        }
    }

    pub(super) fn remove(&mut self, group: Group, key: Key) {
        let keys = self.groups.get_mut(&group).expect("an indexed item has a group");
        let before = keys.first().map(|(first, ())| first);
        keys.remove(&key);
        if before == Some(key) {
            let after = keys.first().map(|(first, ())| first);
            self.head_moved(group, before, after);
        }
    }

    fn head_moved(&mut self, group: Group, before: Option<Key>, after: Option<Key>) {
        if after.is_none() {
            self.groups.remove(&group);
            self.hidden.remove(&group);
        }
        if group.era < self.visible_from {
            if before.is_none() {
                self.hidden.insert(group);
            }
            return;
        }
        if let Some(before) = before {
            self.heads.remove(&(before, group));
        }
        if let Some(after) = after {
            self.heads.insert((after, group));
        }
    }

    /// Also backwards: a log that is replayed passes through old states.
    pub(super) fn show_from(&mut self, era: u32) {
        if era == self.visible_from {
            return;
        }
        self.visible_from = era;
        self.heads.clear();
        self.hidden.clear();
        for (&group, keys) in &self.groups {
            if group.era < era {
                self.hidden.insert(group);
            } else if let Some((first, ())) = keys.first() {
                self.heads.insert((first, group));
            }
        }
    }

    /// The first of all that is visible.
    pub(super) fn first(&self) -> Option<(Key, Group)> {
        self.heads.first().copied()
    }

    pub(super) fn first_of(&self, group: Group) -> Option<Key> {
        self.groups.get(&group)?.first().map(|(first, ())| first)
    }

    /// The first of each visible group of one kind.
    pub(super) fn heads_of(&self, kind: KindIndex) -> impl Iterator<Item = (Key, Group)> {
        let groups = Group { kind, era: self.visible_from }..=Group { kind, era: u32::MAX };
        self.groups.range(groups).filter_map(|(&group, keys)| keys.first().map(|(first, ())| (first, group)))
    }

    pub(super) fn first_hidden(&self) -> Option<Key> {
        self.first_of(*self.hidden.first()?)
    }

    pub(super) fn visible_of(&self, group: Group) -> Option<&SortedMap<Key, ()>> {
        self.groups.get(&group).filter(|_| group.era >= self.visible_from)
    }

    pub(super) fn visible(&self) -> impl Iterator<Item = (Group, &SortedMap<Key, ()>)> {
        self.groups().filter(|(group, _)| group.era >= self.visible_from)
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = (Group, &SortedMap<Key, ()>)> {
        self.groups.iter().map(|(&group, keys)| (group, keys))
    }

    pub(super) fn heads(&self) -> impl Iterator<Item = (Key, Group)> {
        self.heads.iter().copied()
    }

    pub(super) fn hidden(&self) -> impl Iterator<Item = Group> {
        self.hidden.iter().copied()
    }

    pub(super) fn contains(&self, group: Group, key: Key) -> bool {
        self.groups.get(&group).is_some_and(|keys| keys.contains_key(&key))
    }

    pub(super) fn keys_of(&self, group: Group) -> impl Iterator<Item = Key> {
        self.groups.get(&group).into_iter().flat_map(|keys| keys.iter().map(|(key, ())| key))
    }

    pub(super) fn total(&self) -> usize {
        self.groups.values().map(SortedMap::len).sum()
    }

    /// Whether heads and hidden groups are what the groups say.
    pub(super) fn audit(&self) -> Result<(), String> {
        let mut heads = BTreeSet::new();
        let mut hidden = BTreeSet::new();
        for (&group, keys) in &self.groups {
            let (first, ()) = keys.first().ok_or_else(|| format!("{group:?} is empty"))?;
            let _new = if group.era < self.visible_from {
                hidden.insert(group)
            } else {
                heads.insert((first, group))
            };
        }
        if heads != self.heads {
            return Err(format!("heads are {:?} and should be {heads:?}", self.heads));
        }
        if hidden != self.hidden {
            return Err(format!("hidden are {:?} and should be {hidden:?}", self.hidden));
        }
        Ok(())
    }
}
