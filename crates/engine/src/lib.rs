//! Durability for Windlass: everything below HTTP.
//!
//! An [`Engine`] runs queues on a [`store`]. Each partition has one writer that drains its mailbox, applies every
//! command to the core's state machine at one moment, commits once, and then answers everybody; while one batch is
//! made durable the next one gathers. Nothing is answered before it is durable, refusals included. When a commit
//! fails, the writer's memory is thrown away and the truth is read back.
//!
//! Clocks, tasks, threads and disks come from outside ([`env::Env`], [`store::log::disk::Disk`]), so that the whole
//! engine runs in a seeded simulator.
//!
//! Read [`store`] (the trait) first, then `partition/writer`, `partition/supervisor`, `partition/waiters`,
//! `partition/watchers`, `partition/streams`, `queue`, `registry`, `outbox`; then [`store::log`].

mod clock;
mod crons;
mod deaths;
pub mod env;
mod error;
mod explain;
mod groups;
mod host;
mod lock;
mod machine;
mod memory;
mod meter;
mod outbox;
mod partition;
mod queue;
mod registry;
mod reroute;
mod rules;
mod storage;
pub mod store;
mod stream;
mod types;
mod view;
mod wait;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use windlass_core::id::{ItemId, PartitionId, Permit};
use windlass_core::limits::{self, RegistryLimits};
use windlass_core::refusal::Refusal;
use windlass_core::row::{Queue, QueueName};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Clear, CreateQueue, Extended, LeaseItems, NewItem, Retried, UpdateQueue};

use crate::env::{Env, Task};
use crate::host::Home;
use crate::lock::lock;
use crate::memory::Memory;
use crate::partition::call::Answer;
use crate::queue::QueueHandle;
use crate::registry::Registry;
use crate::store::{Store, StoreState, StoreStats};

pub use crate::error::{EngineError, Outcome};
pub use crate::explain::{Explanation, WhyNot};
pub use crate::memory::{MemoryLimit, MemoryStats};
pub use crate::partition::handle::PartitionState;
pub use crate::stream::{CloseMode, EndReason, Frame, Subscription};
pub use crate::types::{
    Commit, CommitStats, Committed, CreatedGroup, CronInfo, Delivery, GivenCron, Grant, Granted, Histogram,
    Holding, ItemView, Judged, Page, PartitionStats, ProducedItem, QueueOverview, QueueStats, Redrive,
    RetryItem, SuspendItem, Unclaimed,
};
pub use windlass_core::partition::{Remaining, Totals};

/// All queues of one store. Cheap to clone; every clone is the same engine.
#[derive(Clone, Debug)]
pub struct Engine {
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
    memory: Arc<Memory>,
    aligner: Arc<Mutex<Option<Task>>>,
}

/// What an engine takes at most.
#[derive(Clone, Debug, Default)]
pub struct EngineLimits {
    pub registry: RegistryLimits,
    /// Unset: as much as there is.
    pub memory: Option<MemoryLimit>,
}

impl Engine {
    /// Reads the registry and loads every partition. One that cannot be had is faulty and tried again with backoff;
    /// only a registry that cannot be read is an error.
    pub async fn open(env: Arc<dyn Env>, store: Arc<dyn Store>) -> Result<Self, EngineError> {
        Self::open_with(env, store, EngineLimits::default()).await
    }

    /// As [`Engine::open`], with limits of one's own.
    pub async fn open_with(
        env: Arc<dyn Env>,
        store: Arc<dyn Store>,
        limits: EngineLimits,
    ) -> Result<Self, EngineError> {
        let registry = Registry::open(Arc::clone(&env), Arc::clone(&store), limits.registry).await?;
        let aligner = env::spawn(&*env, "registry", Arc::clone(&registry).keep_aligned());
        let memory = Arc::new(Memory::new(env, limits.memory));
        Ok(Self { registry, store, memory, aligner: Arc::new(Mutex::new(Some(aligner))) })
    }

    /// Answers waiting leases with nothing and sends home who waits for items or follows them, finishes the calls and commits under way, and closes the store. A grant
    /// that nobody has accepted by then can no longer be given back: accept or drop it before.
    pub async fn close(&self) {
        self.registry.close().await;
        let aligner = lock(&self.aligner).take();
        if let Some(task) = aligner {
            task.await;
        }
        self.store.close().await;
    }

