//! [`Registry`]: which queues there are. Its state machine holds the truth; the [`Host`] is told to run what is registered.
//!
//! No lock is held over all queues: the state machine decides one verb after the other, and what follows from a
//! verb for what runs waits for other changes of the same queue and for nothing else. So a partition that stalls holds up
//! changes of its own queue alone.

mod align;
mod crons;
mod delete;
mod drain;
mod drops;
mod former;
mod known_crons;
mod repair;
mod rules;
mod served;
mod stale;
mod unclaimed;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use tracing::warn;
use windlass_core::cron::CronName;
use windlass_core::id::PartitionId;
use windlass_core::limits::{self, RegistryLimits};
use windlass_core::refusal::Refusal;
use windlass_core::registry;
use windlass_core::row::{Queue, QueueName, StoreNames};
use windlass_core::verb::Verb;
use windlass_core::verbs::{CreateQueue, Rebalance, UpdateQueue};

use crate::clock::Clock;
use crate::env::{self, Env, Task};
use crate::error::EngineError;
use crate::headers::HeaderReader;
use crate::host::Host;
use crate::lock::lock;
use crate::machine::call::Answer;
use crate::machine::supervisor::Supervisor;
use crate::partition::handle::PartitionState;
use crate::store::Store;
use crate::turns::Turns;
pub(crate) use crons::Found;
pub(crate) use known_crons::{CRON_LOOKS_MAX, CRON_TIMES_SHOWN, Ensured};
pub use known_crons::{CronInfo, GivenCron};
pub(crate) use served::RegistryHandle;
pub(crate) use stale::Stale;
pub use unclaimed::Unclaimed;

#[derive(Debug)]
pub(crate) struct Registry {
    env: Arc<dyn Env>,
    store: Arc<dyn Store>,
    /// The state machine that holds the truth.
    home: Arc<RegistryHandle>,
    home_task: Mutex<Option<Task>>,
    host: Arc<Host>,
    /// One change of a queue at a time.
    queue_turns: Arc<Turns<QueueName>>,
    /// One cron of a name is made or deleted at a time.
    cron_turns: Arc<Turns<CronName>>,
    /// One unclaimed partition is dropped at a time.
    unclaimed_turns: Arc<Turns<PartitionId>>,
    /// Partitions of a store are listed or dropped one at a time.
    store_turns: Arc<Turns<Arc<str>>>,
    stale: Arc<Stale>,
    /// The stores whose partitions were compared with what the registry names.
    looked_at: Mutex<BTreeSet<Arc<str>>>,
}

