//! The partition counted in full and shown in full: for tests, the simulator and checks by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::crons::index::Crons;
use super::groups::index::{GroupIndex, Members};
use super::index::addresses::Addresses;
use super::index::findable::Finders;
use super::index::lanes::{Index, Key, Lane};
use super::index::traces::Trace;
use super::moves::outbox::Outbox;
use super::queries::head::oldest_of;
use super::rows::{Besides, Spot};
use super::verbs::once::Calls;
use super::{Counts, Partition};
use crate::containers::SortedMap;
use crate::id::{GroupNumber, ItemNumber};
use crate::item::{Item, State};
use crate::row::Clearable;
use crate::rule::RuleKey;

impl Partition {
    /// Compares every counter and index with what the items say. Scans everything.
    pub fn audit(&self) -> Result<(), String> {
        let mut full = self.full_count()?;
        same("counts", &self.counts(), &full.counts)?;
        same("counts by kind", &self.kind_counts(), &full.kinds)?;
        let oldest = self.lanes.open().filter_map(|(_, lane)| oldest_of(lane)).min();
        same("the oldest that waits", &self.oldest_waiting(), &oldest)?;
        same("waiting by priority", &self.waiting_by_priority(), &full.priorities)?;
        same("final items", &self.retained(), &full.finals)?;
        same("bytes kept", &self.kept_bytes, &full.kept_bytes)?;
        same("items with something to show", &self.traces, &full.traces)?;
        let templates = self.groups.rows().flat_map(|group| group.templates());
        for template in templates.chain(self.crons.iter().map(|cron| &cron.template)) {
            *full.items_by_kind.entry(template.kind.clone()).or_default() += 1;
        }
        for kind in self.rules.iter().filter_map(|rule| rule.key.kind.as_ref()) {
            *full.items_by_kind.entry(kind.clone()).or_default() += 1;
        }
        let kinds: BTreeMap<_, _> = self.kinds.iter().map(|(name, items)| (name.clone(), items)).collect();
        same("items by kind", &kinds, &full.items_by_kind)?;
        // Each item is in its index, so it is in no other if the indexes together hold no more than there are.
        let forgotten = self.items.iter().filter(|(_, entry)| entry.state.is_forgotten()).count();
        let indexed = self.indexes().map(|(_, index)| index.total()).iter().sum::<usize>();
        same("indexed items", &(indexed + self.finished.len() + forgotten), &self.items.len())?;
        same("places of leased items", &self.leased_places.len(), &self.deadlines.total())?;
        same("leased items by number", &self.leased.len(), &self.deadlines.total())?;
        same("items that expire", &self.expiry, &full.expiry)?;
        for cron in self.crons.iter() {
            cron.leaves.iter().for_each(|leaves| full.outbox.insert_cron(&cron.name, leaves));
        }
        same("items and crons on their way", &self.outbox, &full.outbox)?;
        self.audit_groups()?;
        self.audit_names()?;
        self.audit_rules(&full.kinds)?;
        same("events", &self.events.sums()?, &full.events)?;
        same("items by address", &self.addresses, &full.addresses)?;
        same("what finds items", &self.finders, &full.finders)?;
        self.check_holders()?;
        same("keys of slots that are at home elsewhere", &self.lingering, &self.count_lingering())?;
        let mut calls = Calls::default();
        self.calls.iter().for_each(|once| calls.insert(once.clone()));
        same("calls that are remembered", &self.calls, &calls)?;
        self.audit_crons()?;
        for (name, index) in self.indexes() {
            index.audit().map_err(|problem| format!("{name}: {problem}"))?;
        }
        Ok(())
    }

