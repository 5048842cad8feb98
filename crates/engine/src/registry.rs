//! Which queues there are. The registry partition holds the truth; this brings what runs in line with it, after
//! every change, at the start, and whenever a change had an unknown outcome.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc, oneshot, watch};
use tracing::{info, warn};
use windlass_core::command::Command;
use windlass_core::id::PartitionId;
use windlass_core::partition::Partition;
use windlass_core::row::{Queue, QueueName};

use crate::env::{self, Env, Task};
use crate::error::EngineError;
use crate::lock::lock;
use crate::partition::handle::{Answer, Handle, Message, PartitionState};
use crate::partition::supervisor::Supervisor;
use crate::partition::waiters::Waiters;
use crate::queue::QueueHandle;
use crate::store::{Store, StoreError};

/// How long to wait after queues could not be brought in line.
const ALIGN_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Registry {
    env: Arc<dyn Env>,
    store: Arc<dyn Store>,
    /// Partition 0.
    home: Arc<Handle>,
    home_task: Mutex<Option<Task>>,
    running: Mutex<RunningQueues>,
    /// One change of the set of queues at a time.
    changing: AsyncMutex<()>,
    /// What runs may differ from what is registered.
    stale: Notify,
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

#[derive(Debug)]
struct Running {
    handle: Arc<QueueHandle>,
    tasks: Vec<Task>,
}

#[derive(Debug, Default)]
struct RunningQueues {
    queues: BTreeMap<QueueName, Running>,
    /// The partitions of all of them.
    partitions: BTreeMap<PartitionId, Arc<Handle>>,
}

impl RunningQueues {
    fn insert(&mut self, name: QueueName, running: Running) {
        self.partitions
            .extend(running.handle.partitions.iter().map(|handle| (handle.id, Arc::clone(handle))));
        self.queues.insert(name, running);
    }

    fn remove(&mut self, name: &QueueName) -> Option<Running> {
        let running = self.queues.remove(name)?;
        for handle in &running.handle.partitions {
            self.partitions.remove(&handle.id);
        }
        Some(running)
    }
}

impl Registry {
    /// Reads the registry and starts every queue. Returns once each partition was loaded or found faulty.
    pub(crate) async fn open(env: Arc<dyn Env>, store: Arc<dyn Store>) -> Result<Arc<Self>, EngineError> {
        let (home, inbox) = Handle::new(PartitionId::REGISTRY, Arc::default(), None);
        let home_task = supervise(&env, &store, &home, inbox);
        let registry = Arc::new(Self {
            env,
            store,
            home,
            home_task: Mutex::new(Some(home_task)),
            running: Mutex::default(),
            changing: AsyncMutex::new(()),
            stale: Notify::new(),
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
        if let Err(error) = registry.align().await {
            warn!(%error, "queues could not be brought in line with the registry yet");
            registry.stale.notify_one();
        }
        Ok(registry)
    }

    pub(crate) fn queue(&self, name: &QueueName) -> Option<Arc<QueueHandle>> {
        lock(&self.running).queues.get(name).map(|running| Arc::clone(&running.handle))
    }

    pub(crate) fn queues(&self) -> Vec<Queue> {
        lock(&self.running).queues.values().map(|running| running.handle.queue.clone()).collect()
    }

    pub(crate) fn partition(&self, id: PartitionId) -> Option<Arc<Handle>> {
        lock(&self.running).partitions.get(&id).map(Arc::clone)
    }

    /// Carries a change of the registry out, and brings what runs in line with it before it is answered. In a task of
    /// its own: a caller that goes away in the middle must not leave half of it undone.
    pub(crate) async fn change(self: &Arc<Self>, command: Command) -> Result<Answer, EngineError> {
        let registry = Arc::clone(self);
        let (sender, answer) = oneshot::channel();
        // It holds the lock on changes, which closing waits for.
        let _not_awaited = env::spawn(&*self.env, "change of queues", async move {
            let _changing = registry.changing.lock().await;
            let answer = registry.home.command(command).await;
            if registry.align().await.is_err() {
                registry.stale.notify_one();
            }
            let _caller_gone = sender.send(answer);
        });
        answer.await.unwrap_or_else(|_dropped| Err(EngineError::unknown("shutting down")))
    }

    /// Repairs in the background what a change with an unknown outcome may have left, or a registry that was read back
    /// and is not what it was before, until the engine closes.
    pub(crate) async fn keep_aligned(self: Arc<Self>) {
        let mut stopping = self.home.stopping();
        let mut states = self.home.states();
        loop {
            tokio::select! {
                biased;
                _stop = stopping.wait_for(|stop| *stop) => return,
                () = self.stale.notified() => {}
                _changed = states.changed() => {}
            }
            if self.home.state() != PartitionState::Available {
                continue;
            }
            let aligned = {
                let _changing = self.changing.lock().await;
                self.align().await
            };
            if let Err(error) = aligned {
                warn!(%error, "queues could not be brought in line with the registry yet");
                self.stale.notify_one();
                tokio::select! {
                    biased;
                    _stop = stopping.wait_for(|stop| *stop) => return,
                    () = self.env.sleep_until(self.env.boot() + ALIGN_AGAIN) => {}
                }
            }
        }
    }

    /// Starts what is registered and does not run, stops what runs and is not registered, and drops what is left
    /// of queues that were deleted.
    async fn align(&self) -> Result<(), EngineError> {
        let question = |partition: &Partition, _| {
            (partition.queues().cloned().collect::<Vec<_>>(), partition.partitions_last())
        };
        let (registered, last) = self.home.query(question).await?;
        let gone = self.take_gone(&registered);
        for running in gone {
            stop(running).await;
        }
        for queue in registered {
            self.start_or_update(queue).await;
        }
        self.drop_orphans(last).await
    }

    fn take_gone(&self, registered: &[Queue]) -> Vec<Running> {
        let mut running = lock(&self.running);
        let is_gone = |running: &Running| {
            let same = |queue: &&Queue| {
                queue.name == running.handle.queue.name && queue.partitions == running.handle.queue.partitions
            };
            !registered.iter().any(|queue| same(&queue))
        };
        let names: Vec<QueueName> = running
            .queues
            .iter()
            .filter(|(_, running)| is_gone(running))
            .map(|(name, _)| name.clone())
            .collect();
        names.iter().filter_map(|name| running.remove(name)).collect()
    }

    async fn start_or_update(&self, queue: Queue) {
        match self.queue(&queue.name) {
            Some(running) if running.queue == queue => {}
            Some(running) => self.update(&running, queue).await,
            None => self.start(queue).await,
        }
    }

    async fn start(&self, queue: Queue) {
        let waiters: Arc<Waiters> = Arc::default();
        let mut partitions = Vec::new();
        let mut tasks = Vec::new();
        for id in &queue.partitions {
            let (handle, inbox) = Handle::new(*id, Arc::clone(&waiters), Some(queue.settings.clone()));
            tasks.push(supervise(&self.env, &self.store, &handle, inbox));
            partitions.push(handle);
        }
        for handle in &partitions {
            handle.settled().await;
        }
        let handle = Arc::new(QueueHandle {
            queue: queue.clone(),
            partitions,
            waiters,
            env: Arc::clone(&self.env),
            store: Arc::clone(&self.store),
            turn: Arc::new(AtomicUsize::new(0)),
        });
        lock(&self.running).insert(queue.name, Running { handle, tasks });
    }

    /// New settings: kept for whoever acquires a partition next, and told to those that serve now.
    async fn update(&self, running: &QueueHandle, queue: Queue) {
        for handle in &running.partitions {
            handle.set_settings(queue.settings.clone());
            if let Err(error) = handle.command(Command::Configure(queue.settings.clone())).await {
                // The writer sees them with its next batch, or the next one when it is acquired.
                warn!(partition = %handle.id, %error, "settings not taken over yet");
            }
        }
        let handle = Arc::new(QueueHandle {
            queue: queue.clone(),
            partitions: running.partitions.clone(),
            waiters: Arc::clone(&running.waiters),
            env: Arc::clone(&running.env),
            store: Arc::clone(&running.store),
            turn: Arc::clone(&running.turn),
        });
        if let Some(running) = lock(&self.running).queues.get_mut(&queue.name) {
            running.handle = handle;
        }
    }

    /// Forgets partitions that no queue has any more.
    async fn drop_orphans(&self, last: PartitionId) -> Result<(), EngineError> {
        let failed = |error: StoreError| EngineError::not_applied(error.to_string());
        let stored = self.store.partitions().await.map_err(failed)?;
        let orphans =
            stored.into_iter().filter(|id| *id != PartitionId::REGISTRY && self.partition(*id).is_none());
        for id in orphans {
            if id > last {
                // Only without a sync for every commit: the registry went back to before the queue was made. Its
                // numbers were seen, and must not be given out again.
                warn!(partition = %id, "dropping a partition of a queue whose creation was lost");
                self.home.command(Command::SkipPartitions(id)).await?;
            } else {
                info!(partition = %id, "dropping a partition of a deleted queue");
            }
            self.store.drop_partition(id).await.map_err(failed)?;
        }
        Ok(())
    }

    pub(crate) fn enter(&self) -> Result<Call<'_>, EngineError> {
        self.calls.send_modify(|calls| *calls += 1);
        let call = Call(&self.calls);
        if self.closing.load(Ordering::SeqCst) {
            return Err(EngineError::not_applied("shutting down"));
        }
        Ok(call)
    }

    /// Sends waiting leases home, lets every call and every commit under way finish, and returns when all has ended.
    pub(crate) async fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        for running in lock(&self.running).queues.values() {
            running.handle.waiters.close();
        }
        // What a call could not deliver is given back while its partition can still take it.
        let mut calls = self.calls.subscribe();
        calls.wait_for(|calls| *calls == 0).await.expect("the sender is ours");
        let _changing = self.changing.lock().await;
        let running: Vec<Running> = std::mem::take(&mut *lock(&self.running)).queues.into_values().collect();
        for running in &running {
            running.handle.partitions.iter().for_each(|handle| handle.stop());
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

async fn stop(running: Running) {
    running.handle.waiters.close();
    running.handle.partitions.iter().for_each(|handle| handle.stop());
    for task in running.tasks {
        task.await;
    }
}

fn supervise(
    env: &Arc<dyn Env>,
    store: &Arc<dyn Store>,
    handle: &Arc<Handle>,
    inbox: mpsc::Receiver<Message>,
) -> Task {
    env::spawn(&**env, "partition", Supervisor::new(handle, env, store, inbox).run())
}
