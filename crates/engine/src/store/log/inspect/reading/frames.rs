//! All frames of a segment that can still be read, also those behind a damaged one.

use std::sync::Arc;

use crate::store::StoreError;
use crate::store::log::disk::Unreadable;
use crate::store::log::recovery::survey::Survey;
use crate::store::log::segment::frame::{self, Expected, HEADER_BYTES, Header, Kind, u64_at};
use crate::store::log::segment::scan::{Scanner, read_readable};
use crate::store::log::segment::{Segment, Start};

/// A segment with frames, and how it begins.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) segment: Arc<Segment>,
    pub(crate) start: Header,
    /// Where its first frame is.
    from: u32,
}

/// Segments whose start can be read, by generation.
pub(crate) fn valid_sources(survey: &Survey) -> Vec<Source> {
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
/// was used before, older frames may be left; those of the highest generation count. If there is none, the first piece that
/// cannot be read is the error: it may have held some.
pub(crate) async fn source_of_frames(segment: &Arc<Segment>, log: u64) -> Result<Option<Source>, StoreError> {
    let mut scanner = Scanner::lenient(segment);
    let mut newest: Option<(u32, Header)> = None;
    let mut offset = 0;
    while let Some(found) = scanner.search(offset, log).await? {
        let is_newer = newest.is_none_or(|(_, newest)| found.header.generation > newest.generation);
        if is_newer && found.header.kind != Kind::SegmentStart {
            newest = Some((found.offset, found.header));
        }
        offset = found.search_from();
    }
    if newest.is_none()
        && let Some(piece) = scanner.unreadable().first()
    {
        return Err(cannot_read(segment, piece));
    }
    Ok(newest.map(|(from, first)| {
        let start = Header { kind: Kind::SegmentStart, lsn: first.lsn.saturating_sub(1), ..first };
        Source { segment: Arc::clone(segment), start, from }
    }))
}

/// The frames of a segment, in the order of its bytes.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) found: Vec<Found>,
    /// Where bodies begin that are not what their entries say.
    pub(crate) rotten_bodies: Vec<u32>,
    /// The number of the file in which the log goes on, if a hint behind the last frame says so.
    pub(crate) goes_on_in: Option<u32>,
    /// Pieces of the segment that the disk cannot read: what was in them is not found.
    pub(crate) unreadable: Vec<StoreError>,
    /// Why the segment could not be read to its end. Frames behind that place are not looked for.
    pub(crate) failed: Option<StoreError>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Sound(Sound),
    Break(Break),
}

/// A frame whose header and entries can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sound {
    pub(crate) header: Header,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// Whether bytes that were read again are those of the frame: a failing disk may not read them twice.
pub(crate) fn is_same(bytes: &[u8], sound: &Sound) -> bool {
    frame::open(bytes) == Some(sound.header)
}

/// A place where the next frame should be and cannot be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Break {
    pub(crate) offset: u32,
    /// The number of the frame that should be here.
    pub(crate) lsn: u64,
    /// The frame's header, if that can be read.
    pub(crate) header: Option<Header>,
    /// Where the next frame begins that can be read, and its number.
    pub(crate) next: Option<(u32, u64)>,
    /// No later frame is found, and a piece behind this place cannot be read: nobody knows where the segment's frames end.
    pub(crate) hides_end: bool,
}

impl Break {
    /// The last frame that is missing here, as far as that can be known.
    pub(crate) fn last(&self) -> u64 {
        self.next.map_or(self.lsn, |(_, next)| next.saturating_sub(1).max(self.lsn))
    }

    /// Whether by their size the missing frames held neither entries nor bodies.
    pub(crate) fn is_bare(&self) -> bool {
        let holds_nothing = |(at, lsn): (u32, u64)| {
            u64::from(at - self.offset) == lsn.saturating_sub(self.lsn) * HEADER_BYTES as u64
        };
        self.next.is_some_and(holds_nothing)
    }
}

/// The frames of a segment up to the last that counts.
pub(crate) async fn frames_of(source: &Source, last: u64) -> Frames {
    let mut frames = Frames::default();
    let mut scanner = Scanner::lenient(&source.segment);
    frames.failed = read_frames(&mut scanner, source, last, &mut frames).await.err();
    frames.unreadable =
        scanner.unreadable().iter().map(|piece| cannot_read(&source.segment, piece)).collect();
    frames
}

