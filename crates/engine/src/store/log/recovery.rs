//! From files to tables: which segments are the log, where it ends, and whether anything of it is missing.
//!
//! Nothing here writes. A frame counts if it is the next one; the first place where there is none is the end of the
//! log, unless some frame says that more than that was durable once: then the log is damaged, and not opened.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::disk::Disk;
use super::replay::Replay;
use super::segment::{Segment, Start};
use super::snapshot_file::{self, SnapshotFile};
use super::survey::{Survey, links_of, missing_beginning, survey};
use super::tables::{Slot, Tables};
use crate::store::StoreError;

/// A log as its files tell it.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) tables: Tables,
    /// Segments without use.
    pub(super) free: Vec<Arc<Segment>>,
    pub(super) next_number: u32,
    /// Where the log goes on. `None` for a log that has no segment yet.
    pub(super) end: Option<End>,
    /// The highest open number found.
    pub(super) open: u32,
    /// Bodies in the chain that are still wanted and have a wrong checksum.
    pub(super) rotten: Vec<StoreError>,
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) segment: Arc<Segment>,
    pub(super) generation: u64,
    pub(super) offset: u32,
    /// The last frame's.
    pub(super) lsn: u64,
    /// From here on nobody knows whether it is durable.
    pub(super) unsynced_from: u32,
    pub(super) cut: Cut,
}

/// What stands behind the end of the log and belongs to its torn tail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// Frames whose header is right.
    pub(super) frames: u64,
    /// From the end of the log to that of the last such frame.
    pub(super) bytes: u32,
    /// Partitions of such frames whose entries are right: salvage keeps their commits, and a start does not.
    pub(super) readable: BTreeSet<u32>,
}

pub(super) async fn recover(disk: &dyn Disk, log: u64) -> Result<Recovered, StoreError> {
    let survey = survey(disk, log).await?;
    let snapshot = match survey.snapshots.iter().max() {
        Some(&lsn) => Some(Arc::new(SnapshotFile::open(disk, &snapshot_file::name_of(lsn), log).await?)),
        None => None,
    };
    let next_number = survey.starts.iter().map(|(segment, _)| segment.number + 1).max().unwrap_or(1);
    let mut tables = tables_of(&survey, snapshot);
    let links = links_of(&survey, tables.snapshot_lsn());
    if let Some(what) = missing_beginning(&links, tables.snapshot_lsn()) {
        return Err(survey.missing(disk, log, &what).await);
    }
    tables.chain = links.iter().map(|(link, _)| *link).collect();
    let mut replay = Replay::new(tables, log);
    replay.load_snapshot().await?;
    for (_, start) in &survey.starts {
        replay.hear(start);
    }
    let end = replay.walk_to_the_end(&links, &survey).await?;
    if end.is_none() && survey.first_damaged(log).await?.is_some() {
        return Err(survey.missing(disk, log, "no segment of the log can be read").await);
    }
    if let Some(number) = replay.goes_on_in {
        return Err(survey.missing_next(disk, log, number).await);
    }
    if let Some(what) = replay.missing_body() {
        return Err(survey.missing_at(disk, log, end.as_ref(), &what).await);
    }
    let (open, rotten) = (replay.open, replay.rotten_and_wanted());
    let mut tables = replay.tables;
    tables.synced = end.as_ref().map_or(0, |end| end.lsn);
    tables.applied = tables.synced;
    let free = unused(&mut tables, &survey);
    Ok(Recovered { tables, free, next_number, end, open, rotten })
}

fn tables_of(survey: &Survey, snapshot: Option<Arc<SnapshotFile>>) -> Tables {
    let mut tables = Tables { snapshot, next_generation: 1, ..Tables::default() };
    for (segment, start) in &survey.starts {
        if let Start::Valid(header) = start {
            let slot = Slot::new(Arc::clone(segment), header.generation, header.role);
            tables.slots.insert(segment.number, slot);
            tables.next_generation = tables.next_generation.max(header.generation + 1);
        }
    }
    tables
}

/// Takes out the segments in which nothing is needed, and hands over those that never were in use.
fn unused(tables: &mut Tables, survey: &Survey) -> Vec<Arc<Segment>> {
    let keeps_below = tables.keeps_below();
    let is_kept = |slot: &Slot| slot.live_bytes > 0 || slot.generation < keeps_below;
    let dead: Vec<u32> = tables
        .slots
        .iter()
        .filter(|(number, slot)| !is_kept(slot) && !tables.in_chain(**number))
        .map(|(number, _)| *number)
        .collect();
    for number in dead {
        tables.slots.remove(&number);
    }
    let unused = |(segment, _): &&(Arc<Segment>, Start)| !tables.slots.contains_key(&segment.number);
    survey.starts.iter().filter(unused).map(|(segment, _)| Arc::clone(segment)).collect()
}
