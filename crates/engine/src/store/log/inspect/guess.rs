//! Which log the files of a directory belong to, when the `format` file is damaged or of another log.

use std::collections::BTreeMap;

use crate::store::StoreError;
use crate::store::log::disk::Disk;
use crate::store::log::format::Format;
use crate::store::log::recovery::survey;
use crate::store::log::segment::Segment;
use crate::store::log::segment::frame::{self, HEADER_BYTES, u64_at};
use crate::store::log::segment::scan::read_readable;
use crate::store::log::snapshot;
use crate::store::log::snapshot::file::SnapshotFile;

const READ_BYTES: u32 = 1 << 20;
const STEP: usize = 8;

/// The log's id: the one that `format` tells, if any file bears it or none bears another; else that of most files.
pub(super) async fn log_of(disk: &dyn Disk, format: &Result<Format, StoreError>) -> Result<u64, StoreError> {
    let votes = votes(disk).await?;
    let named = format.as_ref().ok().map(|format| format.log);
    let of_most = votes.iter().max_by_key(|(_, files)| **files).map(|(log, _)| *log);
    let chosen = named.filter(|log| votes.contains_key(log)).or(of_most).or(named);
    match (chosen, format) {
        (Some(log), _) => Ok(log),
        (None, Err(error)) => Err(error.clone()),
        (None, Ok(format)) => Ok(format.log),
    }
}

/// How many files bear which id, by how they begin. Segments are searched only if no file begins well.
async fn votes(disk: &dyn Disk) -> Result<BTreeMap<u64, u64>, StoreError> {
    let (survey, _told_later) = survey::survey_readable(disk, 0).await?;
    let mut bearers = Vec::new();
    for (segment, _) in &survey.starts {
        let (start, _) = read_readable(segment, 0, HEADER_BYTES.min(segment.bytes as usize)).await;
        bearers.extend(frame::header_of(&start).map(|header| header.log));
    }
    for lsn in &survey.snapshots {
        bearers.extend(log_of_snapshot(disk, *lsn).await);
    }
    if bearers.is_empty() {
        for (segment, _) in &survey.starts {
            bearers.extend(log_of_any_frame(segment).await);
        }
    }
    let mut votes = BTreeMap::new();
    for log in bearers {
        *votes.entry(log).or_default() += 1;
    }
    Ok(votes)
}

/// The log's id in the first frame whose header can be read.
async fn log_of_any_frame(segment: &Segment) -> Option<u64> {
    let mut offset = 0;
    while offset < segment.bytes {
        let length = (READ_BYTES + HEADER_BYTES as u32).min(segment.bytes - offset);
        let (bytes, _told_later) = read_readable(segment, offset, length as usize).await;
        let mut places = (0..bytes.len()).step_by(STEP);
        let found = places.find_map(|at| frame::header_of(&bytes[at..]));
        if let Some(header) = found {
            return Some(header.log);
        }
        offset += READ_BYTES;
    }
    None
}

async fn log_of_snapshot(disk: &dyn Disk, lsn: u64) -> Option<u64> {
    const LOG_AT: usize = 12;
    let snapshot = SnapshotFile::open_bare(disk, &snapshot::file::name_of(lsn)).await.ok()?;
    let head = snapshot.block(0).await.ok()?.bytes;
    let log = (head.len() >= LOG_AT + 8).then(|| u64_at(&head, LOG_AT))?;
    (head == snapshot::file::head(log, lsn)).then_some(log)
}
