//! An engine on a log in a temporary directory, and callers that keep it busy.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Completion, CreateQueue, Filter, LeaseItems, NewItem};
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::{Engine, EngineOptions, Granted};

const PAYLOAD: &[u8] = &[b'x'; 100];

pub(crate) struct Bed {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Engine,
    pub(crate) queue: QueueName,
    pub(crate) directory: tempfile::TempDir,
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime")
}

impl Bed {
    pub(crate) fn new(log: LogOptions) -> Self {
        Self::with(log, EngineOptions::default(), Settings::default())
    }

    pub(crate) fn with(log: LogOptions, options: EngineOptions, settings: Settings) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let runtime = runtime();
        let engine = runtime.block_on(open_with(directory.path(), log, options));
        let queue = QueueName { namespace: "default".into(), name: "bench".into() };
        let create = CreateQueue::new(queue.clone(), settings, 1);
        runtime.block_on(engine.create_queue(create)).expect("a queue");
        Self { runtime, engine, queue, directory }
    }

    pub(crate) fn close(self) {
        self.runtime.block_on(self.engine.close());
    }

    /// A backlog that every later item stands behind.
    pub(crate) fn fill(&self, items: u64) {
        let (engine, queue) = (&self.engine, &self.queue);
        self.runtime.block_on(async {
            let mut left = items;
            while left > 0 {
                let batch = left.min(1000);
                engine.produce(queue, new_items(batch as usize, 0)).await.expect("produced");
                left -= batch;
            }
        });
    }

    /// A lease of one kind that waits for an hour.
    pub(crate) fn waiting_lease(&self, kind: String) -> JoinHandle<()> {
        let (engine, queue) = (self.engine.clone(), self.queue.clone());
        let filter = Filter::new(Some(vec![kind.into()]), u8::MAX);
        let lease = LeaseItems { client_id: "bench".into(), batch_size: 1, lease_timeout: None, filter };
        let hour = Span::from_secs(3600);
        tokio::spawn(async move { drop(engine.lease(&queue, lease, hour).await) })
    }

    /// Until so many leases wait.
    pub(crate) async fn wait_for_leases(&self, count: usize) {
        while self.engine.stats(&self.queue).await.expect("stats").lease_waiters < count {
            tokio::task::yield_now().await;
        }
    }

    /// Full cycles done by `callers` at once in about `time`, per second.
    pub(crate) fn cycles_per_second(&self, callers: usize, batch: usize, time: Duration) -> f64 {
        let done = Arc::new(AtomicU64::new(0));
        let started = Instant::now();
        let until = started + time;
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let (engine, queue, done) = (self.engine.clone(), self.queue.clone(), Arc::clone(&done));
                self.runtime.spawn(async move {
                    while Instant::now() < until {
                        let cycles = cycle(&engine, &queue, batch).await;
                        done.fetch_add(cycles, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| self.runtime.block_on(task).expect("a caller"));
        done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
    }
}

pub(crate) async fn open(directory: &Path, log: LogOptions) -> Engine {
    open_with(directory, log, EngineOptions::default()).await
}

async fn open_with(directory: &Path, log: LogOptions, options: EngineOptions) -> Engine {
    let env = Arc::new(TokioEnv::new());
    let disk = Arc::new(RealDisk::new(directory).expect("the directory"));
    let store = LogStore::open(env.clone(), disk, log).await.expect("the log opens");
    Engine::open_with(env, Arc::new(store), options).await.expect("the engine opens")
}

pub(crate) fn new_items(count: usize, priority: u8) -> Vec<NewItem> {
    let item = NewItem { priority, ..NewItem::plain("default", Bytes::from_static(PAYLOAD)) };
    vec![item; count]
}

/// Produces a batch, leases as much, completes what it got. Tells how many items it completed.
pub(crate) async fn cycle(engine: &Engine, queue: &QueueName, batch: usize) -> u64 {
    engine.produce(queue, new_items(batch, 0)).await.expect("produced");
    let leased = lease(engine, queue, batch).await;
    complete(engine, queue, &leased).await;
    leased.len() as u64
}

pub(crate) async fn lease(engine: &Engine, queue: &QueueName, batch: usize) -> Vec<Granted> {
    lease_of(engine, queue, batch, Filter::ANY).await
}

pub(crate) async fn lease_of(
    engine: &Engine,
    queue: &QueueName,
    batch: usize,
    filter: Filter,
) -> Vec<Granted> {
    let lease = LeaseItems { client_id: "bench".into(), batch_size: batch, lease_timeout: None, filter };
    engine.lease(queue, lease, Span::from_secs(10)).await.expect("leased").accept()
}

pub(crate) async fn release(engine: &Engine, queue: &QueueName, leased: &[Granted]) {
    let items = leased.iter().map(|item| item.held()).collect();
    let judged = engine.release(queue, items).await.expect("judged");
    assert!(judged.results.iter().all(Result::is_ok) && !leased.is_empty(), "a release was refused");
}

pub(crate) async fn complete(engine: &Engine, queue: &QueueName, leased: &[Granted]) {
    let items = leased.iter().map(|item| Completion { held: item.held(), result: None }).collect();
    let judged = engine.complete(queue, items).await.expect("judged");
    assert!(judged.results.iter().all(Result::is_ok), "a completion was refused");
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
