//! The partition counted in full and shown in full: for tests, the simulator and checks by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::addresses::Addresses;
use super::index::{Group, Index, Key};
use super::once::Calls;
use super::outbox::Outbox;
use super::rows::{Besides, Spot};
use super::{Counts, Partition};
use crate::id::ItemNumber;
use crate::item::{Item, State};
use crate::row::Clearable;
use crate::sorted::SortedMap;

impl Partition {
    /// Compares every counter and index with what the items say. Scans everything.
    pub fn audit(&self) -> Result<(), String> {
        let full = self.full_count()?;
        same("counts", &self.counts(), &full.counts)?;
        same("counts by kind", &self.kind_counts(), &full.kinds)?;
        same("waiting by priority", &self.waiting_by_priority(), &full.priorities)?;
        same("final items", &self.retained(), &full.finals)?;
        same("bytes kept", &self.kept_bytes, &full.kept_bytes)?;
        same("items with something to show", &self.traces, &full.traces)?;
        let kinds: BTreeMap<_, _> = self.kinds.iter().map(|(name, items)| (name.clone(), items)).collect();
        same("items by kind", &kinds, &full.items_by_kind)?;
        // Each item is in its index, so it is in no other if the indexes together hold no more than there are.
        let forgotten = self.items.iter().filter(|(_, entry)| entry.state.is_forgotten()).count();
        let indexed = [&self.lanes, &self.schedule, &self.deadlines].map(Index::total).iter().sum::<usize>();
        same("indexed items", &(indexed + self.finished.len() + forgotten), &self.items.len())?;
        same("places of leased items", &self.leased_places.len(), &self.deadlines.total())?;
        same("leased items by number", &self.leased.len(), &self.deadlines.total())?;
        same("items that expire", &self.expiry, &full.expiry)?;
        same("items on their way", &self.outbox, &full.outbox)?;
        same("items by address", &self.addresses, &full.addresses)?;
        self.check_holders()?;
        let mut calls = Calls::default();
        self.calls.iter().for_each(|once| calls.insert(once.clone()));
        same("calls that are remembered", &self.calls, &calls)?;
        for (name, index) in self.indexes() {
            index.audit().map_err(|problem| format!("{name}: {problem}"))?;
        }
        Ok(())
    }

    fn full_count(&self) -> Result<FullCount, String> {
        let mut full = FullCount::default();
        for (number, entry) in self.items.iter() {
            let spot = self.spot(number, entry);
            if !self.is_at(spot) {
                return Err(format!("item {} is not where it belongs: {spot:?}", number.0));
            }
            full.add(&self.item(number, entry), self.was_cleared(entry));
            if let Some(trace) = entry.trace() {
                *full.traces.entry(trace).or_default() += 1;
                full.finals += u64::from(self.was_cleared(entry));
            }
            full.add_besides(Besides::of(number, entry));
        }
        Ok(full)
    }

    /// Whoever holds an address came after all that held it before.
    fn check_holders(&self) -> Result<(), String> {
        let is_live =
            |number: ItemNumber| self.visible(number).is_some_and(|entry| !entry.state.phase().is_final());
        let live = self.addresses.iter().filter(|addressed| is_live(addressed.number));
        for addressed in live {
            let latest = self.item_at(&addressed.address);
            if latest != Some(addressed.number) {
                return Err(format!("{addressed:?} is not final, and its address speaks of {latest:?}"));
            }
        }
        Ok(())
    }

    fn is_at(&self, spot: Spot) -> bool {
        match spot {
            Spot::Waiting(group, key) => self.lanes.contains(group, key),
            Spot::Scheduled(group, key) => self.schedule.contains(group, key),
            Spot::Leased(group, key, place) => {
                self.deadlines.contains(group, key)
                    && self.leased_places.contains(group.era, place)
                    && self.leased.contains(group.era, key.1)
            }
            Spot::Final(key, _) => self.finished.contains_key(&key),
            Spot::Forgotten => true,
        }
    }

