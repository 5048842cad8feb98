//! All frames of a segment that can still be read, also those after a damaged one.

use std::sync::Arc;

use crate::store::StoreError;
use crate::store::log::frame::{Expected, HEADER_BYTES, Header, Kind, Role};
use crate::store::log::scan::Scanner;
use crate::store::log::segment::{Segment, Start};
use crate::store::log::survey::Survey;

/// A segment with frames, and how it begins.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) segment: Arc<Segment>,
    pub(super) start: Header,
    /// Where its first frame is.
    from: u32,
}

/// Segments whose start can be read, by generation.
pub(super) fn valid_sources(survey: &Survey) -> Vec<Source> {
    let valid = |(segment, start): &(Arc<Segment>, Start)| match start {
        Start::Valid(start) => {
            Some(Source { segment: Arc::clone(segment), start: *start, from: HEADER_BYTES as u32 })
        }
        Start::Blank | Start::Bad => None,
    };
    let mut sources: Vec<Source> = survey.starts.iter().filter_map(valid).collect();
    sources.sort_by_key(|source| source.start.generation);
    sources
}

/// A segment whose start cannot be read, as its frames tell it: each of them says to what it belongs. Of a segment that
/// was used before, older frames may be left; those of the highest generation count.
pub(super) async fn source_of_frames(segment: &Arc<Segment>, log: u64) -> Result<Option<Source>, StoreError> {
    let mut scanner = Scanner::new(segment);
    let mut newest: Option<(u32, Header)> = None;
    let mut offset = 0;
    while let Some(found) = scanner.search(offset, log).await? {
        let is_newer = newest.is_none_or(|(_, newest)| found.header.generation > newest.generation);
        if is_newer && found.header.kind != Kind::SegmentStart {
            newest = Some((found.offset, found.header));
        }
        offset = found.search_from();
    }
    Ok(newest.map(|(from, first)| {
        let start = Header { kind: Kind::SegmentStart, lsn: first.lsn.saturating_sub(1), ..first };
        Source { segment: Arc::clone(segment), start, from }
    }))
}

#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) sound: Vec<Sound>,
    pub(super) damage: Vec<StoreError>,
}

/// A frame whose entries can be read. Some of its bodies may be rotten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sound {
    pub(super) header: Header,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// What is behind a place that the disk does not read is not looked for.
pub(super) async fn frames_of(source: &Source) -> Frames {
    let mut frames = Frames::default();
    if let Err(error) = read_frames(source, &mut frames).await {
        frames.damage.push(error);
    }
    frames
}

async fn read_frames(source: &Source, frames: &mut Frames) -> Result<(), StoreError> {
    let Source { segment, start, from } = source;
    let mut scanner = Scanner::new(segment);
    let mut offset = *from;
    let (log, generation) = (start.log, start.generation);
    let mut expected = Expected { log, generation, lsn: start.lsn + 1, open: 0 };
    loop {
        if let Some(found) = scanner.frame_at(offset, log).await?
            && expected.accepts(&found.header)
            && found.is_readable
        {
            let (header, length) = (found.header, found.frame.len() as u32);
            if header.kind == Kind::End {
                return Ok(());
            }
            frames.sound.push(Sound { header, offset, length });
            offset = found.next_offset();
            expected = Expected { lsn: header.lsn + 1, open: header.open, ..expected };
            continue;
        }
        let Some((next, header)) = later_frame(&mut scanner, offset, &expected).await? else {
            return Ok(());
        };
        if start.role == Role::Main && header.synced < expected.lsn {
            // Left over from a run that was torn before it was durable: void.
            return Ok(());
        }
        frames.damage.push(segment.damaged(offset, unreadable(expected.lsn, header.lsn)));
        offset = next;
        expected.lsn = header.lsn;
    }
}

fn unreadable(from: u64, next: u64) -> String {
    match next - from {
        0 => format!("what stands before frame {next} cannot be read"),
        1 => format!("frame {from} cannot be read"),
        _ => format!("frames {from} to {} cannot be read", next - 1),
    }
}

/// The next frame that can only have been written after those so far.
async fn later_frame(
    scanner: &mut Scanner<'_>,
    from: u32,
    expected: &Expected,
) -> Result<Option<(u32, Header)>, StoreError> {
    let mut offset = from;
    while let Some(found) = scanner.search(offset, expected.log).await? {
        let header = found.header;
        let belongs = header.generation == expected.generation && header.kind != Kind::SegmentStart;
        if belongs && found.is_readable && header.lsn >= expected.lsn && header.open >= expected.open {
            return Ok(Some((found.offset, header)));
        }
        offset = found.search_from();
    }
    Ok(None)
}
