//! More partitions for a queue, or fewer. Items never move: what was here is done here. Keys do, and whoever was home
//! to them before is remembered for as long as it may know one.

use crate::footprint::Footprint;
use crate::id::PartitionId;
use crate::limits::{Invalid, check_partitions};
use crate::refusal::Refusal;
use crate::registry::queues::{NO_MORE_PARTITIONS, next_version};
use crate::registry::{Changes, Registry};
use crate::route::{Slot, SlotMap, SlotSet};
use crate::row::{Partitions, Queue, QueueName, Row, StoreNames, Stored};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};

/// A partition that was draining is empty.
#[derive(Clone, Debug)]
pub struct Retire {
    pub queue: QueueName,
    pub partition: PartitionId,
}

/// A retired partition keeps nothing any more.
#[derive(Clone, Debug)]
pub struct ForgetPartition {
    pub queue: QueueName,
    pub partition: PartitionId,
}

/// A partition knows no key any more of slots that it was home to.
#[derive(Clone, Debug)]
pub struct ForgetFormerHome {
    pub queue: QueueName,
    pub partition: PartitionId,
    pub slots: SlotSet,
    /// The routes that the partition knew when it said so. By later ones it may have been home to the slots again.
    pub route_version: u64,
}

/// More partitions for a queue, or fewer once some are leased empty.
#[derive(Clone, Debug)]
pub struct Rebalance {
    pub name: QueueName,
    pub partitions: u32,
    /// For those that are new.
    pub stores: StoreNames,
}

impl Verb<Registry> for Rebalance {
    type Reply = Queue;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_partitions(self.partitions)
    }

    fn decide(self, registry: &mut Registry, now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.rebalance(now, self, out)
    }
}

impl Verb<Registry> for Retire {
    type Reply = Queue;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, registry: &mut Registry, now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.retire(now, &self.queue, self.partition, out)
    }
}

impl Verb<Registry> for ForgetPartition {
    type Reply = Queue;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, registry: &mut Registry, now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.forget_partition(now, &self.queue, self.partition, out)
    }
}

impl Verb<Registry> for ForgetFormerHome {
    type Reply = Queue;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, registry: &mut Registry, _now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.forget_former_home(&self, out)
    }
}

impl Registry {
    fn rebalance(
        &mut self,
        now: Timestamp,
        rebalance: Rebalance,
        out: &mut Changes,
    ) -> Result<Queue, Refusal> {
        let mut queue = self.registered(&rebalance.name)?;
        if !queue.draining.is_empty() {
            return Err(Refusal::Draining);
        }
        let (before, after) = (queue.width(), rebalance.partitions as usize);
        if before == after {
            return Ok(queue);
        }
        let slots = queue.slots.spread(before, after);
        queue.pass_on(&slots, after);
        queue.slots = slots;
        if after > before {
            self.add_partitions(&mut queue, after - before, rebalance, out)?;
        } else {
            queue.draining = queue.partitions[after..].iter().copied().collect();
        }
        self.reroute(now, queue, out)
    }

    fn add_partitions(
        &mut self,
        queue: &mut Queue,
        count: usize,
        rebalance: Rebalance,
        out: &mut Changes,
    ) -> Result<(), Refusal> {
        self.check_partitions(count)?;
        let first = self.partitions.last;
        let last = u32::try_from(count).ok().and_then(|count| first.checked_add(count));
        let last = last.ok_or(NO_MORE_PARTITIONS)?;
        if !rebalance.stores.0.is_empty() {
            queue.stores.0.resize(queue.partitions.len(), "".into());
            queue.stores.0.extend(rebalance.stores.0);
        }
        queue.partitions.extend((first + 1..=last).map(PartitionId));
        self.record(Row::Partitions(Partitions { last, ..self.partitions.clone() }), out);
        Ok(())
    }

    /// It stays for what it keeps.
    fn retire(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        partition: PartitionId,
        out: &mut Changes,
    ) -> Result<Queue, Refusal> {
        let mut queue = self.registered(name)?;
        let Some(index) = queue.partitions.iter().position(|id| *id == partition) else {
            return Ok(queue);
        };
        assert!(queue.draining.remove(&partition), "only a partition that drains is retired");
        let store = queue.store(index).cloned();
        queue.partitions.remove(index);
        if index < queue.stores.0.len() {
            queue.stores.0.remove(index);
        }
        queue.retired.insert(partition, store);
        // No key has another home, but the others may keep more: partitions take over only routes of another version.
        self.reroute(now, queue, out)
    }

    fn forget_partition(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        partition: PartitionId,
        out: &mut Changes,
    ) -> Result<Queue, Refusal> {
        let mut queue = self.registered(name)?;
        let retired = queue.retired.remove(&partition);
        queue.former.remove(&partition);
        let reply = self.reroute(now, queue, out)?;
        if let Some(store) = retired {
            self.record_dropped(Stored { partition, store }, out);
        }
        Ok(reply)
    }

    /// Nothing if keys have other homes by now: the partition is asked again by the routes that count.
    fn forget_former_home(&mut self, forget: &ForgetFormerHome, out: &mut Changes) -> Result<Queue, Refusal> {
        let mut queue = self.registered(&forget.queue)?;
        if queue.route_version == forget.route_version && queue.forget_former_home(forget) {
            // No key has another home, so the routes are of the same version.
            self.record(Row::Queue(Box::new(queue.clone())), out);
        }
        Ok(queue)
    }

    pub(super) fn registered(&self, name: &QueueName) -> Result<Queue, Refusal> {
        self.queues.get(name).cloned().ok_or_else(|| Refusal::no_such_queue(name))
    }

    pub(super) fn reroute(
        &mut self,
        now: Timestamp,
        mut queue: Queue,
        out: &mut Changes,
    ) -> Result<Queue, Refusal> {
        queue.route_version = next_version(queue.route_version, now)?;
        self.record(Row::Queue(Box::new(queue.clone())), out);
        Ok(queue)
    }
}

impl Queue {
    /// Tells whether the partition was a former home of any of the slots.
    fn forget_former_home(&mut self, forget: &ForgetFormerHome) -> bool {
        let Some(slots) = self.former.get_mut(&forget.partition) else { return false };
        let before = *slots;
        forget.slots.iter().for_each(|slot| slots.remove(slot));
        let changed = *slots != before;
        self.former.retain(|_, slots| !slots.is_empty());
        changed
    }

    /// Takes note of who loses a slot, and who has it back.
    pub(super) fn pass_on(&mut self, slots: &SlotMap, width: usize) {
        for slot in Slot::all() {
            let before = self.home(slot).map(|index| self.partitions[index]);
            let after = slots.home(slot, width).and_then(|index| self.partitions.get(index)).copied();
            if before == after {
                continue;
            }
            if let Some(partition) = before {
                self.former.entry(partition).or_default().insert(slot);
            }
            if let Some(slots) = after.and_then(|partition| self.former.get_mut(&partition)) {
                slots.remove(slot);
            }
        }
        self.former.retain(|_, slots| !slots.is_empty());
    }
}
