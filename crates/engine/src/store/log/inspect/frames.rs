//! All frames of a segment that can still be read, also those after a damaged one.

use crate::store::StoreError;
use crate::store::log::frame::{Expected, HEADER_BYTES, Header, Kind, Role};
use crate::store::log::scan::Scanner;
use crate::store::log::segment::Segment;

#[derive(Debug)]
pub(super) struct Frames {
    pub(super) sound: Vec<Sound>,
    pub(super) damage: Vec<StoreError>,
}

/// A frame that can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sound {
    pub(super) header: Header,
    pub(super) offset: u32,
    pub(super) length: u32,
}

pub(super) async fn frames_of(segment: &Segment, start: &Header) -> Result<Frames, StoreError> {
    let mut frames = Frames { sound: Vec::new(), damage: Vec::new() };
    let mut scanner = Scanner::new(segment);
    let mut offset = HEADER_BYTES as u32;
    let (log, generation) = (start.log, start.generation);
    let mut expected = Expected { log, generation, lsn: start.lsn + 1, open: 0 };
    loop {
        if let Some(found) = scanner.frame_at(offset).await?
            && expected.accepts(&found.header)
        {
            let (header, length) = (found.header, found.frame.len() as u32);
            frames.sound.push(Sound { header, offset, length });
            offset = found.next_offset();
            expected = Expected { lsn: header.lsn + 1, open: header.open, ..expected };
            continue;
        }
        let Some((next, header)) = later_frame(&mut scanner, offset, &expected).await? else {
            return Ok(frames);
        };
        if start.role == Role::Main && header.synced < expected.lsn {
            // Left over from a run that was torn before it was durable: void.
            return Ok(frames);
        }
        let what = format!("frames {} to {} cannot be read", expected.lsn, header.lsn - 1);
        frames.damage.push(segment.damaged(offset, what));
        offset = next;
        expected.lsn = header.lsn;
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
        if belongs && header.lsn >= expected.lsn && header.open >= expected.open {
            return Ok(Some((found.offset, header)));
        }
        offset = found.next_offset();
    }
    Ok(None)
}
