//! Queues made, changed and deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::footprint::Footprint;
use crate::id::{NUMBER_MAX, PartitionId};
use crate::json;
use crate::limits::{Invalid, check_meta, check_partitions, check_queue_name, check_queue_settings};
use crate::partition::numbers::next;
use crate::refusal::{Limit, Refusal};
use crate::registry::{Changes, Registry};
use crate::route::SlotMap;
use crate::row::{Key, Partitions, Queue, QueueName, Row, StoreNames};
use crate::settings::{Settings, SettingsChange, differs};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};

#[derive(Clone, Debug)]
pub struct DeleteQueue(pub QueueName);

/// Takes note that numbers up to this one were given out by a registry that has forgotten so.
#[derive(Clone, Copy, Debug)]
pub struct SkipPartitions(pub PartitionId);

#[derive(Clone, Debug)]
pub struct CreateQueue {
    pub name: QueueName,
    /// Its `version` is ignored: the registry counts.
    pub settings: Settings,
    pub partitions: u32,
    /// As in [`crate::row::Queue::meta`].
    pub meta: Option<Arc<str>>,
    /// Unset: refused if there is a queue of the name. Set: such a queue is answered as it is, if it has what was given.
    pub exists_ok: Option<Box<GivenQueue>>,
    /// Where the partitions are to be: chosen by the engine.
    pub stores: StoreNames,
}

impl CreateQueue {
    /// Without `meta`, and refused if there is a queue of the name.
    pub fn new(name: QueueName, settings: Settings, partitions: u32) -> Self {
        Self { name, settings, partitions, meta: None, exists_ok: None, stores: StoreNames::default() }
    }
}

/// The fields of a queue that a caller gave, as opposed to those that a queue has by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenQueue {
    pub partitions: Option<u32>,
    pub settings: SettingsChange,
    /// `Some(None)`: the queue is to have none.
    pub meta: Option<Option<Arc<str>>>,
}

/// Changes the settings that are named and no others.
#[derive(Clone, Debug)]
pub struct UpdateQueue {
    pub name: QueueName,
    pub change: SettingsChange,
    /// Replaces [`crate::row::Queue::meta`]; `Some(None)` takes it away.
    pub meta: Option<Option<Arc<str>>>,
}

impl UpdateQueue {
    /// A change of settings alone.
    pub fn new(name: QueueName, change: SettingsChange) -> Self {
        Self { name, change, meta: None }
    }
}

impl Verb<Registry> for SkipPartitions {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, registry: &mut Registry, _now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.skip_partitions(self.0, out);
        Ok(())
    }
}

impl Verb<Registry> for CreateQueue {
    type Reply = Queue;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_queue_name(&self.name)?;
        check_partitions(self.partitions)?;
        self.meta.as_deref().map_or(Ok(()), check_meta)?;
        check_queue_settings(&self.name, &self.settings)
    }

    fn decide(self, registry: &mut Registry, now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.create_queue(now, self, out)
    }
}

impl Verb<Registry> for UpdateQueue {
    type Reply = Queue;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn check(&self) -> Result<(), Invalid> {
        // The settings that come of an update are checked once they are known.
        self.meta.iter().flatten().try_for_each(|meta| check_meta(meta))
    }

    fn decide(self, registry: &mut Registry, now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.update_queue(now, self, out)
    }
}

/// Answered by the queue as it was.
impl Verb<Registry> for DeleteQueue {
    type Reply = Queue;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, registry: &mut Registry, _now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.delete_queue(&self.0, out)
    }
}

impl Registry {
    fn skip_partitions(&mut self, last: PartitionId, out: &mut Changes) {
        if last.0 > self.partitions.last {
            self.record(Row::Partitions(Partitions { last: last.0, ..self.partitions.clone() }), out);
        }
    }

