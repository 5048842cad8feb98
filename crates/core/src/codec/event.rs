//! The value of a batch of events' row.

use super::DecodeError;
use super::wire::{Record, put_unless_same, put_unless_zero};
use crate::event::EventBatch;
use crate::id::ItemNumber;

const LAST_SEQ: u8 = 1;
const BYTES: u8 = 2;
const KNOWN_MAX: u8 = BYTES;

pub(super) fn encode(batch: &EventBatch, out: &mut Vec<u8>) {
    put_unless_same(out, LAST_SEQ, batch.last_seq, batch.first_seq);
    put_unless_zero(out, BYTES, batch.bytes);
}

pub(super) fn decode(item: ItemNumber, first_seq: u64, value: &[u8]) -> Result<EventBatch, DecodeError> {
    let record = Record::read(value, KNOWN_MAX)?;
    let last_seq = record.near_or_same(LAST_SEQ, first_seq)?;
    if last_seq < first_seq {
        return Err(DecodeError::new(LAST_SEQ, "ends before it begins"));
    }
    Ok(EventBatch { item, first_seq, last_seq, bytes: record.number_or_zero(BYTES)? })
}
