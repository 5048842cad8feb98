//! Keys that are known here although their slots are at home elsewhere: addresses that items bear, names of groups, and calls
//! that are remembered. A former home is asked about a slot for as long as it knows one. No slot gains a key while it is at
//! home elsewhere, but for the calls of members that still join a group here, and the addresses of final items that fall back.

use std::collections::BTreeMap;

use crate::partition::Partition;
use crate::partition::index::counts::{decrement, increment};
use crate::route::{Slot, SlotSet};
use crate::row::{Intake, Once};

/// How many slots at home elsewhere have keys here, by the routes of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lingering {
    pub route_version: u64,
    pub slots: usize,
}

impl Partition {
    /// Unset while every key is at home here.
    pub fn lingering(&self) -> Option<Lingering> {
        let Intake { version, at_home, .. } = self.intake;
        at_home.map(|_| Lingering { route_version: version, slots: self.lingering.len() })
    }

    /// The slots at home elsewhere of which a key is known here.
    pub fn lingering_slots(&self) -> SlotSet {
        self.lingering.keys().copied().collect()
    }

    pub(in crate::partition) fn put_intake(&mut self, intake: Intake) {
        let slots_moved = intake.at_home != self.intake.at_home;
        self.intake = intake;
        if slots_moved {
            self.lingering = self.count_lingering();
        }
    }

    /// Costs as much as there are keys. Done only when slots move.
    pub(in crate::partition) fn count_lingering(&self) -> BTreeMap<Slot, u64> {
        let mut lingering = BTreeMap::new();
        if self.intake.at_home.is_none() {
            return lingering;
        }
        let addresses = self.addresses.iter().map(|addressed| Slot::of(&addressed.address));
        let groups = self.groups.named_after(None).map(|(name, _)| Slot::of(name));
        let calls = self.calls.iter().flat_map(|once| once.slots.iter().copied());
        for slot in addresses.chain(groups).chain(calls).filter(|slot| self.is_elsewhere(*slot)) {
            increment(&mut lingering, slot);
        }
        lingering
    }

    fn is_elsewhere(&self, slot: Slot) -> bool {
        self.intake.at_home.is_some_and(|at_home| !at_home.contains(slot))
    }

    pub(in crate::partition) fn key_came(&mut self, key: &str) {
        if self.intake.at_home.is_some() {
            self.slot_came(Slot::of(key));
        }
    }

    pub(in crate::partition) fn key_went(&mut self, key: &str) {
        if self.intake.at_home.is_some() {
            self.slot_went(Slot::of(key));
        }
    }

    fn slot_came(&mut self, slot: Slot) {
        if self.is_elsewhere(slot) {
            increment(&mut self.lingering, slot);
        }
    }

    fn slot_went(&mut self, slot: Slot) {
        if self.is_elsewhere(slot) {
            decrement(&mut self.lingering, slot);
        }
    }

    pub(in crate::partition) fn put_call(&mut self, once: Once) {
        self.remove_call(&once.key);
        once.slots.iter().for_each(|slot| self.slot_came(*slot));
        self.calls.insert(once);
    }

    pub(in crate::partition) fn remove_call(&mut self, key: &str) {
        if let Some(once) = self.calls.remove(key) {
            once.slots.iter().for_each(|slot| self.slot_went(*slot));
        }
    }
}
