//! The durable state of a moment, held fast: for a partition's new owner, a snapshot, a backup.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::rows::{FrameSource, RowSource};
use crate::store::log::segment::Pin;
use crate::store::log::snapshot::file::{Blocks, Section, SnapshotFile};
use crate::store::log::tables::{Damage, FramePlace, Link, PartitionTable, Tables};

#[derive(Debug)]
pub(crate) struct PartitionView {
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) now: u64,
    pub(crate) rows: RowSource,
}

impl PartitionView {
    pub(crate) fn of(tables: &Tables, partition: u32, released: &Arc<Notify>) -> Self {
        let table = &tables.partitions[&partition];
        let snapshot = tables.snapshot.clone();
        let blocks = snapshot.zip(table.section).map(|(file, section)| Blocks::of_rows(file, section));
        let frames: Vec<FramePlace> = table.frames.iter().copied().collect();
        let pins = Arc::new(pin_all(tables, frames.iter().map(|frame| frame.segment), released));
        let damage = table.damage.as_ref().map(|damage| damage.error.clone());
        let PartitionTable { epoch, sequence, now, .. } = *table;
        Self {
            epoch,
            sequence,
            now,
            rows: RowSource { damage, blocks, frames: FrameSource::new(partition, frames, pins) },
        }
    }
}

fn pin_all(
    tables: &Tables,
    segments: impl Iterator<Item = u32>,
    released: &Arc<Notify>,
) -> BTreeMap<u32, Pin> {
    let mut pins = BTreeMap::new();
    for segment in segments {
        if !pins.contains_key(&segment)
            && let Some(pin) = tables.pin(segment, released)
        {
            pins.insert(segment, pin);
        }
    }
    pins
}

/// The whole log at a durable frame.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) lsn: u64,
    pub(crate) era: u64,
    /// Bytes of frames since the snapshot.
    pub(crate) tail_bytes: u64,
    pub(crate) snapshot: Option<Arc<SnapshotFile>>,
    pub(crate) partitions: BTreeMap<u32, PartitionFrames>,
    pub(crate) pins: Arc<BTreeMap<u32, Pin>>,
    pub(crate) chain: Vec<Link>,
    /// How far the last segment of the chain is written.
    pub(crate) end: u32,
}

/// A partition's state, and what happened to it since the snapshot.
#[derive(Debug)]
pub(crate) struct PartitionFrames {
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) now: u64,
    pub(crate) section: Option<Section>,
    pub(crate) frames: Vec<FramePlace>,
    pub(crate) damage: Option<Damage>,
}

impl View {
    pub(crate) fn of(tables: &Tables, released: &Arc<Notify>, end: u32) -> Self {
        let durable = tables.partitions.iter().filter(|(_, table)| table.sequence > 0);
        Self {
            lsn: tables.synced,
            era: tables.era,
            tail_bytes: tables.tail_bytes,
            snapshot: tables.snapshot.clone(),
            partitions: durable.map(|(partition, table)| (*partition, PartitionFrames::of(table))).collect(),
            pins: Arc::new(pin_all(tables, tables.slots.keys().copied(), released)),
            chain: tables.chain.iter().copied().collect(),
            end,
        }
    }
}

impl PartitionFrames {
    fn of(table: &PartitionTable) -> Self {
        Self {
            epoch: table.epoch,
            sequence: table.sequence,
            now: table.now,
            section: table.section,
            frames: table.frames.iter().copied().collect(),
            damage: table.damage.clone(),
        }
    }
}
