//! Opening a log: takes the directory, recovers, makes sure that what it found is durable, and starts the tasks.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

use windlass_core::mutant::{Mutant, active};

use super::commit::committer::Committer;
use super::commit::desk::{self, Desk};
use super::disk::Disk;
use super::format::{self, Format, Found, Owner, State};
use super::read::reader;
use super::recovery::{self, Cut, End, Recovered};
use super::segment::frame::{self, HEADER_BYTES, Header, Kind, Role};
use super::segment::hint::Hint;
use super::segment::keeper::Keeper;
use super::segment::pool::Pool;
use super::segment::{self, Segment, TEMPORARY_SUFFIX, io_failed};
use super::shared::{Panics, Shared};
use super::snapshot;
use super::tables::{Link, Slot};
use super::upkeep::Upkeep;
use super::{LogOptions, LogStore};
use crate::env::{self, Env, Task};
use crate::store::StoreError;

const JOBS_MAX: usize = 1024;
const SEGMENT_BYTES_MIN: u32 = 4 << 10;
pub(super) const SEGMENT_BYTES_MAX: u32 = 1 << 30;
const REWRITE_BYTES: u32 = 1 << 20;

/// The purpose that a log is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Serve,
    /// To write a new log, which nobody may serve before [`LogStore::finish_salvage`].
    Salvage,
}

pub(super) async fn open(
    env: Arc<dyn Env>,
    disk: Arc<dyn Disk>,
    options: LogOptions,
    purpose: Purpose,
) -> Result<LogStore, StoreError> {
    check(&options)?;
    let (answer, answered) = oneshot::channel();
    let started = Arc::clone(&env);
    // On a thread of its own, because it reads and writes.
    let task = env::spawn_thread(&*env, "log-open", async move {
        let _caller_gone = answer.send(open_here(started, disk, options, purpose).await);
    });
    let opened = answered.await.map_err(|_| StoreError::Closed)?;
    task.await;
    opened
}