    fn create_queue(
        &mut self,
        now: Timestamp,
        create: CreateQueue,
        out: &mut Changes,
    ) -> Result<Queue, Refusal> {
        if let Some(queue) = self.queues.get(&create.name) {
            return queue.as_it_is(create.exists_ok.as_deref());
        }
        self.check_queues()?;
        self.check_partitions(create.partitions as usize)?;
        let first = self.partitions.last;
        let last = first.checked_add(create.partitions).ok_or(NO_MORE_PARTITIONS)?;
        let queue = Queue {
            name: create.name,
            settings: Settings { version: next_version(0, now)?, ..create.settings },
            meta: create.meta,
            created_at: now,
            updated_at: now,
            partitions: (first + 1..=last).map(PartitionId).collect(),
            stores: create.stores,
            slots: SlotMap::default(),
            route_version: next_version(0, now)?,
            draining: BTreeSet::new(),
            retired: BTreeMap::new(),
            former: BTreeMap::new(),
            unknown: Vec::new(),
        };
        self.record(Row::Partitions(Partitions { last, ..self.partitions.clone() }), out);
        self.record(Row::Queue(Box::new(queue.clone())), out);
        Ok(queue)
    }

    /// Here, where the settings are, and not by whoever asks: of two changes at once neither undoes the other.
    fn update_queue(
        &mut self,
        now: Timestamp,
        update: UpdateQueue,
        out: &mut Changes,
    ) -> Result<Queue, Refusal> {
        let mut queue = self.registered(&update.name)?;
        let version = next_version(queue.settings.version, now)?;
        queue.settings = Settings { version, ..queue.settings.changed(update.change) };
        check_queue_settings(&queue.name, &queue.settings).map_err(Refusal::Invalid)?;
        queue.meta = update.meta.unwrap_or(queue.meta);
        queue.updated_at = now.max(queue.updated_at);
        self.record(Row::Queue(Box::new(queue.clone())), out);
        Ok(queue)
    }

    fn delete_queue(&mut self, name: &QueueName, out: &mut Changes) -> Result<Queue, Refusal> {
        let queue = self.registered(name)?;
        self.erase_cron_names(name, out);
        self.erase_row(Key::Queue(name.clone()), out);
        self.erase_rules_of(name, out);
        queue.stored().for_each(|stored| self.record_dropped(stored, out));
        Ok(queue)
    }

    fn check_queues(&self) -> Result<(), Refusal> {
        let max = self.limits.queues;
        if self.queues.len() < max { Ok(()) } else { Err(Refusal::AtLimit { limit: Limit::Queues, max }) }
    }

    pub(super) fn check_partitions(&self, more: usize) -> Result<(), Refusal> {
        let max = self.limits.partitions;
        let then = self.queues.partitions().saturating_add(more);
        if then <= max { Ok(()) } else { Err(Refusal::AtLimit { limit: Limit::Partitions, max }) }
    }
}

impl Queue {
    /// The answer to a creation of a queue that is there.
    fn as_it_is(&self, given: Option<&GivenQueue>) -> Result<Queue, Refusal> {
        let given = given.ok_or(Refusal::QueueExists)?;
        match self.first_difference(given) {
            Some(field) => Err(Refusal::QueueDiffers { field }),
            None => Ok(self.clone()),
        }
    }

    fn first_difference(&self, given: &GivenQueue) -> Option<&'static str> {
        let width = u32::try_from(self.width()).unwrap_or(u32::MAX);
        let is_meta = |given: &Option<Arc<str>>| match (given, &self.meta) {
            (Some(given), Some(meta)) => json::is_same(given, meta),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        differs("partitions", &given.partitions, &width)
            .or(self.settings.first_difference(&given.settings))
            .or(given.meta.as_ref().filter(|given| !is_meta(given)).map(|_| "meta"))
    }
}

/// Partitions tell by the version whether they have the latest. By the clock, as other numbers are: a registry that
/// lost its last updates must not give their versions to other settings.
pub(super) fn next_version(last: u64, now: Timestamp) -> Result<u64, Refusal> {
    next(last, now).ok_or(NO_MORE_VERSIONS)
}

const NO_MORE_VERSIONS: Refusal = Refusal::AtLimit { limit: Limit::QueueVersions, max: NUMBER_MAX as usize };
pub(super) const NO_MORE_PARTITIONS: Refusal =
    Refusal::AtLimit { limit: Limit::PartitionNumbers, max: u32::MAX as usize };
