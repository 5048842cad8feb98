//! A small world for tests: an engine on some store, and a clock that only the test moves.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, watch};
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::row::{Part, QueueName};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Completion, CreateQueue, Filter, Held, ImportItem, LeaseItems, NewItem};
use windlass_engine::env::{BoxFuture, Env, TokioEnv};
use windlass_engine::store::double::Double;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::memory::MemoryStore;
use windlass_engine::store::spread::{Member, Spread};
use windlass_engine::store::{Body, Room, Store, StoreError};
use windlass_engine::{Engine, EngineError, EngineOptions, Granted, ProducedItem, QueueStats};

/// Real tasks and threads, but time stands still until [`ManualEnv::advance`].
#[derive(Debug)]
pub(crate) struct ManualEnv {
    tasks: TokioEnv,
    boot: watch::Sender<Duration>,
    started_at: Timestamp,
    /// By how much the wall clock was set: back if negative.
    set_by_micros: Mutex<i64>,
    /// How often a task was polled.
    pub(crate) polls: Arc<AtomicUsize>,
    /// How often somebody went to sleep.
    pub(crate) sleeps: AtomicUsize,
    /// Keeps the next who reads the boot clock.
    held: Mutex<Option<Arc<HeldReading>>>,
    /// Whether what asks for a thread of its own gets a task of the test's runtime instead.
    has_no_threads: bool,
}

/// Somebody who has read the clock and does not come to act on it.
#[derive(Debug, Default)]
pub(crate) struct HeldReading {
    begun: Notify,
    let_go: (Mutex<bool>, Condvar),
}

impl HeldReading {
    /// Until somebody is held.
    pub(crate) async fn begun(&self) {
        self.begun.notified().await;
    }

    pub(crate) fn let_go(&self) {
        *self.let_go.0.lock().expect("not poisoned") = true;
        self.let_go.1.notify_all();
    }

    fn hold(&self) {
        self.begun.notify_one();
        let let_go = self.let_go.0.lock().expect("not poisoned");
        let _gone = self.let_go.1.wait_while(let_go, |let_go| !*let_go).expect("not poisoned");
    }
}

impl ManualEnv {
    pub(crate) fn new() -> Self {
        Self {
            tasks: TokioEnv::new(),
            boot: watch::Sender::new(Duration::ZERO),
            started_at: Timestamp(1_700_000_000_000_000),
            set_by_micros: Mutex::new(0),
            polls: Arc::default(),
            sleeps: AtomicUsize::new(0),
            held: Mutex::default(),
            has_no_threads: false,
        }
    }

    /// On a runtime of one thread, and with a disk in memory, a test runs the same way each time.
    pub(crate) fn without_threads() -> Self {
        Self { has_no_threads: true, ..Self::new() }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.boot.send_modify(|boot| *boot += by);
    }

    /// Of the runtime's threads: those of a log read the clock when they like.
    pub(crate) fn hold_next_reading(&self) -> Arc<HeldReading> {
        let held = Arc::<HeldReading>::default();
        *self.held.lock().expect("not poisoned") = Some(held.clone());
        held
    }

    /// The wall clock as it should be, but for so much.
    pub(crate) fn set_wall(&self, by_secs: i64) {
        *self.set_by_micros.lock().expect("not poisoned") = by_secs * 1_000_000;
    }
}

impl Env for ManualEnv {
    fn boot(&self) -> Duration {
        let boot = *self.boot.borrow();
        let is_of_a_log = thread::current().name().is_some_and(|name| name.starts_with("log-"));
        let held = if is_of_a_log { None } else { self.held.lock().expect("not poisoned").take() };
        if let Some(held) = held {
            held.hold();
        }
        boot
    }

    fn wall(&self) -> Timestamp {
        let right = self.started_at + Span::from(*self.boot.borrow());
        let set_by = *self.set_by_micros.lock().expect("not poisoned");
        Timestamp(right.0.saturating_add_signed(set_by))
    }

