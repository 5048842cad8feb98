//! Whose log it is, for the server that opens several: each directory names its store and its server, and the first one
//! names the others, so that an empty mount point is not taken for a new store.

use std::sync::Arc;

use tokio::sync::oneshot;

use windlass_core::id::PartitionId;

use super::disk::Disk;
use super::format::{self, Format, Found, Owner, State};
use super::{LogStore, opening};
use crate::env::{self, Env};
use crate::store::{DEFAULT_STORE, StoreError};

impl LogStore {
    /// Makes a directory that is another server's, or another store's of another server, the store of this name, durably.
    /// The directory's partitions stay. `server` is the id of the first store, and unset for the first store itself. Nothing happens to
    /// a directory that is the store's own. Refused if the directory is empty, while a process has it open, and if it holds
    /// a registry that would not be the server's own.
    pub async fn take_over(
        env: &dyn Env,
        disk: Arc<dyn Disk>,
        store: Arc<str>,
        server: Option<u64>,
    ) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        // On a thread of its own, because it reads and writes.
        let task = env::spawn_thread(env, "log-take-over", async move {
            let _caller_gone = answer.send(take_over(&*disk, store, server).await);
        });
        task.await;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    /// The name of the store whose directory it is; none if there is no log.
    pub async fn store_in(env: &dyn Env, disk: Arc<dyn Disk>) -> Result<Option<Arc<str>>, StoreError> {
        let (answer, answered) = oneshot::channel();
        // On a thread of its own, because it reads.
        let task = env::spawn_thread(env, "log-owner", async move {
            let found = format::read(&*disk).await;
            let _caller_gone = answer.send(found.map(|found| found.map(|found| found.format.owner.store)));
        });
        task.await;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    /// The id that all stores of the server carry.
    pub async fn server(&self) -> u64 {
        self.format.lock().await.owner.server
    }

    /// Whether a store of that name was ever opened beside this one.
    pub async fn knows_store(&self, name: &str) -> bool {
        self.format.lock().await.knows(name)
    }

    /// Notes, durably, that a store of that name was opened beside this one.
    pub async fn remember_store(&self, name: &str) -> Result<(), StoreError> {
        let mut format = self.format.lock().await;
        if format.knows(name) {
            return Ok(());
        }
        let mut next = format.clone();
        next.owner.others.push(name.into());
        self.write_format(next.clone()).await?;
        *format = next;
        Ok(())
    }

    /// Says, durably, that what a salvage wrote is complete: from now on it may be served.
    pub(super) async fn finish_salvage(&self) -> Result<(), StoreError> {
        let mut format = self.format.lock().await;
        let next = Format { state: State::Ready, ..format.clone() };
        self.write_format(next.clone()).await?;
        *format = next;
        Ok(())
    }

    /// On a thread of its own, because it writes.
    async fn write_format(&self, format: Format) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        let disk = Arc::clone(&self.shared.disk);
        let task = env::spawn_thread(&*self.shared.env, "log-format", async move {
            let _caller_gone = answer.send(format::write(&*disk, &format).await);
        });
        task.await;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

async fn take_over(disk: &dyn Disk, store: Arc<str>, server: Option<u64>) -> Result<(), StoreError> {
    opening::lock(disk).await?;
    let taken = take_over_locked(disk, store, server).await;
    disk.unlock();
    taken
}

async fn take_over_locked(disk: &dyn Disk, store: Arc<str>, server: Option<u64>) -> Result<(), StoreError> {
    let Some(Found { format, .. }) = format::read(disk).await? else {
        let directory = disk.path("");
        return Err(StoreError::Unusable(format!(
            "{directory}: nothing to take over as the store `{store}`: there is no log here. Is its disk mounted?"
        )));
    };
    format.check_finished(disk)?;
    let former = &format.owner;
    // A directory of this very server is not taken over: two of them are swapped, and opening it says so.
    if server == Some(former.server) || (server.is_none() && former.store == store) {
        return Ok(());
    }
    let partitions = opening::recover(disk, &format).await?.tables.partitions;
    let registry = partitions.get(&PartitionId::REGISTRY.0);
    if *store != *DEFAULT_STORE && registry.is_some_and(|registry| registry.sequence > 0) {
        return Err(StoreError::Unusable(format!(
            "{}: not taken over as the store `{store}`, because the directory holds the registry of another server. Start \
             a server with this directory as `--data`",
            disk.path("")
        )));
    }
    // Only the first store names others, and it keeps its id, so that theirs still fit.
    let others = if server.is_none() { former.others.clone() } else { Vec::new() };
    let owner = Owner { store, server: server.unwrap_or(former.server), others };
    let next = Format { owner, ..format.clone() };
    format::write(disk, &next).await?;
    tracing::warn!(
        directory = disk.path(""),
        store = %next.owner.store,
        former_store = %former.store,
        former_server = format!("{:016x}", former.server),
        "a store was taken over: its directory belongs to this server now. Start without --take-over-store from now on"
    );
    Ok(())
}

impl Format {
    fn knows(&self, store: &str) -> bool {
        self.owner.others.iter().any(|other| **other == *store)
    }
}