    fn full_count(&self) -> Result<FullCount, String> {
        let mut full = FullCount::default();
        full.finders.show_from(self.cleared.suspended_before);
        for (number, entry) in self.items.iter() {
            let spot = self.spot(number, entry);
            if !self.is_at(spot) {
                return Err(format!("item {} is not where it belongs: {spot:?}", number.0));
            }
            full.add(&self.item(number, entry), self.is_gone(entry), self.is_held(entry));
            if let Some(trace) = Trace::of(entry).filter(|trace| trace.has_something_to_show) {
                *full.traces.entry(trace.of).or_default() += 1;
            }
            full.finals += u64::from(self.is_gone(entry) && self.keeps_gone(entry));
            full.add_besides(Besides::of(number, entry));
        }
        Ok(full)
    }

    /// Compares what is known of every group with what the items say.
    fn audit_groups(&self) -> Result<(), String> {
        let mut counted: BTreeMap<GroupIndex, Members> = BTreeMap::new();
        let mut live: BTreeMap<GroupIndex, Counts> = BTreeMap::new();
        for (_, entry) in self.items.iter() {
            let Some(group) = entry.group else { continue };
            if !self.is_gone(entry) {
                *live.entry(group).or_default() += seen_as(&entry.state, self.is_held(entry));
            }
            counted.entry(group).or_default().add(entry);
        }
        for group in self.groups.iter() {
            let slot = self.groups.slot(group);
            let counted = counted.remove(&group).unwrap_or_default();
            same("a group's members", &slot.members, &counted)?;
            same(
                "a group's live members",
                &self.groups.live(group),
                &live.remove(&group).unwrap_or_default(),
            )?;
            let (is_due, should_be) = (self.groups.is_due(group), self.groups.should_be_due(group));
            // The sweep meets a member that was cleared, and the group is due then.
            if is_due != should_be && !(should_be && self.groups.unswept(group) > 0) {
                return Err(format!("group {:?} is due: {is_due}, and should be: {should_be}", slot.number));
            }
        }
        same("groups that are unknown", &counted.len(), &0)?;
        let mut kept = BTreeMap::new();
        for (_, entry) in self.items.iter() {
            let Some((group, trace)) = entry.group.zip(Trace::of(entry)) else { continue };
            let is_kept = trace.has_something_to_show || self.groups.slot(group).keeps_all();
            if is_kept && self.goes_with_cancelled(group, trace.of.0) {
                *kept.entry(trace.of).or_default() += 1;
            }
        }
        same("items kept of cancelled groups", &self.kept_of_cancelled, &kept)
    }

    fn audit_names(&self) -> Result<(), String> {
        let named: BTreeSet<_> =
            self.groups.rows().map(|group| (Arc::clone(&group.name), group.number)).collect();
        same("groups by name", self.groups.named(), &named)
    }

    /// Compares what is stopped with what the rules say.
    fn audit_rules(&self, kinds: &BTreeMap<Arc<str>, Counts>) -> Result<(), String> {
        let stops = |kind: Option<&Arc<str>>| {
            let on = |key: &RuleKey| key.kind.as_ref() == kind;
            self.rules.iter().any(|rule| on(&rule.key))
        };
        let stopped = kinds.iter().filter(|(kind, _)| stops(None) || stops(Some(kind)));
        same("stopped items", &self.stopped(), &stopped.map(|(_, counts)| counts.waiting).sum())?;
        same("whether all is stopped", &self.lanes.all_stopped(), &stops(None))
    }

