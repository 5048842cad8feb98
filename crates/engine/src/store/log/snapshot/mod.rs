//! Writes a snapshot: the rows of the last one merged with what the commits since left of them, exact as of a frame.
//!
//! The places of bodies are copied from the tables as they are at the time, which may be later than that frame: the
//! replay of the frames after it puts and removes the same bodies again, and ends in the same. The snapshot says up to
//! which frame that replay must go.
//!
//! [`tail`] reads the commits, [`crate::store::merge`] merges them with the last snapshot, [`output`] writes the blocks of
//! the new one, whose format is in [`file`]. A partition whose part of the last snapshot is damaged is carried over as it
//! is ([`carry`], [`changes`]).

mod carry;
pub(crate) mod changes;
pub(crate) mod file;
mod output;
mod tail;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_core::mutant::{Mutant, active};

use crate::store::StoreError;
use crate::store::bodies::BodyKey;
use crate::store::log::Durability;
use crate::store::log::commit::Request;
use crate::store::log::commit::desk::Desk;
use crate::store::log::disk::File;
use crate::store::log::read::fetch::{fetch, piece};
use crate::store::log::read::rows::FrameSource;
use crate::store::log::read::unreadable::{Unreadable, UnreadableAttempts, is_unreadable};
use crate::store::log::read::view::{PartitionFrames, View};
use crate::store::log::segment::{TEMPORARY_SUFFIX, io_failed};
use crate::store::log::shared::Shared;
use crate::store::log::tables::{Place, Tables};
use crate::store::merge::{LastWord, Merge, NextRow, Tail, rows};
use file::{Blocks, BodyRecord, Content, Section, SnapshotFile};
use output::Output;

/// Rows merged, and bodies copied under the lock, at a time.
pub(crate) const SLICE: usize = 1024;

/// Writes a snapshot of the view, and makes it the one that counts. Returns the one before. A partition of which
/// something cannot be read keeps the others from it only as long as that may pass.
pub(crate) async fn take(
    shared: &Shared,
    desk: &Desk,
    view: View,
    attempts: &mut UnreadableAttempts,
) -> Result<Option<Arc<SnapshotFile>>, StoreError> {
    let name = file::name_of(view.lsn);
    let temporary = format!("{name}{TEMPORARY_SUFFIX}");
    let file = create(shared, &temporary, &name).await?;
    let writer = Writer::new(shared, &view, file, attempts);
    let finished = write_and_name(writer, desk, &temporary, &name).await;
    if finished.is_err() {
        let _may_be_gone = shared.disk.remove(&temporary).await;
    }
    let snapshot = Arc::new(finished?);
    let adopted = {
        let mut tables = shared.tables();
        let same_era = tables.era == view.era || active(Mutant::SnapshotIgnoresEra);
        let current = same_era && !tables.frozen;
        current.then(|| adopt(&mut tables, snapshot, view.tail_bytes))
    };
    match adopted {
        Some(replaced) => {
            shared.counters.snapshots.fetch_add(1, Ordering::Relaxed);
            shared.keeper_kick.notify_one();
            Ok(replaced)
        }
        None => {
            // The snapshot is true, but the tables have gone back to the one before, and would not keep the segments that
            // this one needs. One of the same frame has taken the place of the one before, and stays.
            let lsn = shared.tables().snapshot_lsn();
            if lsn != view.lsn {
                let _may_be_gone = shared.disk.remove(&name).await;
            }
            Err(overtaken(shared))
        }
    }
}

fn overtaken(shared: &Shared) -> StoreError {
    shared.count(|events| events.snapshots_overtaken += 1);
    StoreError::Unusable("the log failed while a snapshot was written".to_owned())
}

fn adopt(tables: &mut Tables, snapshot: Arc<SnapshotFile>, covered_bytes: u64) -> Option<Arc<SnapshotFile>> {
    for slot in tables.slots.values_mut() {
        slot.retired = false;
    }
    for (partition, section) in &snapshot.sections {
        // A partition that was dropped meanwhile is not in the tables.
        if let (Some(carried), true) = (section.carried, tables.partitions.contains_key(partition)) {
            let why = snapshot.damaged(section.rows, "something of this partition could not be read");
            tables.damage(*partition, why, carried.keeps_below);
        }
    }
    tables.adopt_snapshot(snapshot, covered_bytes)
}

