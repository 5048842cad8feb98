//! Reads the snapshot block by block, as far as its blocks can be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::row::Change;

use super::blocks::DamagedBlock;
use super::gaps::{Gaps, Position};
use super::steps::{Held, held_in, step_of};
use crate::store::StoreError;
use crate::store::log::disk::Disk;
use crate::store::log::inspect::loss::rescue::{Missing, Step};
use crate::store::log::inspect::reading::Reading;
use crate::store::log::read::fetch::{Piece, fetch};
use crate::store::log::segment::Segment;
use crate::store::log::snapshot;
use crate::store::log::snapshot::file::{Block, BodyRecord, Content, SnapshotFile, bodies_of};
use crate::store::merge::rows;

/// Bodies of about so many bytes are in memory at once.
const SLICE_BYTES: usize = 16 << 20;

impl Reading<'_> {
    pub(crate) async fn snapshot(&mut self, disk: &dyn Disk, lsn: u64, log: u64) -> Result<(), StoreError> {
        self.snapshot_lsn = lsn;
        self.damage.hear(lsn);
        let name = snapshot::file::name_of(lsn);
        let whole = SnapshotFile::open(disk, &name, log).await;
        self.knows_partitions = whole.is_ok();
        let broken = whole.as_ref().err().cloned();
        let partitions = whole.as_ref().ok().map(|snapshot| snapshot.sections.keys().copied().collect());
        let snapshot = match whole {
            Ok(snapshot) => Ok(snapshot),
            Err(_told_with_its_block) => SnapshotFile::open_bare(disk, &name).await,
        };
        match snapshot {
            Ok(snapshot) => {
                self.damage.hear(snapshot.synced);
                for (partition, section) in &snapshot.sections {
                    self.rescue.ledger.begin(*partition, section.sequence);
                    if section.carried.is_some() {
                        let what =
                            format!("partition {partition} had lost something before this snapshot was made");
                        self.damage.carried(*partition, snapshot.damaged(section.changes, &what));
                    }
                }
                self.gaps = Gaps::within(partitions);
                self.blocks(&snapshot, broken).await
            }
            Err(error) => {
                self.gaps = Gaps::everything();
                self.damage.block(DamagedBlock::unknown(error));
                Ok(())
            }
        }
    }

    /// `broken`: why head or index cannot be read, if they cannot.
    async fn blocks(
        &mut self,
        snapshot: &SnapshotFile,
        broken: Option<StoreError>,
    ) -> Result<(), StoreError> {
        let mut at = Some(0);
        let mut last = None;
        while let Some(offset) = at.filter(|at| *at < snapshot.bytes) {
            at = match snapshot.block(offset).await {
                Ok(block) => {
                    self.block(snapshot, &block).await?;
                    last = Some(block.content);
                    Some(block.end)
                }
                Err(error) => self.damaged_block(snapshot, offset, error).await,
            };
        }
        // All blocks up to the end of the file are sound, and the last ones are not there: the file was cut.
        if let Some(error) = broken.filter(|_| at.is_some() && last != Some(Content::Footer)) {
            self.gaps.open();
            self.damage.block(DamagedBlock::unknown(error));
        }
        self.gaps.finish();
        Ok(())
    }

    /// Tells where to go on.
    async fn damaged_block(
        &mut self,
        snapshot: &SnapshotFile,
        offset: u64,
        error: StoreError,
    ) -> Option<u64> {
        let damaged = DamagedBlock::of(snapshot, offset, error).await;
        let goes_on = damaged.after;
        if damaged.leaves_gap() {
            self.gaps.open();
            for (partition, number) in &damaged.items {
                self.rescue.ledger.suspect(*partition, *number);
            }
        }
        self.damage.block(damaged);
        goes_on
    }

    async fn block(&mut self, snapshot: &SnapshotFile, block: &Block) -> Result<(), StoreError> {
        match block.content {
            Content::Rows(partition) => match rows::changes_of(&block.bytes) {
                Ok(rows) => self.rows(snapshot, partition, rows).await,
                Err(what) => {
                    let error = snapshot.damaged(block.offset, &what);
                    self.damaged_block(snapshot, block.offset, error).await;
                    Ok(())
                }
            },
            Content::Bodies(partition) => match bodies_of(block) {
                Some(records) => self.bodies(partition, records).await,
                None => {
                    let error = snapshot.damaged(block.offset, "the places of bodies cannot be read");
                    self.damaged_block(snapshot, block.offset, error).await;
                    Ok(())
                }
            },
            Content::Changes(partition) => {
                match held_in(block) {
                    Ok(held) => self.held.push((partition, held)),
                    Err(what) => {
                        let error = snapshot.damaged(block.offset, &what);
                        self.damaged_block(snapshot, block.offset, error).await;
                    }
                }
                Ok(())
            }
            Content::Head | Content::Index | Content::Footer => Ok(()),
        }
    }

    async fn rows(
        &mut self,
        snapshot: &SnapshotFile,
        partition: u32,
        rows: Vec<Change>,
    ) -> Result<(), StoreError> {
        let position = |change: Option<&Change>| match change {
            Some(Change::Put(row)) => Some(Position::row(partition, &row.key())),
            Some(Change::Remove(_) | Change::PutBody { .. } | Change::RemoveBody { .. }) | None => None,
        };
        if let (Some(first), Some(last)) = (position(rows.first()), position(rows.last())) {
            self.gaps.read(first, last);
        }
        let now = snapshot.section(partition).map_or(0, |section| section.now);
        self.rescue.commit(partition, now, rows.into_iter().map(Step::Change).collect()).await
    }

    async fn bodies(&mut self, partition: u32, records: Vec<BodyRecord>) -> Result<(), StoreError> {
        if let (Some(first), Some(last)) = (records.first(), records.last()) {
            self.gaps.read(Position::body(partition, first.key), Position::body(partition, last.key));
        }
        let mut rest = &records[..];
        while !rest.is_empty() {
            let (slice, after) = rest.split_at(slice_length(rest));
            let steps = self.bodies_at(slice).await;
            self.rescue.commit(partition, 0, steps).await?;
            rest = after;
        }
        Ok(())
    }

    /// Reads bodies where the records say they are.
    async fn bodies_at(&self, records: &[BodyRecord]) -> Vec<Step> {
        let segments: BTreeMap<u64, &Arc<Segment>> =
            self.sources.iter().map(|source| (source.start.generation, &source.segment)).collect();
        let piece = |record: &BodyRecord| {
            let segment = Arc::clone(segments.get(&record.generation)?);
            Some(Piece { segment, offset: record.offset, length: record.length })
        };
        let pieces: Vec<Option<Piece>> = records.iter().map(piece).collect();
        let there: Vec<Piece> = pieces.iter().flatten().cloned().collect();
        let mut found = fetch(&there).await.into_iter();
        let step = |(record, piece): (&BodyRecord, &Option<Piece>)| match piece {
            Some(piece) => step_of(found.next().expect("one body for each piece"), record, &piece.segment),
            None => {
                let missing = Missing::Gone { generation: record.generation, crc: record.crc };
                Step::Missing(record.key, missing)
            }
        };
        records.iter().zip(&pieces).map(step).collect()
    }

    /// Does what the blocks of changes say, once no commit before the snapshot is left to be done.
    pub(crate) async fn release(&mut self) -> Result<(), StoreError> {
        for (partition, held) in std::mem::take(&mut self.held) {
            let (mut steps, mut bytes) = (Vec::new(), 0);
            for held in held {
                match held {
                    Held::Change(change) => steps.push(Step::Change(change)),
                    Held::Body(record) => {
                        bytes += record.length as usize;
                        steps.extend(self.bodies_at(&[record]).await);
                    }
                }
                if bytes > SLICE_BYTES {
                    self.rescue.commit(partition, 0, std::mem::take(&mut steps)).await?;
                    bytes = 0;
                }
            }
            self.rescue.commit(partition, 0, steps).await?;
        }
        Ok(())
    }
}

/// How many of the first bodies are read at once.
fn slice_length(records: &[BodyRecord]) -> usize {
    let mut bytes = 0;
    let fits = |record: &&BodyRecord| {
        bytes += record.length as usize;
        bytes <= SLICE_BYTES
    };
    records.iter().take_while(fits).count().max(1)
}
