//! Starts, changes and stops what serves a queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::warn;
use windlass_core::id::PartitionId;
use windlass_core::row::{Queue, QueueName, Stored};
use windlass_core::rule::RuleSet;

use super::Host;
use super::running::{Running, stop};
use crate::env::{self, Task};
use crate::error::EngineError;
use crate::history::History;
use crate::lock::lock;
use crate::machine::call::{Awaited, received};
use crate::machine::supervisor::Supervisor;
use crate::outbox::{self, Outbox};
use crate::partition::handle::{Handle, InCommon};
use crate::partition::orders::Orders;
use crate::queue::QueueHandle;

/// Queues whose partitions are loaded at the same time when the engine opens.
const STARTED_AT_ONCE: usize = 256;

/// A queue whose partitions are being loaded.
struct Begun {
    queue: Queue,
    common: Arc<InCommon>,
    started: Started,
}

/// Partitions that were started, and what serves them.
#[derive(Default)]
struct Started {
    handles: Vec<Arc<Handle>>,
    tasks: BTreeMap<PartitionId, Vec<Task>>,
}

/// A partition, and what it says to what it was told.
type Told = (Arc<Handle>, Result<Awaited<()>, EngineError>);

impl Host {
    /// Brings what runs of a queue in line with what is registered of it: with nothing, if the queue is deleted.
    pub(crate) async fn bring_in_line(&self, name: &QueueName, registered: Option<(Queue, Arc<RuleSet>)>) {
        let is_same = |running: &QueueHandle| {
            registered.as_ref().is_some_and(|(queue, _)| queue.is_same(&running.queue))
        };
        let is_gone = self.queue(name).is_some_and(|running| !is_same(&running));
        let gone = if is_gone { lock(&self.running).remove(name) } else { None };
        if let Some(running) = gone {
            stop(running).await;
            // What was on its way there goes elsewhere.
            self.arrivals.tell();
        }
        let Some((queue, rules)) = registered else { return };
        let stored: Vec<Stored> = queue.stored().collect();
        self.start_or_update(queue, rules).await;
        // Only now that an adopted partition is served: moves that waited for it ask it what it took.
        self.reclaim(&stored);
    }

    /// Starts these queues, some at a time. Returns once each partition was loaded or found faulty.
    pub(crate) async fn start_all(&self, mut queues: Vec<(Queue, Arc<RuleSet>)>) {
        lock(&self.running).expect(queues.iter().map(|(queue, _)| queue));
        while !queues.is_empty() {
            let rest = queues.split_off(queues.len().min(STARTED_AT_ONCE));
            let begun: Vec<_> = queues.into_iter().map(|(queue, rules)| self.begin(queue, &rules)).collect();
            for begun in begun {
                self.finish(begun).await;
            }
            queues = rest;
        }
        self.arrivals.tell();
    }

    async fn start_or_update(&self, queue: Queue, rules: Arc<RuleSet>) {
        let Some(running) = self.queue(&queue.name) else {
            lock(&self.running).expect([&queue]);
            self.finish(self.begin(queue, &rules)).await;
            return self.arrivals.tell();
        };
        let name = queue.name.clone();
        if running.queue != queue || !running.has_orders(&queue) {
            self.replace(&running, queue, &rules).await;
        }
        if let Some(running) = self.queue(&name) {
            self.tell_rules(&running, &rules).await;
        }
    }

    /// Starts the partitions of a queue, which is not seen by anybody yet.
    fn begin(&self, queue: Queue, rules: &Arc<RuleSet>) -> Begun {
        let common = Arc::new(InCommon {
            queue: queue.name.clone(),
            waiters: Arc::default(),
            places: Arc::default(),
            arrivals: Arc::clone(&self.arrivals),
            stale: Arc::clone(&self.stale),
            carried: Arc::default(),
            deaths: Arc::clone(&self.deaths),
            history: Arc::new(History::new(Arc::clone(&self.histories), self.server_time())),
        });
        let started = self.start_partitions(&queue, rules, &common, |_| true);
        Begun { queue, common, started }
    }

    /// Once each partition was loaded or found faulty, the queue is there for everybody.
    async fn finish(&self, begun: Begun) {
        let Begun { queue, common, started: Started { handles, tasks } } = begun;
        settled(&handles).await;
        let (retired, partitions) =
            handles.into_iter().partition(|handle| queue.retired.contains_key(&handle.id));
        let name = queue.name.clone();
        let (env, store) = (Arc::clone(&self.env), Arc::clone(&self.store));
        let handle = Arc::new(QueueHandle::new(queue, partitions, retired, &common, env, store));
        lock(&self.running).insert(name, Running { handle: Arc::clone(&handle), common, tasks });
        // Looked at once it can be seen: either we see the flag, or whoever sets it sees the queue.
        if self.waiters_home.load(Ordering::SeqCst) {
            handle.send_waiters_home();
        }
    }

    /// In the order of the queue's list.
    fn start_partitions(
        &self,
        queue: &Queue,
        rules: &Arc<RuleSet>,
        common: &InCommon,
        which: impl Fn(PartitionId) -> bool,
    ) -> Started {
        let mut started = Started::default();
        for (id, store) in queue.homes().filter(|(id, _)| which(*id)) {
            self.store.assign(id, store);
            let (handle, inbox) = Handle::new(id, common, Orders::of(queue, id, Arc::clone(rules)));
            let clock = Arc::new(self.clock.another());
            let supervisor = Supervisor::new(&handle, &self.env, &self.store, &clock, &self.meter, inbox);
            let partition = env::spawn(&*self.env, "partition", supervisor.run());
            let outbox = env::spawn(&*self.env, "outbox", self.outbox(&handle, &queue.name).run());
            started.tasks.insert(id, vec![partition, outbox]);
            started.handles.push(handle);
        }
        started
    }

    fn outbox(&self, source: &Arc<Handle>, queue: &QueueName) -> Outbox {
        let shared = outbox::Shared {
            registry: Arc::clone(&self.registry),
            running: Arc::clone(&self.running),
            arrivals: Arc::clone(&self.arrivals),
            env: Arc::clone(&self.env),
            store: Arc::clone(&self.store),
            headers: self.headers,
        };
        Outbox::new(Arc::clone(source), queue.clone(), shared)
    }

    /// New settings, or other partitions: kept for whoever acquires a partition next, and told to those that serve now.
    async fn replace(&self, running: &QueueHandle, queue: Queue, rules: &Arc<RuleSet>) {
        let common = lock(&self.running).queues.get(&queue.name).map(|running| Arc::clone(&running.common));
        let Some(common) = common else { return };
        let is_new = |id| running.find(id).is_err();
        lock(&self.running).expect([&queue]);
        let Started { handles, tasks } = self.start_partitions(&queue, rules, &common, is_new);
        settled(&handles).await;
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

    /// Every partition has its orders before the new handle can be seen. So whoever asks a former home by the new routes asks it
    /// after that has taken them over.
    fn switch(
        &self,
        next: &Arc<QueueHandle>,
        started: BTreeMap<PartitionId, Vec<Task>>,
    ) -> (Vec<Told>, Vec<Task>) {
        let tell = |handle: &Arc<Handle>| {
            handle.order(&next.queue, next.queue.intake(handle.id));
            (Arc::clone(handle), handle.heed())
        };
        next.supersede(|| {
            let told = next.all().map(tell).collect();
            (told, lock(&self.running).replace(next, started))
        })
    }
}

async fn settled(handles: &[Arc<Handle>]) {
    for handle in handles {
        handle.settled().await;
    }
}
