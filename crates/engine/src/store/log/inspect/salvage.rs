//! Makes a new log of everything that can still be read of a damaged one.
//!
//! The rows and bodies of the snapshot first, then the commits in their order, as far as they are there. After a gap the
//! rest is taken all the same: a row that was put later is worth having, even if what came before it is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::codec;
use windlass_core::id::PartitionId;
use windlass_core::row::Change;
use windlass_core::time::Timestamp;

use super::frames::{Sound, frames_of};
use super::{Locked, in_order};
use crate::env::Env;
use crate::store::log::disk::Disk;
use crate::store::log::entry::{Entries, Entry};
use crate::store::log::fetch::{Piece, fetch};
use crate::store::log::frame::{self, HEADER_BYTES, Header, Kind, Role};
use crate::store::log::rows::changes_of_block;
use crate::store::log::segment::{Segment, Start};
use crate::store::log::snapshot_file::{self, BodyRecord, Content, SnapshotFile, bodies_of};
use crate::store::log::survey::{self, Survey};
use crate::store::log::{LogOptions, LogStore};
use crate::store::{Batch, CommitError, Store, StoreError};

/// A commit of the new log is about this large, unless a single change is larger.
const BATCH_BYTES: usize = 256 << 10;

/// What could be had.
#[derive(Debug, Default)]
pub struct Salvaged {
    pub rows: u64,
    pub removals: u64,
    pub bodies: u64,
    /// Each with file and offset where that can be told.
    pub lost: Vec<StoreError>,
}

/// Reads the log at `from`, which no server has open, and writes what it finds to the empty directory `to`.
pub async fn salvage(
    env: Arc<dyn Env>,
    from: Arc<dyn Disk>,
    to: Arc<dyn Disk>,
    options: LogOptions,
) -> Result<Salvaged, StoreError> {
    let locked = Locked::take(&*from).await?;
    let log = match locked.log_id().await {
        Ok(log) => log,
        Err(error) => guess_log(&*from).await?.ok_or(error)?,
    };
    let survey = survey::survey(&*from, log).await?;
    let store = LogStore::open(env, to, options).await?;
    let mut rescue = Rescue { store: &store, owners: BTreeMap::new(), salvaged: Salvaged::default() };
    let rescued = rescue.all(&*from, log, &survey).await;
    let salvaged = rescue.salvaged;
    store.close().await;
    rescued.map(|()| salvaged)
}

/// The `format` file cannot be read: what the segments say must do.
async fn guess_log(disk: &dyn Disk) -> Result<Option<u64>, StoreError> {
    let survey = survey::survey(disk, 0).await?;
    for (segment, _) in survey.starts {
        let start = segment.read(0, HEADER_BYTES).await;
        let header = start.ok().and_then(|start| frame::open(&start));
        if let Some(header) = header {
            return Ok(Some(header.log));
        }
    }
    Ok(None)
}

struct Rescue<'a> {
    store: &'a LogStore,
    owners: BTreeMap<u32, Owner>,
    salvaged: Salvaged,
}

#[derive(Clone, Copy)]
struct Owner {
    epoch: u64,
    sequence: u64,
    now: u64,
}

