//! Where new items go: those with a key to its home, the others to whoever has the least to do.

use std::fmt;

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

    /// None if there is no such slot.
    pub fn at(index: u16) -> Option<Self> {
        (usize::from(index) < SLOTS).then_some(Self(index))
    }

    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS as u16).map(Self)
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

impl SlotMap {
    /// The homes of all slots among so many partitions, moved as little as it takes to give each its even share.
    pub fn spread(&self, partitions_before: usize, partitions: usize) -> Self {
        let slots = Slot::all();
        let mut homes: Vec<Option<usize>> =
            slots.map(|slot| self.home(slot, partitions_before).filter(|home| *home < partitions)).collect();
        // The first ones have one more, where it does not come out even.
        let share = |home: usize| SLOTS / partitions + usize::from(home < SLOTS % partitions);
        let mut held = vec![0; partitions];
        for place in &mut homes {
            match *place {
                Some(home) if held[home] < share(home) => held[home] += 1,
                Some(_) | None => *place = None,
            }
        }
        let mut home = 0;
        let mut next = || {
            while held[home] == share(home) {
                home += 1;
            }
            held[home] += 1;
            home
        };
        Self(homes.into_iter().map(|home| home.unwrap_or_else(&mut next) as u16).collect())
    }
}

/// Some of the slots.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotSet([u64; SLOTS / 64]);

impl SlotSet {
    pub fn contains(&self, slot: Slot) -> bool {
        self.0[slot.index() / 64] >> (slot.index() % 64) & 1 == 1
    }

    pub fn insert(&mut self, slot: Slot) {
        self.0[slot.index() / 64] |= 1 << (slot.index() % 64);
    }

    pub fn remove(&mut self, slot: Slot) {
        self.0[slot.index() / 64] &= !(1 << (slot.index() % 64));
    }

    pub fn is_empty(&self) -> bool {
        self.0 == [0; SLOTS / 64]
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) const BYTES: usize = SLOTS / 8;

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: [[u8; 8]; SLOTS / 64] = words.try_into().ok()?;
        Some(Self(words.map(u64::from_le_bytes)))
    }

    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        Slot::all().filter(|slot| self.contains(*slot))
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Slot::index)).finish()
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
