//! Items in an order, apart by era, as everything that can be cleared.

use std::collections::BTreeMap;

use crate::containers::SortedMap;

#[derive(Debug, PartialEq)]
pub(in crate::partition) struct Eras<K: Ord + Copy> {
    visible_from: u32,
    /// None is empty.
    eras: BTreeMap<u32, SortedMap<K, ()>>,
}

impl<K: Ord + Copy> Default for Eras<K> {
    fn default() -> Self {
        Self { visible_from: 0, eras: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Eras<K> {
    pub(in crate::partition) fn insert(&mut self, era: u32, key: K) {
        self.eras.entry(era).or_default().insert(key, ());
    }

    pub(in crate::partition) fn remove(&mut self, era: u32, key: K) {
        let keys = self.eras.get_mut(&era).expect("what is held is held in its era");
        keys.remove(&key);
        if keys.is_empty() {
            self.eras.remove(&era);
        }
    }

    pub(in crate::partition) fn show_from(&mut self, era: u32) {
        self.visible_from = era;
    }

    pub(in crate::partition) fn visible(&self) -> impl Iterator<Item = &SortedMap<K, ()>> {
        self.eras.range(self.visible_from..).map(|(_, keys)| keys)
    }

    pub(in crate::partition) fn contains(&self, era: u32, key: K) -> bool {
        self.eras.get(&era).is_some_and(|keys| keys.contains_key(&key))
    }

    pub(in crate::partition) fn len(&self) -> usize {
        self.eras.values().map(SortedMap::len).sum()
    }
}