impl Rescue<'_> {
    async fn all(&mut self, disk: &dyn Disk, log: u64, survey: &Survey) -> Result<(), StoreError> {
        let mut done = 0;
        if let Some(lsn) = survey.snapshots.iter().max() {
            let name = snapshot_file::name_of(*lsn);
            match SnapshotFile::open_bare(disk, &name).await {
                Ok(snapshot) => {
                    self.snapshot(&snapshot, survey).await?;
                    done = *lsn;
                }
                Err(error) => self.salvaged.lost.push(error),
            }
        }
        for (segment, start) in &survey.starts {
            if *start == Start::Bad {
                self.salvaged.lost.push(segment.damaged(0, "the segment's first frame"));
            }
        }
        self.commits(survey, log, done).await
    }

    async fn snapshot(&mut self, snapshot: &SnapshotFile, survey: &Survey) -> Result<(), StoreError> {
        let mut offset = 0;
        while offset < snapshot.bytes {
            match snapshot.block(offset).await {
                Ok(block) => {
                    match block.content {
                        Content::Rows(partition) => match changes_of_block(&block) {
                            Ok(rows) => self.commit(partition, 0, rows).await?,
                            Err(what) => self.salvaged.lost.push(snapshot.damaged(offset, &what)),
                        },
                        Content::Bodies(partition) => {
                            let bodies = bodies_of(&block).unwrap_or_default();
                            self.bodies(partition, bodies, survey).await?;
                        }
                        Content::Head | Content::Index | Content::Footer => {}
                    }
                    offset = block.end;
                }
                Err(error) => {
                    self.salvaged.lost.push(error);
                    match snapshot.after_block(offset).await {
                        Ok(end) => offset = end,
                        Err(_) => return Ok(()),
                    }
                }
            }
        }
        Ok(())
    }

    async fn bodies(
        &mut self,
        partition: u32,
        records: Vec<BodyRecord>,
        survey: &Survey,
    ) -> Result<(), StoreError> {
        let segments: BTreeMap<u64, &Arc<Segment>> = survey
            .starts
            .iter()
            .filter_map(|(segment, start)| match start {
                Start::Valid(header) => Some((header.generation, segment)),
                Start::Blank | Start::Bad => None,
            })
            .collect();
        // Those of a segment that is gone were removed later, or are reported with the segment's start.
        let there = records.iter().filter(|record| segments.contains_key(&record.generation));
        let there: Vec<BodyRecord> = there.copied().collect();
        let piece = |record: &BodyRecord| Piece {
            segment: Arc::clone(segments[&record.generation]),
            offset: record.offset,
            length: record.length,
        };
        let pieces: Vec<Piece> = there.iter().map(piece).collect();
        let mut changes = Vec::new();
        for ((body, record), piece) in fetch(&pieces).await.into_iter().zip(there).zip(&pieces) {
            match (body, record.key.part()) {
                (Ok(body), Some(part)) if crc32c::crc32c(&body) == record.crc => {
                    changes.push(Change::PutBody { number: record.key.number(), part, body });
                }
                (Ok(_), _) => {
                    self.salvaged
                        .lost
                        .push(piece.segment.damaged(record.offset, "a body has a wrong checksum"));
                }
                (Err(error), _) => self.salvaged.lost.push(error),
            }
        }
        self.commit(partition, 0, changes).await
    }

    async fn commits(&mut self, survey: &Survey, log: u64, mut done: u64) -> Result<(), StoreError> {
        let mut mains = in_order(survey);
        mains.retain(|(_, start)| start.role == Role::Main && start.log == log);
        while let Some((segment, start)) = mains.pop_front() {
            // A later segment that continues after an earlier frame makes void what comes after that frame.
            let last = mains.iter().map(|(_, later)| later.lsn).min().unwrap_or(u64::MAX);
            if last > done && start.lsn > done {
                let what = format!("frames {} to {} are not in any file", done + 1, start.lsn);
                self.salvaged.lost.push(StoreError::Unusable(what));
            }
            let frames = frames_of(segment, &start).await?;
            self.salvaged.lost.extend(frames.damage);
            for frame in frames.sound.iter().filter(|frame| frame.header.lsn <= last) {
                if frame.header.lsn > done {
                    self.frame(segment, frame).await?;
                    done = frame.header.lsn;
                }
            }
        }
        Ok(())
    }

    async fn frame(&mut self, segment: &Segment, frame: &Sound) -> Result<(), StoreError> {
        let Header { kind, partition, now, .. } = frame.header;
        match kind {
            Kind::Commit => {}
            Kind::Drop => {
                self.owners.remove(&partition);
                return self.store.drop_partition(PartitionId(partition)).await;
            }
            Kind::SegmentStart | Kind::Open | Kind::Survivors | Kind::Close | Kind::End => return Ok(()),
        }
        let bytes = segment.read(frame.offset, frame.length as usize).await?;
        match changes_of(&bytes) {
            Ok(changes) => self.commit(partition, now, changes).await,
            Err(what) => {
                self.salvaged.lost.push(segment.damaged(frame.offset, what));
                Ok(())
            }
        }
    }

    /// Commits in slices that fit.
    async fn commit(&mut self, partition: u32, now: u64, changes: Vec<Change>) -> Result<(), StoreError> {
        let mut slice = Vec::new();
        let mut bytes = 0;
        for change in changes {
            let size = self.count(&change);
            if bytes + size > BATCH_BYTES && !slice.is_empty() {
                self.commit_slice(partition, now, std::mem::take(&mut slice)).await?;
                bytes = 0;
            }
            bytes += size;
            slice.push(change);
        }
        if slice.is_empty() { Ok(()) } else { self.commit_slice(partition, now, slice).await }
    }

    fn count(&mut self, change: &Change) -> usize {
        match change {
            Change::Put(_) => {
                self.salvaged.rows += 1;
                256
            }
            Change::Remove(_) | Change::RemoveBody { .. } => {
                self.salvaged.removals += 1;
                32
            }
            Change::PutBody { body, .. } => {
                self.salvaged.bodies += 1;
                body.len() + 32
            }
        }
    }

    async fn commit_slice(
        &mut self,
        partition: u32,
        now: u64,
        changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        let owner = match self.owners.get(&partition) {
            Some(owner) => *owner,
            None => {
                let acquired = self.store.acquire(PartitionId(partition)).await?;
                Owner { epoch: acquired.epoch, sequence: acquired.sequence, now: acquired.now.0 }
            }
        };
        let owner = Owner { sequence: owner.sequence + 1, now: owner.now.max(now), ..owner };
        self.owners.insert(partition, owner);
        let Owner { epoch, sequence, now } = owner;
        let batch =
            Batch { partition: PartitionId(partition), epoch, sequence, now: Timestamp(now), changes };
        self.store.commit(batch).await.map_err(|error| match error {
            CommitError::NotApplied(error) | CommitError::Unknown(error) => error,
        })
    }
}

/// Everything a commit did, in its order.
fn changes_of(frame: &[u8]) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    for entry in Entries::of(frame) {
        let change = match entry.map_err(|_| "a frame holds entries of an unknown kind")? {
            Entry::PutRow { key, value, .. } => {
                Some(Change::Put(codec::decode_row(key, value).map_err(|error| error.to_string())?))
            }
            Entry::RemoveRow { key } => {
                Some(Change::Remove(codec::decode_key(key).map_err(|error| error.to_string())?))
            }
            // A part of a later version has no name here.
            Entry::PutBody { key, body, .. } => {
                let body = Bytes::copy_from_slice(body);
                key.part().map(|part| Change::PutBody { number: key.number(), part, body })
            }
            Entry::RemoveBody { key } => {
                key.part().map(|part| Change::RemoveBody { number: key.number(), part })
            }
        };
        changes.extend(change);
    }
    Ok(changes)
}
