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
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Opening};
use windlass_engine::store::{DEFAULT_STORE, Store, StoreError};

use crate::config::StoreConfig;

const ID_FILE: &str = "server-id";
const KNOWN_FILE: &str = "known-stores";
/// What every log has.
const FORMAT_FILE: &str = "format";

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

    /// Copies every store: the first one into the directory itself, the others beneath it in `stores`. Each copy is
    /// consistent in itself. Tells the bytes.
    pub(crate) async fn copy(&self, to: &Path) -> Result<u64, CopyError> {
        let log = |name: &String| self.get(name).ok_or_else(|| CopyError::NotOpen(name.clone()));
        let logs = self.names.iter().map(log).collect::<Result<Vec<_>, _>>()?;
        let mut bytes = 0;
        for (name, log) in self.names.iter().zip(logs) {
            let to = if name == DEFAULT_STORE { to.to_owned() } else { to.join("stores").join(name) };
            bytes += log.copy(&to).await?;
        }
        Ok(bytes)
    }
}

impl Log {
    async fn copy(&self, to: &Path) -> Result<u64, CopyError> {
        let mut bytes = 0;
        let mut heard = |_, total| bytes = total;
        self.store.backup(Arc::new(RealDisk::new(to)?), &mut heard).await?;
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
            claim(&data, &store)?;
            let directory = store.data;
            let disk = RealDisk::new(&directory).map_err(|error| failed("cannot use", &directory, error))?;
            let opened = Arc::new(LogStore::open(env, Arc::new(disk), options).await?);
            logs.add(&store.name, Log { directory, store: Arc::clone(&opened) });
            Ok(opened as Arc<dyn Store>)
        })
    });
    Member::new(store.name.as_str(), opening)
}

/// Takes a directory for this server, unless it is another's or not the one it was.
fn claim(data: &Path, store: &StoreConfig) -> Result<(), StoreError> {
    let (directory, id_file) = (&store.data, store.data.join(ID_FILE));
    let own = own_id(data).map_err(|error| failed("cannot read", &data.join(ID_FILE), error))?;
    let found = read(&id_file).map_err(|error| failed("cannot read", &id_file, error))?;
    let mut known = known(data).map_err(|error| failed("cannot read", &data.join(KNOWN_FILE), error))?;
    let was_known = known.contains(&store.name);
    match found {
        Some(id) if id == own => {}
        Some(_) => return Err(unusable(directory, "it belongs to the data of another server")),
        None if was_known => {
            return Err(unusable(
                directory,
                "it is not what it was: the store was used before, and its files are gone. Is its disk mounted?",
            ));
        }
        None if directory.join(FORMAT_FILE).exists() => {
            return Err(unusable(directory, "it holds data already: give the store a directory of its own"));
        }
        None => {
            let made = std::fs::create_dir_all(directory).and_then(|()| write(&id_file, &own));
            made.map_err(|error| failed("cannot write", &id_file, error))?;
        }
    }
    if !was_known {
        known.push(store.name.clone());
        let file = data.join(KNOWN_FILE);
        write(&file, &known.join("\n")).map_err(|error| failed("cannot write", &file, error))?;
    }
    Ok(())
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
    let temporary = path.with_extension("new");
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