    fn indexes(&self) -> [(&'static str, &Index); 3] {
        [("lanes", &self.lanes), ("schedule", &self.schedule), ("deadlines", &self.deadlines)]
    }

    fn named(&self, group: Group) -> NamedGroup {
        (self.kinds.name(group.kind).clone(), group.era)
    }

    /// Kinds by name: the order in which they came up differs between a partition and its rebuilt self.
    fn shown(&self, index: &Index) -> ShownIndex {
        let keys = |group| index.keys_of(group).collect();
        ShownIndex {
            groups: index.groups().map(|(group, _)| (self.named(group), keys(group))).collect(),
            heads: index.heads().map(|(key, group)| (key, self.named(group))).collect(),
            hidden: index.hidden().map(|group| self.named(group)).collect(),
        }
    }
}

/// Two partitions with the same text are the same in every index and counter.
impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut show = f.debug_struct("Partition");
        show.field("id", &self.id).field("acquired_at", &self.acquired_at);
        show.field("rows", &self.rows().collect::<Vec<_>>());
        show.field("kinds", &self.kinds.iter().collect::<Vec<_>>());
        for (name, index) in self.indexes() {
            show.field(name, &self.shown(index));
        }
        show.field("leased_places", &self.leased_places).field("leased", &self.leased);
        show.field("expiry", &self.expiry).field("outbox", &self.outbox);
        show.field("addresses", &self.addresses).field("calls", &self.calls);
        show.field("finished", &self.finished).field("kept_bytes", &self.kept_bytes);
        show.field("counts", &self.counts).field("priorities", &self.priorities);
        show.field("traces", &self.traces);
        show.finish()
    }
}

#[derive(Debug)]
#[expect(dead_code, reason = "read by Debug alone, which the lint does not count")]
struct ShownIndex {
    groups: BTreeMap<NamedGroup, Vec<Key>>,
    heads: Vec<(Key, NamedGroup)>,
    hidden: BTreeSet<NamedGroup>,
}

/// A kind's name and an era.
type NamedGroup = (Arc<str>, u32);

#[derive(Default)]
struct FullCount {
    counts: Counts,
    kinds: BTreeMap<Arc<str>, Counts>,
    items_by_kind: BTreeMap<Arc<str>, u64>,
    priorities: BTreeMap<u8, u64>,
    finals: u64,
    kept_bytes: u64,
    traces: BTreeMap<(Clearable, u32), u64>,
    expiry: SortedMap<Key, ()>,
    outbox: Outbox,
    addresses: Addresses,
}

impl FullCount {
    fn add_besides(&mut self, besides: Besides) {
        if let Some(key) = besides.expires {
            self.expiry.insert(key, ());
        }
        if let Some(leaving) = besides.leaving {
            self.outbox.insert(leaving);
        }
        if let Some(addressed) = besides.addressed {
            self.addresses.insert(addressed);
        }
    }

    fn add(&mut self, item: &Item, cleared: bool) {
        *self.items_by_kind.entry(item.kind.clone()).or_default() += 1;
        let mut one = Counts::default();
        match &item.state {
            State::Final(_) if item.state.is_forgotten() => return,
            State::Final(outcome) => {
                self.finals += 1;
                self.kept_bytes += outcome.kept_bytes;
                return;
            }
            State::Scheduled { .. } => one.scheduled = 1,
            State::Waiting => one.waiting = 1,
            State::Leased(_) => one.leased = 1,
        }
        if cleared {
            return;
        }
        self.counts += one;
        *self.kinds.entry(item.kind.clone()).or_default() += one;
        if one.waiting == 1 {
            *self.priorities.entry(item.priority).or_default() += 1;
        }
    }
}

fn same<T: PartialEq + fmt::Debug>(what: &str, kept: &T, counted: &T) -> Result<(), String> {
    if kept == counted { Ok(()) } else { Err(format!("{what}: kept {kept:?}, counted {counted:?}")) }
}
