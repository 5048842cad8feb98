//! The order in which things start and stop, and the owner of everything that runs.
//!
//! The listener comes first, so that a port in use is known before the data is touched, and `/health` answers while
//! the data is being loaded. It also ends before the data is let go: whatever it still answers is durable.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{error, info, warn};
use windlass_core::limits::RegistryLimits;
use windlass_engine::env::{Env, TokioEnv};
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Spread};
use windlass_engine::store::{DEFAULT_STORE, Store, StoreError};
use windlass_engine::{Engine, EngineError, EngineOptions, MemoryLimit};

use crate::config::{Config, Limits};
use crate::http::record::Record;
use crate::http::{App, HttpLimits, Opened};
use crate::listener::{self, Listener};
use crate::memory::resident_bytes;
use crate::stores::{self, Logs};

/// Stores that somebody else opened: the first, and the others.
type Given = (Arc<dyn Store>, Vec<Member>);

/// Files beside connections: those of the log, and what the runtime needs.
const OTHER_FILES: u64 = 100;
/// Nobody is told of a start that is faster than this.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// As shells show a process that was interrupted.
const INTERRUPTED: i32 = 130;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{}", describe_bind(*.address, .source))]
    Bind { address: SocketAddr, source: io::Error },
    #[error(
        "cannot use the data directory {}: {source}. Make it accessible, or choose another with --data",
        .directory.display()
    )]
    Data { directory: PathBuf, source: io::Error },
    #[error(
        "the data directory {} is in use by another process, and only one at a time can have it. Stop the other one, \
         or give this one a directory of its own with --data",
        .directory.display()
    )]
    InUse { directory: PathBuf },
    #[error(
        "not taken over: {} is the directory of the store `default`, and was given as that of the store `{store}`. The \
         directories are swapped: give each store the directory that it had before",
        .directory.display()
    )]
    Swapped { store: String, directory: PathBuf },
    #[error("cannot open the data: {0}")]
    Store(#[from] StoreError),
    #[error("cannot load the queues: {0}")]
    Engine(#[from] EngineError),
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    #[error("the listener ended by itself, so the server was stopped; the log tells more")]
    ListenerEnded,
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is what nobody has met yet")]
fn describe_bind(address: SocketAddr, source: &io::Error) -> String {
    let port = address.port();
    let why = match source.kind() {
        io::ErrorKind::AddrInUse => {
            format!("port {port} is taken by another process. Stop that one, or choose another port")
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address. Choose one that it has, such as 127.0.0.1:9463,".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "the system does not allow it; ports below 1024 need privileges. Choose another port".to_owned()
        }
        _ => format!("{source}. Choose another address"),
    };
    format!("cannot listen on {address}: {why} with --listen")
}

/// A running server. [`Server::stop`] ends it in good order; dropped, its listener is cut off.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    app: Arc<App>,
    engine: Engine,
    front: Front,
}

/// The listener's task, and the word that ends it.
#[derive(Debug)]
struct Front {
    stopping: watch::Sender<bool>,
    tasks: JoinSet<usize>,
}

impl Server {
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::start_with(config, None).await
    }

    /// On stores that are there already, the first of which has the registry: the directories of the configuration are
    /// not looked at. For tests, and for whoever brings a store of their own.
    pub async fn start_on(
        config: Config,
        first: Arc<dyn Store>,
        others: Vec<Member>,
    ) -> Result<Self, StartError> {
        Self::start_with(config, Some((first, others))).await
    }

    async fn start_with(config: Config, given: Option<Given>) -> Result<Self, StartError> {
        for name in &config.ignored_variables {
            warn!(name, "ignored a variable that is not a setting; `windlass config` lists all there are");
        }
        raise_open_files(config.limits.connections);
        let bound = Listener::bind(config.listen, listener_limits(&config)).await;
        let listener = bound.map_err(|source| StartError::Bind { address: config.listen, source })?;
        let address = listener.local_addr();
        let app = App::new(http_limits(&config), config.gate.clone(), listener.traffic());
        let mut front = Front::serve(listener, Arc::clone(&app), config.shutdown_grace);
        let opening = match given {
            None => open(&config).await,
            Some((first, others)) => open_given(&config, first, others).await,
        };
        match opening {
            Ok(opened) => {
                let engine = opened.engine.clone();
                app.open(opened);
                info!(%address, data = %config.data.display(), "ready");
                Ok(Self { address, app, engine, front })
            }
            Err(error) => {
                app.stop();
                front.stop().await;
                Err(error)
            }
        }
    }

    /// Where it listens: with the port that was chosen if the configuration says 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Refuses what is new, answers what is under way for as long as `shutdown_grace`, waits for a backup, and then
    /// closes the data.
    pub async fn stop(mut self) {
        self.app.stop();
        self.engine.send_waiters_home();
        self.front.stop().await;
        // It reads the data, and whoever asked for it may be gone.
        self.app.finish_backups().await;
        self.engine.close().await;
    }
}