    fn random(&self) -> u64 {
        self.tasks.random()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        let mut boot = self.boot.subscribe();
        Box::pin(async move {
            if boot.wait_for(|boot| *boot >= at).await.is_err() {
                std::future::pending().await
            }
        })
    }

    fn spawn_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        let (polls, mut future) = (Arc::clone(&self.polls), future);
        let counted = std::future::poll_fn(move |context| {
            polls.fetch_add(1, Ordering::Relaxed);
            future.as_mut().poll(context)
        });
        self.tasks.spawn_boxed(name, Box::pin(counted));
    }

    fn spawn_thread_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        if self.has_no_threads {
            return self.spawn_boxed(name, future);
        }
        self.tasks.spawn_thread_boxed(name, future);
    }
}

/// What a store needs to be opened again as it was left.
#[derive(Debug)]
pub(crate) enum Medium {
    Memory(Arc<MemoryStore>),
    /// Two in memory.
    Spread(Arc<MemoryStore>, Arc<MemoryStore>),
    Log(tempfile::TempDir),
    /// A log that takes little at once.
    SmallLog(tempfile::TempDir),
}

/// Of bodies in one batch, with rows about twice as much: of a store that takes little at once.
pub(crate) const SMALL_BATCH_BYTES: usize = 32 << 10;

impl Medium {
    pub(crate) fn memory() -> Self {
        Self::Memory(Arc::new(MemoryStore::new()))
    }

    pub(crate) fn spread() -> Self {
        Self::Spread(Arc::default(), Arc::default())
    }

    pub(crate) fn log() -> Self {
        Self::Log(tempfile::tempdir().expect("a temporary directory can be made"))
    }

    pub(crate) fn small_memory() -> Self {
        Self::Memory(Arc::new(MemoryStore::with_batch_bytes_max(SMALL_BATCH_BYTES)))
    }

    pub(crate) fn small_spread() -> Self {
        let small = || Arc::new(MemoryStore::with_batch_bytes_max(SMALL_BATCH_BYTES));
        Self::Spread(small(), small())
    }

    pub(crate) fn small_log() -> Self {
        Self::SmallLog(tempfile::tempdir().expect("a temporary directory can be made"))
    }

    pub(crate) async fn open(&self, env: &Arc<ManualEnv>) -> Arc<dyn Store> {
        self.open_behind(env, |store| store).await
    }

    /// With something in front of each single store.
    async fn open_behind(
        &self,
        env: &Arc<ManualEnv>,
        front: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => front(store.clone()),
            Self::Spread(first, second) => {
                let second = Member::opened("second", front(second.clone()));
                Arc::new(Spread::open(front(first.clone()), vec![second]).await)
            }
            Self::Log(directory) => front(open_log(env, directory, 1 << 20).await),
            Self::SmallLog(directory) => front(open_log(env, directory, 2 * SMALL_BATCH_BYTES as u32).await),
        }
    }
}

/// What is wrong with stores, as a test says.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Bodies with this text cannot be read: they are damaged.
    damaged: Mutex<Option<&'static [u8]>>,
    /// Partitions for which there is no room.
    full: Mutex<BTreeSet<PartitionId>>,
    /// How often a store was asked for room that is not there.
    asked_in_vain: AtomicUsize,
}

impl Faults {
    pub(crate) fn damage(&self, text: &'static str) {
        *self.damaged.lock().expect("not poisoned") = Some(text.as_bytes());
    }

    pub(crate) fn set_full(&self, partition: PartitionId, is_full: bool) {
        let mut full = self.full.lock().expect("not poisoned");
        if is_full {
            full.insert(partition)
        } else {
            full.remove(&partition)
        };
    }

    pub(crate) fn asked_in_vain(&self) -> usize {
        self.asked_in_vain.load(Ordering::Relaxed)
    }

    fn room(&self, partition: PartitionId) -> Option<Room> {
        if !self.full.lock().expect("not poisoned").contains(&partition) {
            return None;
        }
        self.asked_in_vain.fetch_add(1, Ordering::Relaxed);
        Some(Room::Full)
    }

