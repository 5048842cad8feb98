//! Which queues there are. The registry partition holds the truth; what runs is brought in line with it.

mod align;
mod crons;
mod drain;
mod rules;
mod running;
mod unclaimed;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot, watch};
use tracing::warn;
use windlass_core::command::{Command, CreateQueue, Rebalance, Refusal};
use windlass_core::id::PartitionId;
use windlass_core::limits::{self, RegistryLimits};
use windlass_core::row::{Queue, QueueName, StoreNames};
use windlass_core::time::Timestamp;

use crate::clock::Clock;
use crate::env::{self, Env, Task};
use crate::error::{EngineError, Outcome};
use crate::lock::lock;
use crate::meter::Meter;
use crate::partition::handle::{Arrivals, Handle, InCommon, PartitionState};
use crate::partition::message::Answer;
use crate::partition::supervisor::Supervisor;
use crate::queue::QueueHandle;
use crate::store::Store;
use crate::types::{CommitStats, QueueOverview};
pub(crate) use running::Home;
use running::{Running, stop};
pub(crate) use running::{RunningQueues, Whereabouts};

#[derive(Debug)]
pub(crate) struct Registry {
    env: Arc<dyn Env>,
    store: Arc<dyn Store>,
    /// Partition 0.
    home: Arc<Handle>,
    clock: Arc<Clock>,
    meter: Arc<Meter>,
    home_task: Mutex<Option<Task>>,
    running: Arc<Mutex<RunningQueues>>,
    arrivals: Arc<Arrivals>,
    /// One change of the set of queues at a time.
    changing: AsyncMutex<()>,
    /// What runs may differ from what is registered.
    stale: Arc<Notify>,
    /// The stores whose partitions were compared with what the registry names.
    looked_at: Mutex<BTreeSet<Arc<str>>>,
    /// Why a store has not dropped a partition that has a drop record, until that was looked at.
    drop_failure: Mutex<Option<EngineError>>,
    /// Some partition may have a cron that is left half way to another.
    crons_unseen: AtomicBool,
    /// Leases wait no more.
    waiters_home: AtomicBool,
    closing: AtomicBool,
    calls: watch::Sender<usize>,
}

/// A call under way: the engine does not close beneath it.
#[derive(Debug)]
pub(crate) struct Call<'a>(&'a watch::Sender<usize>);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|calls| *calls -= 1);
    }
}

impl Registry {
    /// Reads the registry and starts every queue. Returns once each partition was loaded or found faulty.
    pub(crate) async fn open(
        env: Arc<dyn Env>,
        store: Arc<dyn Store>,
        registry_limits: RegistryLimits,
    ) -> Result<Arc<Self>, EngineError> {
        let common = InCommon { registry_limits, ..InCommon::default() };
        let (home, inbox) = Handle::new(PartitionId::REGISTRY, &common, None);
        let clock = Arc::new(Clock::start(Arc::clone(&env)));
        let meter = Arc::default();
        let supervisor = Supervisor::new(&home, &env, &store, &clock, &meter, inbox);
        let home_task = env::spawn(&*env, "registry", supervisor.run());
        let registry = Arc::new(Self {
            env,
            store,
            home,
            clock,
            meter,
            home_task: Mutex::new(Some(home_task)),
            running: Arc::default(),
            arrivals: Arc::default(),
            changing: AsyncMutex::new(()),
            stale: Arc::default(),
            looked_at: Mutex::default(),
            drop_failure: Mutex::default(),
            crons_unseen: AtomicBool::new(false),
            waiters_home: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            calls: watch::Sender::new(0),
        });
        match registry.home.settled().await {
            PartitionState::Faulty { error } => {
                registry.close().await;
                return Err(EngineError::not_applied(format!("the registry cannot be read: {error}")));
            }
            PartitionState::Available | PartitionState::Loading | PartitionState::Closed => {}
        }
        if let Err(error) = registry.look_at_stores().await {
            warn!(%error, "the stores could not be searched for unclaimed partitions yet");
            registry.stale.notify_one();
        }
        if let Err(error) = registry.align().await {
            warn!(%error, "queues could not be brought in line with the registry yet");
            registry.stale.notify_one();
        }
        match registry.mend_crons().await {
            Ok(asked_all) => registry.crons_unseen.store(!asked_all, Ordering::SeqCst),
            Err(error) => {
                warn!(%error, "what was left half done of crons could not be finished yet");
                registry.stale.notify_one();
            }
        }
        Ok(registry)
    }

    pub(crate) fn queue(&self, name: &QueueName) -> Option<Arc<QueueHandle>> {
        lock(&self.running).find(name)
    }

    pub(crate) fn queues(&self) -> Vec<Queue> {
        lock(&self.running).queues.values().map(|running| running.handle.queue.clone()).collect()
    }

    /// The other queues of its namespace.
    pub(crate) fn names_beside(&self, queue: &QueueName) -> BTreeSet<Arc<str>> {
        let running = lock(&self.running);
        let others = running.queues.keys().filter(|name| name.namespace == queue.namespace && *name != queue);
        others.map(|name| Arc::clone(&name.name)).collect()
    }

    pub(crate) fn overview(&self) -> Vec<QueueOverview> {
        lock(&self.running).queues.values().map(|running| running.handle.overview()).collect()
    }

