//! Makes a new log of everything that can still be read of a damaged one.
//!
//! The rows and bodies of the snapshot first, then the commits in their order, as far as they are there. After a gap the
//! rest is taken all the same: a row that was put later is worth having, even if what came before it is lost. Where the
//! snapshot cannot be read, commits before it that are still on the disk stand in for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::codec;
use windlass_core::row::Change;

use super::Locked;
use super::frames::{Sound, Source, frames_of, source_of_frames, valid_sources};
use super::gaps::{Gaps, Position};
use super::rescue::Rescue;
use crate::env::Env;
use crate::store::log::disk::Disk;
use crate::store::log::entry::{Entries, Entry, rotten_bodies};
use crate::store::log::fetch::{Piece, fetch};
use crate::store::log::format::Owner;
use crate::store::log::frame::{self, HEADER_BYTES, Header, Kind, Role};
use crate::store::log::rows::changes_of_block;
use crate::store::log::segment::{Segment, Start};
use crate::store::log::snapshot_file::{self, Block, BodyRecord, Content, SnapshotFile, bodies_of};
use crate::store::log::survey::{self, Survey};
use crate::store::log::{LogOptions, LogStore, format, opening};
use crate::store::{Store, StoreError};

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
    format::check_empty(&*to).await?;
    let format = locked.format().await;
    let log = match &format {
        Ok(format) => format.log,
        Err(error) => guess_log(&*from).await?.ok_or_else(|| error.clone())?,
    };
    let owner = match &format {
        Ok(format) => Some(format.owner.clone()),
        Err(_) => format::read_damaged_owner(&*from).await,
    };
    let store = open_as(owner, env, to, options).await?;
    let salvaged = salvage_into(&store, &*from, log).await;
    store.close().await;
    let mut salvaged = salvaged?;
    // A file that is gone leaves nothing to come by; but a log that does not open has lost something.
    if salvaged.lost.is_empty() {
        let opened = match format {
            Ok(format) => opening::recover(&*from, &format).await.map(drop),
            Err(error) => Err(error),
        };
        salvaged.lost.extend(opened.err());
    }
    Ok(salvaged)
}

/// The new log is the same store of the same server, so that it can stand in for the old one.
async fn open_as(
    owner: Option<Owner>,
    env: Arc<dyn Env>,
    to: Arc<dyn Disk>,
    options: LogOptions,
) -> Result<LogStore, StoreError> {
    let Some(Owner { store, server, others }) = owner else { return LogStore::open(env, to, options).await };
    let opened = LogStore::open(env, to, LogOptions { store, server: Some(server), ..options }).await?;
    for other in others {
        opened.remember_store(&other).await?;
    }
    Ok(opened)
}

/// The `format` file cannot be read: what the segments say must do.
async fn guess_log(disk: &dyn Disk) -> Result<Option<u64>, StoreError> {
    let (survey, _) = survey::survey_readable(disk, 0).await?;
    for (segment, _) in survey.starts {
        let start = segment.read(0, HEADER_BYTES).await;
        let header = start.ok().and_then(|start| frame::open(&start));
        if let Some(header) = header {
            return Ok(Some(header.log));
        }
    }
    Ok(None)
}

async fn salvage_into(store: &LogStore, from: &dyn Disk, log: u64) -> Result<Salvaged, StoreError> {
    let mut rescue = Rescue::new(store);
    let (survey, failed) = survey::survey_readable(from, log).await?;
    failed.into_iter().for_each(|error| rescue.lose(error));
    let sources = sources_of(&survey, log, &mut rescue).await;
    let mut salvage = Salvage { sources, snapshot_lsn: 0, gaps: Gaps::default(), rescue };
    if let Some(lsn) = survey.snapshots.iter().max() {
        salvage.snapshot(from, *lsn, log).await?;
    }
    salvage.commits().await?;
    Ok(salvage.rescue.finish())
}

/// All segments with frames, by generation, whether their start can be read or not.
async fn sources_of(survey: &Survey, log: u64, rescue: &mut Rescue<'_>) -> Vec<Source> {
    let mut sources = valid_sources(survey);
    for (segment, start) in &survey.starts {
        if matches!(start, Start::Valid(_)) {
            continue;
        }
        let source = source_of_frames(segment, log).await.unwrap_or_else(|error| {
            rescue.lose(error);
            None
        });
        if source.is_some() || *start == Start::Bad {
            rescue.lose(segment.damaged(0, "the segment's first frame"));
        }
        sources.extend(source);
    }
    sources.sort_by_key(|source| source.start.generation);
    sources
}

