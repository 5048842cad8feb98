//! How many items there are, and what was done with them. Counters move with the rows and are never stored.

use std::collections::BTreeMap;
use std::ops::{AddAssign, SubAssign};
use std::sync::Arc;

use crate::item::End;
use crate::partition::Partition;
use crate::partition::groups::index::GroupIndex;
use crate::partition::index::era::Tally;
use crate::partition::index::lanes::Index;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Members of a group that is not started.
    pub held: u64,
    pub scheduled: u64,
    pub waiting: u64,
    pub leased: u64,
    /// Those that wait for an answer.
    pub suspended: u64,
}

impl Counts {
    /// Those that are not final.
    pub fn live(&self) -> u64 {
        self.held + self.scheduled + self.waiting + self.leased + self.suspended
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.held += other.held;
        self.scheduled += other.scheduled;
        self.waiting += other.waiting;
        self.leased += other.leased;
        self.suspended += other.suspended;
    }
}

impl SubAssign for Counts {
    fn sub_assign(&mut self, other: Self) {
        self.held -= other.held;
        self.scheduled -= other.scheduled;
        self.waiting -= other.waiting;
        self.leased -= other.leased;
        self.suspended -= other.suspended;
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
    /// Given up until somebody answers.
    pub suspended: u64,
    pub resumed: u64,
    /// Events, the answers to suspended items included.
    pub emitted: u64,
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
    /// Bodies found damaged or missing, each counted once: by the lease or the move that met it.
    pub damaged: u64,
    /// Times of crons at which an item was made. What a trigger makes is not counted here.
    pub cron_runs: u64,
    /// How late the items of `cron_runs` were made, all together.
    pub cron_late_ms: u64,
    /// Times of crons that were missed and did not run by themselves; of those that one cron missed at once, the first hundred.
    pub cron_missed: u64,
    /// Times of crons at which nothing was made: the previous item had to end first, or the address was taken.
    pub cron_skipped: u64,
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
        self.suspended += other.suspended;
        self.resumed += other.resumed;
        self.emitted += other.emitted;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.lease_expired += other.lease_expired;
        self.expired += other.expired;
        self.redriven += other.redriven;
        self.moved_out += other.moved_out;
        self.moved_in += other.moved_in;
        self.damaged += other.damaged;
        self.cron_runs += other.cron_runs;
        self.cron_late_ms += other.cron_late_ms;
        self.cron_missed += other.cron_missed;
        self.cron_skipped += other.cron_skipped;
    }
}

impl Partition {
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// By kind; a kind with none is not in it. Costs as much as there are kinds.
    pub fn kind_counts(&self) -> BTreeMap<Arc<str>, Counts> {
        let mut kinds = BTreeMap::new();
        for (index, as_counts) in self.counted_indexes() {
            for (kind, tally) in index.tallies() {
                *kinds.entry(self.kinds.name(kind).clone()).or_default() += as_counts(tally);
            }
        }
        kinds
    }

    /// Counts of all items, from the tallies of the indexes.
    pub(in crate::partition) fn tally(&self) -> Counts {
        let mut counts = Counts::default();
        for (index, as_counts) in self.counted_indexes() {
            counts += as_counts(index.tally());
        }
        counts
    }

    /// What the items of each index count as.
    pub(in crate::partition) fn counted_indexes(&self) -> [(&Index, AsCounts); 4] {
        [
            (&self.lanes, as_waiting),
            (&self.schedule, as_scheduled),
            (&self.deadlines, as_leased),
            (&self.suspended, as_suspended),
        ]
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
        self.outbox.items()
    }

    /// Whether anything is to be brought elsewhere: items, crons that were assigned, and crons that wait for that.
    pub fn has_outgoing(&self) -> bool {
        let only_crons = self.is_left_to_crons() && self.crons.iter().next().is_some();
        !self.outbox.is_empty() || !self.crons_leaving.is_empty() || only_crons
    }

    /// What must not be lost with the partition: items that are not final or not where they go, and groups whose end
    /// item is still to come.
    pub fn unfinished(&self) -> u64 {
        self.counts().live() + self.moving() + self.groups_ending()
    }

    fn groups_ending(&self) -> u64 {
        let ending = |group: &GroupIndex| self.groups.is_ending(*group);
        // A group whose last members were cleared is known to end only once the sweep has met one of them.
        if self.first_gone().is_some() {
            self.groups.iter().filter(ending).count() as u64
        } else {
            self.groups.due().filter(ending).count() as u64
        }
    }

    /// Final items kept.
    pub fn retained(&self) -> u64 {
        self.finished.len() as u64 + self.unswept_kept()
    }

    /// Final items kept that ended so. Cancelled ones that were cleared count once the sweep has written them down.
    pub fn retained_as(&self, end: End) -> u64 {
        self.finders.ended(end).len() as u64
    }
}

/// Turns the tally of an index into the counts of the state that its items are in.
pub(in crate::partition) type AsCounts = fn(Tally) -> Counts;

pub(in crate::partition) fn as_waiting(tally: Tally) -> Counts {
    Counts { waiting: tally.open, held: tally.held, ..Counts::default() }
}

pub(in crate::partition) fn as_scheduled(tally: Tally) -> Counts {
    Counts { scheduled: tally.open + tally.held, ..Counts::default() }
}

pub(in crate::partition) fn as_leased(tally: Tally) -> Counts {
    Counts { leased: tally.open + tally.held, ..Counts::default() }
}

pub(in crate::partition) fn as_suspended(tally: Tally) -> Counts {
    Counts { suspended: tally.open + tally.held, ..Counts::default() }
}

/// One more of what is counted under a key.
pub(in crate::partition) fn increment<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    *counts.entry(key).or_default() += 1;
}

/// One less; a count of none is not kept.
pub(in crate::partition) fn decrement<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let count = counts.get_mut(&key).expect("what leaves was counted when it came");
    *count -= 1;
    if *count == 0 {
        counts.remove(&key);
    }
}
