//! The configuration: written by people in several places, checked once, and valid from then on.
//!
//! Read [`load`] first, then `keys` (the table of all settings), `layers` (which source wins), `value` (how each
//! type is read), and `show` (`windlass config` and the reference, both from the table).

mod backup_dir;
mod error;
mod keys;
mod layers;
mod raw;
mod show;
mod stores;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use windlass_core::time::Span;
use windlass_engine::store::DEFAULT_STORE;
use windlass_engine::store::log::Durability;

pub use error::{ConfigError, Source, Stated};
pub use keys::{KEYS, Key};
pub use raw::{Raw, RawConfig, RawLimits, RawStore};
pub use show::reference;
pub use stores::StoreConfig;

use crate::gate::Gate;
use keys::*;
use layers::Layers;

/// What the server runs with. Every value is within its limits, and they fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub data: PathBuf,
    /// Beside that one.
    pub stores: Vec<StoreConfig>,
    pub listen: SocketAddr,
    pub insecure: bool,
    pub gate: Gate,
    pub durability: Durability,
    pub backup_dir: PathBuf,
    pub log_format: LogFormat,
    /// Directives of a tracing filter.
    pub log_level: String,
    pub shutdown_grace: Duration,
    /// Unset: see [`Config::threads`].
    pub threads: Option<NonZeroUsize>,
    pub limits: Limits,
    /// See [`Config::take_over`].
    pub take_over: BTreeSet<String>,
    /// For tests: segments that are filled, compacted and used again within seconds.
    pub small_segments: bool,
    /// Variables that look like settings and are none: told at the start, for one may be misspelt.
    pub ignored_variables: Vec<String>,
    sources: BTreeMap<&'static str, Source>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connections: usize,
    pub waiting_requests: usize,
    pub payload_bytes: usize,
    pub body_bytes: usize,
    pub bytes_in_flight: usize,
    pub queues: usize,
    pub partitions: usize,
    /// Memory of the process in bytes; unset: no limit but that of the machine.
    pub memory: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

const COUNT_MAX: usize = 1_000_000;
const THREADS_MAX: usize = 1000;
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
/// A little less than the largest batch of bodies that the log takes.
const PAYLOAD_BYTES_MAX: usize = 15 * MIB;

/// Flags win over `WINDLASS_*` variables, and these over the file: the one given here, else by `WINDLASS_CONFIG`.
pub fn load(
    flags: RawConfig,
    file: Option<PathBuf>,
    env: impl Iterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    let mut layers = Layers::gather(flags, file, env)?;
    let data = layers.read(&DATA, value::directory)?;
    let chosen = layers.read(&BACKUP_DIR, value::directory)?;
    let backup_dir = if layers.is_default(&BACKUP_DIR) { backup_dir::beside(&data) } else { chosen };
    let listen = layers.read(&LISTEN, value::address)?;
    let config = Config {
        insecure: layers.read(&INSECURE, value::boolean)?,
        gate: gate(&mut layers, listen)?,
        listen,
        durability: durability(&mut layers)?,
        log_format: layers.read(&LOG_FORMAT, log_format)?,
        log_level: layers.read(&LOG_LEVEL, value::filter)?,
        shutdown_grace: layers.read(&SHUTDOWN_GRACE, shutdown_grace)?,
        threads: layers
            .read(&THREADS, |raw| value::count_or_auto(raw, 1..=THREADS_MAX))?
            .and_then(NonZeroUsize::new),
        limits: limits(&mut layers)?,
        stores: layers.stores(&data)?,
        take_over: BTreeSet::new(),
        small_segments: false,
        data,
        backup_dir,
        ignored_variables: std::mem::take(&mut layers.ignored),
        sources: BTreeMap::new(),
    };
    check_together(&config, &layers)?;
    Ok(Config { sources: layers.into_sources(), ..config })
}

impl Config {
    /// How many threads answer requests: half of the machine's processors, at least one, if the configuration does not say.
    pub fn threads(&self) -> NonZeroUsize {
        let half = || thread::available_parallelism().ok().and_then(|all| NonZeroUsize::new(all.get() / 2));
        self.threads.or_else(half).unwrap_or(NonZeroUsize::MIN)
    }

