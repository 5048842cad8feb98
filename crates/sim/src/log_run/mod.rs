//! Runs of the log alone, without an engine: owners of partitions commit, read, take over and sync on a simulated disk, and
//! a model says what they must find.
//!
//! An engine's run meets the inside of its log seldom and sees it dimly. Here segments are full after a few commits,
//! and every row and body is compared, so that a fault of the log shows within a few runs.

mod changes;
mod model;
mod owner;
mod plan;
mod reader;
mod squeeze;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use windlass_core::id::PartitionId;
use windlass_engine::env::Env;
use windlass_engine::store::log::LogStore;
use windlass_engine::store::{Store, StoreError, StoreStats};

use self::model::{Bounds, Model, REGISTRY, wrong};
use self::plan::{End, Life, LogPlan};
use crate::disk::Hardware;
use crate::env::{SimEnv, WallClock};
use crate::executor::{Executor, Handle, Stop};
use crate::fault::Rates;
use crate::history::Violation;
use crate::plan::Sync;
use crate::rng::Rng;
use crate::trace::Trace;

const STEPS_MAX: u64 = 1_000_000;
const MICROS_MAX: u64 = 24 * 3600 * 1_000_000;
const OPENS_ON_A_BAD_DISK: usize = 3;
const OPENS_MAX: usize = 20;
/// Enough for a snapshot that is under way.
const IDLE_MICROS: u64 = 1_000_000;
/// Commits in quick succession, so that one falls into the making of a snapshot; and how often that is tried.
const CODA_COMMITS: usize = 4;
const CODAS_MAX: usize = 12;

#[derive(Debug)]
pub struct LogReport {
    pub seed: u64,
    pub trace: Trace,
    pub violation: Option<Violation>,
    /// Of all processes together.
    pub stats: StoreStats,
}

/// One process on the log.
#[derive(Clone)]
struct Bench {
    handle: Handle,
    hardware: Hardware,
    plan: Arc<LogPlan>,
    book: Arc<Book>,
}

/// What outlives a process.
#[derive(Default)]
struct Book {
    model: Mutex<Model>,
    violation: Mutex<Option<Violation>>,
    trace: Mutex<Trace>,
    /// Something failed that a disk may fail at, in this process.
    is_troubled: AtomicBool,
    /// All partitions were acquired, in this process.
    found_all: AtomicBool,
    /// A snapshot whose footer tells that all commits were durable was finished, in this process.
    snapshot_was_last: AtomicBool,
    /// The stores of this process.
    stores: Mutex<Vec<Arc<LogStore>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds this lock")
}

pub fn run_log_seed(seed: u64, trace_lines_max: usize) -> LogReport {
    // Another stream than that of the engine's run of the same seed.
    let mut rng = Rng::new(seed ^ 0x6c6f_6721);
    let plan = Arc::new(LogPlan::draw(&mut rng));
    let book = Arc::new(Book { trace: Mutex::new(Trace::new(trace_lines_max)), ..Book::default() });
    lock(&book.model).keeps_all = plan.durability == Sync::Always;
    let mut run = Run::new(rng, plan, book);
    let violation = run.live().err();
    run.finish(seed, violation)
}

struct Run {
    executor: Executor,
    hardware: Hardware,
    plan: Arc<LogPlan>,
    book: Arc<Book>,
    rng: Rng,
    stats: StoreStats,
}

impl Run {
    fn new(mut rng: Rng, plan: Arc<LogPlan>, book: Arc<Book>) -> Self {
        let executor = Executor::new(rng.fork());
        let watch = Arc::clone(&book);
        let hardware = Hardware::new(
            rng.fork(),
            Arc::new(move |fault| {
                if fault.is_trouble() {
                    watch.is_troubled.store(true, Ordering::Relaxed);
                }
                lock(&watch.trace).line(format_args!("fault: {fault:?}"));
            }),
        );
        lock(&book.trace).line(format_args!("{plan:?}"));
        Self { executor, hardware, plan, book, rng, stats: StoreStats::default() }
    }

    fn live(&mut self) -> Result<(), Violation> {
        let mut bounds = Bounds::Answered;
        let plan = Arc::clone(&self.plan);
        for life in &plan.lives {
            self.one_life(*life, bounds)?;
            let found_all = self.book.found_all.load(Ordering::Relaxed);
            let before = if found_all { Bounds::Answered } else { bounds };
            bounds = before.min(self.bounds_after(*life));
            if life.rots {
                return self.look_at_what_rotted(bounds);
            }
        }
        let last = Life { steps: 5, end: End::Close, rots: false };
        self.one_life(last, bounds)
    }

    fn bench(&mut self) -> Bench {
        self.hardware.set_rates(Rates::CALM);
        self.hardware.set_room(None);
        self.book.is_troubled.store(false, Ordering::Relaxed);
        self.book.found_all.store(false, Ordering::Relaxed);
        self.book.snapshot_was_last.store(false, Ordering::Relaxed);
        lock(&self.book.model).begin_process();
        Bench {
            handle: self.executor.handle(),
            hardware: self.hardware.clone(),
            plan: Arc::clone(&self.plan),
            book: Arc::clone(&self.book),
        }
    }