impl Registry {
    /// Reads the registry and starts every queue. Returns once each partition was loaded or found faulty.
    pub(crate) async fn open(
        env: Arc<dyn Env>,
        store: Arc<dyn Store>,
        registry_limits: RegistryLimits,
        headers: HeaderReader,
    ) -> Result<Arc<Self>, EngineError> {
        let (home, inbox) = RegistryHandle::new(registry_limits);
        let (clock, meter) = (Arc::new(Clock::start(Arc::clone(&env))), Arc::default());
        let supervisor = Supervisor::new(&home, &env, &store, &clock, &meter, inbox);
        let home_task = env::spawn(&*env, "registry", supervisor.run());
        let stale = Arc::<Stale>::default();
        let host = Host::new(
            Arc::clone(&env),
            Arc::clone(&store),
            clock,
            meter,
            Arc::clone(&home),
            Arc::clone(&stale),
            headers,
        );
        let registry = Arc::new(Self {
            env,
            store,
            home,
            home_task: Mutex::new(Some(home_task)),
            host: Arc::new(host),
            queue_turns: Arc::default(),
            cron_turns: Arc::default(),
            unclaimed_turns: Arc::default(),
            store_turns: Arc::default(),
            stale,
            looked_at: Mutex::default(),
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
            registry.stale.tell_all();
        }
        if let Err(error) = registry.start_all().await {
            warn!(%error, "queues could not be brought in line with the registry yet");
            registry.stale.tell_all();
        }
        match registry.dropped().await {
            Ok(dropped) => registry.carry_out_drops_or_later(dropped).await,
            Err(_) => registry.stale.tell_drops(),
        }
        Ok(registry)
    }

    pub(crate) async fn update(self: &Arc<Self>, update: UpdateQueue) -> Result<Answer<Queue>, EngineError> {
        let (registry, name) = (Arc::clone(self), update.name.clone());
        self.in_turn(&self.queue_turns, name.clone(), async move { registry.carry_out(&name, update).await })
            .await
    }

    pub(crate) async fn create(self: &Arc<Self>, create: CreateQueue) -> Result<Answer<Queue>, EngineError> {
        limits::check_partitions(create.partitions).map_err(Refusal::Invalid)?;
        let (registry, name) = (Arc::clone(self), create.name.clone());
        self.in_turn(&self.queue_turns, name.clone(), async move {
            let stores = registry.choose_stores(create.partitions as usize).await?;
            registry.carry_out(&name, CreateQueue { stores, ..create }).await
        })
        .await
    }

    /// As [`Registry::create`], for the partitions that are new.
    pub(crate) async fn rebalance(
        self: &Arc<Self>,
        name: QueueName,
        partitions: u32,
    ) -> Result<Answer<Queue>, EngineError> {
        limits::check_partitions(partitions).map_err(Refusal::Invalid)?;
        let registry = Arc::clone(self);
        self.in_turn(&self.queue_turns, name.clone(), async move {
            // So that as many stores are chosen as there will be new partitions.
            registry.align(&name).await?;
            let queue = registry.host.queue(&name).ok_or_else(|| Refusal::no_such_queue(&name))?;
            let new = (partitions as usize).saturating_sub(queue.queue.width());
            let stores = registry.choose_stores(new).await?;
            let rebalance = Rebalance { name: name.clone(), partitions, stores };
            registry.carry_out(&name, rebalance).await
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

    /// Carries out a change once no other change of the same queue or cron is under way: in a task of its own, for a caller that
    /// goes away in the middle must not leave half of it undone. If the caller went away before it began, it is not made.
    async fn in_turn<T: Send + 'static, K: Ord + Clone + Send + Sync + 'static>(
        self: &Arc<Self>,
        turns: &Arc<Turns<K>>,
        key: K,
        change: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let (registry, turns) = (Arc::clone(self), Arc::clone(turns));
        let (sender, answer) = oneshot::channel();
        // Closing waits for the call that it enters as.
        let _not_awaited = env::spawn(&*self.env, "change", async move {
            let begun = async {
                let call = registry.host.enter()?;
                Ok((call, registry.host.unless_closing(turns.take(&key)).await?))
            };
            let outcome = match begun.await {
                Ok(_turn) if sender.is_closed() => return,
                Ok(_turn) => change.await,
                Err(closing) => Err(closing),
            };
            let _caller_gone = sender.send(outcome);
        });
        answer.await.unwrap_or_else(|_dropped| Err(EngineError::unknown("shutting down")))
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Has the registry carry a verb about a queue out, and brings what runs of the queue in line with it before the verb is
    /// answered. Only in the turn of the queue.
    async fn carry_out<V: Verb<registry::Registry>>(
        &self,
        queue: &QueueName,
        verb: V,
    ) -> Result<Answer<V::Reply>, EngineError> {
        let answer = self.home.apply(verb).await;
        if self.align(queue).await.is_err() {
            self.stale.tell(queue);
        }
        answer
    }

    /// Sends waiting leases home, lets every call and every commit under way finish, and returns when all has ended.
    pub(crate) async fn close(&self) {
        self.host.close().await;
        self.home.stop();
        let task = lock(&self.home_task).take();
        if let Some(task) = task {
            task.await;
        }
        self.host.end().await;
    }
}
