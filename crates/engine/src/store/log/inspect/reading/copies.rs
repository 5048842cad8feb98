//! Other copies of bodies that are wanted and were not found where they should be: compaction leaves some behind.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use bytes::Bytes;
use windlass_core::row::Change;

use super::frames::{Found, Sound, Source, frames_of, is_same};
use crate::store::StoreError;
use crate::store::bodies::BodyKey;
use crate::store::entries::Entry;
use crate::store::log::inspect::loss::rescue::{Rescue, Step};
use crate::store::log::segment::Segment;
use crate::store::log::segment::frame::{self, Kind};
use crate::store::log::segment::scan::read_readable;

/// Puts every wanted body of which a segment holds another copy. Segments are read again only if a body is lacking.
pub(crate) async fn find(sources: &[Source], rescue: &mut Rescue<'_>) -> Result<(), StoreError> {
    let mut lacking: BTreeSet<(u32, BodyKey)> = rescue.ledger.lacking().into_iter().collect();
    let mut latest_first = sources.to_vec();
    latest_first.sort_by_key(|source| Reverse(source.start.generation));
    for source in latest_first {
        if lacking.is_empty() {
            return Ok(());
        }
        for found in frames_of(&source, u64::MAX).await.found {
            if let Found::Sound(frame) = found {
                find_in_frame(&source.segment, &frame, &mut lacking, rescue).await?;
            }
        }
    }
    Ok(())
}

async fn find_in_frame(
    segment: &Segment,
    frame: &Sound,
    lacking: &mut BTreeSet<(u32, BodyKey)>,
    rescue: &mut Rescue<'_>,
) -> Result<(), StoreError> {
    let partition = frame.header.partition;
    let is_wanted =
        lacking.range((partition, BodyKey::FIRST)..).next().is_some_and(|(of, _)| *of == partition);
    if !is_wanted || !matches!(frame.header.kind, Kind::Commit | Kind::Survivors) {
        return Ok(());
    }
    // A file that was cut may end within the last body.
    let length = frame.length.min(segment.bytes.saturating_sub(frame.offset));
    let (bytes, _told_when_the_frames_were_read) =
        read_readable(segment, frame.offset, length as usize).await;
    if !is_same(&bytes, frame) {
        return Ok(());
    }
    for entry in frame::entries_of(&bytes) {
        let Ok(Entry::PutBody { key, crc, at, length }) = entry else { continue };
        let Some(body) = bytes.get(at..at + length) else { continue };
        let is_right = crc32c::crc32c(body) == crc && is_the_one(rescue, partition, key, crc, frame);
        if is_right && lacking.remove(&(partition, key)) {
            let body = Bytes::copy_from_slice(body);
            let change = Change::PutBody { number: key.number(), part: key.part(), body };
            rescue.commit(partition, 0, vec![Step::Change(change)]).await?;
        }
    }
    Ok(())
}

/// A body may have been replaced, so a copy must have the checksum of the one that is missed. Where that is not known,
/// only compaction can be trusted: it moves bodies that live.
fn is_the_one(rescue: &Rescue<'_>, partition: u32, key: BodyKey, crc: u32, frame: &Sound) -> bool {
    match rescue.missing(partition, key) {
        Some(missing) => missing.crc() == crc,
        None => frame.header.kind == Kind::Survivors,
    }
}