fn cannot_read(segment: &Segment, piece: &Unreadable) -> StoreError {
    let Unreadable { from, to, error } = piece;
    StoreError::Damaged {
        file: segment.path.clone(),
        offset: *from,
        what: format!("{} bytes cannot be read: {error}", to - from),
    }
}

async fn read_frames(
    scanner: &mut Scanner<'_>,
    source: &Source,
    last: u64,
    frames: &mut Frames,
) -> Result<(), StoreError> {
    let Source { segment, start, from } = source;
    let mut offset = *from;
    let (log, generation) = (start.log, start.generation);
    let mut expected = Expected { log, generation, lsn: start.lsn + 1, open: 0 };
    while expected.lsn <= last {
        let found = scanner.frame_at(offset, log).await?.filter(|found| expected.accepts(&found.header));
        let mut broken = Break { offset, lsn: expected.lsn, header: None, next: None, hides_end: false };
        let mut behind = None;
        if let Some(found) = found {
            let header = found.header;
            if header.kind == Kind::End {
                frames.goes_on_in = Some(header.partition);
                return Ok(());
            }
            expected.open = header.open;
            if found.is_readable {
                let length = frame::length(found.frame) as u32;
                frames.rotten_bodies.extend(found.rotten.iter().map(|body| offset + body.at));
                offset = found.next_offset();
                expected.lsn = header.lsn + 1;
                frames.found.push(Found::Sound(Sound { header, offset: broken.offset, length }));
                continue;
            }
            broken.header = Some(header);
            behind = Some(found.next_offset());
        }
        broken.next = later_frame(scanner, &broken, behind, &expected).await?;
        let Some((next, lsn)) = broken.next else {
            // A piece behind the last frame that cannot be read may have held the next one.
            broken.hides_end = scanner.failed_behind(offset).is_some();
            if broken.header.is_some() || broken.hides_end || remains_at(segment, offset, &expected).await {
                frames.found.push(Found::Break(broken));
            }
            return Ok(());
        };
        frames.found.push(Found::Break(broken));
        offset = next;
        expected.lsn = lsn;
    }
    Ok(())
}

/// The next frame that can only have been written after those so far. `behind`: where it begins if the header of the
/// broken frame is right about its length.
async fn later_frame(
    scanner: &mut Scanner<'_>,
    broken: &Break,
    behind: Option<u32>,
    expected: &Expected,
) -> Result<Option<(u32, u64)>, StoreError> {
    let least = expected.lsn + u64::from(broken.header.is_some());
    let belongs = |header: &Header| {
        header.generation == expected.generation
            && header.kind != Kind::SegmentStart
            && header.lsn >= least
            && header.open >= expected.open
    };
    if let Some(behind) = behind
        && let Some(found) = scanner.frame_at(behind, expected.log).await?
        && belongs(&found.header)
    {
        return Ok(Some((behind, found.header.lsn)));
    }
    let mut offset = broken.offset + if behind.is_some() { HEADER_BYTES as u32 } else { 0 };
    while let Some(found) = scanner.search(offset, expected.log).await? {
        if belongs(&found.header) {
            return Ok(Some((found.offset, found.header.lsn)));
        }
        offset = found.search_from();
    }
    Ok(None)
}

/// Whether the bytes at the end of the frames are the remains of the next one, and not what an earlier use of the segment
/// left: at least two of three numbers are those of the next frame, in a header whose checksum is wrong.
async fn remains_at(segment: &Segment, offset: u32, expected: &Expected) -> bool {
    if segment.bytes < offset.saturating_add(HEADER_BYTES as u32) {
        return false;
    }
    let (bytes, _told_by_the_scanner) = read_readable(segment, offset, HEADER_BYTES).await;
    let is_right = frame::header_of(&bytes).is_some();
    let agree = [(16, expected.log), (32, expected.generation), (40, expected.lsn)];
    let agreeing = agree.iter().filter(|(at, number)| u64_at(&bytes, *at) == *number).count();
    !is_right && agreeing >= 2
}
