//! Brings what runs in line with what is registered: after every change, at the start, and whenever a change had an
//! unknown outcome.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::{info, warn};
use windlass_core::command::Command;
use windlass_core::id::PartitionId;
use windlass_core::partition::Partition;
use windlass_core::row::{Queue, QueueName};

use super::Registry;
use super::running::{Running, stop};
use crate::clock::Clock;
use crate::env;
use crate::error::EngineError;
use crate::lock::lock;
use crate::outbox::Outbox;
use crate::partition::handle::{Handle, InCommon, PartitionState};
use crate::partition::supervisor::Supervisor;
use crate::queue::QueueHandle;
use crate::store::StoreError;

/// How long to wait after queues could not be brought in line.
const ALIGN_AGAIN: Duration = Duration::from_secs(1);

impl Registry {
    /// Repairs in the background what a change with an unknown outcome may have left, or a registry that was read back
    /// and is not what it was before, until the engine closes.
    pub(crate) async fn keep_aligned(self: Arc<Self>) {
        let mut stopping = self.home.stopping();
        let mut states = self.home.states();
        let mut arrivals = self.arrivals.listen();
        loop {
            let crons_unseen = self.crons_unseen.load(Ordering::SeqCst);
            tokio::select! {
                biased;
                _stop = stopping.wait_for(|stop| *stop) => return,
                () = self.stale.notified() => {}
                _changed = states.changed() => {}
                _arrived = arrivals.changed(), if crons_unseen => {}
            }
            if self.home.state() != PartitionState::Available {
                continue;
            }
            let aligned = {
                let _changing = self.changing.lock().await;
                self.align_all().await
            };
            if let Err(error) = aligned {
                warn!(%error, "what runs could not be brought in line with the registry yet");
                self.stale.notify_one();
                tokio::select! {
                    biased;
                    _stop = stopping.wait_for(|stop| *stop) => return,
                    () = self.env.sleep_until(self.env.boot() + ALIGN_AGAIN) => {}
                }
            }
        }
    }

    /// Queues, and crons that were left half way from one partition to another.
    async fn align_all(&self) -> Result<(), EngineError> {
        self.align().await?;
        let asked_all = self.mend_crons().await?;
        self.crons_unseen.store(!asked_all, Ordering::SeqCst);
        Ok(())
    }

    /// Starts what is registered and does not run, stops what runs and is not registered, and drops what is left
    /// of queues that were deleted.
    pub(super) async fn align(&self) -> Result<(), EngineError> {
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
        let Some(running) = self.queue(&queue.name) else { return self.start(queue).await };
        // It is there: if somebody tried to delete it, that came to nothing.
        running.door.open();
        if running.queue != queue {
            self.update(&running, queue).await;
        }
    }

    async fn start(&self, queue: Queue) {
        let common = InCommon {
            queue: Some(queue.name.clone()),
            arrivals: Arc::clone(&self.arrivals),
            ..InCommon::default()
        };
        let mut partitions = Vec::new();
        let mut tasks = Vec::new();
        queue.homes().for_each(|(id, store)| self.store.assign(id, store));
        for id in &queue.partitions {
            let settings = Some(queue.settings.clone());
            let (handle, inbox) = Handle::new(*id, &common, settings);
            let clock = Arc::new(Clock::start(Arc::clone(&self.env), *id));
            let supervisor = Supervisor::new(&handle, &self.env, &self.store, &clock, &self.meter, inbox);
            tasks.push(env::spawn(&*self.env, "partition", supervisor.run()));
            tasks.push(env::spawn(&*self.env, "outbox", self.outbox(&handle, &queue.name).run()));
            partitions.push(handle);
        }
        for handle in &partitions {
            handle.settled().await;
        }
        let name = queue.name.clone();
        let (env, store) = (Arc::clone(&self.env), Arc::clone(&self.store));
        let InCommon { waiters, places, .. } = common;
        let handle = Arc::new(QueueHandle::new(queue, partitions, waiters, places, env, store));
        lock(&self.running).insert(name, Running { handle: Arc::clone(&handle), tasks });
        self.arrivals.tell();
        // Looked at once it can be seen: either we see the flag, or whoever sets it sees the queue.
        if self.waiters_home.load(Ordering::SeqCst) {
            handle.send_waiters_home();
        }
    }

    fn outbox(&self, source: &Arc<Handle>, queue: &QueueName) -> Outbox {
        let running = Arc::clone(&self.running);
        let (env, store) = (Arc::clone(&self.env), Arc::clone(&self.store));
        Outbox::new(Arc::clone(source), queue.clone(), running, Arc::clone(&self.arrivals), env, store)
    }

    /// New settings: kept for whoever acquires a partition next, and told to those that serve now.
    async fn update(&self, running: &QueueHandle, queue: Queue) {
        for handle in &running.partitions {
            handle.set_settings(queue.settings.clone());
            if let Err(error) = handle.command(Command::Configure(Box::new(queue.settings.clone()))).await {
                // The writer sees them with its next batch, or the next one when it is acquired.
                warn!(partition = %handle.id, %error, "settings not taken over yet");
            }
        }
        let name = queue.name.clone();
        let handle = Arc::new(running.with(queue));
        if let Some(running) = lock(&self.running).queues.get_mut(&name) {
            running.handle = handle;
        }
    }

    /// Forgets partitions that no queue has any more.
    async fn drop_orphans(&self, last: PartitionId) -> Result<(), EngineError> {
        let failed = |error: StoreError| EngineError::not_applied(error.to_string());
        let stored = self.store.partitions().await.map_err(failed)?;
        let orphans =
            stored.into_iter().filter(|id| *id != PartitionId::REGISTRY && !lock(&self.running).has(*id));
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
}