impl Front {
    fn serve(listener: Listener, app: Arc<App>, grace: Duration) -> Self {
        let (stopping, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(listener.run(app, stopped, grace));
        Self { stopping, tasks }
    }

    async fn stop(&mut self) {
        self.stopping.send_replace(true);
        self.ended().await;
    }

    async fn ended(&mut self) {
        if let Some(Err(failed)) = self.tasks.join_next().await {
            error!(error = %failed, "the listener failed");
        }
    }
}

/// Until a signal to stop. `ready` is called once calls are answered. A second signal ends the process at once.
pub async fn run(config: Config, ready: impl FnOnce(&Server)) -> Result<(), StartError> {
    let mut signals = Signals::new().map_err(StartError::Signals)?;
    let (mut server, asked) = start_unless_hurried(config, &mut signals).await?;
    ready(&server);
    let ended = !asked
        && tokio::select! {
            () = signals.next() => false,
            () = server.front.ended() => true,
        };
    info!("stopping");
    tokio::select! {
        () = server.stop() => info!("stopped"),
        () = signals.next() => process::exit(INTERRUPTED),
    }
    if ended { Err(StartError::ListenerEnded) } else { Ok(()) }
}

/// Also tells whether it was asked to stop meanwhile: loading is finished first, for half of it cannot be closed.
async fn start_unless_hurried(config: Config, signals: &mut Signals) -> Result<(Server, bool), StartError> {
    let mut starting = Box::pin(Server::start(config));
    tokio::select! {
        started = &mut starting => return Ok((started?, false)),
        () = signals.next() => info!("stopping as soon as the data is loaded; a second signal ends it at once"),
    }
    tokio::select! {
        started = &mut starting => Ok((started?, true)),
        () = signals.next() => process::exit(INTERRUPTED),
    }
}

/// Those that ask for an end.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn log_options(small_segments: bool) -> LogOptions {
    const SMALL_BYTES: u32 = 256 << 10;
    if small_segments {
        let snapshot_min_bytes = u64::from(SMALL_BYTES);
        LogOptions { segment_bytes: SMALL_BYTES, snapshot_min_bytes, ..LogOptions::default() }
    } else {
        LogOptions::default()
    }
}

async fn open(config: &Config) -> Result<Opened, StartError> {
    let env: Arc<dyn Env> = Arc::new(TokioEnv::new());
    let disk = data_directory(&config.data).await?;
    let options = LogOptions { durability: config.durability, ..log_options(config.small_segments) };
    if config.take_over.contains(DEFAULT_STORE) {
        check_not_swapped(&*env, config).await?;
        LogStore::take_over(&*env, disk.clone(), DEFAULT_STORE.into(), None).await?;
    }
    let opening = LogStore::open(env.clone(), disk, options.clone());
    let store = Arc::new(with_progress("reading the log", opening).await?);
    let logs = Logs::new(Arc::clone(&store), &config.stores, &config.take_over);
    let member = |other| stores::member(&env, &logs, other, &options);
    let others = config.stores.iter().map(member).collect();
    let spread = with_progress("opening the other stores", Spread::open(store, others)).await;
    load(config, env, spread, Some(logs)).await
}

