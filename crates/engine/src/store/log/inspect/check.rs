//! Reads everything there is, and tells how much it is and what of it is damaged.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::id::PartitionId;
use windlass_core::row::Change;
use windlass_core::time::Timestamp;

use super::Locked;
use super::frames::{Source, frames_of, valid_sources};
use crate::store::log::body_key::BodyKey;
use crate::store::log::disk::Disk;
use crate::store::log::fetch::{Piece, fetch};
use crate::store::log::format::Format;
use crate::store::log::frame::Role;
use crate::store::log::opening;
use crate::store::log::recovery::Recovered;
use crate::store::log::segment::{self, Start};
use crate::store::log::survey::{self, Survey};
use crate::store::log::tables::{Place, Tables};
use crate::store::log::view::PartitionView;
use crate::store::{StoreError, remove_row};

const SLICE: usize = 1024;

/// What was found.
#[derive(Debug)]
pub struct Report {
    pub log: u64,
    /// In the order of generations; then those that are free.
    pub segments: Vec<FileReport>,
    pub snapshot: Option<(String, u64)>,
    /// Empty if the log cannot be opened.
    pub partitions: BTreeMap<PartitionId, PartitionReport>,
    /// Each with file and offset where that can be told.
    pub damage: Vec<StoreError>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    pub name: String,
    pub bytes: u64,
    pub used_for: Use,
    pub frames: u64,
    pub frame_bytes: u64,
    /// Of bodies that are still wanted.
    pub live_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Log {
        generation: u64,
    },
    /// Bodies that outlived the segments they were written to.
    Compacted {
        generation: u64,
    },
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionReport {
    pub sequence: u64,
    pub now: Timestamp,
    pub rows: u64,
    pub bodies: u64,
    pub body_bytes: u64,
    pub commits_since_snapshot: u64,
}

/// Reads every frame, row and body of a log that no server has open.
pub async fn check(disk: Arc<dyn Disk>) -> Result<Report, StoreError> {
    let locked = Locked::take(&*disk).await?;
    examine(&*disk, &locked.format().await?).await
}

/// As [`check`], of a log that is locked already and may have no `format` file yet.
pub(in crate::store::log) async fn examine(disk: &dyn Disk, format: &Format) -> Result<Report, StoreError> {
    let log = format.log;
    let (survey, damage) = survey::survey_readable(disk, log).await?;
    let mut report =
        Report { log, segments: Vec::new(), snapshot: None, partitions: BTreeMap::new(), damage };
    check_segments(&survey, &mut report).await;
    match opening::recover(disk, format).await {
        Ok(recovered) => check_content(recovered, &mut report).await,
        Err(error) => report.add_damage(error),
    }
    Ok(report)
}

impl Report {
    /// The same place may be come by in several ways.
    fn add_damage(&mut self, error: StoreError) {
        let place = |error: &StoreError| match error {
            StoreError::Damaged { file, offset, .. } => Some((file.clone(), *offset)),
            StoreError::Fenced
            | StoreError::Full
            | StoreError::TooLarge { .. }
            | StoreError::Closed
            | StoreError::Io { .. }
            | StoreError::Incomplete { .. }
            | StoreError::Unusable(_) => None,
        };
        let new = place(&error);
        if new.is_none() || self.damage.iter().all(|known| place(known) != new) {
            self.damage.push(error);
        }
    }
}

async fn check_segments(survey: &Survey, report: &mut Report) {
    for source in valid_sources(survey) {
        let Source { segment, start, .. } = &source;
        let frames = frames_of(&source).await;
        let generation = start.generation;
        report.segments.push(FileReport {
            name: segment::name_of(segment.number),
            bytes: segment.bytes.into(),
            used_for: match start.role {
                Role::Main => Use::Log { generation },
                Role::Compacted => Use::Compacted { generation },
            },
            frames: frames.sound.len() as u64,
            frame_bytes: frames.sound.iter().map(|frame| u64::from(frame.length)).sum(),
            live_bytes: 0,
        });
        for damage in frames.damage {
            report.add_damage(damage);
        }
    }
    let unused = survey.starts.iter().filter(|(_, start)| !matches!(start, Start::Valid(_)));
    report.segments.extend(unused.map(|(segment, _)| FileReport {
        name: segment::name_of(segment.number),
        bytes: segment.bytes.into(),
        used_for: Use::Free,
        frames: 0,
        frame_bytes: 0,
        live_bytes: 0,
    }));
}

async fn check_content(recovered: Recovered, report: &mut Report) {
    let tables = recovered.tables;
    report.snapshot = tables.snapshot.as_ref().map(|snapshot| (snapshot.name.clone(), snapshot.bytes));
    for file in &mut report.segments {
        let slot = segment::number_of(&file.name).and_then(|number| tables.slots.get(&number));
        match slot {
            Some(slot) => file.live_bytes = slot.live_bytes,
            None => file.used_for = Use::Free,
        }
    }
    let partitions: Vec<u32> = tables.partitions.keys().copied().collect();
    for partition in partitions {
        let table = &tables.partitions[&partition];
        let counted = PartitionReport {
            sequence: table.sequence,
            now: Timestamp(table.now),
            rows: count_rows(&tables, partition, report).await,
            bodies: table.bodies.len() as u64,
            body_bytes: table.bodies.iter().map(|(_, place)| u64::from(place.length)).sum(),
            commits_since_snapshot: table.frames.len() as u64,
        };
        report.partitions.insert(PartitionId(partition), counted);
        check_bodies(&tables, partition, report).await;
    }
}

async fn count_rows(tables: &Tables, partition: u32, report: &mut Report) -> u64 {
    let mut rows = PartitionView::of(tables, partition, &Arc::new(Notify::new())).rows;
    let mut keys = BTreeMap::new();
    loop {
        match rows.next().await {
            Ok(Some(changes)) => changes.into_iter().for_each(|change| match change {
                Change::Put(row) => drop(keys.insert(row.key(), ())),
                Change::Remove(key) => remove_row(&mut keys, &key),
                Change::PutBody { .. } | Change::RemoveBody { .. } => {}
            }),
            Ok(None) => return keys.len() as u64,
            Err(error) => {
                report.add_damage(error);
                return keys.len() as u64;
            }
        }
    }
}

async fn check_bodies(tables: &Tables, partition: u32, report: &mut Report) {
    let mut from = BodyKey::FIRST;
    loop {
        let slice = body_slice(tables, partition, from);
        let Some((last, ..)) = slice.last() else { return };
        from = last.next();
        for (_, body) in read_bodies(tables, slice).await {
            if let Err(error) = body {
                report.add_damage(error);
            }
        }
    }
}

/// Some bodies of a partition from a key on, and where they are.
pub(super) fn body_slice(tables: &Tables, partition: u32, from: BodyKey) -> Vec<(BodyKey, Place)> {
    let bodies = &tables.partitions[&partition].bodies;
    bodies.range(from).take(SLICE).map(|(key, place)| (key, *place)).collect()
}

/// Reads and checks bodies.
pub(super) async fn read_bodies(
    tables: &Tables,
    slice: Vec<(BodyKey, Place)>,
) -> Vec<(BodyKey, Result<bytes::Bytes, StoreError>)> {
    let piece = |(_, place): &(BodyKey, Place)| Piece {
        segment: Arc::clone(&tables.slots[&place.segment].segment),
        offset: place.offset,
        length: place.length,
    };
    let pieces: Vec<Piece> = slice.iter().map(piece).collect();
    let found = fetch(&pieces).await.into_iter().zip(slice).zip(&pieces);
    let checked = found.map(|((body, (key, place)), piece)| {
        let body = body.and_then(|body| {
            let sound = crc32c::crc32c(&body) == place.crc;
            if sound {
                Ok(body)
            } else {
                Err(piece.segment.damaged(place.offset, "a body has a wrong checksum"))
            }
        });
        (key, body)
    });
    checked.collect()
}