    /// Leases that wait are answered with nothing now, and leases that come later do not wait. Who waits for an item to end is
    /// told that it is over. Everything else goes on:
    /// a server that is about to close has no caller left hanging when it does.
    pub fn send_waiters_home(&self) {
        self.registry.send_waiters_home();
    }

    /// What the engine takes the time to be, for whoever tells how long ago something was.
    pub fn now(&self) -> Timestamp {
        self.registry.now()
    }

    pub fn store_stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// The stores by themselves, where there are several.
    pub fn stores(&self) -> Vec<StoreState> {
        self.store.stores()
    }

    /// Unset if memory is not limited.
    pub fn memory_stats(&self) -> Option<MemoryStats> {
        self.memory.stats()
    }

    pub fn commit_stats(&self) -> CommitStats {
        self.registry.commit_stats()
    }

    pub async fn create_queue(&self, create: CreateQueue) -> Result<Committed<Queue>, EngineError> {
        let _call = self.registry.enter()?;
        Ok(committed_queue(self.registry.create(create).await?))
    }

    /// Changes what is named and nothing else. It counts in every partition that serves when this is answered.
    pub async fn update_queue(&self, update: UpdateQueue) -> Result<Committed<Queue>, EngineError> {
        let _call = self.registry.enter()?;
        Ok(committed_queue(self.registry.update(update).await?))
    }

    /// More partitions at once, or fewer: those that go take nothing new, and are gone once they were leased empty and
    /// keep nothing any more. Refused while an earlier change still drains some.
    pub async fn rebalance(
        &self,
        name: &QueueName,
        partitions: u32,
    ) -> Result<Committed<Queue>, EngineError> {
        let _call = self.registry.enter()?;
        Ok(committed_queue(self.registry.rebalance(name.clone(), partitions).await?))
    }

    /// The queue and everything in it is gone; one made again under the name is a new one. Without `force` it is refused
    /// while an item is not final, or on its way to another queue.
    pub async fn delete_queue(&self, name: &QueueName, force: bool) -> Result<Committed<()>, EngineError> {
        let _call = self.registry.enter()?;
        let Committed { commits, .. } = committed_queue(self.registry.delete(name.clone(), force).await?);
        Ok(Committed { value: (), commits })
    }

    /// By name.
    pub fn queues(&self) -> Vec<Queue> {
        self.registry.queues()
    }

    pub fn queue_info(&self, name: &QueueName) -> Option<Queue> {
        self.registry.queue(name).map(|running| running.queue.clone())
    }

    /// Every queue by name, as its writers last told of it: exact as of the last answer they gave, and asks nobody.
    pub fn overview(&self) -> Vec<QueueOverview> {
        self.registry.overview()
    }

    /// Items without a key go to one partition, in the order given: all or none. Those with one go to its home, all or
    /// none of each partition's; what one could not take fails by itself, and the call only if all of it did.
    pub async fn produce(
        &self,
        queue: &QueueName,
        items: Vec<NewItem>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        let _call = self.registry.enter()?;
        self.memory.check()?;
        self.take_in(queue, items).await
    }

    /// As [`Engine::produce`], but the same items under the same key within 24 hours are told what they were told the
    /// first time, and are not produced again; what did not reach its partition then is produced now. Other items under
    /// that key are refused.
    pub async fn produce_once(
        &self,
        queue: &QueueName,
        key: Arc<str>,
        items: Vec<NewItem>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        let _call = self.registry.enter()?;
        limits::check_batch("items", items.len()).map_err(Refusal::Invalid)?;
        self.memory.check()?;
        self.take_in_once(queue, key, items).await
    }

    /// Up to a batch of what there is, waiting up to `wait` for the first item; `Span::ZERO` answers at once.
    pub async fn lease(
        &self,
        queue: &QueueName,
        lease: LeaseItems,
        wait: Span,
    ) -> Result<Grant, EngineError> {
        let _call = self.registry.enter()?;
        self.queue(queue)?.lease(lease, wait).await
    }

    pub async fn complete(
        &self,
        queue: &QueueName,
        items: Vec<(ItemId, Permit, Option<Bytes>)>,
    ) -> Result<Judged<()>, EngineError> {
        let _call = self.registry.enter()?;
        Ok(self.queue(queue)?.complete(items).await)
    }