/// Refuses to make another directory the first store's while the first store's own is given as that of another store.
async fn check_not_swapped(env: &dyn Env, config: &Config) -> Result<(), StartError> {
    for store in &config.stores {
        let Ok(disk) = RealDisk::new(&store.data) else { continue };
        let found = LogStore::store_in(env, Arc::new(disk)).await;
        if found.is_ok_and(|found| found.as_deref() == Some(DEFAULT_STORE)) {
            return Err(StartError::Swapped { store: store.name.clone(), directory: store.data.clone() });
        }
    }
    Ok(())
}

async fn open_given(
    config: &Config,
    first: Arc<dyn Store>,
    others: Vec<Member>,
) -> Result<Opened, StartError> {
    load(config, Arc::new(TokioEnv::new()), Spread::open(first, others).await, None).await
}

async fn load(
    config: &Config,
    env: Arc<dyn Env>,
    spread: Spread,
    logs: Option<Arc<Logs>>,
) -> Result<Opened, StartError> {
    let store = Arc::new(spread);
    let opening = Engine::open_with(env, store.clone(), engine_options(&config.limits));
    match with_progress("loading partitions", opening).await {
        Ok(engine) => {
            Ok(Opened { engine, logs, backup_dir: config.backup_dir.clone(), limits: config.limits })
        }
        Err(error) => {
            store.close().await;
            Err(error.into())
        }
    }
}

/// The directory, made if it is missing, and looked at whether another server has it.
async fn data_directory(directory: &Path) -> Result<Arc<RealDisk>, StartError> {
    let failed = |source| StartError::Data { directory: directory.to_owned(), source };
    let disk = RealDisk::new(directory).map_err(failed)?;
    match disk.lock().await {
        // The log takes it itself.
        Ok(()) => disk.unlock(),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(StartError::InUse { directory: directory.to_owned() });
        }
        Err(error) => return Err(failed(error)),
    }
    Ok(Arc::new(disk))
}

/// Says now and then that it is still going on.
async fn with_progress<T>(stage: &'static str, work: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let mut every = tokio::time::interval_at(begun + PROGRESS_AFTER, PROGRESS_EVERY);
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = every.tick() => info!(stage, elapsed_ms = elapsed_ms(begun), "still loading"),
        }
    }
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Each connection is an open file, and the soft limit is often far below what the system would grant.
fn raise_open_files(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let reached = if raised.is_ok() { limit.maximum } else { limit.current };
    let wanted = connections as u64 + OTHER_FILES;
    // No number means no limit.
    if let Some(open_files) = reached.filter(|reached| *reached < wanted) {
        warn!(
            open_files,
            wanted, "too few open files for limits.connections: raise the hard limit (ulimit -Hn)"
        );
    }
}

fn listener_limits(config: &Config) -> listener::Limits {
    listener::Limits {
        connections_max: config.limits.connections,
        body_bytes_max: config.limits.body_bytes,
        bytes_in_flight_max: config.limits.bytes_in_flight,
        ..listener::Limits::default()
    }
}

fn engine_options(limits: &Limits) -> EngineOptions {
    let memory = |bytes: usize| MemoryLimit { bytes_max: bytes as u64, bytes_now: Arc::new(resident_bytes) };
    EngineOptions {
        registry: RegistryLimits { queues: limits.queues, partitions: limits.partitions },
        memory: limits.memory.map(memory),
        headers_of: Some(Record::headers_of),
    }
}

fn http_limits(config: &Config) -> HttpLimits {
    HttpLimits { waiting_max: config.limits.waiting_requests, payload_bytes_max: config.limits.payload_bytes }
}
