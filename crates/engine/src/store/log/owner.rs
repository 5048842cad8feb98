//! Whose log it is, for the server that opens several: each directory names its store and its server, and the first one
//! names the others, so that an empty mount point is not taken for a new store.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::LogStore;
use super::format::{self, Format, State};
use crate::env;
use crate::store::StoreError;

impl LogStore {
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

impl Format {
    fn knows(&self, store: &str) -> bool {
        self.owner.others.iter().any(|other| **other == *store)
    }
}