struct Salvage<'a> {
    sources: Vec<Source>,
    snapshot_lsn: u64,
    /// What the snapshot should tell, but does not.
    gaps: Gaps,
    rescue: Rescue<'a>,
}

impl Salvage<'_> {
    async fn snapshot(&mut self, disk: &dyn Disk, lsn: u64, log: u64) -> Result<(), StoreError> {
        self.snapshot_lsn = lsn;
        let name = snapshot_file::name_of(lsn);
        let whole = SnapshotFile::open(disk, &name, log).await;
        let partitions = whole.as_ref().ok().map(|snapshot| snapshot.sections.keys().copied().collect());
        let snapshot = match whole {
            Ok(snapshot) => Ok(snapshot),
            Err(_told_with_its_block) => SnapshotFile::open_bare(disk, &name).await,
        };
        match snapshot {
            Ok(snapshot) => {
                self.gaps = Gaps::within(partitions);
                self.blocks(&snapshot).await
            }
            Err(error) => {
                self.gaps = Gaps::everything();
                self.rescue.lose(error);
                Ok(())
            }
        }
    }

    async fn blocks(&mut self, snapshot: &SnapshotFile) -> Result<(), StoreError> {
        let mut at = Some(0);
        while let Some(offset) = at.filter(|at| *at < snapshot.bytes) {
            at = match snapshot.block(offset).await {
                Ok(block) => {
                    self.block(snapshot, &block).await?;
                    Some(block.end)
                }
                Err(error) => {
                    self.rescue.lose(error);
                    match snapshot.claimed_content(offset).await {
                        // Nothing else is behind these.
                        Some(Content::Index | Content::Footer) => None,
                        Some(Content::Head | Content::Rows(_) | Content::Bodies(_)) | None => {
                            self.gaps.open();
                            after_damage(snapshot, offset).await
                        }
                    }
                }
            };
        }
        self.gaps.finish();
        Ok(())
    }

    async fn block(&mut self, snapshot: &SnapshotFile, block: &Block) -> Result<(), StoreError> {
        match block.content {
            Content::Rows(partition) => match changes_of_block(block) {
                Ok(rows) => {
                    let position = |change: Option<&Change>| match change {
                        Some(Change::Put(row)) => Some(Position::row(partition, &row.key())),
                        Some(Change::Remove(_) | Change::PutBody { .. } | Change::RemoveBody { .. })
                        | None => None,
                    };
                    if let (Some(first), Some(last)) = (position(rows.first()), position(rows.last())) {
                        self.gaps.read(first, last);
                    }
                    let now = snapshot.section(partition).map_or(0, |section| section.now);
                    self.rescue.commit(partition, now, rows).await
                }
                Err(what) => {
                    self.gaps.open();
                    self.rescue.lose(snapshot.damaged(block.offset, &what));
                    Ok(())
                }
            },
            Content::Bodies(partition) => match bodies_of(block) {
                Some(records) => self.bodies(partition, records).await,
                None => {
                    self.gaps.open();
                    self.rescue.lose(snapshot.damaged(block.offset, "the places of bodies cannot be read"));
                    Ok(())
                }
            },
            Content::Head | Content::Index | Content::Footer => Ok(()),
        }
    }

    async fn bodies(&mut self, partition: u32, records: Vec<BodyRecord>) -> Result<(), StoreError> {
        if let (Some(first), Some(last)) = (records.first(), records.last()) {
            self.gaps.read(Position::body(partition, first.key), Position::body(partition, last.key));
        }
        let segments: BTreeMap<u64, &Arc<Segment>> =
            self.sources.iter().map(|source| (source.start.generation, &source.segment)).collect();
        let mut pieces = Vec::new();
        let mut wanted = Vec::new();
        for record in records {
            match segments.get(&record.generation) {
                Some(segment) => {
                    let (offset, length) = (record.offset, record.length);
                    pieces.push(Piece { segment: Arc::clone(segment), offset, length });
                    wanted.push(record);
                }
                None => self.rescue.miss(partition, record.key, record.generation),
            }
        }
        let mut changes = Vec::new();
        for ((body, record), piece) in fetch(&pieces).await.into_iter().zip(wanted).zip(&pieces) {
            match body.and_then(|body| checked(body, &record, &piece.segment)) {
                Ok(change) => changes.push(change),
                Err(error) => self.rescue.lose(error),
            }
        }
        self.rescue.commit(partition, 0, changes).await
    }

    async fn commits(&mut self) -> Result<(), StoreError> {
        let mains = self.sources.iter().filter(|source| source.start.role == Role::Main);
        let mut mains: VecDeque<Source> = mains.cloned().collect();
        let mut done = if self.gaps.is_empty() { self.snapshot_lsn } else { 0 };
        while let Some(source) = mains.pop_front() {
            // A later segment that continues after an earlier frame makes void what comes after that frame.
            let last = mains.iter().map(|later| later.start.lsn).min().unwrap_or(u64::MAX);
            let (known, after) = (done.max(self.snapshot_lsn), source.start.lsn);
            if last > known && after > known {
                let what = format!("frames {} to {after} are not in any file", known + 1);
                self.rescue.lose(StoreError::Unusable(what));
            }
            let frames = frames_of(&source).await;
            frames.damage.into_iter().for_each(|damage| self.rescue.lose(damage));
            for frame in frames.sound.iter().filter(|frame| frame.header.lsn <= last) {
                if frame.header.lsn > done {
                    self.frame(&source.segment, frame).await?;
                    done = frame.header.lsn;
                }
            }
        }
        Ok(())
    }

    async fn frame(&mut self, segment: &Segment, frame: &Sound) -> Result<(), StoreError> {
        let Header { kind, partition, now, lsn, .. } = frame.header;
        match kind {
            Kind::Commit => {}
            Kind::Drop => return self.rescue.drop_partition(partition).await,
            Kind::SegmentStart | Kind::Open | Kind::Survivors | Kind::Close | Kind::End => return Ok(()),
        }
        let bytes = segment.read(frame.offset, frame.length as usize).await;
        let changes = bytes.and_then(|bytes| {
            let changes = changes_of(&bytes).map_err(|what| segment.damaged(frame.offset, what));
            changes.map(|changes| (changes, rotten_bodies(&bytes)))
        });
        match changes {
            Ok((changes, _)) if lsn <= self.snapshot_lsn => {
                let changes = self.gaps.fill(partition, changes);
                self.rescue.commit(partition, now, changes).await
            }
            Ok((changes, rotten)) => {
                for body in rotten {
                    self.rescue.lose(segment.damaged(frame.offset + body.at, "a body has a wrong checksum"));
                }
                self.rescue.commit(partition, now, changes).await
            }
            Err(error) => {
                self.rescue.lose(error);
                Ok(())
            }
        }
    }
}