    fn seen(&self, body: Body) -> Body {
        let damaged = *self.damaged.lock().expect("not poisoned");
        let has = |body: &Bytes, text: &[u8]| body.windows(text.len()).any(|window| window == text);
        match (body, damaged) {
            (Body::Found(body), Some(text)) if has(&body, text) => {
                let (file, what) = ("a file".to_owned(), "on purpose".to_owned());
                Body::Damaged(StoreError::Damaged { file, offset: 0, what })
            }
            (body, _) => body,
        }
    }
}

/// A store with faults.
#[derive(Debug)]
struct Faulty {
    inner: Arc<dyn Store>,
    faults: Arc<Faults>,
}

impl Double for Faulty {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn read(&self, partition: PartitionId, bodies: Vec<(ItemNumber, Part)>) -> BoxFuture<'_, Vec<Body>> {
        Box::pin(async move {
            let bodies = self.inner.read(partition, bodies).await;
            bodies.into_iter().map(|body| self.faults.seen(body)).collect()
        })
    }

    fn room(&self, partition: PartitionId) -> Room {
        self.faults.room(partition).unwrap_or_else(|| self.inner.room(partition))
    }
}

async fn open_log(env: &Arc<ManualEnv>, directory: &tempfile::TempDir, segment_bytes: u32) -> Arc<dyn Store> {
    let disk = Arc::new(RealDisk::new(directory.path()).expect("the directory is there"));
    let options = LogOptions { segment_bytes, ..LogOptions::default() };
    Arc::new(LogStore::open(env.clone(), disk, options).await.expect("the log opens"))
}

async fn open_store(env: &Arc<ManualEnv>, medium: &Medium, faults: Option<&Arc<Faults>>) -> Arc<dyn Store> {
    match faults {
        None => medium.open(env).await,
        Some(faults) => {
            medium.open_behind(env, |inner| Arc::new(Faulty { inner, faults: faults.clone() })).await
        }
    }
}

async fn open(env: &Arc<ManualEnv>, store: Arc<dyn Store>) -> Engine {
    let options = EngineOptions { headers_of: Some(headers_of), ..EngineOptions::default() };
    Engine::open_with(env.clone(), store, options).await.expect("the engine opens")
}

/// Facts have headers where they read as `name=value,name=value`.
pub(crate) fn headers_of(facts: &Bytes) -> Vec<(String, String)> {
    let facts = str::from_utf8(facts).unwrap_or_default();
    let pairs = facts.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) env: Arc<ManualEnv>,
    medium: Medium,
    /// What is wrong with each store of `medium`.
    faults: Option<Arc<Faults>>,
    engine: Mutex<Engine>,
}

impl World {
    pub(crate) async fn new(medium: Medium) -> Self {
        Self::on(medium, None).await
    }

    /// On stores that have these faults.
    pub(crate) async fn with_faults(medium: Medium, faults: &Arc<Faults>) -> Self {
        Self::on(medium, Some(faults.clone())).await
    }

    async fn on(medium: Medium, faults: Option<Arc<Faults>>) -> Self {
        let env = Arc::new(ManualEnv::new());
        let store = open_store(&env, &medium, faults.as_ref()).await;
        let engine = open(&env, store).await;
        Self { env, medium, faults, engine: Mutex::new(engine) }
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine.lock().expect("not poisoned").clone()
    }

    pub(crate) async fn restart(&self) {
        self.engine().close().await;
        let store = open_store(&self.env, &self.medium, self.faults.as_ref()).await;
        let engine = open(&self.env, store).await;
        *self.engine.lock().expect("not poisoned") = engine;
    }

    pub(crate) async fn close(&self) {
        self.engine().close().await;
    }

    /// Starts again without the registry, as from a salvaged directory whose partition 0 could not be read.
    pub(crate) async fn lose_registry(&self) {
        self.engine().close().await;
        let store = self.medium.open(&self.env).await;
        store.drop_partition(PartitionId::REGISTRY).await.expect("the registry is dropped");
        store.close().await;
        let store = self.medium.open(&self.env).await;
        let engine = open(&self.env, store).await;
        *self.engine.lock().expect("not poisoned") = engine;
    }

