//! Leased items by the place they would stand at: so that they can be shown among those that wait.

use std::collections::BTreeMap;

use super::index::Key;
use crate::sorted::SortedMap;

/// Apart by era, as everything that can be cleared.
#[derive(Debug, Default)]
pub(super) struct Places {
    visible_from: u32,
    /// None is empty.
    eras: BTreeMap<u32, SortedMap<Key, ()>>,
}

impl Places {
    pub(super) fn insert(&mut self, era: u32, key: Key) {
        self.eras.entry(era).or_default().insert(key, ());
    }

    pub(super) fn remove(&mut self, era: u32, key: Key) {
        let keys = self.eras.get_mut(&era).expect("a leased item has a place in its era");
        keys.remove(&key);
        if keys.is_empty() {
            self.eras.remove(&era);
        }
    }

    pub(super) fn show_from(&mut self, era: u32) {
        self.visible_from = era;
    }

    pub(super) fn visible(&self) -> impl Iterator<Item = &SortedMap<Key, ()>> {
        self.eras.range(self.visible_from..).map(|(_, keys)| keys)
    }

    pub(super) fn contains(&self, era: u32, key: Key) -> bool {
        self.eras.get(&era).is_some_and(|keys| keys.contains_key(&key))
    }

    pub(super) fn len(&self) -> usize {
        self.eras.values().map(SortedMap::len).sum()
    }
}
