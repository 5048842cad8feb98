//! Durability for Windlass: everything below HTTP.
//!
//! An [`Engine`] runs queues on a [`store`]. Each partition has one writer that drains its mailbox, applies every
//! verb to the core's state machine at one moment, commits once, and then answers everybody; while one batch is
//! made durable the next one gathers. Nothing is answered before it is durable, refusals included. When a commit
//! fails, the writer's memory is thrown away and the truth is read back.
//!
//! Clocks, tasks, threads and disks come from outside ([`env::Env`], [`store::log::disk::Disk`]), so that the whole
//! engine runs in a seeded simulator.
//!
//! Read `calls` (what callers can ask) and [`store`] (the trait) first, then `machine/writer`, `machine/supervisor`,
//! `partition/waiters`, `partition/watchers`, `partition/streams`, `queue`, `registry`, `host`, `outbox`; then
//! [`store::log`].

mod calls;
mod clock;
mod commit;
mod deaths;
pub mod env;
mod error;
mod history;
mod host;
mod lock;
mod machine;
mod memory;
mod meter;
mod outbox;
mod partition;
mod queue;
mod registry;
pub mod store;
mod stream;
mod turns;
mod view;

use std::sync::{Arc, Mutex};

use windlass_core::id::ItemId;
use windlass_core::limits::RegistryLimits;
use windlass_core::time::Timestamp;

use crate::env::{Env, Task};
use crate::host::Host;
use crate::lock::lock;
use crate::memory::Memory;
use crate::registry::Registry;
use crate::store::{Store, StoreState, StoreStats};
use crate::turns::Turns;

pub use crate::calls::{Explanation, HISTORY_QUEUES_MAX, LeaseBegun, LeaseLine, Rewrite, WhyNot};
pub use crate::commit::{Commit, Committed, Judged};
pub use crate::error::{EngineError, Outcome};
pub use crate::history::{HISTORY_BUCKETS_MAX, HISTORY_SPAN_MAX, HistoryBucket, QueueHistory, Waited};
pub use crate::memory::{MemoryLimit, MemoryStats};
pub use crate::meter::{CommitStats, Histogram};
pub use crate::partition::handle::PartitionState;
pub use crate::queue::{
    CreatedGroup, Delivery, ErrorShare, Grant, Granted, Holding, Page, PartitionStats, ProducedItem,
    QueueOverview, QueueStats, Redrive, Redriven, Search, SearchPage, Turn, Verify, Walk, WalkPlace,
};
pub use crate::registry::{CronInfo, GivenCron, Unclaimed};
pub use crate::stream::{CloseMode, EndReason, Frame, Subscription};
pub use crate::view::ItemView;
pub use windlass_core::partition::{Remaining, Totals};

/// All queues of one store. Cheap to clone; every clone is the same engine.
#[derive(Clone, Debug)]
pub struct Engine {
    registry: Arc<Registry>,
    host: Arc<Host>,
    store: Arc<dyn Store>,
    memory: Arc<Memory>,
    /// One update of an item's payload, reference and headers at a time: they are one body, which is read and written anew.
    record_turns: Arc<Turns<ItemId>>,
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
        let host = Arc::clone(registry.host());
        let (record_turns, aligner) = (Arc::default(), Arc::new(Mutex::new(Some(aligner))));
        Ok(Self { registry, host, store, memory, record_turns, aligner })
    }

    /// Answers waiting leases with nothing, sends home callers that wait for items or follow them, finishes the calls and
    /// commits under way, and closes the store. A grant that is neither accepted nor dropped by then cannot be given back.
    pub async fn close(&self) {
        self.registry.close().await;
        let aligner = lock(&self.aligner).take();
        if let Some(task) = aligner {
            task.await;
        }
        self.store.close().await;
    }

    /// Leases that wait are answered with nothing now, and leases that come later do not wait. Callers that wait for an item to
    /// end are told that the wait is over. Everything else goes on: a server that is about to close leaves no caller hanging.
    pub fn send_waiters_home(&self) {
        self.host.send_waiters_home();
    }

    /// The time by the engine's clock, for callers that tell how long ago something was.
    pub fn now(&self) -> Timestamp {
        self.host.now()
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
        self.host.commit_stats()
    }
}
