//! The upkeep: keeps the log short and the directory small. A snapshot when the log has grown, compaction when much of
//! what is kept is dead, and both when they give back more than they write: because much has died, or the disk is full.
//! How a snapshot is written is in [`super::snapshot`], how bodies are moved in [`compaction`].

mod compaction;

use std::sync::Arc;
use std::time::Duration;

use crate::store::log::commit::Request;
use crate::store::log::commit::desk::Desk;
use crate::store::log::read::unreadable::UnreadableAttempts;
use crate::store::log::read::view::View;
use crate::store::log::shared::Shared;
use crate::store::log::snapshot;
use crate::store::log::snapshot::file::SnapshotFile;
use crate::store::{Room, StoreError};

const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Compactions before the snapshot that frees what they emptied: one snapshot for several, but no more than so many
/// segments in use beside those they replace.
const COMPACTIONS_MAX: usize = 8;
/// Attempts without a snapshot after one that found no room.
const PASSED_MAX: u32 = 20;

#[derive(Debug)]
pub(crate) struct Upkeep {
    shared: Arc<Shared>,
    desk: Arc<Desk>,
    /// Snapshots that were replaced, but may still be read.
    replaced: Vec<Arc<SnapshotFile>>,
    /// How long to wait after something failed.
    retry: Option<Duration>,
    unreadable: UnreadableAttempts,
    /// The last snapshot that was begun found no room.
    no_room: Option<NoRoom>,
}

/// How things were when a snapshot found no room.
#[derive(Clone, Copy, Debug)]
struct NoRoom {
    bytes_free: u64,
    bytes_live: u64,
    lsn: u64,
    /// Attempts since then that were not begun.
    passed: u32,
}

impl NoRoom {
    /// Whether a snapshot may fit now: the disk has more room, or the snapshot became smaller. After some attempts it
    /// is tried anyhow if the log has changed, because rows take no note of how small they become.
    fn may_be_over(&self, now: &Self) -> bool {
        now.bytes_free > self.bytes_free.saturating_add(self.bytes_free / 4)
            || now.bytes_live < self.bytes_live - self.bytes_live / 8
            || (now.lsn != self.lsn && self.passed >= PASSED_MAX)
    }
}

impl Upkeep {
    pub(crate) fn new(shared: Arc<Shared>, desk: Arc<Desk>) -> Self {
        Self {
            shared,
            desk,
            replaced: Vec::new(),
            retry: None,
            unreadable: UnreadableAttempts::default(),
            no_room: None,
        }
    }

    pub(crate) async fn serve(mut self) {
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
            Ok(()) => {
                self.retry = None;
                self.unreadable.clear();
            }
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
        if self.is_something_to_save() {
            self.take_snapshot().await?;
        }
        while self.compact_some().await? {
            // Only now are the segments free that were compacted.
            self.take_snapshot().await?;
        }
        self.shared.tables().looked(self.shared.options.segment_bytes);
        Ok(())
    }

    /// Whether a snapshot would say anything else than the last one, or free what was compacted.
    fn is_something_to_save(&self) -> bool {
        let tables = self.shared.tables();
        tables.applied > tables.snapshot_lsn() || tables.slots.values().any(|slot| slot.retired)
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
        let view = self.desk.ask(|answer| Request::View { answer }).await?;
        let as_is = self.ask_for_room(&view)?;
        let taken = snapshot::take(&self.shared, &self.desk, view, &mut self.unreadable).await;
        self.no_room = match &taken {
            Err(error) if error.is_full() => Some(as_is),
            Ok(_) | Err(_) => None,
        };
        self.replaced.extend(taken?);
        self.remove_replaced().await;
        Ok(())
    }

    /// Refuses a snapshot that would hardly fit. It may be far smaller than it seems, and be what frees the disk: so that
    /// is believed only after one that found no room.
    fn ask_for_room(&mut self, view: &View) -> Result<NoRoom, StoreError> {
        let bytes_free = self.shared.disk.free_bytes();
        let bytes_live = self.shared.tables().bytes_live();
        let now = NoRoom { bytes_free: bytes_free.unwrap_or_default(), bytes_live, lsn: view.lsn, passed: 0 };
        let fits = bytes_free.is_none_or(|free| free >= bytes_wanted(view));
        match &mut self.no_room {
            Some(before) if !fits && !before.may_be_over(&now) => {
                before.passed += 1;
                Err(StoreError::Full)
            }
            Some(_) | None => Ok(now),
        }
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

/// Bytes that a snapshot takes at most, about: those of the last one, and of the commits since without their bodies.
fn bytes_wanted(view: &View) -> u64 {
    let frames = view.partitions.values().flat_map(|partition| &partition.frames);
    let since: u64 = frames.map(|frame| u64::from(frame.head)).sum();
    view.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes) + since
}
