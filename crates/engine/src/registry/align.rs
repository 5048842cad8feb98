//! Brings what runs in line with what is registered: after every change, at the start, and whenever a change had an
//! unknown outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tracing::warn;
use windlass_core::command::Command;
use windlass_core::id::PartitionId;
use windlass_core::partition::Partition;
use windlass_core::row::{Queue, QueueName, Stored};
use windlass_core::rule::RuleSet;
use windlass_core::time::Timestamp;

use super::Registry;
use super::running::{Running, stop};
use crate::env::{self, Task};
use crate::error::EngineError;
use crate::lock::lock;
use crate::outbox::Outbox;
use crate::partition::handle::{Handle, InCommon, Orders, PartitionState};
use crate::partition::message::{Awaited, received};
use crate::partition::supervisor::Supervisor;
use crate::queue::QueueHandle;

/// How long to wait after queues could not be brought in line.
const ALIGN_AGAIN: Duration = Duration::from_secs(1);

/// Partitions that were started, and what serves them.
#[derive(Default)]
struct Started {
    handles: Vec<Arc<Handle>>,
    tasks: BTreeMap<PartitionId, Vec<Task>>,
}

/// What the registry says.
struct Registered {
    queues: Vec<(Queue, Arc<RuleSet>)>,
    dropped: Vec<Stored>,
    /// Unset if nothing is unclaimed.
    claimed: Option<BTreeSet<Stored>>,
}

/// Waits for a further store to open. A single store never does.
async fn next_opening(openings: &mut Option<watch::Receiver<usize>>) {
    let opened = match openings {
        Some(openings) => openings.changed().await.is_ok(),
        None => false,
    };
    if !opened {
        std::future::pending().await
    }
}

/// A partition, and what it says to what it was told.
type Told = (Arc<Handle>, Result<Awaited, EngineError>);