    fn audit_crons(&self) -> Result<(), String> {
        let mut crons = Crons::default();
        self.crons.iter().for_each(|cron| {
            crons.insert(Box::new(cron.clone()));
        });
        same("crons", &self.crons, &crons)
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
            Spot::Waiting(lane, key) => self.lanes.contains(lane, key),
            Spot::Scheduled(lane, key) => self.schedule.contains(lane, key),
            Spot::Leased(lane, key, place) => {
                self.deadlines.contains(lane, key)
                    && self.leased_places.contains(lane.era, place)
                    && self.leased.contains(lane.era, key.1)
            }
            Spot::Suspended(lane, key) => self.suspended.contains(lane, key),
            Spot::Final(key, _) => self.finished.contains_key(&key),
            Spot::Forgotten => true,
        }
    }

    fn indexes(&self) -> [(&'static str, &Index); 4] {
        [
            ("lanes", &self.lanes),
            ("schedule", &self.schedule),
            ("deadlines", &self.deadlines),
            ("suspended", &self.suspended),
        ]
    }

    fn named(&self, lane: Lane) -> NamedLane {
        let group = lane.group.map(|group| self.groups.slot(group).number);
        (group, self.kinds.name(lane.kind).clone(), lane.era)
    }

    /// Kinds by name and groups by number: the order in which they came up differs between a partition and its rebuilt self.
    fn shown(&self, index: &Index) -> ShownIndex {
        let keys = |lane| index.keys_of(lane).collect();
        ShownIndex {
            lanes: index.lanes().map(|(lane, _)| (self.named(lane), keys(lane))).collect(),
            heads: index.heads().map(|(key, lane)| (key, self.named(lane))).collect(),
            firsts: index.firsts().collect(),
            stopped: index.stopped().map(|kind| self.kinds.name(kind).clone()).collect(),
            gone: index.gone().map(|lane| self.named(lane)).collect(),
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
        show.field("finders", &self.finders.shown(|group| self.groups.slot(group).number));
        show.field("lingering", &self.lingering)
            .field("addresses", &self.addresses)
            .field("calls", &self.calls);
        show.field("crons", &self.crons);
        show.field("finished", &self.finished).field("kept_bytes", &self.kept_bytes);
        show.field("counts", &self.counts).field("priorities", &self.priorities);
        show.field("traces", &self.traces).field("kept_of_cancelled", &self.kept_of_cancelled);
        show.field("groups", &self.groups.iter().map(|group| self.groups.slot(group)).collect::<Vec<_>>());
        show.finish()
    }
}

#[derive(Debug)]
#[expect(dead_code, reason = "read by Debug alone, which the lint does not count")]
struct ShownIndex {
    lanes: BTreeMap<NamedLane, Vec<Key>>,
    heads: BTreeSet<(Key, NamedLane)>,
    firsts: Vec<Key>,
    stopped: BTreeSet<Arc<str>>,
    gone: BTreeSet<NamedLane>,
}

/// A group's number, a kind's name and an era.
type NamedLane = (Option<GroupNumber>, Arc<str>, u32);

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
    finders: Finders,
    /// The number of the last event and the bytes kept, of items that have any.
    events: BTreeMap<ItemNumber, (u64, u64)>,
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
        if let Some(findable) = besides.findable {
            self.finders.insert(findable);
        }
    }

    fn add(&mut self, item: &Item, gone: bool, held: bool) {
        *self.items_by_kind.entry(item.kind.clone()).or_default() += 1;
        if let State::Final(outcome) = &item.state
            && !item.state.is_forgotten()
        {
            self.finals += 1;
            self.kept_bytes += outcome.kept_bytes;
        }
        if let Some(extras) = item.extras.as_ref().filter(|extras| extras.event_count > 0) {
            self.events.insert(item.number, (extras.event_count, extras.event_bytes));
        }
        let one = seen_as(&item.state, held);
        if gone || one == Counts::default() {
            return;
        }
        self.counts += one;
        *self.kinds.entry(item.kind.clone()).or_default() += one;
        if one.waiting == 1 {
            *self.priorities.entry(item.priority).or_default() += 1;
        }
    }
}

/// What an item that is not gone counts as.
fn seen_as(state: &State, held: bool) -> Counts {
    let mut one = Counts::default();
    match state {
        State::Final(_) => {}
        State::Scheduled { .. } => one.scheduled = 1,
        State::Waiting { .. } if held => one.held = 1,
        State::Waiting { .. } => one.waiting = 1,
        State::Leased(_) => one.leased = 1,
        State::Suspended(_) => one.suspended = 1,
    }
    one
}

fn same<T: PartialEq + fmt::Debug>(what: &str, kept: &T, counted: &T) -> Result<(), String> {
    if kept == counted { Ok(()) } else { Err(format!("{what}: kept {kept:?}, counted {counted:?}")) }
}
