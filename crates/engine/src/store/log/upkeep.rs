//! The upkeep: keeps the log short and the directory small. A snapshot when the log has grown, compaction when much of
//! what is kept is dead, and both when they give back more than they write: because much has died, or the disk is full.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::committer::{Request, ask};
use super::compaction;
use super::shared::Shared;
use super::snapshot;
use super::snapshot_file::SnapshotFile;
use crate::store::{Room, StoreError};

const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Compactions before the snapshot that frees what they emptied: one snapshot for several, but no more than so many
/// segments in use beside those they replace.
const COMPACTIONS_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Upkeep {
    shared: Arc<Shared>,
    requests: mpsc::Sender<Request>,
    /// Snapshots that were replaced, but may still be read.
    replaced: Vec<Arc<SnapshotFile>>,
    /// How long to wait after something failed.
    retry: Option<Duration>,
}

impl Upkeep {
    pub(super) fn new(shared: Arc<Shared>, requests: mpsc::Sender<Request>) -> Self {
        Self { shared, requests, replaced: Vec::new(), retry: None }
    }

    pub(super) async fn serve(mut self) {
        while !self.shared.is_closing() {
            if self.is_due() {
                self.attempt().await;
            }
            self.remove_replaced().await;
            self.wait().await;
        }
        self.remove_replaced().await;
    }

    fn is_due(&self) -> bool {
        let full = self.disk_is_full();
        let mut tables = self.shared.tables();
        let space = (full || tables.much_died()) && {
            tables.looked(self.shared.options.segment_bytes);
            compaction::pays_off(&tables, self.shared.options.segment_bytes, full)
        };
        space || self.shared.snapshot_is_due(&tables) || self.retry.is_some()
    }

    fn disk_is_full(&self) -> bool {
        match self.shared.pool().room() {
            Room::Enough => false,
            Room::Full | Room::Last => true,
        }
    }

    async fn attempt(&mut self) {
        match self.tidy().await {
            Ok(()) => self.retry = None,
            Err(StoreError::Closed) => {}
            Err(error) => {
                // The keeper says that the disk is full, and says it once.
                if !error.is_full() {
                    tracing::warn!(%error, "a snapshot or compaction failed and will be tried again");
                }
                self.retry = Some(self.retry.map_or(RETRY_MIN, |retry| (2 * retry).min(RETRY_MAX)));
            }
        }
    }

    async fn tidy(&mut self) -> Result<(), StoreError> {
        self.take_snapshot().await?;
        while self.compact_some().await? {
            // Only now are the segments free that were compacted.
            self.take_snapshot().await?;
        }
        self.shared.tables().looked(self.shared.options.segment_bytes);
        Ok(())
    }

    /// Tells whether anything was moved.
    async fn compact_some(&self) -> Result<bool, StoreError> {
        let most = if self.disk_is_full() { 1 } else { COMPACTIONS_MAX };
        for done in 0..most {
            if !self.compaction_is_due() || !compaction::compact(&self.shared).await? {
                return Ok(done > 0);
            }
        }
        Ok(true)
    }

    fn compaction_is_due(&self) -> bool {
        let segment_bytes = self.shared.options.segment_bytes;
        !self.shared.is_closing() && compaction::is_due(&self.shared.tables(), segment_bytes)
    }

    async fn take_snapshot(&mut self) -> Result<(), StoreError> {
        let view = ask(&self.requests, |answer| Request::View { answer }).await?;
        let replaced = snapshot::take(&self.shared, &self.requests, view).await?;
        self.replaced.extend(replaced);
        self.remove_replaced().await;
        Ok(())
    }

    /// Removes the snapshots that nobody reads any more.
    async fn remove_replaced(&mut self) {
        let current = self.shared.tables().snapshot.as_ref().map(|snapshot| snapshot.lsn);
        let (read, unread): (Vec<_>, Vec<_>) =
            self.replaced.drain(..).partition(|snapshot| Arc::strong_count(snapshot) > 1);
        self.replaced = read;
        for snapshot in unread {
            // One of the same frame was replaced by the new file's name.
            if Some(snapshot.lsn) != current {
                let _found_at_the_next_open = self.shared.disk.remove(&snapshot.name).await;
            }
        }
    }

    async fn wait(&self) {
        let kicked = self.shared.upkeep_kick.notified();
        let Some(retry) = self.retry else { return kicked.await };
        let retry_at = self.shared.env.boot() + retry;
        tokio::select! {
            biased;
            () = self.shared.env.sleep_until(retry_at) => {}
            // Only closing cuts the wait short: the log that grows must not make a failing disk busier.
            () = self.until_closing() => {}
        }
    }

    async fn until_closing(&self) {
        while !self.shared.is_closing() {
            self.shared.upkeep_kick.notified().await;
        }
    }
}
