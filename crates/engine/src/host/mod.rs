//! [`Host`]: what runs here. The registry decides which queues there are; the host starts, changes and stops what serves them,
//! and finds the partition that a call is for.

mod intake;
mod rest;
mod rules;
mod run;
mod running;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use windlass_core::headers::Hashes;
use windlass_core::id::PartitionId;
use windlass_core::row::{Queue, QueueName, Stored};
use windlass_core::time::{Span, Timestamp};

use crate::clock::Clock;
use crate::deaths::Deaths;
use crate::env::{self, Env, Task};
use crate::error::EngineError;
use crate::headers::HeaderReader;
use crate::history::{Histories, QueueHistory};
use crate::lock::lock;
use crate::meter::{CommitStats, Meter};
use crate::partition::handle::Arrivals;
use crate::queue::{QueueHandle, QueueOverview};
use crate::registry::{RegistryHandle, Stale};
use crate::store::Store;
pub(crate) use running::{Home, RunningQueues, Whereabouts};
use running::{Running, stop};

#[derive(Debug)]
pub(crate) struct Host {
    env: Arc<dyn Env>,
    store: Arc<dyn Store>,
    headers: HeaderReader,
    clock: Arc<Clock>,
    meter: Arc<Meter>,
    /// Asked by outboxes for the names of crons.
    registry: Arc<RegistryHandle>,
    running: Arc<Mutex<RunningQueues>>,
    arrivals: Arc<Arrivals>,
    /// Told by partitions that have come to something the registry waits for.
    stale: Arc<Stale>,
    deaths: Arc<Deaths>,
    histories: Arc<Histories>,
    deaths_task: Mutex<Option<Task>>,
    /// Leases wait no more.
    waiters_home: AtomicBool,
    closing: watch::Sender<bool>,
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

impl Host {
    pub(crate) fn new(
        env: Arc<dyn Env>,
        store: Arc<dyn Store>,
        clock: Arc<Clock>,
        meter: Arc<Meter>,
        registry: Arc<RegistryHandle>,
        stale: Arc<Stale>,
        headers: HeaderReader,
    ) -> Self {
        let deaths = Arc::<Deaths>::default();
        let deaths_task = env::spawn(&*env, "deaths", Arc::clone(&deaths).keep_logging(Arc::clone(&env)));
        Self {
            env,
            store,
            headers,
            clock,
            meter,
            registry,
            running: Arc::default(),
            arrivals: Arc::default(),
            stale,
            deaths,
            histories: Arc::default(),
            deaths_task: Mutex::new(Some(deaths_task)),
            waiters_home: AtomicBool::new(false),
            closing: watch::Sender::new(false),
            calls: watch::Sender::new(0),
        }
    }

    pub(crate) fn queue(&self, name: &QueueName) -> Option<Arc<QueueHandle>> {
        lock(&self.running).find(name)
    }

    pub(crate) fn queues(&self) -> Vec<Queue> {
        lock(&self.running).queues.values().map(|running| running.handle.queue.clone()).collect()
    }

    /// Copied, so that `running`, which every request locks, is not locked while they are looked at.
    pub(crate) fn handles(&self) -> Vec<Arc<QueueHandle>> {
        lock(&self.running).queues.values().map(|running| Arc::clone(&running.handle)).collect()
    }

    /// The other queues of its namespace.
    pub(crate) fn names_beside(&self, queue: &QueueName) -> BTreeSet<Arc<str>> {
        let running = lock(&self.running);
        let others = running.queues.keys().filter(|name| name.namespace == queue.namespace && *name != queue);
        others.map(|name| Arc::clone(&name.name)).collect()
    }

    pub(crate) fn overview(&self) -> Vec<QueueOverview> {
        self.handles().iter().map(|handle| handle.overview()).collect()
    }

    /// What went on in these queues lately.
    pub(crate) fn history(&self, queues: &[Arc<QueueHandle>], span: Span) -> Vec<QueueHistory> {
        let now = self.server_time();
        let history = |handle: &Arc<QueueHandle>| QueueHistory {
            queue: handle.queue.name.clone(),
            buckets: handle.history.lately(now, span),
        };
        queues.iter().map(history).collect()
    }

