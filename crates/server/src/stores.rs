//! The directories of data: opened, kept apart from each other and from those of other servers, and copied.
//!
//! The one in `data` is the store `default`, which has the registry. The `format` file of every directory names its
//! store and its server, so that swapped directories and those of another server are refused before anything in them is
//! touched; and that of the first directory names the other stores, so that an empty mount point is not taken for a new
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_engine::env::Env;
use windlass_engine::store::log::backup::{self, BeginError, Copied};
use windlass_engine::store::log::real::{RealDisk, holds_log};
use windlass_engine::store::log::{KIND, LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Opening};
use windlass_engine::store::{Store, StoreError};

use crate::config::StoreConfig;

/// The logs behind the stores, as far as they are open.
#[derive(Debug)]
pub struct Logs {
    first: Arc<LogStore>,
    /// The names of the others, in the order of the configuration.
    others: Vec<String>,
    open: Mutex<BTreeMap<String, Arc<LogStore>>>,
    /// Stores whose directories become this server's, whoever they belonged to.
    take_over: BTreeSet<String>,
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
    pub(crate) fn new(
        first: Arc<LogStore>,
        others: &[StoreConfig],
        take_over: &BTreeSet<String>,
    ) -> Arc<Self> {
        let others = others.iter().map(|other| other.name.clone()).collect();
        Arc::new(Self { first, others, open: Mutex::default(), take_over: take_over.clone() })
    }

    fn add(&self, name: &str, log: Arc<LogStore>) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), log);
    }

    fn get(&self, name: &str) -> Result<Arc<LogStore>, CopyError> {
        let found = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        found.ok_or_else(|| CopyError::NotOpen(name.to_owned()))
    }

    /// Copies every store as it is at one moment: the first one into the directory itself, the others beneath it in
    /// `stores`.
    pub(crate) async fn copy(&self, to: &Path) -> Result<Copied, CopyError> {
        let others = self.others.iter().map(|name| self.get(name)).collect::<Result<Vec<_>, _>>()?;
        let logs: Vec<&LogStore> =
            std::iter::once(&*self.first).chain(others.iter().map(|other| &**other)).collect();
        let beneath = self.others.iter().map(|name| to.join("stores").join(name));
        let mut all = Copied::default();
        for (backup, to) in
            backup::begin(&logs).await?.into_iter().zip(std::iter::once(to.to_owned()).chain(beneath))
        {
            let copied = backup.copy(Arc::new(RealDisk::new(to)?), &mut |_, _| {}).await?;
            all.bytes += copied.bytes;
            all.damage.extend(copied.damage);
        }
        Ok(all)
    }

    /// Opens a further store, unless it is another one or lost its files.
    async fn open(
        &self,
        env: Arc<dyn Env>,
        store: &StoreConfig,
        options: LogOptions,
    ) -> Result<Arc<LogStore>, StoreError> {
        let StoreConfig { name, data } = store;
        if self.first.knows_store(name).await && !holds_log(data) {
            return Err(StoreError::Unusable(format!(
                "the directory {} cannot be used: the store `{name}` was used before, and its files are gone. Is its \
                 disk mounted?",
                data.display()
            )));
        }
        let disk = Arc::new(RealDisk::new(data).map_err(|error| cannot_use(data, error))?);
        let (store, server) = (Arc::from(name.as_str()), Some(self.first.server().await));
        if self.take_over.contains(name) {
            LogStore::take_over(&*env, disk.clone(), Arc::clone(&store), server).await?;
        }
        let options = LogOptions { store, server, ..options };
        let opened = Arc::new(LogStore::open(env, disk, options).await?);
        if let Err(error) = self.first.remember_store(name).await {
            opened.close().await;
            return Err(error);
        }
        self.add(name, Arc::clone(&opened));
        Ok(opened)
    }
}

/// A further store: opened when it can be.
pub(crate) fn member(
    env: &Arc<dyn Env>,
    logs: &Arc<Logs>,
    store: &StoreConfig,
    options: &LogOptions,
) -> Member {
    let parts = (Arc::clone(env), Arc::clone(logs), store.clone(), options.clone());
    let opening: Opening = Box::new(move || {
        let (env, logs, store, options) = parts.clone();
        Box::pin(async move { Ok(logs.open(env, &store, options).await? as Arc<dyn Store>) })
    });
    Member::new(store.name.as_str(), KIND, opening)
}

fn cannot_use(directory: &Path, error: io::Error) -> StoreError {
    let (action, file) = ("cannot use", directory.display().to_string());
    StoreError::Io { action, file, source: Arc::new(error) }
}
