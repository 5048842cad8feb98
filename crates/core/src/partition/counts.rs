//! How many items there are, and what was done with them. Counters move with the rows and are never stored.

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

impl Counts {
    /// Those that are not final.
    pub fn live(&self) -> u64 {
        self.scheduled + self.waiting + self.leased
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.waiting += other.waiting;
        self.leased += other.leased;
    }
}

/// How often something was done with an item. One deed may count as two: a lease that ends with the last attempt has
/// expired, and its item has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub produced: u64,
    /// Leases granted, those included that reached nobody and were given back.
    pub leased: u64,
    pub completed: u64,
    /// Sent back for another attempt.
    pub retried: u64,
    pub released: u64,
    /// Taken away from their workers.
    pub revoked: u64,
    pub extended: u64,
    /// Ended as cancelled, those included that were cleared.
    pub cancelled: u64,
    pub failed: u64,
    pub lease_expired: u64,
    /// Ended because they were older than their `dead_timeout`.
    pub expired: u64,
    /// Sent to another queue by a redrive.
    pub redriven: u64,
    /// Taken over by the queue they were moved to.
    pub moved_out: u64,
    /// Taken over from another queue.
    pub moved_in: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.produced += other.produced;
        self.leased += other.leased;
        self.completed += other.completed;
        self.retried += other.retried;
        self.released += other.released;
        self.revoked += other.revoked;
        self.extended += other.extended;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.lease_expired += other.lease_expired;
        self.expired += other.expired;
        self.redriven += other.redriven;
        self.moved_out += other.moved_out;
        self.moved_in += other.moved_in;
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

    /// Items that are on their way to another queue, which has not taken them yet.
    pub fn moving(&self) -> u64 {
        self.outbox.len()
    }

    /// Final items kept.
    pub fn retained(&self) -> u64 {
        self.finished.len() as u64 + self.unswept_kept()
    }
}