    /// Those in which the most items wait, these first.
    pub(crate) fn fullest(&self, count: usize) -> Vec<Arc<QueueHandle>> {
        let mut handles = self.handles();
        handles.sort_by_cached_key(|handle| Reverse(handle.waiting()));
        handles.truncate(count);
        handles
    }

    pub(crate) fn home_of(&self, id: PartitionId) -> Option<Home> {
        lock(&self.running).home_of(id)
    }

    pub(crate) fn headers(&self) -> HeaderReader {
        self.headers
    }

    /// Has new items found by the headers that their queue indexes.
    pub(crate) fn index<'a>(
        &self,
        queue: &QueueName,
        new: impl Iterator<Item = (&'a Option<Bytes>, &'a mut Hashes)>,
    ) {
        // Most items have no facts, and then the queue need not be looked for.
        let mut with_facts = new.filter(|(facts, _)| facts.is_some()).peekable();
        if with_facts.peek().is_some()
            && let Some(handle) = self.queue(queue)
        {
            let settings = &handle.queue.settings;
            with_facts.for_each(|(facts, hashes)| self.headers.index(settings, facts.as_ref(), hashes));
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What histories go by, whatever the clocks of partitions say.
    pub(super) fn server_time(&self) -> Timestamp {
        self.clock.read().of_server
    }

    /// On the boot clock.
    pub(crate) fn boot(&self) -> Duration {
        self.env.boot()
    }

    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    pub(crate) async fn sleep_until(&self, at: Duration) {
        self.env.sleep_until(at).await;
    }

    pub(crate) fn commit_stats(&self) -> CommitStats {
        self.meter.stats()
    }

    pub(crate) fn enter(&self) -> Result<Call<'_>, EngineError> {
        self.calls.send_modify(|calls| *calls += 1);
        let call = Call(&self.calls);
        if *self.closing.borrow() {
            return Err(EngineError::not_applied("shutting down"));
        }
        Ok(call)
    }

    /// Waits for something unless the engine closes meanwhile.
    pub(crate) async fn unless_closing<T>(&self, awaited: impl Future<Output = T>) -> Result<T, EngineError> {
        let mut closing = self.closing.subscribe();
        tokio::select! {
            biased;
            _closing = closing.wait_for(|closing| *closing) => Err(EngineError::not_applied("shutting down")),
            awaited = awaited => Ok(awaited),
        }
    }

    /// What stores hold and no queue names: by number, then by store.
    pub(crate) fn unclaimed(&self) -> Vec<Stored> {
        lock(&self.running).unclaimed.iter().cloned().collect()
    }

    pub(crate) fn add_unclaimed(&self, found: Vec<Stored>) {
        lock(&self.running).unclaimed.extend(found);
    }

    /// Whether every configured store was searched for unclaimed partitions. Moves to partitions that are gone wait for that.
    pub(crate) fn set_all_searched(&self, all_searched: bool) {
        let searched_before = std::mem::replace(&mut lock(&self.running).all_searched, all_searched);
        if all_searched && !searched_before {
            self.arrivals.tell();
        }
    }

    /// Partitions that were adopted or are to be dropped are not unclaimed any more: moves that waited for them go on.
    pub(crate) fn reclaim(&self, claimed: &[Stored]) {
        let shrunk = {
            let unclaimed = &mut lock(&self.running).unclaimed;
            claimed.iter().filter(|stored| unclaimed.remove(stored)).count() > 0
        };
        if shrunk {
            self.arrivals.tell();
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
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
        self.closing.send_replace(true);
        self.send_waiters_home();
        // Not with `running` locked: whoever changes routes locks `running` within.
        self.handles().iter().for_each(|handle| handle.routes.shut());
        // What a call could not deliver is given back while its partition can still take it.
        let mut calls = self.calls.subscribe();
        calls.wait_for(|calls| *calls == 0).await.expect("the sender is ours");
        let running: Vec<Running> = std::mem::take(&mut *lock(&self.running)).queues.into_values().collect();
        for running in &running {
            running.handle.all().for_each(|handle| handle.stop());
        }
        for running in running {
            stop(running).await;
        }
    }

    /// Ends what outlives the queues. After the registry, whose last changes are logged like others.
    pub(crate) async fn end(&self) {
        self.deaths.end();
        let task = lock(&self.deaths_task).take();
        if let Some(task) = task {
            task.await;
        }
    }
}
