//! Reads the commits since the last snapshot for the next one.

use crate::store::StoreError;
use crate::store::entries::UnknownEntry;
use crate::store::log::read::rows::{CommitFrame, FrameSource};
use crate::store::log::tables::Place;
use crate::store::merge::Tail;

/// The last words of all frames that can be read. Tells what is wrong with the first that cannot; an error of the disk is
/// no damage, because it may pass.
pub(crate) async fn read(mut frames: FrameSource) -> Result<(Tail<Place>, Option<StoreError>), StoreError> {
    let (mut tail, mut damage) = (Tail::default(), None);
    loop {
        let slice = frames.next_of_some().await;
        if slice.is_empty() {
            return Ok((tail, damage));
        }
        for frame in slice {
            match frame.and_then(|frame| take(&mut tail, &frame)) {
                Err(error) if error.is_damage() => damage = damage.or(Some(error)),
                taken => taken?,
            }
        }
    }
}

fn take(tail: &mut Tail<Place>, frame: &CommitFrame) -> Result<(), StoreError> {
    let place_of = |at: usize, value: &[u8]| Place {
        segment: frame.segment.number,
        offset: frame.place.offset + at as u32,
        length: value.len() as u32,
        crc: crc32c::crc32c(value),
    };
    let taken = tail.take(frame.entries(), place_of);
    taken.map_err(|UnknownEntry| frame.damaged("a frame holds entries of an unknown kind"))
}