    fn one_life(&mut self, life: Life, bounds: Bounds) -> Result<(), Violation> {
        let bench = self.bench();
        lock(&self.book.trace).line(format_args!("process begins: {life:?}, {bounds:?}"));
        self.hardware.set_rates(self.plan.rates);
        match life.end {
            End::KillAtStep(steps) | End::CrashAtStep(steps) => {
                self.executor.crash_after_steps(Some(steps));
            }
            End::KillAtDirectorySync(syncs) => self.hardware.stop_at_directory_sync(syncs),
            End::CrashAtChange(changes) => self.hardware.crash_in(Some(changes)),
            End::Close | End::SqueezeAndClose | End::KillWhenIdle => {}
        }
        let rng = self.rng.fork();
        let handle = bench.handle.clone();
        handle.spawn("process", Box::pin(bench.serve(life, bounds, rng)));
        self.run_to_the_end(life)
    }

    /// The start must tell of a bit that flipped, or show everything as it was.
    fn look_at_what_rotted(&mut self, bounds: Bounds) -> Result<(), Violation> {
        self.hardware.flip_a_bit();
        let bench = self.bench();
        let handle = bench.handle.clone();
        handle.spawn("process", Box::pin(bench.look(bounds)));
        self.run_to_the_end(Life { steps: 0, end: End::Close, rots: false })
    }

    fn run_to_the_end(&mut self, life: Life) -> Result<(), Violation> {
        let stop = self.executor.run(STEPS_MAX, MICROS_MAX);
        self.executor.kill();
        let stores = std::mem::take(&mut *lock(&self.book.stores));
        let stats = stores.iter().map(|store| store.stats());
        self.stats = stats.chain([self.stats]).sum();
        if let Some(violation) = lock(&self.book.violation).take() {
            return Err(violation);
        }
        match stop {
            Stop::Finished => self.hardware.process_ended(),
            Stop::CrashedAtStep if matches!(life.end, End::KillAtStep(_)) => self.hardware.process_ended(),
            Stop::Crashed if matches!(life.end, End::KillAtDirectorySync(_)) => self.hardware.process_ended(),
            Stop::CrashedAtStep | Stop::Crashed => self.hardware.crash(),
            Stop::Hung => return Err(wrong("hang", "nothing will ever happen again".to_owned())),
            Stop::Exhausted => return Err(wrong("hang", "it does not come to an end".to_owned())),
            Stop::Panicked => return Err(wrong("panic", self.executor.panic_message())),
        }
        Ok(())
    }

    fn bounds_after(&self, life: Life) -> Bounds {
        let sound = !self.book.is_troubled.load(Ordering::Relaxed);
        match life.end {
            End::Close | End::SqueezeAndClose if sound => Bounds::Answered,
            // Nothing says of the last frames that they were durable, unless a snapshot was finished after them.
            _ if life.rots && !self.book.snapshot_was_last.load(Ordering::Relaxed) => Bounds::Nothing,
            End::KillAtStep(_) | End::KillAtDirectorySync(_) | End::KillWhenIdle if sound => Bounds::Answered,
            End::Close
            | End::SqueezeAndClose
            | End::KillAtStep(_)
            | End::KillAtDirectorySync(_)
            | End::KillWhenIdle
            | End::CrashAtStep(_)
            | End::CrashAtChange(_) => Bounds::Durable,
        }
    }

    fn finish(self, seed: u64, violation: Option<Violation>) -> LogReport {
        let trace = std::mem::take(&mut *lock(&self.book.trace));
        let stats = self.stats;
        if violation.is_some() {
            // What a failed run left behind may not take being dropped.
            std::mem::forget(self);
        }
        LogReport { seed, trace, violation, stats }
    }
}

/// Counts owners that are done.
#[derive(Default)]
struct Shift {
    done: AtomicUsize,
    changed: Notify,
    over: AtomicBool,
}

