//! The embedded store: one log per directory, shared by all its partitions, so that one sync serves them all.
//!
//! A commit is a frame in a segment ([`segment`]), made of the entries that all durable stores share
//! ([`crate::store::entries`]). The committer ([`commit`]) writes and syncs frames, and then tells the [`tables`], which know
//! where everything is. Rows and bodies are read back by [`read`]. The [`upkeep`] writes a [`snapshot`] when the log has
//! grown, and moves bodies together when much around them is dead. At the start, [`opening`] lets [`recovery`] turn files
//! into tables again. [`format`] and [`owner`] tell logs apart. [`backup`] copies a log in use, [`inspect`] looks at one that
//! is not. Everything goes through the narrow door of [`disk`].
//!
//! The log promises: nothing is answered before it is durable (as far as [`Durability`] says so), nothing that is
//! void comes back, and damage is refused with file and offset, never read as data.

pub mod backup;
mod commit;
pub mod disk;
mod format;
pub mod inspect;
mod opening;
mod owner;
mod read;
mod recovery;
mod segment;
mod shared;
mod snapshot;
mod tables;
mod upkeep;

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::Part;
use windlass_core::time::{Span, Timestamp};

use super::bodies::BodyKey;
use super::{
    Acquired, Batch, Body, CommitError, DEFAULT_STORE, Room, Rows, Store, StoreError, StoreStats, Term,
};
use crate::env::{BoxFuture, Env, Task};
use crate::lock::lock;
use commit::Request;
use commit::desk::Desk;
use commit::run::Write;
use disk::Disk;
pub use disk::real;
use format::Format;
use read::reader::Job;
use read::rows::RowStream;
use read::view::PartitionView;
use segment::frame::{self, HEADER_BYTES, Kind};
use shared::Shared;

/// The kind of this store, as [`Store::kind`] tells it.
pub const KIND: &str = "log";

/// When a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After it was synced: nothing answered is ever lost.
    Always,
    /// After it was written; synced within this time. A crash of the machine may take as much of the latest.
    Interval(Span),
    /// After it was written. Synced only where the log itself needs it: at the end of a segment, for a snapshot, at close.
    None,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The name of the store: the directory of another one is refused.
    pub store: Arc<str>,
    /// The id that the server's first store tells ([`LogStore::server`]): the directory of another server is refused.
    /// Unset for the first store itself.
    pub server: Option<u64>,
    pub durability: Durability,
    /// The size of a new segment. The largest batch is a little smaller.
    pub segment_bytes: u32,
    pub body_cache_bytes: usize,
    /// No snapshot before the log has grown by this much.
    pub snapshot_min_bytes: u64,
    /// A snapshot's block is closed once it holds this much.
    pub snapshot_block_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            store: DEFAULT_STORE.into(),
            server: None,
            durability: Durability::Always,
            segment_bytes: 32 << 20,
            body_cache_bytes: 64 << 20,
            snapshot_min_bytes: 16 << 20,
            snapshot_block_bytes: 64 << 10,
        }
    }
}

impl LogOptions {
    /// A segment holds its first frame, this one, and room for the one that closes the log.
    fn frame_bytes_max(&self) -> usize {
        (self.segment_bytes as usize).saturating_sub(2 * HEADER_BYTES) / 8 * 8
    }
}

/// The embedded store.
pub struct LogStore {
    shared: Arc<Shared>,
    format: AsyncMutex<Format>,
    desk: Arc<Desk>,
    reader: mpsc::Sender<Job>,
    tasks: Mutex<Vec<Task>>,
}

impl LogStore {
    /// Opens the log in a directory, or makes one in an empty directory.
    pub async fn open(
        env: Arc<dyn Env>,
        disk: Arc<dyn Disk>,
        options: LogOptions,
    ) -> Result<Self, StoreError> {
        opening::open(env, disk, options, opening::Purpose::Serve).await
    }

    async fn write(
        &self,
        write: Write,
        answered: oneshot::Receiver<Result<(), CommitError>>,
    ) -> Result<(), CommitError> {
        let (bytes, max) = (write.frame.len(), self.shared.options.frame_bytes_max());
        if bytes > max {
            return Err(CommitError::NotApplied(StoreError::TooLarge { bytes, max }));
        }
        self.desk.commit(write).map_err(CommitError::NotApplied)?;
        answered.await.unwrap_or(Err(CommitError::Unknown(StoreError::Closed)))
    }

    async fn acquire_partition(&self, partition: PartitionId) -> Result<Acquired, StoreError> {
        let view = self.desk.ask(|answer| Request::Acquire { partition: partition.0, answer }).await?;
        let rows = RowStream { source: Some(view.rows), reader: self.reader.clone() };
        let now = Timestamp(view.now);
        Ok(Acquired { epoch: view.epoch, sequence: view.sequence, now, rows: Box::new(rows) })
    }

    async fn commit_batch(&self, batch: Batch) -> Result<(), CommitError> {
        let (frame, bodies) = frame::of_batch(&batch.changes);
        let (answer, answered) = oneshot::channel();
        let write = Write {
            kind: Kind::Commit,
            partition: batch.partition.0,
            epoch: batch.epoch,
            sequence: batch.sequence,
            now: batch.now.0,
            frame,
            bodies,
            may_block: batch.may_block,
            answer,
        };
        self.write(write, answered).await
    }

