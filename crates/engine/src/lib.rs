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
//! Read [`store`] (the trait) first, then `partition/writer`, `partition/supervisor`, `partition/waiters`, `queue`,
//! `registry`; then [`store::log`].

mod clock;
pub mod env;
mod error;
mod lock;
mod partition;
mod queue;
mod registry;
pub mod store;
mod types;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use windlass_core::command::{
    Clear, Command, CreateQueue, Extended, LeaseItems, NewItem, Refusal, Reply, Retried, UpdateQueue,
};
use windlass_core::id::{ItemId, Permit};
use windlass_core::item::Phase;
use windlass_core::row::{Part, Queue, QueueName};
use windlass_core::time::Span;

use crate::env::{Env, Task};
use crate::lock::lock;
use crate::partition::handle::Done;
use crate::queue::QueueHandle;
use crate::registry::Registry;
use crate::store::{Store, StoreStats};

pub use crate::error::{EngineError, Outcome};
pub use crate::partition::handle::PartitionState;
pub use crate::types::{
    Commit, Grant, Granted, ItemView, Judged, PartitionStats, ProducedItems, QueueStats, RetryItem,
};

/// All queues of one store. Cheap to clone; every clone is the same engine.
#[derive(Clone, Debug)]
pub struct Engine {
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
    aligner: Arc<Mutex<Option<Task>>>,
}

impl Engine {
    /// Reads the registry and loads every partition. One that cannot be had is faulty and tried again with backoff;
    /// only a registry that cannot be read is an error.
    pub async fn open(env: Arc<dyn Env>, store: Arc<dyn Store>) -> Result<Self, EngineError> {
        let registry = Registry::open(Arc::clone(&env), Arc::clone(&store)).await?;
        let aligner = env::spawn(&*env, "registry", Arc::clone(&registry).keep_aligned());
        Ok(Self { registry, store, aligner: Arc::new(Mutex::new(Some(aligner))) })
    }

    /// Answers waiting leases with nothing, finishes the calls and commits under way, and closes the store. A grant
    /// that nobody has accepted by then can no longer be given back: accept or drop it before.
    pub async fn close(&self) {
        self.registry.close().await;
        let aligner = lock(&self.aligner).take();
        if let Some(task) = aligner {
            task.await;
        }
        self.store.close().await;
    }

    pub fn store_stats(&self) -> StoreStats {
        self.store.stats()
    }

    pub async fn create_queue(&self, create: CreateQueue) -> Result<Queue, EngineError> {
        self.change_queue(Command::CreateQueue(create)).await
    }

    pub async fn update_queue(&self, update: UpdateQueue) -> Result<Queue, EngineError> {
        self.change_queue(Command::UpdateQueue(update)).await
    }

    /// The queue and everything in it is gone; one made again under the name is a new one.
    pub async fn delete_queue(&self, name: &QueueName) -> Result<(), EngineError> {
        self.change_queue(Command::DeleteQueue(name.clone())).await.map(|_gone| ())
    }

    async fn change_queue(&self, command: Command) -> Result<Queue, EngineError> {
        let _call = self.registry.enter()?;
        let reply = self.registry.change(command).await?.reply;
        let Done::Reply(Reply::Queue(queue) | Reply::QueueDeleted(queue)) = reply else {
            unreachable!("a change of queues is answered by the queue")
        };
        Ok(queue)
    }

    pub fn queues(&self) -> Vec<Queue> {
        self.registry.queues()
    }

    /// All of the items go to one partition, in the order given: all or none.
    pub async fn produce(
        &self,
        queue: &QueueName,
        items: Vec<NewItem>,
    ) -> Result<ProducedItems, EngineError> {
        let _call = self.registry.enter()?;
        self.queue(queue)?.produce(items).await
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
        Ok(self.queue(queue)?.extend(lease_timeout, items).await)
    }

    pub async fn release(
        &self,
        queue: &QueueName,
        items: Vec<(ItemId, Permit)>,
    ) -> Result<Judged<()>, EngineError> {
        let _call = self.registry.enter()?;
        Ok(self.queue(queue)?.release(items).await)
    }

    /// Tells the state after it: cancelled, or still leased with the request noted.
    pub async fn cancel(&self, id: ItemId) -> Result<Phase, EngineError> {
        let _call = self.registry.enter()?;
        let handle = self.registry.partition(id.partition).ok_or(Refusal::NotFound)?;
        let Done::Reply(Reply::Cancelled(phase)) = handle.command(Command::Cancel(id.number)).await?.reply
        else {
            unreachable!("a cancel is answered by a state")
        };
        Ok(phase)
    }

    pub async fn get(&self, id: ItemId) -> Result<ItemView, EngineError> {
        let _call = self.registry.enter()?;
        let handle = self.registry.partition(id.partition).ok_or(Refusal::NotFound)?;
        let mut before = None;
        loop {
            let item =
                handle.query(move |partition, _| partition.get(id.number)).await?.ok_or(Refusal::NotFound)?;
            let wanted = vec![(id.number, Part::Payload), (id.number, Part::Result)];
            let bodies = self.store.read(id.partition, wanted).await;
            let mut bodies = bodies.map_err(|error| EngineError::not_applied(error.to_string()))?.into_iter();
            let view = ItemView { item, payload: bodies.next().flatten(), result: bodies.next().flatten() };
            // It may have ended between the two looks; then the first no longer counts. If nothing has changed, the
            // payload is lost: a salvaged log may lack it.
            let ended_meanwhile = view.payload.is_none() && !view.item.state.phase().is_final();
            if !ended_meanwhile || before.as_ref() == Some(&view.item) {
                return Ok(view);
            }
            before = Some(view.item);
        }
    }

    /// Tells how many items it took away.
    pub async fn clear(&self, queue: &QueueName, clear: Clear) -> Result<u64, EngineError> {
        let _call = self.registry.enter()?;
        self.queue(queue)?.clear(clear).await
    }

    pub async fn stats(&self, queue: &QueueName) -> Result<QueueStats, EngineError> {
        let _call = self.registry.enter()?;
        self.queue(queue)?.stats().await
    }

    fn queue(&self, name: &QueueName) -> Result<Arc<QueueHandle>, EngineError> {
        self.registry.queue(name).ok_or(EngineError::Refused(Refusal::NoSuchQueue))
    }
}
