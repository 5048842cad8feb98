//! Which files there are, and what they say of themselves.

use std::sync::Arc;

use crate::store::StoreError;
use crate::store::log::disk::Disk;
use crate::store::log::recovery::End;
use crate::store::log::segment::frame::Role;
use crate::store::log::segment::scan::Scanner;
use crate::store::log::segment::{self, Segment, Start, io_failed};
use crate::store::log::snapshot;
use crate::store::log::tables::Link;

/// All files of the log, as found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) starts: Vec<(Arc<Segment>, Start)>,
    pub(crate) snapshots: Vec<u64>,
}

impl Survey {
    /// Segments that were never used, and those whose start is damaged: a start that is all zeros may be either.
    pub(crate) fn without_start(&self) -> impl Iterator<Item = &Arc<Segment>> {
        let valid = |start: &Start| matches!(start, Start::Valid(_));
        self.starts.iter().filter(move |(_, start)| !valid(start)).map(|(segment, _)| segment)
    }

    /// A segment with frames of this log, but without a start.
    pub(crate) async fn first_damaged(&self, log: u64) -> Result<Option<&Arc<Segment>>, StoreError> {
        for segment in self.without_start() {
            let mut scanner = Scanner::new(segment);
            if scanner.search(0, log).await?.is_some() {
                return Ok(Some(segment));
            }
            if let Some(error) = scanner.failed_behind(0) {
                return Err(error);
            }
        }
        Ok(None)
    }

    /// A body is not there although the log does not say so: because a segment's start is damaged, or a file is gone,
    /// or the frame that would say so.
    pub(crate) async fn missing_at(
        &self,
        disk: &dyn Disk,
        log: u64,
        end: Option<&End>,
        what: &str,
    ) -> StoreError {
        match (self.first_damaged(log).await, end) {
            (Ok(None), Some(end)) => end
                .segment
                .damaged(end.offset, format!("the log ends here, unless a file is missing; but {what}")),
            (Ok(Some(segment)), _) => {
                segment.damaged(0, format!("the segment's first frame, so that {what}"))
            }
            (Ok(None), None) => StoreError::Incomplete { directory: disk.path(""), what: what.to_owned() },
            (Err(error), _) => error,
        }
    }

    /// A hint names the segment that the log goes on in. It was written when that one's start was durable, so it is
    /// damaged or gone.
    pub(crate) async fn missing_next(&self, disk: &dyn Disk, log: u64, number: u32) -> StoreError {
        match self.starts.iter().find(|(segment, _)| segment.number == number) {
            Some((segment, _)) => {
                segment.damaged(0, "the segment's first frame, although the log goes on in this segment")
            }
            None => {
                let name = segment::name_of(number);
                self.missing(disk, log, &format!("the log goes on in {name}, which is gone")).await
            }
        }
    }

    /// Something is not there: because a segment's start is damaged, or else because a file is gone.
    pub(crate) async fn missing(&self, disk: &dyn Disk, log: u64, what: &str) -> StoreError {
        match self.first_damaged(log).await {
            Ok(Some(segment)) => segment.damaged(0, format!("the segment's first frame, so that {what}")),
            Ok(None) => StoreError::Incomplete { directory: disk.path(""), what: what.to_owned() },
            Err(error) => error,
        }
    }
}

pub(crate) async fn survey(disk: &dyn Disk, log: u64) -> Result<Survey, StoreError> {
    let (survey, failed) = survey_readable(disk, log).await?;
    failed.into_iter().next().map_or(Ok(survey), Err)
}

/// The files that can be read, and why the others cannot.
pub(crate) async fn survey_readable(
    disk: &dyn Disk,
    log: u64,
) -> Result<(Survey, Vec<StoreError>), StoreError> {
    let names = disk.list().await.map_err(|error| io_failed("cannot list", disk.path(""), error))?;
    let (mut survey, mut failed) = (Survey::default(), Vec::new());
    for name in names {
        if let Some(number) = segment::number_of(&name) {
            match open_segment(disk, &name, number).await {
                Ok(segment) => {
                    let start = segment::read_start(&segment, log).await;
                    let start = start.map_err(|error| failed.push(error)).unwrap_or(Start::Bad);
                    if let Start::Valid(header) = &start {
                        failed.extend(segment.cut(header));
                    }
                    if start != Start::Blank {
                        segment.mark_used();
                    }
                    survey.starts.push((segment, start));
                }
                Err(error) => failed.push(error),
            }
        } else if let Some(lsn) = snapshot::file::lsn_of(&name) {
            survey.snapshots.push(lsn);
        }
    }
    Ok((survey, failed))
}

async fn open_segment(disk: &dyn Disk, name: &str, number: u32) -> Result<Arc<Segment>, StoreError> {
    let failed = |error| io_failed("cannot open", disk.path(name), error);
    let file = disk.open(name).await.map_err(failed)?;
    let bytes = file.len().await.map_err(failed)?;
    let bytes = u32::try_from(bytes).map_err(|_| {
        StoreError::Unusable(format!("{}: a segment of {bytes} bytes is not one of ours", disk.path(name)))
    })?;
    Ok(Segment::new(disk, number, file, bytes))
}

/// The main segments that a recovery has to read, in order, each with the last frame that counts in it: a later
/// segment that continues after an earlier frame makes void what comes after that frame.
pub(crate) fn links_of(survey: &Survey, snapshot_lsn: u64) -> Vec<(Link, u64)> {
    let mut mains: Vec<(u64, Link)> = survey.starts.iter().filter_map(main_link).collect();
    mains.sort_by_key(|(generation, _)| *generation);
    let mut links = Vec::new();
    let mut last = u64::MAX;
    for (_, link) in mains.into_iter().rev() {
        if link.after < last && last > snapshot_lsn {
            links.push((link, last));
        }
        last = last.min(link.after);
    }
    links.reverse();
    links
}

fn main_link((segment, start): &(Arc<Segment>, Start)) -> Option<(u64, Link)> {
    match start {
        Start::Valid(header) if header.role == Role::Main => {
            Some((header.generation, Link { segment: segment.number, after: header.lsn }))
        }
        Start::Valid(_) | Start::Blank | Start::Bad => None,
    }
}

/// Why the log has no beginning, if it has none.
pub(crate) fn missing_beginning(links: &[(Link, u64)], snapshot_lsn: u64) -> Option<String> {
    match links.first() {
        Some((first, _)) if first.after > snapshot_lsn => {
            let begins = first.after + 1;
            Some(format!("the log begins at frame {begins}, but snapshots cover only up to {snapshot_lsn}"))
        }
        None if snapshot_lsn > 0 => Some("there is a snapshot but no segment of the log".to_owned()),
        Some(_) | None => None,
    }
}