    pub(crate) fn home_of(&self, id: PartitionId) -> Option<Home> {
        lock(&self.running).home_of(id)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// On the boot clock.
    pub(crate) fn boot(&self) -> Duration {
        self.env.boot()
    }

    pub(crate) async fn sleep_until(&self, at: Duration) {
        self.env.sleep_until(at).await;
    }

    pub(crate) fn commit_stats(&self) -> CommitStats {
        self.meter.stats()
    }

    /// Carries a change of the registry out, and brings what runs in line with it before it is answered.
    pub(crate) async fn change(self: &Arc<Self>, command: Command) -> Result<Answer, EngineError> {
        let registry = Arc::clone(self);
        self.alone(async move { registry.carry_out(command).await }).await
    }

    /// The stores of its partitions are chosen with nobody else about to make a queue.
    pub(crate) async fn create(self: &Arc<Self>, create: CreateQueue) -> Result<Answer, EngineError> {
        limits::check_partitions(create.partitions).map_err(Refusal::Invalid)?;
        let registry = Arc::clone(self);
        self.alone(async move {
            let stores = registry.choose_stores(create.partitions as usize).await?;
            registry.carry_out(Command::CreateQueue(Box::new(create), stores)).await
        })
        .await
    }

    /// As [`Registry::create`], for the partitions that are new.
    pub(crate) async fn rebalance(
        self: &Arc<Self>,
        name: QueueName,
        partitions: u32,
    ) -> Result<Answer, EngineError> {
        limits::check_partitions(partitions).map_err(Refusal::Invalid)?;
        let registry = Arc::clone(self);
        self.alone(async move {
            // So that as many stores are chosen as there will be new partitions.
            registry.align().await?;
            let queue = registry.queue(&name).ok_or(Refusal::NoSuchQueue)?;
            let new = (partitions as usize).saturating_sub(queue.queue.width());
            let stores = registry.choose_stores(new).await?;
            let answer = registry.carry_out(Command::Rebalance(Rebalance { name, partitions, stores })).await;
            // Crons go where they belong now.
            registry.stale.notify_one();
            answer
        })
        .await
    }

    /// A store that has opened since is looked at first: a new partition must not get a number under which an open store
    /// holds something. One that opens only now is not chosen.
    async fn choose_stores(&self, partitions: usize) -> Result<StoreNames, EngineError> {
        self.look_at_stores().await?;
        let looked_at = lock(&self.looked_at).clone();
        Ok(self.store.choose(partitions, &looked_at))
    }

    /// Without `force` only if every item is final.
    pub(crate) async fn delete(
        self: &Arc<Self>,
        name: QueueName,
        force: bool,
    ) -> Result<Answer, EngineError> {
        let registry = Arc::clone(self);
        self.alone(async move { registry.close_and_delete(name, force).await }).await
    }

    /// One at a time, and in a task of its own: a caller that goes away in the middle must not leave half of it undone.
    async fn alone<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let registry = Arc::clone(self);
        let (sender, answer) = oneshot::channel();
        // It holds the lock on changes, which closing waits for.
        let _not_awaited = env::spawn(&*self.env, "change of queues", async move {
            let _changing = registry.changing.lock().await;
            let _caller_gone = sender.send(change.await);
        });
        answer.await.unwrap_or_else(|_dropped| Err(EngineError::unknown("shutting down")))
    }

    /// The door is closed before the partitions are asked, so that what is found empty stays so until it is gone.
    async fn close_and_delete(&self, name: QueueName, force: bool) -> Result<Answer, EngineError> {
        if self.queue(&name).is_none() {
            // It may be registered and not run yet: then nobody knows what it holds.
            self.align().await?;
        }
        let queue = self.queue(&name).ok_or(Refusal::NoSuchQueue)?;
        queue.door.close()?;
        let empty = if force { Ok(()) } else { queue.check_empty().await };
        let deleted = match empty {
            Ok(()) => self.carry_out(Command::DeleteQueue(name)).await,
            Err(error) => Err(error),
        };
        match &deleted {
            // If it is still there, the door opens once that is known.
            Ok(_) | Err(EngineError::Unavailable { outcome: Outcome::Unknown, .. }) => {}
            Err(_nothing_done) => queue.door.open(),
        }
        deleted
    }

    async fn carry_out(&self, command: Command) -> Result<Answer, EngineError> {
        let answer = self.home.command(command).await;
        if self.align().await.is_err() {
            self.stale.notify_one();
        }
        answer
    }

    pub(crate) fn enter(&self) -> Result<Call<'_>, EngineError> {
        self.calls.send_modify(|calls| *calls += 1);
        let call = Call(&self.calls);
        if self.closing.load(Ordering::SeqCst) {
            return Err(EngineError::not_applied("shutting down"));
        }
        Ok(call)
    }

    /// Leases that wait are answered with nothing now, those to come with what there is. Who waits for an item is told that
    /// it is over.
    pub(crate) fn send_waiters_home(&self) {
        self.waiters_home.store(true, Ordering::SeqCst);
        for running in lock(&self.running).queues.values() {
            running.handle.send_waiters_home();
        }
    }

    /// Sends waiting leases home, lets every call and every commit under way finish, and returns when all has ended.
    pub(crate) async fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.send_waiters_home();
        for running in lock(&self.running).queues.values() {
            running.handle.door.shut();
        }
        // What a call could not deliver is given back while its partition can still take it.
        let mut calls = self.calls.subscribe();
        calls.wait_for(|calls| *calls == 0).await.expect("the sender is ours");
        let _changing = self.changing.lock().await;
        let running: Vec<Running> = std::mem::take(&mut *lock(&self.running)).queues.into_values().collect();
        for running in &running {
            running.handle.all().for_each(|handle| handle.stop());
        }
        for running in running {
            stop(running).await;
        }
        self.home.stop();
        let home_task = lock(&self.home_task).take();
        if let Some(task) = home_task {
            task.await;
        }
    }
}
