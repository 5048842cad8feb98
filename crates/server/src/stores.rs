//! The directories of data: opened, kept apart from those of other servers, and copied.
//!
//! The one in `data` is the store `default`, which has the registry. Every directory carries the id of its server, so that
//! a store that is not this server's is refused before anything in it is taken for a leftover; and the first directory
//! knows the names of the others, so that one whose disk is not mounted is not taken for a new one.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_engine::env::Env;
use windlass_engine::store::log::backup::{self, Backup, BeginError};
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Opening};
use windlass_engine::store::{DEFAULT_STORE, Store, StoreError};

use crate::config::StoreConfig;

const ID_FILE: &str = "server-id";
const KNOWN_FILE: &str = "known-stores";

/// The logs behind the stores, as far as they are open.
#[derive(Debug, Default)]
pub struct Logs {
    names: Vec<String>,
    open: Mutex<BTreeMap<String, Log>>,
}

#[derive(Clone, Debug)]
struct Log {
    directory: PathBuf,
    store: Arc<LogStore>,
}

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("the store `{0}` is not open")]
    NotOpen(String),
    #[error(transparent)]
    Begin(#[from] BeginError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Logs {
    pub(crate) fn new(data: &Path, store: Arc<LogStore>, others: &[StoreConfig]) -> Arc<Self> {
        let others = others.iter().map(|other| other.name.clone());
        let names = std::iter::once(DEFAULT_STORE.to_owned()).chain(others).collect();
        let logs = Self { names, open: Mutex::default() };
        logs.add(DEFAULT_STORE, Log { directory: data.to_owned(), store });
        Arc::new(logs)
    }

    fn add(&self, name: &str, log: Log) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), log);
    }

    fn get(&self, name: &str) -> Option<Log> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Copies every store as it is at one moment: the first one into the directory itself, the others beneath it in
    /// `stores`. Tells the bytes.
    pub(crate) async fn copy(&self, to: &Path) -> Result<u64, CopyError> {
        let log = |name: &String| self.get(name).ok_or_else(|| CopyError::NotOpen(name.clone()));
        let logs = self.names.iter().map(log).collect::<Result<Vec<_>, _>>()?;
        let stores: Vec<&LogStore> = logs.iter().map(|log| &*log.store).collect();
        let backups = backup::begin(&stores).await?;
        let mut bytes = 0;
        for ((name, log), backup) in self.names.iter().zip(&logs).zip(backups) {
            let to = if name == DEFAULT_STORE { to.to_owned() } else { to.join("stores").join(name) };
            bytes += log.copy(backup, &to).await?;
        }
        Ok(bytes)
    }
}

impl Log {
    async fn copy(&self, backup: Backup, to: &Path) -> Result<u64, CopyError> {
        let mut bytes = 0;
        let mut heard = |_, total| bytes = total;
        backup.copy(Arc::new(RealDisk::new(to)?), &mut heard).await?;
        for name in [ID_FILE, KNOWN_FILE] {
            if let Some(text) = read(&self.directory.join(name))? {
                write(&to.join(name), &text)?;
            }
        }
        Ok(bytes)
    }
}

/// A further store: opened when it can be.
pub(crate) fn member(
    env: &Arc<dyn Env>,
    logs: &Arc<Logs>,
    data: &Path,
    store: &StoreConfig,
    options: &LogOptions,
) -> Member {
    let parts = (Arc::clone(env), Arc::clone(logs), data.to_owned(), store.clone(), options.clone());
    let opening: Opening = Box::new(move || {
        let (env, logs, data, store, options) = parts.clone();
        Box::pin(async move {
            let claim = Claim::check(&data, &store)?;
            let directory = store.data.clone();
            let disk = RealDisk::new(&directory).map_err(|error| failed("cannot use", &directory, error))?;
            let opened = Arc::new(LogStore::open(env, Arc::new(disk), options).await?);
            if let Err(error) = claim.sign(&data, &store, &opened).await {
                opened.close().await;
                return Err(error);
            }
            logs.add(&store.name, Log { directory, store: Arc::clone(&opened) });
            Ok(opened as Arc<dyn Store>)
        })
    });
    Member::new(store.name.as_str(), opening)
}

/// The directory of a store, looked at before it is opened.
struct Claim {
    own_id: String,
    /// Whether it carries that id already.
    is_signed: bool,
    known: Vec<String>,
}

impl Claim {
    /// Refuses a directory that is another server's, or not what it was.
    fn check(data: &Path, store: &StoreConfig) -> Result<Self, StoreError> {
        let directory = &store.data;
        let own_id = own_id(data).map_err(|error| failed("cannot read", &data.join(ID_FILE), error))?;
        let known = known(data).map_err(|error| failed("cannot read", &data.join(KNOWN_FILE), error))?;
        let id_file = directory.join(ID_FILE);
        let found = read(&id_file).map_err(|error| failed("cannot read", &id_file, error))?;
        match &found {
            Some(id) if *id != own_id => Err(unusable(directory, "it belongs to the data of another server")),
            None if known.contains(&store.name) => Err(unusable(
                directory,
                "the store was used before, and its files are gone. Is its disk mounted?",
            )),
            Some(_) | None => Ok(Self { own_id, is_signed: found.is_some(), known }),
        }
    }

    /// Takes a directory that is nobody's, which is one with nothing in it.
    async fn sign(mut self, data: &Path, store: &StoreConfig, opened: &LogStore) -> Result<(), StoreError> {
        if !self.is_signed {
            if !opened.partitions().await?.is_empty() {
                return Err(unusable(
                    &store.data,
                    "it holds data that is not this server's: give the store a directory of its own",
                ));
            }
            let file = store.data.join(ID_FILE);
            write(&file, &self.own_id).map_err(|error| failed("cannot write", &file, error))?;
        }
        if !self.known.contains(&store.name) {
            self.known.push(store.name.clone());
            let file = data.join(KNOWN_FILE);
            write(&file, &self.known.join("\n")).map_err(|error| failed("cannot write", &file, error))?;
        }
        Ok(())
    }
}

/// Made when it is first asked for, and for ever.
fn own_id(data: &Path) -> io::Result<String> {
    let file = data.join(ID_FILE);
    if let Some(id) = read(&file)? {
        return Ok(id);
    }
    let id = format!("{:x}-{:x}", jiff::Timestamp::now().as_nanosecond(), std::process::id());
    write(&file, &id)?;
    Ok(id)
}

fn known(data: &Path) -> io::Result<Vec<String>> {
    let text = read(&data.join(KNOWN_FILE))?.unwrap_or_default();
    Ok(text.lines().map(str::to_owned).collect())
}

/// Nothing if there is no such file, or nothing in it.
fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whole or not at all, and durable.
fn write(path: &Path, text: &str) -> io::Result<()> {
    // A name that the log clears away if it is left behind.
    let temporary = path.with_extension("tmp");
    let mut file = std::fs::File::create(&temporary)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |directory| std::fs::File::open(directory)?.sync_all())
}

fn failed(action: &'static str, file: &Path, error: io::Error) -> StoreError {
    StoreError::Io { action, file: file.display().to_string(), source: Arc::new(error) }
}

fn unusable(directory: &Path, why: &str) -> StoreError {
    StoreError::Unusable(format!("the directory {} cannot be used: {why}", directory.display()))
}