/// Where to go on behind a damaged block: behind its end, or where the next part of the snapshot begins.
async fn after_damage(snapshot: &SnapshotFile, offset: u64) -> Option<u64> {
    if let Ok(end) = snapshot.after_block(offset).await {
        return Some(end);
    }
    let sections = snapshot.sections.values();
    let parts: BTreeSet<u64> = sections.flat_map(|part| [part.rows, part.bodies, part.end]).collect();
    parts.range(offset + 1..).next().copied()
}

fn checked(body: Bytes, record: &BodyRecord, segment: &Segment) -> Result<Change, StoreError> {
    if crc32c::crc32c(&body) != record.crc {
        return Err(segment.damaged(record.offset, "a body has a wrong checksum"));
    }
    Ok(Change::PutBody { number: record.key.number(), part: record.key.part(), body })
}

/// Everything a commit did, in its order, but for bodies that are rotten.
fn changes_of(frame: &[u8]) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    for entry in Entries::of(frame) {
        let change = match entry.map_err(|_| "a frame holds entries of an unknown kind")? {
            Entry::PutRow { key, value, .. } => {
                Change::Put(codec::decode_row(key, value).map_err(|error| error.to_string())?)
            }
            Entry::RemoveRow { key } => {
                Change::Remove(codec::decode_key(key).map_err(|error| error.to_string())?)
            }
            Entry::PutBody { key, crc, at, length } => {
                let sound = frame.get(at..at + length).filter(|body| crc32c::crc32c(body) == crc);
                let Some(body) = sound.map(Bytes::copy_from_slice) else { continue };
                Change::PutBody { number: key.number(), part: key.part(), body }
            }
            Entry::RemoveBody { key } => Change::RemoveBody { number: key.number(), part: key.part() },
        };
        changes.push(change);
    }
    Ok(changes)
}