fn check(options: &LogOptions) -> Result<(), StoreError> {
    let bytes = options.segment_bytes;
    if (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(8) {
        return Ok(());
    }
    Err(StoreError::Unusable(format!(
        "segments of {bytes} bytes are not possible: choose a multiple of 8 from {SEGMENT_BYTES_MIN} to \
         {SEGMENT_BYTES_MAX}"
    )))
}

async fn open_here(
    env: Arc<dyn Env>,
    disk: Arc<dyn Disk>,
    options: LogOptions,
    purpose: Purpose,
) -> Result<LogStore, StoreError> {
    lock(&*disk).await?;
    let opened = open_locked(env, Arc::clone(&disk), options, purpose).await;
    if opened.is_err() {
        disk.unlock();
    }
    opened
}

pub(super) async fn lock(disk: &dyn Disk) -> Result<(), StoreError> {
    let locked = disk.lock().await;
    locked.map_err(|error| {
        if error.kind() == std::io::ErrorKind::WouldBlock {
            StoreError::Unusable(format!("{}: another process has this log open", disk.path("")))
        } else {
            io_failed("cannot lock", disk.path(""), error)
        }
    })
}

async fn open_locked(
    env: Arc<dyn Env>,
    disk: Arc<dyn Disk>,
    options: LogOptions,
    purpose: Purpose,
) -> Result<LogStore, StoreError> {
    let Found { format, damage } = format_of(&*env, &*disk, &options, purpose).await?;
    // Names that a process before this one gave may not be durable yet, and what follows rests on them.
    if !active(Mutant::NoDirectorySync) {
        disk.sync().await.map_err(|error| io_failed("cannot sync", disk.path(""), error))?;
    }
    let mut recovered = recover_files(&*disk, &format).await?;
    tell(&recovered);
    let has_torn_tail = recovered.end.as_ref().is_some_and(|end| end.cut.frames > 0);
    remove_leftovers(&*disk, recovered.tables.snapshot_lsn()).await?;
    let open = recovered.open + 1;
    let end = begin(&*disk, &options, &mut recovered, format.log, open).await?;
    let state = if format.state == State::New { State::Ready } else { format.state };
    let known = Format { state, ..format.clone() };
    if known != format {
        format::write(&*disk, &known).await?;
    } else if damage.is_some() {
        mend(&*disk, &known).await;
    }
    let store = start(env, disk, options, known, recovered, end, open);
    store.shared.count(|events| events.torn_tails_cut += u64::from(has_torn_tail));
    Ok(store)
}

/// Writes both copies of the `format` file anew. One of them is sound: a disk without room for this must not stop the start.
async fn mend(disk: &dyn Disk, format: &Format) {
    match format::write(disk, format).await {
        Ok(()) => {
            tracing::warn!(file = disk.path(format::NAME), "a damaged copy in this file was written anew")
        }
        Err(error) => tracing::warn!(%error, "a damaged copy in the format file could not be written anew"),
    }
}

/// Logs what an operator should know of a log that opens all the same.
fn tell(recovered: &Recovered) {
    if let Some(first) = recovered.rotten.first() {
        let bodies = recovered.rotten.len();
        tracing::error!(bodies, %first, "bodies in the log are damaged: each costs its item");
    }
    for (partition, table) in &recovered.tables.partitions {
        if let Some(damage) = &table.damage {
            let error = &damage.error;
            tracing::error!(partition, %error, "a partition is damaged and will be refused; the others are served");
        }
    }
    if let Some(end) = recovered.end.as_ref().filter(|end| end.cut.frames > 0) {
        let (file, offset, Cut { frames, bytes, .. }) = (&end.segment.path, end.offset, &end.cut);
        tracing::warn!(%file, offset, frames, bytes, "the torn tail of the log was cut: nothing says that it was durable");
    }
}

/// Tables from the files. Only a new log may have no segment yet.
pub(super) async fn recover(disk: &dyn Disk, format: &Format) -> Result<Recovered, StoreError> {
    format.check_finished(disk)?;
    recover_files(disk, format).await
}

async fn recover_files(disk: &dyn Disk, format: &Format) -> Result<Recovered, StoreError> {
    let recovered = recovery::recover(disk, format.log).await?;
    if recovered.end.is_none() && format.state == State::Ready {
        return Err(StoreError::Incomplete {
            directory: disk.path(""),
            what: "there is no segment".to_owned(),
        });
    }
    Ok(recovered)
}

async fn format_of(
    env: &dyn Env,
    disk: &dyn Disk,
    options: &LogOptions,
    purpose: Purpose,
) -> Result<Found, StoreError> {
    if purpose == Purpose::Salvage {
        format::check_empty(disk).await?;
    }
    if let Some(found) = format::read(disk).await? {
        found.format.check_finished(disk)?;
        found.format.check(disk, options)?;
        return Ok(found);
    }
    remove_leftovers(disk, 0).await?;
    let log = new_id(env);
    let (store, server) = (Arc::clone(&options.store), options.server.unwrap_or(log));
    let owner = Owner { store, server, others: Vec::new() };
    let state = match purpose {
        Purpose::Serve => State::New,
        Purpose::Salvage => State::Salvage,
    };
    let format = Format { log, owner, state };
    format::write(disk, &format).await?;
    Ok(Found { format, damage: None })
}

/// Random, so that logs that ever shared a disk are told apart, and that no client can put a frame of this log into a
/// payload. 0 is no log's.
fn new_id(env: &dyn Env) -> u64 {
    env.random().max(1)
}

/// Temporary files, and snapshots older than the one that counts.
async fn remove_leftovers(disk: &dyn Disk, snapshot_lsn: u64) -> Result<(), StoreError> {
    let failed = |error| io_failed("cannot clear up", disk.path(""), error);
    for name in disk.list().await.map_err(failed)? {
        let outdated = snapshot::file::lsn_of(&name).is_some_and(|lsn| lsn < snapshot_lsn);
        if outdated || name.ends_with(TEMPORARY_SUFFIX) {
            disk.remove(&name).await.map_err(failed)?;
        }
    }
    disk.sync().await.map_err(failed)
}

/// Makes what was found durable, and says that a new process goes on from there.
async fn begin(
    disk: &dyn Disk,
    options: &LogOptions,
    recovered: &mut Recovered,
    log: u64,
    open: u32,
) -> Result<End, StoreError> {
    let lsn = recovered.end.as_ref().map_or(0, |end| end.lsn);
    if let Some(end) = &recovered.end {
        write_again(&end.segment, end.unsynced_from, end.offset).await?;
    }
    let (mut end, left) = match recovered.end.take() {
        Some(end) if end.segment.has_room(end.offset, HEADER_BYTES) => (end, None),
        left => (first_segment(disk, options, recovered, lsn).await?, left),
    };
    let role = Role::Main;
    let (generation, partition, epoch, sequence, now) = (end.generation, 0, 0, 0, 0);
    let kind = Kind::SegmentStart;
    let start =
        Header { kind, role, log, open, partition, generation, lsn, synced: lsn, epoch, sequence, now };
    let opened = Header { kind: Kind::Open, lsn: lsn + 1, ..start };
    let mut frames = Vec::new();
    if end.offset == 0 {
        frames.extend_from_slice(&frame::bare(&end.segment.start(start)));
    }
    frames.extend_from_slice(&frame::bare(&opened));
    end.segment.write(end.offset, &frames).await?;
    end.segment.sync().await?;
    if let Some(left) = left {
        let last = Header { generation: left.generation, ..start };
        Hint::behind(last, &left.segment, left.offset, &end.segment).leave().await;
    }
    end.offset += frames.len() as u32;
    end.lsn = lsn + 1;
    recovered.tables.applied = end.lsn;
    recovered.tables.synced = end.lsn;
    Ok(end)
}

/// The kernel may show what never reached the disk: what nobody knows to be durable is written once more.
async fn write_again(segment: &Segment, from: u32, to: u32) -> Result<(), StoreError> {
    // The padding of the last frame may lie beyond the end of a file that was cut.
    let to = to.min(segment.bytes);
    let mut offset = from;
    while offset < to {
        let length = REWRITE_BYTES.min(to - offset);
        let bytes = segment.read(offset, length as usize).await?;
        segment.write(offset, &bytes).await?;
        offset += length;
    }
    segment.sync().await
}

async fn first_segment(
    disk: &dyn Disk,
    options: &LogOptions,
    recovered: &mut Recovered,
    after: u64,
) -> Result<End, StoreError> {
    let ready = recovered.free.iter().position(|segment| segment.bytes == options.segment_bytes);
    let segment = match ready {
        Some(at) => recovered.free.remove(at),
        None => {
            let number = recovered.next_number;
            recovered.next_number += 1;
            segment::create(disk, number, options.segment_bytes).await?
        }
    };
    let tables = &mut recovered.tables;
    let generation = tables.take_generation();
    tables.slots.insert(segment.number, Slot::new(Arc::clone(&segment), generation, Role::Main));
    tables.chain.push_back(Link { segment: segment.number, after });
    Ok(End { segment, generation, offset: 0, lsn: after, unsynced_from: 0, cut: Cut::default() })
}

fn start(
    env: Arc<dyn Env>,
    disk: Arc<dyn Disk>,
    options: LogOptions,
    format: Format,
    recovered: Recovered,
    end: End,
    open: u32,
) -> LogStore {
    let Recovered { tables, free, next_number, rotten, .. } = recovered;
    let pool = Pool::new(free, next_number, options.segment_bytes);
    let shared = Shared::new(env, disk, options, format.log, tables, pool);
    shared.counters.damaged_bodies.store(rotten.len() as u64, Ordering::Relaxed);
    let (jobs, received_jobs) = mpsc::channel(JOBS_MAX);
    let desk = Desk::new(Arc::clone(&shared), Committer::new(Arc::clone(&shared), end, open));
    let keeper = Keeper::new(Arc::clone(&shared));
    let upkeep = Upkeep::new(Arc::clone(&shared), Arc::clone(&desk));
    let tasks = vec![
        spawn(&shared, desk::THREAD, desk::serve(Arc::clone(&desk))),
        spawn(&shared, "log-reader", reader::serve(Arc::clone(&shared), received_jobs)),
        spawn(&shared, "log-keeper", keeper.serve()),
        spawn(&shared, "log-upkeep", upkeep.serve()),
    ];
    let format = AsyncMutex::new(format);
    LogStore { format, desk, reader: jobs, tasks: Mutex::new(tasks), shared }
}

/// Runs one of the log's tasks on a thread of its own.
fn spawn(shared: &Arc<Shared>, name: &'static str, serve: impl Future<Output = ()> + Send + 'static) -> Task {
    let panics = Panics::new(shared, name);
    env::spawn_thread(&*shared.env, name, async move {
        let _panics = panics;
        serve.await;
    })
}