    /// Names stores whose directories are made this server's at the start, whichever server they belonged to. Not a
    /// setting, because it is meant for one start.
    pub fn take_over(self, stores: Vec<String>) -> Result<Self, ConfigError> {
        let is_known =
            |name: &str| name == DEFAULT_STORE || self.stores.iter().any(|store| store.name == name);
        match stores.iter().find(|name| !is_known(name)) {
            Some(name) => Err(ConfigError::NoSuchStore { name: name.clone() }),
            None => Ok(Self { take_over: stores.into_iter().collect(), ..self }),
        }
    }
}

/// The variables of this process that [`load`] looks at.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let all = std::env::vars_os().map(move |(name, value)| (text(name), text(value)));
    all.filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
}

/// What no setting can be judged for by itself.
fn check_together(config: &Config, layers: &Layers) -> Result<(), ConfigError> {
    if !config.insecure && !config.gate.is_loopback {
        return Err(ConfigError::NotLoopback(layers.stated(&LISTEN)));
    }
    backup_dir::check(config)?;
    let limits = &config.limits;
    let parts = [
        (&PAYLOAD_BYTES, limits.payload_bytes, &BODY_BYTES, limits.body_bytes),
        (&BODY_BYTES, limits.body_bytes, &BYTES_IN_FLIGHT, limits.bytes_in_flight),
    ];
    match parts.into_iter().find(|(_, part, _, whole)| part > whole) {
        None => Ok(()),
        Some((part, _, whole, _)) => {
            let (part, whole) = (layers.stated(part).into(), layers.stated(whole).into());
            Err(ConfigError::LargerThanWhole { part, whole })
        }
    }
}

fn gate(layers: &mut Layers, listen: SocketAddr) -> Result<Gate, ConfigError> {
    Ok(Gate {
        is_loopback: listen.ip().to_canonical().is_loopback(),
        public_url: layers.read(&PUBLIC_URL, value::web_origin)?,
        allowed_hosts: layers.read_list(&ALLOWED_HOSTS, |entry| entry.parse().ok())?,
        allowed_origins: layers.read_list(&ALLOWED_ORIGINS, value::origin)?,
        trusted_proxies: layers.read_list(&TRUSTED_PROXIES, |entry| entry.parse().ok())?,
    })
}

fn durability(layers: &mut Layers) -> Result<Durability, ConfigError> {
    let interval_range = Duration::from_millis(1)..=Duration::from_secs(60);
    let interval = layers.read(&SYNC_INTERVAL, |raw| value::duration(raw, interval_range))?;
    let interval = Durability::Interval(Span::from(interval));
    let choices = [("always", Durability::Always), ("interval", interval), ("none", Durability::None)];
    let durability = layers.read(&DURABILITY, |raw| value::choice(raw, &choices))?;
    if durability != interval && !layers.is_default(&SYNC_INTERVAL) {
        let (interval, durability) =
            (layers.stated(&SYNC_INTERVAL).into(), layers.stated(&DURABILITY).into());
        return Err(ConfigError::NoInterval { interval, durability });
    }
    Ok(durability)
}

fn log_format(raw: &Raw) -> Option<LogFormat> {
    value::choice(raw, &[LogFormat::Text, LogFormat::Json].map(|format| (format.name(), format)))
}

fn shutdown_grace(raw: &Raw) -> Option<Duration> {
    value::duration(raw, Duration::ZERO..=Duration::from_secs(3600))
}

fn limits(layers: &mut Layers) -> Result<Limits, ConfigError> {
    let count = |raw: &Raw| value::count(raw, 1..=COUNT_MAX);
    Ok(Limits {
        connections: layers.read(&CONNECTIONS, count)?,
        waiting_requests: layers.read(&WAITING_REQUESTS, count)?,
        payload_bytes: layers.read(&PAYLOAD_BYTES, |raw| value::bytes(raw, KIB..=PAYLOAD_BYTES_MAX))?,
        body_bytes: layers.read(&BODY_BYTES, |raw| value::bytes(raw, KIB..=GIB))?,
        bytes_in_flight: layers.read(&BYTES_IN_FLIGHT, |raw| value::bytes(raw, MIB..=1024 * GIB))?,
        queues: layers.read(&QUEUES, count)?,
        partitions: layers.read(&PARTITIONS, count)?,
        memory: layers.read(&MEMORY, |raw| value::bytes_or_off(raw, 64 * MIB..=1024 * GIB))?,
    })
}
