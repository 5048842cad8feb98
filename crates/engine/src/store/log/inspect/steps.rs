//! What frames and body places say was done, step by step.

use bytes::Bytes;
use windlass_core::codec;
use windlass_core::row::Change;

use super::rescue::{Rotten, Step};
use super::verdict::ROTTEN_BODY;
use crate::store::StoreError;
use crate::store::log::entry::{Entries, Entry};
use crate::store::log::segment::Segment;
use crate::store::log::snapshot_file::BodyRecord;

/// A body read from its place.
pub(super) fn step_of(body: Result<Bytes, StoreError>, record: &BodyRecord, segment: &Segment) -> Step {
    let BodyRecord { key, crc, offset, .. } = *record;
    match body {
        Ok(body) if crc32c::crc32c(&body) == crc => {
            Step::Change(Change::PutBody { number: key.number(), part: key.part(), body })
        }
        Ok(_) => Step::Rotten(Rotten { key, crc, error: segment.damaged(offset, ROTTEN_BODY) }),
        Err(error) => Step::Rotten(Rotten { key, crc, error }),
    }
}

/// Everything a commit did, in its order.
pub(super) fn steps_of(frame: &[u8], segment: &Segment, offset: u32) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for entry in Entries::of(frame) {
        steps.push(match entry.map_err(|_| "a frame holds entries of an unknown kind")? {
            Entry::PutRow { key, value, .. } => {
                Step::Change(Change::Put(codec::decode_row(key, value).map_err(|error| error.to_string())?))
            }
            Entry::RemoveRow { key } => {
                Step::Change(Change::Remove(codec::decode_key(key).map_err(|error| error.to_string())?))
            }
            Entry::PutBody { key, crc, at, length } => {
                let body = Bytes::copy_from_slice(frame.get(at..at + length).unwrap_or_default());
                let record =
                    BodyRecord { key, generation: 0, offset: offset + at as u32, length: length as u32, crc };
                step_of(Ok(body), &record, segment)
            }
            Entry::RemoveBody { key } => {
                Step::Change(Change::RemoveBody { number: key.number(), part: key.part() })
            }
        });
    }
    Ok(steps)
}