    pub async fn retry(
        &self,
        queue: &QueueName,
        items: Vec<RetryItem>,
    ) -> Result<Judged<Retried>, EngineError> {
        let _call = self.registry.enter()?;
        Ok(self.queue(queue)?.retry(items).await)
    }

    /// The heartbeat. Without `lease_timeout` each lease is extended by the timeout it has, counted from now.
    pub async fn extend(
        &self,
        queue: &QueueName,
        lease_timeout: Option<Span>,
        items: Vec<(ItemId, Permit)>,
    ) -> Result<Judged<Extended>, EngineError> {
        let _call = self.registry.enter()?;
        self.queue(queue)?.extend(lease_timeout, items).await
    }

    pub async fn release(
        &self,
        queue: &QueueName,
        items: Vec<(ItemId, Permit)>,
    ) -> Result<Judged<()>, EngineError> {
        let _call = self.registry.enter()?;
        Ok(self.queue(queue)?.release(items).await)
    }

    /// Workers give items up until somebody answers; their attempts are not counted.
    pub async fn suspend(
        &self,
        queue: &QueueName,
        items: Vec<SuspendItem>,
    ) -> Result<Judged<()>, EngineError> {
        let _call = self.registry.enter()?;
        Ok(self.queue(queue)?.suspend(items).await)
    }

    /// Takes leased items away from their workers: back to their own places, their attempts counted.
    pub async fn revoke(
        &self,
        queue: &QueueName,
        items: Vec<(ItemId, Permit)>,
    ) -> Result<Judged<()>, EngineError> {
        let _call = self.registry.enter()?;
        Ok(self.queue(queue)?.revoke(items).await)
    }

    /// Leased items by id, beginning after one that need not be there any more.
    pub async fn permits(
        &self,
        queue: &QueueName,
        after: Option<ItemId>,
        limit: usize,
    ) -> Result<Vec<Holding>, EngineError> {
        let _call = self.registry.enter()?;
        self.queue(queue)?.permits(after, limit).await
    }

    /// Tells the item after it: cancelled, or still leased with the request noted, or as it ended before.
    pub async fn cancel(&self, id: ItemId) -> Result<Committed<ItemView>, EngineError> {
        let _call = self.registry.enter()?;
        view::cancel(&self.home_of(id)?, &*self.store, id).await
    }

    /// The item that an address speaks of: the one that holds it now, else the latest that did and is still kept.
    pub async fn item_at(&self, queue: &QueueName, address: &str) -> Result<ItemId, EngineError> {
        let _call = self.registry.enter()?;
        self.find_item_at(queue, address).await
    }

    pub async fn get(&self, id: ItemId) -> Result<ItemView, EngineError> {
        let _call = self.registry.enter()?;
        view::get(&self.home_of(id)?, &*self.store, id).await
    }

    /// Tells how many items it took away.
    pub async fn clear(&self, queue: &QueueName, clear: Clear) -> Result<Committed<u64>, EngineError> {
        let _call = self.registry.enter()?;
        self.queue(queue)?.clear(clear).await
    }

    /// Sends waiting items of a dead queue back to where they came from, or to the queue named, in the order in which
    /// they wait, and tells how many. They have left when this is answered, and arrive on their own.
    pub async fn redrive(&self, queue: &QueueName, redrive: Redrive) -> Result<Committed<u64>, EngineError> {
        let _call = self.registry.enter()?;
        if let Some(to) = &redrive.to {
            self.queue(to)?;
        }
        let queues = self.registry.names_beside(queue);
        self.queue(queue)?.redrive(redrive, queues).await
    }

    pub async fn stats(&self, queue: &QueueName) -> Result<QueueStats, EngineError> {
        let _call = self.registry.enter()?;
        self.queue(queue)?.stats().await
    }

    fn queue(&self, name: &QueueName) -> Result<Arc<QueueHandle>, EngineError> {
        self.registry.queue(name).ok_or_else(|| Refusal::no_such_queue(name).into())
    }

    fn home_of(&self, id: ItemId) -> Result<Home, EngineError> {
        self.registry.home_of(id.partition).ok_or(EngineError::Refused(Refusal::NotFound))
    }
}

fn committed_queue(answer: Answer<Queue>) -> Committed<Queue> {
    let commits = vec![Commit { partition: PartitionId::REGISTRY, sequence: answer.sequence }];
    Committed { value: answer.reply, commits }
}