    async fn sync_term(&self, term: Term) -> Result<(), StoreError> {
        if self.shared.options.durability != Durability::Always {
            self.desk.ask(|answer| Request::Sync { answer }).await?;
        }
        // The epoch is asked for after the sync: a roll-back before that has ended the term.
        if self.epoch(term.partition) == term.epoch { Ok(()) } else { Err(StoreError::Fenced) }
    }

    async fn drop_durably(&self, partition: PartitionId) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        let frame = vec![0; HEADER_BYTES];
        let (kind, partition) = (Kind::Drop, partition.0);
        let write = Write {
            kind,
            partition,
            epoch: 0,
            sequence: 0,
            now: 0,
            frame,
            bodies: Vec::new(),
            may_block: false,
            answer,
        };
        self.write(write, answered).await.map_err(|error| match error {
            CommitError::NotApplied(error) | CommitError::Unknown(error) => error,
        })
    }

    async fn close_all(&self) {
        let (answer, answered) = oneshot::channel();
        // The committer first: it may still need the keeper for what is queued.
        if self.desk.send(Request::Close { answer }).is_ok() {
            let _ended_either_way = answered.await;
        }
        self.shared.close();
        self.shared.reader_stop.notify_one();
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        for task in tasks {
            task.await;
        }
        self.shared.disk.unlock();
    }
}

impl Store for LogStore {
    fn acquire(&self, partition: PartitionId) -> BoxFuture<'_, Result<Acquired, StoreError>> {
        Box::pin(self.acquire_partition(partition))
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(self.commit_batch(batch))
    }

    fn read(&self, partition: PartitionId, bodies: Vec<(ItemNumber, Part)>) -> BoxFuture<'_, Vec<Body>> {
        let keys = bodies.into_iter().map(|(number, part)| BodyKey::new(number, part)).collect();
        Box::pin(self.read_bodies(partition.0, keys))
    }

    fn read_events(
        &self,
        partition: PartitionId,
        number: ItemNumber,
        from: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Bytes)>, StoreError>> {
        Box::pin(self.read_batches(partition.0, number, from, bytes_max))
    }

    fn peek(&self, partition: PartitionId) -> BoxFuture<'_, Result<Box<dyn Rows>, StoreError>> {
        let view = {
            let tables = self.shared.tables();
            let is_known = tables.partitions.contains_key(&partition.0);
            is_known.then(|| PartitionView::of(&tables, partition.0, &self.shared.keeper_kick))
        };
        let rows = RowStream { source: view.map(|view| view.rows), reader: self.reader.clone() };
        Box::pin(std::future::ready(Ok(Box::new(rows) as Box<dyn Rows>)))
    }

    fn drop_partition(&self, partition: PartitionId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.drop_durably(partition))
    }

    fn partitions(&self) -> BoxFuture<'_, Result<Vec<PartitionId>, StoreError>> {
        let tables = self.shared.tables();
        let durable = tables.partitions.iter().filter(|(_, table)| table.sequence > 0);
        let partitions = durable.map(|(partition, _)| PartitionId(*partition)).collect();
        Box::pin(async { Ok(partitions) })
    }

    fn sync(&self, term: Term) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.sync_term(term))
    }

    fn epoch(&self, partition: PartitionId) -> u64 {
        self.shared.tables().partitions.get(&partition.0).map_or(0, |table| table.epoch)
    }

    fn batch_bytes_max(&self) -> usize {
        // The other half is for rows, and for what was gathered before.
        self.shared.options.frame_bytes_max() / 2
    }

    fn room(&self, _partition: PartitionId) -> Room {
        self.shared.pool().room()
    }

    fn kind(&self) -> &'static str {
        KIND
    }

    fn stats(&self) -> StoreStats {
        let counters = &self.shared.counters;
        let (stored, bytes_live, damaged_partitions) = {
            let tables = self.shared.tables();
            (tables.bytes_stored(), tables.bytes_live(), tables.damaged_partitions())
        };
        StoreStats {
            commits: counters.commits.load(Ordering::Relaxed),
            syncs: counters.syncs.load(Ordering::Relaxed),
            bytes_written: counters.bytes_written.load(Ordering::Relaxed),
            bytes_stored: stored + self.shared.pool().bytes_stored(),
            bytes_live,
            snapshots: counters.snapshots.load(Ordering::Relaxed),
            compactions: counters.compactions.load(Ordering::Relaxed),
            damaged_partitions,
            damaged_bodies: counters.damaged_bodies.load(Ordering::Relaxed),
            bytes_free: self.shared.disk.free_bytes(),
            events: self.shared.events(),
        }
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close_all())
    }
}

impl Drop for LogStore {
    /// Without a close the tasks end too, but the log does not say that everything in it is durable.
    fn drop(&mut self) {
        self.shared.close();
        self.desk.close();
        self.shared.reader_stop.notify_one();
    }
}

impl fmt::Debug for LogStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogStore").field("disk", &self.shared.disk).finish_non_exhaustive()
    }
}