    /// Stops the engine, and returns the partitions that the store holds.
    pub(crate) async fn stop_and_list(&self) -> Vec<PartitionId> {
        self.engine().close().await;
        let store = self.medium.open(&self.env).await;
        let held = store.partitions().await.expect("the store lists its partitions");
        store.close().await;
        held
    }

    pub(crate) async fn queue(&self, name: &str, partitions: u32, settings: Settings) -> QueueName {
        let name = queue_name(name);
        let create = CreateQueue::new(name.clone(), settings, partitions);
        self.engine().create_queue(create).await.expect("the queue is made");
        name
    }

    /// What each item of a call was answered.
    pub(crate) async fn judged(
        &self,
        queue: &QueueName,
        items: Vec<NewItem>,
    ) -> Vec<Result<ProducedItem, EngineError>> {
        self.engine().produce(queue, items).await.expect("judged").results
    }

    /// The ids of the items, all of which the queue must take.
    pub(crate) async fn produce(&self, queue: &QueueName, items: Vec<NewItem>) -> Vec<ItemId> {
        let produced = self.engine().produce(queue, items).await.expect("produced");
        produced.results.into_iter().map(|made| made.expect("produced").id).collect()
    }

    pub(crate) async fn lease(&self, queue: &QueueName, batch_size: usize) -> Vec<Granted> {
        self.engine().lease(queue, lease(batch_size), Span::ZERO).await.expect("leased").accept()
    }

    pub(crate) async fn stats(&self, queue: &QueueName) -> QueueStats {
        self.engine().stats(queue).await.expect("stats")
    }

    /// How many items wait.
    pub(crate) async fn waiting(&self, queue: &QueueName) -> u64 {
        self.stats(queue).await.counts.waiting
    }

    /// How many items are not final.
    pub(crate) async fn live(&self, queue: &QueueName) -> u64 {
        self.stats(queue).await.counts.live()
    }

    /// Completes a leased item, without a result.
    pub(crate) async fn complete(&self, queue: &QueueName, item: &Granted) {
        let judged = self.engine().complete(queue, vec![completion(item.held())]).await.expect("judged");
        judged.results.into_iter().for_each(|result| result.expect("completed"));
    }
}

pub(crate) fn queue_name(name: &str) -> QueueName {
    QueueName { namespace: "default".into(), name: name.into() }
}

pub(crate) fn item(payload: &str) -> NewItem {
    NewItem::plain("default", Bytes::copy_from_slice(payload.as_bytes()))
}

pub(crate) fn items(count: usize) -> Vec<NewItem> {
    (0..count).map(|index| item(&format!("item {index}"))).collect()
}

pub(crate) fn import_item(payload: &str) -> ImportItem {
    ImportItem {
        kind: "default".into(),
        priority: 0,
        group: None,
        created_at: None,
        changed_at: None,
        started: None,
        attempts: 0,
        due_at: None,
        max_attempts: None,
        dead_timeout: None,
        address: None,
        origin: None,
        cron: None,
        hashes: Hashes::default(),
        error: None,
        suspended: None,
        body: Bytes::copy_from_slice(payload.as_bytes()),
        facts: None,
    }
}

pub(crate) fn lease(batch_size: usize) -> LeaseItems {
    LeaseItems { client_id: "worker".into(), batch_size, lease_timeout: None, filter: Filter::ANY }
}

pub(crate) fn held(items: &[Granted]) -> Vec<Held> {
    items.iter().map(Granted::held).collect()
}

pub(crate) fn completion(held: Held) -> Completion {
    Completion { held, result: None }
}

pub(crate) fn completion_with(held: Held, result: impl Into<Bytes>) -> Completion {
    Completion { held, result: Some(result.into()) }
}

pub(crate) fn bodies(items: &[Granted]) -> Vec<String> {
    items.iter().map(|item| String::from_utf8(item.body.to_vec()).expect("our own text")).collect()
}