async fn create(shared: &Shared, temporary: &str, name: &str) -> Result<Arc<dyn File>, StoreError> {
    let created = shared.disk.create(temporary).await;
    created.map_err(|error| io_failed("cannot write", shared.disk.path(name), error))
}

async fn write_and_name(
    mut writer: Writer<'_>,
    desk: &Desk,
    temporary: &str,
    name: &str,
) -> Result<SnapshotFile, StoreError> {
    let Writer { shared, view, .. } = writer;
    let file = Arc::clone(&writer.file);
    let failed = |error| io_failed("cannot write", shared.disk.path(name), error);
    let sections = writer.write().await?;
    if shared.options.durability != Durability::Always {
        // The places of bodies may have come from commits that are not durable yet.
        desk.ask(|answer| Request::Sync { answer }).await?;
    }
    let synced = {
        let tables = shared.tables();
        if tables.era != view.era && !active(Mutant::SnapshotIgnoresEra) {
            // Some of what was copied may have been taken back since.
            return Err(overtaken(shared));
        }
        if active(Mutant::SnapshotSyncedZero) { 0 } else { tables.synced }
    };
    shared.count(|events| events.snapshots_behind += u64::from(synced > view.lsn));
    let bytes = writer.output.finish(&sections, synced).await.map_err(failed)?;
    let several = writer.output.has_several_blocks;
    shared.count(|events| events.snapshots_of_several_blocks += u64::from(several));
    file.sync().await.map_err(failed)?;
    shared.disk.rename(temporary, name).await.map_err(failed)?;
    shared.disk.sync().await.map_err(failed)?;
    let path = shared.disk.path(name);
    Ok(SnapshotFile { name: name.to_owned(), path, file, bytes, lsn: view.lsn, synced, sections })
}

pub(crate) struct Writer<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) view: &'a View,
    pub(crate) output: Output,
    /// The patience with the partition that is written now.
    pub(crate) unreadable: Unreadable,
    attempts: &'a mut UnreadableAttempts,
    file: Arc<dyn File>,
}

impl<'a> Writer<'a> {
    fn new(
        shared: &'a Shared,
        view: &'a View,
        file: Arc<dyn File>,
        attempts: &'a mut UnreadableAttempts,
    ) -> Self {
        Self {
            shared,
            view,
            output: Output::new(Arc::clone(&file), shared.options.snapshot_block_bytes),
            unreadable: Unreadable::MayPass,
            attempts,
            file,
        }
    }

    async fn write(&mut self) -> Result<BTreeMap<u32, Section>, StoreError> {
        self.output.block.extend(file::head(self.shared.log, self.view.lsn));
        let mut sections = BTreeMap::new();
        for (partition, since) in &self.view.partitions {
            self.unreadable = self.attempts.patience_with(*partition);
            let section = self.write_partition(*partition, since).await;
            if section.as_ref().is_err_and(is_unreadable) {
                self.attempts.count(*partition);
            }
            sections.insert(*partition, section?);
        }
        Ok(sections)
    }

    async fn write_partition(
        &mut self,
        partition: u32,
        since: &PartitionFrames,
    ) -> Result<Section, StoreError> {
        let pins = Arc::clone(&self.view.pins);
        let frames = FrameSource::new(partition, since.frames.clone(), pins).taking(self.unreadable);
        let (tail, lost) = tail::read(frames).await?;
        if let Some(damage) = self.damage_of(partition, since, lost).await? {
            return self.carry(partition, since, &tail, damage.keeps_below).await;
        }
        let rows = self.begin(Content::Rows(partition)).await?;
        self.write_rows(since, &tail).await?;
        let bodies = self.begin(Content::Bodies(partition)).await?;
        self.write_bodies(partition).await?;
        let end = self.begin(Content::Index).await?;
        let PartitionFrames { epoch, sequence, now, .. } = *since;
        Ok(Section { epoch, sequence, now, rows, bodies, changes: end, end, carried: None })
    }

