//! The changes that frames and body places tell of, step by step.

use bytes::Bytes;
use windlass_core::codec::{self, DecodeError};
use windlass_core::row::Change;

use crate::store::StoreError;
use crate::store::entries::Entry;
use crate::store::log::inspect::loss::rescue::{Missing, Step};
use crate::store::log::inspect::loss::verdict::ROTTEN_BODY;
use crate::store::log::segment::{Segment, frame};
use crate::store::log::snapshot::changes::{self, Saved};
use crate::store::log::snapshot::file::{Block, BodyRecord};

/// A body read from its place.
pub(crate) fn step_of(body: Result<Bytes, StoreError>, record: &BodyRecord, segment: &Segment) -> Step {
    let BodyRecord { key, crc, offset, .. } = *record;
    match body {
        Ok(body) if crc32c::crc32c(&body) == crc => {
            Step::Change(Change::PutBody { number: key.number(), part: key.part(), body })
        }
        Ok(_) => Step::Missing(key, Missing::Rotten { crc, error: segment.damaged(offset, ROTTEN_BODY) }),
        Err(StoreError::Io { source, .. }) => {
            let error = segment.damaged(offset, format!("a body cannot be read: {source}"));
            Step::Missing(key, Missing::Rotten { crc, error })
        }
        Err(error) => Step::Missing(key, Missing::Rotten { crc, error }),
    }
}

/// Everything a commit did, in its order.
pub(crate) fn steps_of(frame: &[u8], segment: &Segment, offset: u32) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for entry in frame::entries_of(frame) {
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

/// The steps of a block of changes: what was done to a partition since its rows or places of bodies could be read.
#[derive(Debug)]
pub(crate) enum Held {
    Change(Change),
    Body(BodyRecord),
}

pub(crate) fn held_in(block: &Block) -> Result<Vec<Held>, String> {
    let held = |saved| {
        Ok::<Held, DecodeError>(match saved {
            Saved::PutRow { key, value } => Held::Change(Change::Put(codec::decode_row(key, value)?)),
            Saved::RemoveRow { key } => Held::Change(Change::Remove(codec::decode_key(key)?)),
            Saved::PutBody(record) => Held::Body(record),
            Saved::RemoveBody { key } => {
                Held::Change(Change::RemoveBody { number: key.number(), part: key.part() })
            }
        })
    };
    let saved = changes::changes_of(block).ok_or("the changes cannot be read")?;
    saved.into_iter().map(|saved| held(saved).map_err(|error| error.to_string())).collect()
}
