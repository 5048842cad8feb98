//! Where new items go: those with a key to its home, the others to whoever has the least to do.

use crate::hash::{fnv1a, splitmix64};

/// Keys are spread over so many slots, and slots over the partitions of a queue.
pub const SLOTS: usize = 1024;

/// A share of all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(u16);

impl Slot {
    /// FNV-1a, whose low bits alone are poor, through SplitMix64. Frozen: what is there must be found again.
    pub fn of(key: &str) -> Self {
        let hash = splitmix64(fnv1a(key.as_bytes()));
        Self((hash % SLOTS as u64) as u16)
    }

    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The home of each slot: a place in the queue's list of partitions. Where it ends, the slots are spread evenly, in
/// runs of neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMap(pub Vec<u16>);

impl SlotMap {
    /// None if there is no partition at all.
    pub fn home(&self, slot: Slot, partitions: usize) -> Option<usize> {
        let told = self.0.get(slot.index()).map(|home| usize::from(*home));
        let home = told.unwrap_or(slot.index() * partitions / SLOTS);
        (home < partitions).then_some(home)
    }
}

/// What is known of a partition's load; a hint, for it may have changed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub healthy: bool,
    pub waiting: u64,
    pub scheduled: u64,
}

/// The healthy partition with the fewest items of the kind being produced: waiting and scheduled ones count apart,
/// since a partition full of next week's work is idle today. Among equals the first from `start` on, which the
/// caller moves on with every call.
pub fn pick(loads: &[Load], scheduled: bool, start: usize) -> Option<usize> {
    let start = start.checked_rem(loads.len())?;
    let turn = (start..loads.len()).chain(0..start);
    let items = |at: &usize| if scheduled { loads[*at].scheduled } else { loads[*at].waiting };
    turn.filter(|&at| loads[at].healthy).min_by_key(items)
}