impl Bench {
    fn model(&self) -> MutexGuard<'_, Model> {
        lock(&self.book.model)
    }

    fn note(&self, line: std::fmt::Arguments<'_>) {
        lock(&self.book.trace).line(format_args!("{} {line}", self.handle.now_micros()));
    }

    fn complain(&self, violation: Violation) {
        self.note(format_args!("{violation}"));
        lock(&self.book.violation).get_or_insert(violation);
        self.handle.finish();
    }

    fn is_troubled(&self) -> bool {
        self.book.is_troubled.load(Ordering::Relaxed)
    }

    async fn serve(self, life: Life, bounds: Bounds, rng: Rng) {
        match self.serve_well(life, bounds, rng).await {
            Ok(()) => self.handle.finish(),
            Err(violation) => self.complain(violation),
        }
    }

    async fn serve_well(&self, life: Life, bounds: Bounds, mut rng: Rng) -> Result<(), Violation> {
        let store = self.open().await.map_err(|error| wrong("open", error.to_string()))?;
        let epochs = self.take_all(&store, bounds).await?;
        self.book.found_all.store(true, Ordering::Relaxed);
        self.model().lost_the_end_only()?;
        let shift = Arc::new(Shift::default());
        let owners = epochs.len();
        for (partition, epoch) in epochs {
            let steps = if partition == REGISTRY { life.steps / 4 } else { life.steps };
            let owner = self.owner(&store, partition, epoch, rng.fork());
            self.spawn(&shift, owner.work(steps));
        }
        let reader = reader::read_on(self.clone(), Arc::clone(&store), Arc::clone(&shift), rng.fork());
        self.handle.spawn("reader", Box::pin(reader));
        while shift.done.load(Ordering::Relaxed) < owners {
            shift.changed.notified().await;
        }
        shift.over.store(true, Ordering::Relaxed);
        if life.end == End::SqueezeAndClose {
            squeeze::squeeze(self, &store).await?;
        }
        if life.end == End::KillWhenIdle {
            return self.idle(life, &store, rng).await;
        }
        store.close().await;
        Ok(())
    }

    /// Where something rots afterwards, not before a snapshot tells that all commits were durable; if that ever comes.
    async fn idle(&self, life: Life, store: &Arc<LogStore>, mut rng: Rng) -> Result<(), Violation> {
        for _ in 0..CODAS_MAX {
            let before = store.stats();
            self.handle.sleep_micros(IDLE_MICROS).await;
            let after = store.stats();
            let tells_all = after.events.snapshots_behind > before.events.snapshots_behind
                && after.snapshots > before.snapshots;
            self.book.snapshot_was_last.store(tells_all, Ordering::Relaxed);
            if tells_all || !life.rots {
                return Ok(());
            }
            let epoch = self.acquire(store, REGISTRY, None).await?;
            self.owner(store, REGISTRY, epoch, rng.fork()).commit_some(CODA_COMMITS).await?;
        }
        self.handle.sleep_micros(IDLE_MICROS).await;
        Ok(())
    }

    fn spawn(&self, shift: &Arc<Shift>, work: impl Future<Output = Result<(), Violation>> + Send + 'static) {
        let (bench, shift) = (self.clone(), Arc::clone(shift));
        self.handle.spawn(
            "owner",
            Box::pin(async move {
                if let Err(violation) = work.await {
                    bench.complain(violation);
                }
                shift.done.fetch_add(1, Ordering::Relaxed);
                shift.changed.notify_one();
            }),
        );
    }

    async fn look(self, bounds: Bounds) {
        match self.look_well(bounds).await {
            Ok(()) => self.handle.finish(),
            Err(violation) => self.complain(violation),
        }
    }

    /// Damage is told, or everything is there.
    async fn look_well(&self, bounds: Bounds) -> Result<(), Violation> {
        let store = match self.open().await {
            Ok(store) => store,
            Err(error) if error.is_damage() || matches!(error, StoreError::Unusable(_)) => return Ok(()),
            Err(error) => return Err(wrong("open", error.to_string())),
        };
        let partitions: Vec<u32> = self.model().partitions.keys().copied().collect();
        for partition in partitions {
            self.look_at(&store, partition, Some(bounds)).await?;
        }
        store.close().await;
        Ok(())
    }

    /// As an operator would: again and again, and at last with another disk controller.
    async fn open(&self) -> Result<Arc<LogStore>, StoreError> {
        let mut attempt = 0;
        loop {
            if attempt == OPENS_ON_A_BAD_DISK {
                self.hardware.set_rates(Rates::CALM);
            }
            let env: Arc<dyn Env> = Arc::new(SimEnv::new(self.handle.clone(), WallClock::default()));
            let disk = Arc::new(self.hardware.disk(self.handle.clone()));
            match LogStore::open(env, disk, self.plan.options.clone()).await {
                Ok(store) => {
                    let store = Arc::new(store);
                    lock(&self.book.stores).push(Arc::clone(&store));
                    return Ok(store);
                }
                Err(error) if error.is_damage() || attempt == OPENS_MAX => return Err(error),
                Err(error) => self.note(format_args!("cannot open: {error}")),
            }
            attempt += 1;
            self.handle.sleep_micros(500_000).await;
        }
    }

    /// Acquires every partition there ever was, and those of the plan. Tells the epoch of each.
    async fn take_all(&self, store: &Arc<LogStore>, bounds: Bounds) -> Result<Vec<(u32, u64)>, Violation> {
        let listed = store.partitions().await.map_err(|error| wrong("open", error.to_string()))?;
        if let Some(back) = listed.iter().find(|partition| self.model().gone.contains(&partition.0)) {
            return Err(wrong("back", format!("partition {back} was dropped, and is there")));
        }
        let known: Vec<u32> = {
            let mut model = self.model();
            (REGISTRY..=self.plan.partitions).for_each(|partition| {
                if !model.abandoned.contains(&partition) {
                    model.past(partition);
                }
            });
            model.partitions.keys().copied().collect()
        };
        let mut epochs = Vec::new();
        for partition in known {
            let epoch = self.acquire(store, partition, Some(bounds)).await?;
            epochs.push((partition, epoch));
        }
        Ok(epochs)
    }
}

fn id(partition: u32) -> PartitionId {
    PartitionId(partition)
}
