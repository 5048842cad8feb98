//! Turns files into tables: tells which segments are the log, where it ends, and whether anything of it is missing.
//!
//! Nothing here writes. A frame counts if it is the next one; the first place where there is none is the end of the
//! log, unless some frame says that more than that was durable once: then the log is damaged, and not opened.
//!
//! [`survey`] tells which files there are, [`load`] reads the snapshot and [`replay`] the frames after it; [`torn_tail`] judges
//! the first place where the next frame is not.

pub(crate) mod load;
pub(crate) mod replay;
pub(crate) mod survey;
mod torn_tail;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::store::StoreError;
use crate::store::log::disk::Disk;
use crate::store::log::segment::{Segment, Start};
use crate::store::log::snapshot::file::{SnapshotFile, name_of};
use crate::store::log::tables::{Slot, Tables};
use replay::Replay;
use survey::{Survey, links_of, missing_beginning, survey};

/// A log as its files tell it.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) tables: Tables,
    /// Segments without use.
    pub(crate) free: Vec<Arc<Segment>>,
    pub(crate) next_number: u32,
    /// Where the log goes on. `None` for a log that has no segment yet.
    pub(crate) end: Option<End>,
    /// The highest open number found.
    pub(crate) open: u32,
    /// Bodies in the chain that are still wanted and have a wrong checksum.
    pub(crate) rotten: Vec<StoreError>,
}

#[derive(Debug)]
pub(crate) struct End {
    pub(crate) segment: Arc<Segment>,
    pub(crate) generation: u64,
    pub(crate) offset: u32,
    /// The last frame's.
    pub(crate) lsn: u64,
    /// The offset from which on nothing is known to be durable.
    pub(crate) unsynced_from: u32,
    pub(crate) cut: Cut,
}

/// The frames behind the end of the log that belong to its torn tail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Frames whose header is right.
    pub(crate) frames: u64,
    /// Bytes from the end of the log to the end of the last such frame.
    pub(crate) bytes: u32,
    /// Partitions of such frames whose entries are right: salvage keeps their commits, and a start does not.
    pub(crate) readable: BTreeSet<u32>,
}

pub(crate) async fn recover(disk: &dyn Disk, log: u64) -> Result<Recovered, StoreError> {
    let survey = survey(disk, log).await?;
    let snapshot = match survey.snapshots.iter().max() {
        Some(&lsn) => Some(Arc::new(SnapshotFile::open(disk, &name_of(lsn), log).await?)),
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
