//! Reads the snapshot block by block, as far as its blocks can be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::row::Change;

use super::blocks::DamagedBlock;
use super::gaps::{Gaps, Position};
use super::reading::Reading;
use super::rescue::{Missing, Step};
use super::steps::step_of;
use crate::store::StoreError;
use crate::store::log::disk::Disk;
use crate::store::log::fetch::{Piece, fetch};
use crate::store::log::rows::changes_of_block;
use crate::store::log::segment::Segment;
use crate::store::log::snapshot_file::{self, Block, BodyRecord, Content, SnapshotFile, bodies_of};

impl Reading<'_> {
    pub(super) async fn snapshot(&mut self, disk: &dyn Disk, lsn: u64, log: u64) -> Result<(), StoreError> {
        self.snapshot_lsn = lsn;
        self.damage.hear(lsn);
        let name = snapshot_file::name_of(lsn);
        let whole = SnapshotFile::open(disk, &name, log).await;
        self.knows_partitions = whole.is_ok();
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
                }
                self.gaps = Gaps::within(partitions);
                self.blocks(&snapshot).await
            }
            Err(error) => {
                self.gaps = Gaps::everything();
                self.damage.block(DamagedBlock::unknown(error));
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
                Err(error) => self.damaged_block(snapshot, offset, error).await,
            };
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
        if damaged.holds_content() {
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
            Content::Rows(partition) => match changes_of_block(block) {
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
                None => {
                    let missing = Missing::Gone { generation: record.generation, crc: record.crc };
                    self.rescue.miss(partition, record.key, missing);
                }
            }
        }
        let found = fetch(&pieces).await.into_iter().zip(wanted).zip(&pieces);
        let steps = found.map(|((body, record), piece)| step_of(body, &record, &piece.segment));
        self.rescue.commit(partition, 0, steps.collect()).await
    }
}