    /// Begins a block of its own, and tells where.
    pub(crate) async fn begin(&mut self, content: Content) -> Result<u64, StoreError> {
        self.output.begin(content).await.map_err(|error| self.failed(error))
    }

    pub(crate) fn failed(&self, error: io::Error) -> StoreError {
        let name = file::name_of(self.view.lsn);
        io_failed("cannot write", self.shared.disk.path(&name), error)
    }

    async fn write_rows(&mut self, since: &PartitionFrames, tail: &Tail<Place>) -> Result<(), StoreError> {
        let mut merge = Merge::new(tail.iter());
        let before = self.view.snapshot.clone().zip(since.section);
        if let Some((snapshot, section)) = before {
            let mut blocks = Blocks::of_rows(snapshot, section);
            while let Some(block) = blocks.next().await? {
                let rows = rows::rows_of(&block.bytes);
                for (key, value) in rows.ok_or_else(|| blocks.damaged(&block, "the rows cannot be read"))? {
                    while merge.take_word_before(key) {
                        self.write_merged_if(&mut merge, SLICE).await?;
                    }
                    merge.take_row(key, value);
                }
                self.write_merged_if(&mut merge, SLICE).await?;
            }
        }
        while merge.take_word() {
            self.write_merged_if(&mut merge, SLICE).await?;
        }
        self.write_merged_if(&mut merge, 0).await
    }

    /// Writes the rows that are merged, if they are more than so many. Values that are known only by their place are read.
    async fn write_merged_if<W>(
        &mut self,
        merge: &mut Merge<Place, W>,
        more_than: usize,
    ) -> Result<(), StoreError>
    where
        W: Iterator<Item = (Vec<u8>, LastWord<Place>)>,
    {
        if merge.len() <= more_than {
            return Ok(());
        }
        let merged = merge.take_merged();
        let pieces: Vec<_> = merged.places().map(|place| piece(&self.view.pins, &place)).collect();
        let mut values = fetch(&pieces).await.into_iter();
        for row in merged.rows() {
            match row {
                NextRow::Whole(row) => self.output.block.extend_from_slice(row),
                NextRow::At { key, place } => {
                    let value = values.next().expect("one value for each place")?;
                    self.check_value(&value, place)?;
                    rows::put_row(&mut self.output.block, key, &value);
                }
            }
            self.output.close_full_block().await.map_err(|error| self.failed(error))?;
        }
        if self.shared.is_closing() { Err(StoreError::Closed) } else { Ok(()) }
    }

    pub(crate) fn check_value(&self, value: &[u8], place: Place) -> Result<(), StoreError> {
        if crc32c::crc32c(value) == place.crc {
            return Ok(());
        }
        let segment = &self.view.pins[&place.segment].segment;
        Err(segment.damaged(place.offset, "a row reads differently from before"))
    }

    pub(crate) async fn write_bodies(&mut self, partition: u32) -> Result<(), StoreError> {
        let mut from = BodyKey::FIRST;
        loop {
            let records = body_records(&self.shared.tables(), partition, from);
            let Some(last) = records.last() else { return Ok(()) };
            from = last.key.next();
            for record in &records {
                record.put(&mut self.output.block);
                self.output.close_full_block().await.map_err(|error| self.failed(error))?;
            }
            if self.shared.is_closing() {
                return Err(StoreError::Closed);
            }
        }
    }
}

fn body_records(tables: &Tables, partition: u32, from: BodyKey) -> Vec<BodyRecord> {
    let Some(table) = tables.partitions.get(&partition) else { return Vec::new() };
    let record = |(key, place): (BodyKey, &Place)| record_of(tables, key, place);
    table.bodies.range(from).take(SLICE).map(record).collect()
}

pub(crate) fn record_of(tables: &Tables, key: BodyKey, place: &Place) -> BodyRecord {
    BodyRecord {
        key,
        generation: tables.slots.get(&place.segment).map_or(0, |slot| slot.generation),
        offset: place.offset,
        length: place.length,
        crc: place.crc,
    }
}