impl Registry {
    /// Repairs in the background what a change with an unknown outcome may have left, or a registry that was read back
    /// and is not what it was before, until the engine closes.
    pub(crate) async fn keep_aligned(self: Arc<Self>) {
        let mut stopping = self.home.stopping();
        let mut states = self.home.states();
        let mut arrivals = self.arrivals.listen();
        let mut openings = self.store.openings();
        loop {
            let crons_unseen = self.crons_unseen.load(Ordering::SeqCst);
            tokio::select! {
                biased;
                _stop = stopping.wait_for(|stop| *stop) => return,
                () = self.stale.notified() => {}
                _changed = states.changed() => {}
                _arrived = arrivals.changed(), if crons_unseen => {}
                () = next_opening(&mut openings) => {}
            }
            if self.home.state() != PartitionState::Available {
                continue;
            }
            let aligned = {
                let _changing = self.changing.lock().await;
                self.align_all().await
            };
            let aligned = aligned.and_then(|()| lock(&self.drop_failure).take().map_or(Ok(()), Err));
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
        self.look_at_stores().await?;
        self.align_and_retire().await?;
        let asked_all = self.mend_crons().await?;
        self.crons_unseen.store(!asked_all, Ordering::SeqCst);
        Ok(())
    }

    /// Starts queues that are registered and do not run, stops queues that run and are not registered, and has stores drop
    /// the partitions that have a drop record.
    pub(super) async fn align(&self) -> Result<(), EngineError> {
        let has_unclaimed = self.has_unclaimed();
        let question = move |partition: &Partition, _: Timestamp| Registered {
            queues: partition
                .queues()
                .map(|queue| (queue.clone(), partition.rule_set(&queue.name)))
                .collect(),
            dropped: partition.dropped().cloned().collect(),
            claimed: has_unclaimed.then(|| partition.claimed()),
        };
        let Registered { queues, dropped, claimed } = self.home.query(question).await?;
        let (registered, rules): (Vec<Queue>, Vec<_>) = queues.into_iter().unzip();
        lock(&self.running).named =
            registered.iter().flat_map(Queue::stored).map(|stored| stored.partition).collect();
        let gone = self.take_gone(&registered);
        for running in gone {
            stop(running).await;
        }
        for (queue, rules) in registered.iter().cloned().zip(rules) {
            self.start_or_update(queue, rules).await;
        }
        // Only now that what was adopted is served: moves that waited for it ask it what it took.
        if let Some(claimed) = claimed {
            self.reclaim(&claimed);
        }
        let failure = self.carry_out_drops(dropped, &registered).await.err();
        if failure.is_some() {
            // Nothing else waits for a disk that does not drop: it is tried again.
            self.stale.notify_one();
        }
        *lock(&self.drop_failure) = failure;
        Ok(())
    }

    /// And lets go of partitions that are empty: which may leave others to be dropped.
    pub(super) async fn align_and_retire(&self) -> Result<(), EngineError> {
        self.align().await?;
        while self.retire_some().await? {
            self.align().await?;
        }
        Ok(())
    }

    fn take_gone(&self, registered: &[Queue]) -> Vec<Running> {
        let mut running = lock(&self.running);
        let is_gone =
            |running: &Running| !registered.iter().any(|queue| queue.is_same(&running.handle.queue));
        let names: Vec<QueueName> = running
            .queues
            .iter()
            .filter(|(_, running)| is_gone(running))
            .map(|(name, _)| name.clone())
            .collect();
        names.iter().filter_map(|name| running.remove(name)).collect()
    }

    async fn start_or_update(&self, queue: Queue, rules: Arc<RuleSet>) {
        let Some(running) = self.queue(&queue.name) else { return self.start(queue, rules).await };
        // It is there: if somebody tried to delete it, that came to nothing.
        running.door.open();
        let name = queue.name.clone();
        if running.queue != queue {
            self.update(&running, queue, &rules).await;
        }
        if let Some(running) = self.queue(&name) {
            self.tell_rules(&running, &rules).await;
        }
    }

    async fn start(&self, queue: Queue, rules: Arc<RuleSet>) {
        let common = Arc::new(InCommon {
            queue: Some(queue.name.clone()),
            arrivals: Arc::clone(&self.arrivals),
            emptied: Arc::clone(&self.stale),
            ..InCommon::default()
        });
        let Started { handles, tasks } = self.start_partitions(&queue, &rules, &common, |_| true).await;
        let (retired, partitions) =
            handles.into_iter().partition(|handle| queue.retired.contains_key(&handle.id));
        let name = queue.name.clone();
        let (env, store) = (Arc::clone(&self.env), Arc::clone(&self.store));
        let handle = Arc::new(QueueHandle::new(queue, partitions, retired, &common, env, store));
        lock(&self.running).insert(name, Running { handle: Arc::clone(&handle), common, tasks });
        self.arrivals.tell();
        // Looked at once it can be seen: either we see the flag, or whoever sets it sees the queue.
        if self.waiters_home.load(Ordering::SeqCst) {
            handle.send_waiters_home();
        }
    }

    /// In the order of the queue's list. Returns once each was loaded or found faulty.
    async fn start_partitions(
        &self,
        queue: &Queue,
        rules: &Arc<RuleSet>,
        common: &InCommon,
        which: impl Fn(PartitionId) -> bool,
    ) -> Started {
        let mut started = Started::default();
        for (id, store) in queue.homes().filter(|(id, _)| which(*id)) {
            self.store.assign(id, store);
            let orders = Orders::new(queue.settings.clone(), queue.intake(id));
            let (handle, inbox) = Handle::new(id, common, Some(orders));
            handle.set_rules(Arc::clone(rules));
            let clock = Arc::new(self.clock.another());
            let supervisor = Supervisor::new(&handle, &self.env, &self.store, &clock, &self.meter, inbox);
            let partition = env::spawn(&*self.env, "partition", supervisor.run());
            let outbox = env::spawn(&*self.env, "outbox", self.outbox(&handle, &queue.name).run());
            started.tasks.insert(id, vec![partition, outbox]);
            started.handles.push(handle);
        }
        for handle in &started.handles {
            handle.settled().await;
        }
        started
    }

    fn outbox(&self, source: &Arc<Handle>, queue: &QueueName) -> Outbox {
        let running = Arc::clone(&self.running);
        let (env, store) = (Arc::clone(&self.env), Arc::clone(&self.store));
        Outbox::new(Arc::clone(source), queue.clone(), running, Arc::clone(&self.arrivals), env, store)
    }

    /// New settings, or other partitions: kept for whoever acquires a partition next, and told to those that serve now.
    async fn update(&self, running: &QueueHandle, queue: Queue, rules: &Arc<RuleSet>) {
        let common = lock(&self.running).queues.get(&queue.name).map(|running| Arc::clone(&running.common));
        let Some(common) = common else { return };
        let is_new = |id| running.find(id).is_err();
        let Started { handles, tasks } = self.start_partitions(&queue, rules, &common, is_new).await;
        let known = |id: &PartitionId| {
            let handle = running.all().chain(&handles).find(|handle| handle.id == *id);
            Arc::clone(handle.expect("it ran before, or was started just now"))
        };
        let partitions = queue.partitions.iter().map(known).collect();
        let retired = queue.retired.keys().map(known).collect();
        let next = Arc::new(running.with(queue, partitions, retired));
        let (told, ending) = self.switch(&next, tasks);
        for (handle, answer) in told {
            let answer = match answer {
                Ok(answer) => received(answer.await).map(|_configured| ()),
                Err(error) => Err(error),
            };
            if let Err(error) = answer {
                // The writer sees it with its next batch, or the next one when it is acquired.
                warn!(partition = %handle.id, %error, "settings not taken over yet");
            }
        }
        for task in ending {
            task.await;
        }
        self.arrivals.tell();
    }

    /// Nobody is on the way in meanwhile: who comes later knows where keys are at home by then, and whoever was home to
    /// one before has heard of it by the time it is asked.
    fn switch(
        &self,
        next: &Arc<QueueHandle>,
        started: BTreeMap<PartitionId, Vec<Task>>,
    ) -> (Vec<Told>, Vec<Task>) {
        let _closed_for_good_if_it_fails = next.door.close();
        let mut told = Vec::new();
        for handle in next.all() {
            let (settings, intake) = (next.queue.settings.clone(), next.queue.intake(handle.id));
            handle.set_orders(settings.clone(), intake.clone());
            for order in [Command::Configure(Box::new(settings)), Command::Route(Box::new(intake))] {
                told.push((Arc::clone(handle), handle.submit(order)));
            }
        }
        next.supersede();
        let ending = lock(&self.running).replace(next, started);
        next.door.open();
        (told, ending)
    }
}
