//! Reads the snapshot at the start: the state of each partition, and the places of its bodies. Rows are read when their
//! partition is acquired.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::replay::Replay;
use crate::store::StoreError;
use crate::store::log::snapshot::file::{Blocks, Section, SnapshotFile, bodies_of};
use crate::store::log::tables::{LOST, Place};

impl Replay {
    pub(crate) async fn load_snapshot(&mut self) -> Result<(), StoreError> {
        let Some(snapshot) = self.tables.snapshot.clone() else { return Ok(()) };
        let numbers: BTreeMap<u64, u32> =
            self.tables.slots.iter().map(|(number, slot)| (slot.generation, *number)).collect();
        for (partition, section) in &snapshot.sections {
            let table = self.tables.partitions.entry(*partition).or_default();
            table.epoch = section.epoch;
            table.sequence = section.sequence;
            table.now = section.now;
            table.section = Some(*section);
            if let Some(carried) = section.carried {
                let why = why_carried(&snapshot, *section).await?;
                self.tables.damage(*partition, why, carried.keeps_below);
            }
            self.load_bodies_of(*partition, *section, &snapshot, &numbers).await?;
        }
        Ok(())
    }

    /// Places that cannot be read cost their partition, and keep every segment as it is that may hold its bodies.
    async fn load_bodies_of(
        &mut self,
        partition: u32,
        section: Section,
        snapshot: &Arc<SnapshotFile>,
        numbers: &BTreeMap<u64, u32>,
    ) -> Result<(), StoreError> {
        let blocks = Blocks::of_bodies(Arc::clone(snapshot), section);
        match self.load_bodies(partition, blocks, numbers).await {
            Err(error) if error.is_damage() => {
                let known = section.carried.map(|carried| carried.keeps_below).filter(|below| *below > 0);
                self.tables.damage(partition, error, known.unwrap_or(self.tables.next_generation));
                Ok(())
            }
            loaded => loaded,
        }
    }

    async fn load_bodies(
        &mut self,
        partition: u32,
        mut blocks: Blocks,
        numbers: &BTreeMap<u64, u32>,
    ) -> Result<(), StoreError> {
        while let Some(block) = blocks.next().await? {
            let records = bodies_of(&block);
            let records =
                records.ok_or_else(|| blocks.damaged(&block, "the places of bodies cannot be read"))?;
            for record in records {
                let segment = numbers.get(&record.generation).copied().unwrap_or(LOST);
                if segment == LOST {
                    self.lost.push((partition, record.key, record.generation));
                }
                let (offset, length, crc) = (record.offset, record.length, record.crc);
                self.tables.put_body(partition, record.key, Place { segment, offset, length, crc });
            }
        }
        Ok(())
    }
}

/// The first of the blocks that were carried over although they cannot be read.
async fn why_carried(snapshot: &Arc<SnapshotFile>, section: Section) -> Result<StoreError, StoreError> {
    let parts = [Blocks::of_rows, Blocks::of_bodies].map(|part| part(Arc::clone(snapshot), section));
    for blocks in parts {
        if let Some(error) = first_damage(blocks).await? {
            return Ok(error);
        }
    }
    Ok(snapshot
        .damaged(section.changes, "a commit of this partition was lost before the snapshot was written"))
}

/// The first block that cannot be read. An error of the disk is no damage: it may pass.
pub(crate) async fn first_damage(mut blocks: Blocks) -> Result<Option<StoreError>, StoreError> {
    loop {
        match blocks.next().await {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(error) if error.is_damage() => return Ok(Some(error)),
            Err(error) => return Err(error),
        }
    }
}
