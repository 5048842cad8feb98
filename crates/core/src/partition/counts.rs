//! How many items there are. Counters move with the rows and are never stored.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use super::Partition;
use super::index::Index;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub scheduled: u64,
    pub waiting: u64,
    pub leased: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.waiting += other.waiting;
        self.leased += other.leased;
    }
}

impl Partition {
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// By kind; a kind with none is not in it. Costs as much as there are kinds.
    pub fn kind_counts(&self) -> BTreeMap<Arc<str>, Counts> {
        let mut kinds = BTreeMap::new();
        self.add_kinds(&self.schedule, |len| Counts { scheduled: len, ..Counts::default() }, &mut kinds);
        self.add_kinds(&self.lanes, |len| Counts { waiting: len, ..Counts::default() }, &mut kinds);
        self.add_kinds(&self.deadlines, |len| Counts { leased: len, ..Counts::default() }, &mut kinds);
        kinds
    }

    fn add_kinds(&self, index: &Index, as_counts: fn(u64) -> Counts, kinds: &mut BTreeMap<Arc<str>, Counts>) {
        for (group, keys) in index.visible() {
            let name = self.kinds.name(group.kind).clone();
            *kinds.entry(name).or_default() += as_counts(keys.len() as u64);
        }
    }

    /// Waiting items by priority; a priority with none is not in it.
    pub fn waiting_by_priority(&self) -> BTreeMap<u8, u64> {
        let mut priorities = BTreeMap::new();
        for (&(_, priority), count) in self.priorities.range((self.cleared.waiting_before, 0)..) {
            *priorities.entry(priority).or_default() += count;
        }
        priorities
    }

    /// Final items kept.
    pub fn retained(&self) -> u64 {
        self.finished.len() as u64
    }
}
