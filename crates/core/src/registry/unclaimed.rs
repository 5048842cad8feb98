//! Partitions that are to be dropped, and partitions that no queue names.
//!
//! A store drops a partition only for a [`Dropped`] record. Whatever else a store holds and no queue names is unclaimed: it
//! is kept until an operator has it adopted or dropped.

use std::collections::BTreeSet;

use crate::footprint::Footprint;
use crate::id::PartitionId;
use crate::limits::{Invalid, PARTITIONS_MAX};
use crate::refusal::{Limit, Refusal};
use crate::registry::queues::next_version;
use crate::registry::{Changes, Registry};
use crate::route::Slot;
use crate::row::{Dropped, Key, Partitions, Queue, QueueName, Row, Stored};
use crate::settings::Settings;
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};

/// Records that a partition which no queue names is to be dropped.
#[derive(Clone, Debug)]
pub struct DropUnclaimed(pub Stored);

/// These partitions were dropped by their stores: their [`Dropped`] records go.
#[derive(Clone, Debug)]
pub struct ForgetDropped(pub Vec<Stored>);

/// Makes a partition that no queue names one of a queue's.
#[derive(Clone, Debug)]
pub struct Adopt {
    pub queue: QueueName,
    pub stored: Stored,
}

const REGISTRY_COPY: Invalid =
    Invalid { field: "partition", rule: "1 or more: 0 is the registry of a server" };

impl Verb<Registry> for Adopt {
    type Reply = Queue;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn decide(self, registry: &mut Registry, now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.adopt(now, self, out)
    }
}

impl Verb<Registry> for DropUnclaimed {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, registry: &mut Registry, _now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.drop_unclaimed(self.0, out)
    }
}

impl Verb<Registry> for ForgetDropped {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, registry: &mut Registry, _now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.forget_dropped(&self.0, out);
        Ok(())
    }
}

impl Registry {
    /// Makes an unclaimed partition a member of a queue, as a rebalance that adds one does. The partition may know keys of
    /// any slot, so it is a former home of every slot that it is not home to.
    fn adopt(&mut self, now: Timestamp, adopt: Adopt, out: &mut Changes) -> Result<Queue, Refusal> {
        let mut queue = self.registered(&adopt.queue)?;
        self.check_adoptable(&queue, &adopt.stored)?;
        // By the clock, and so other than the versions of the queue that the partition was made for.
        let version = next_version(queue.settings.version, now)?;
        queue.settings = Settings { version, ..queue.settings };
        queue.append(&adopt.stored);
        let reply = self.reroute(now, queue, out)?;
        let last = self.partitions.last.max(adopt.stored.partition.0);
        if last > self.partitions.last {
            self.record(Row::Partitions(Partitions { last, ..self.partitions.clone() }), out);
        }
        Ok(reply)
    }

    fn check_adoptable(&self, queue: &Queue, stored: &Stored) -> Result<(), Refusal> {
        self.check_unclaimed(stored)?;
        if stored.partition == PartitionId::REGISTRY {
            return Err(Refusal::Invalid(REGISTRY_COPY));
        }
        let has = |queue: &&Queue| queue.homes().any(|(partition, _)| partition == stored.partition);
        if let Some(named) = self.queues.values().find(has) {
            return Err(Refusal::PartitionNamed { queue: named.name.name.clone() });
        }
        if !queue.draining.is_empty() {
            return Err(Refusal::Draining);
        }
        if queue.partitions.len() >= PARTITIONS_MAX as usize {
            return Err(Refusal::AtLimit { limit: Limit::PartitionsPerQueue, max: PARTITIONS_MAX as usize });
        }
        Ok(())
    }

    /// The record is carried out by whoever reads it, however often.
    fn drop_unclaimed(&mut self, stored: Stored, out: &mut Changes) -> Result<(), Refusal> {
        self.check_unclaimed(&stored)?;
        self.record_dropped(stored, out);
        Ok(())
    }

    /// Only the store knows whether it holds anything there; here is known what is claimed.
    fn check_unclaimed(&self, stored: &Stored) -> Result<(), Refusal> {
        if self.claimed().contains(stored) { Err(Refusal::NotUnclaimed) } else { Ok(()) }
    }

    pub(super) fn record_dropped(&mut self, stored: Stored, out: &mut Changes) {
        self.record(Row::Dropped(Dropped { stored, unknown: Vec::new() }), out);
    }

    fn forget_dropped(&mut self, done: &[Stored], out: &mut Changes) {
        for stored in done {
            if self.dropped.contains_key(stored) {
                self.erase_row(Key::Dropped(stored.clone()), out);
            }
        }
    }

    /// The partitions that are to be dropped.
    pub fn dropped(&self) -> impl Iterator<Item = &Stored> {
        self.dropped.keys()
    }

    /// Every partition that a queue or a drop record names, and the registry itself.
    pub fn claimed(&self) -> BTreeSet<Stored> {
        let registry = Stored { partition: PartitionId::REGISTRY, store: None };
        let queues = self.queues.values().flat_map(Queue::stored);
        queues.chain(self.dropped().cloned()).chain([registry]).collect()
    }
}

impl Queue {
    fn append(&mut self, stored: &Stored) {
        let (before, after) = (self.width(), self.width() + 1);
        let slots = self.slots.spread(before, after);
        self.pass_on(&slots, after);
        self.slots = slots;
        self.stores.0.resize(self.partitions.len(), "".into());
        self.stores.0.push(stored.store.clone().unwrap_or_default());
        self.partitions.push(stored.partition);
        let elsewhere = Slot::all().filter(|slot| self.home(*slot) != Some(before)).collect();
        self.former.insert(stored.partition, elsewhere);
    }
}
