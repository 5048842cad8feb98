//! Moves between queues, as fields of an item: where it goes, and where it came from.

use super::DecodeError;
use super::wire::{Record, put_bytes, put_number, put_unless_zero};
use crate::id::{ItemId, ItemNumber, PartitionId};
use crate::item::{Assigned, ItemError, MoveNumber, MoveReason, MovedTo, Origin, Outgoing};
use crate::time::Timestamp;

const OUT_TO: u8 = 1;
const OUT_REASON: u8 = 2;
const OUT_FORGOTTEN: u8 = 3;
/// Both of these or neither.
const OUT_PARTITION: u8 = 4;
const OUT_NUMBER: u8 = 5;
const OUT_DUE_AT: u8 = 6;
const OUT_ADDRESS: u8 = 7;
const OUT_DELETED: u8 = 8;
const OUT_KNOWN_MAX: u8 = OUT_DELETED;

pub(super) fn encode_outgoing(outgoing: &Outgoing) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, OUT_TO, outgoing.to.as_bytes());
    put_unless_zero(&mut out, OUT_REASON, reason_code(outgoing.reason));
    put_unless_zero(&mut out, OUT_FORGOTTEN, outgoing.forgotten.into());
    if let Some(assigned) = outgoing.assigned {
        put_number(&mut out, OUT_PARTITION, assigned.partition.0.into());
        put_number(&mut out, OUT_NUMBER, assigned.number.0);
    }
    if let Some(due_at) = outgoing.due_at {
        put_number(&mut out, OUT_DUE_AT, due_at.0);
    }
    if let Some(address) = &outgoing.address {
        put_bytes(&mut out, OUT_ADDRESS, address.as_bytes());
    }
    put_unless_zero(&mut out, OUT_DELETED, outgoing.deleted.into());
    out.extend_from_slice(&outgoing.unknown);
    out
}

pub(super) fn decode_outgoing(value: &[u8]) -> Result<Outgoing, DecodeError> {
    let record = Record::read(value, OUT_KNOWN_MAX)?;
    Ok(Outgoing {
        to: record.text(OUT_TO)?.ok_or(DecodeError::row("has a move that leads nowhere"))?,
        reason: reason_of(record.number_or_zero(OUT_REASON)?)?,
        due_at: record.number(OUT_DUE_AT)?.map(Timestamp),
        forgotten: record.flag(OUT_FORGOTTEN)?,
        deleted: record.flag(OUT_DELETED)?,
        address: record.text(OUT_ADDRESS)?,
        assigned: match (record.number(OUT_PARTITION)?, record.number(OUT_NUMBER)?) {
            (Some(_), Some(number)) => Some(Assigned {
                partition: PartitionId(record.small(OUT_PARTITION)?),
                number: MoveNumber(number),
            }),
            (_, _) => None,
        },
        unknown: record.unknown,
    })
}

const ORIGIN_QUEUE: u8 = 1;
/// Both of these or neither.
const ORIGIN_PARTITION: u8 = 2;
const ORIGIN_NUMBER: u8 = 3;
const ORIGIN_ATTEMPTS: u8 = 4;
const ORIGIN_REASON: u8 = 5;
const ORIGIN_MOVED_AT: u8 = 6;
const ORIGIN_ERROR_MESSAGE: u8 = 7;
const ORIGIN_ERROR_CODE: u8 = 8;
const ORIGIN_GROUP: u8 = 9;
const ORIGIN_ADDRESS: u8 = 10;
const ORIGIN_KNOWN_MAX: u8 = ORIGIN_ADDRESS;

pub(super) fn encode_origin(origin: &Origin) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, ORIGIN_QUEUE, origin.queue.as_bytes());
    if let Some(id) = origin.id {
        put_number(&mut out, ORIGIN_PARTITION, id.partition.0.into());
        put_number(&mut out, ORIGIN_NUMBER, id.number.0);
    }
    if let Some(attempts) = origin.attempts {
        put_number(&mut out, ORIGIN_ATTEMPTS, attempts.into());
    }
    put_unless_zero(&mut out, ORIGIN_REASON, reason_code(origin.reason));
    put_unless_zero(&mut out, ORIGIN_MOVED_AT, origin.moved_at.0);
    if let Some(error) = &origin.error {
        put_bytes(&mut out, ORIGIN_ERROR_MESSAGE, error.message.as_bytes());
        if let Some(code) = &error.code {
            put_bytes(&mut out, ORIGIN_ERROR_CODE, code.as_bytes());
        }
    }
    if let Some(group) = &origin.group {
        put_bytes(&mut out, ORIGIN_GROUP, group.as_bytes());
    }
    if let Some(address) = &origin.address {
        put_bytes(&mut out, ORIGIN_ADDRESS, address.as_bytes());
    }
    out.extend_from_slice(&origin.unknown);
    out
}

pub(super) fn decode_origin(value: &[u8]) -> Result<Origin, DecodeError> {
    let record = Record::read(value, ORIGIN_KNOWN_MAX)?;
    let attempts = record.number(ORIGIN_ATTEMPTS)?.map(|_| record.small(ORIGIN_ATTEMPTS)).transpose()?;
    Ok(Origin {
        queue: record.text(ORIGIN_QUEUE)?.ok_or(DecodeError::row("has an origin that is nowhere"))?,
        id: decode_id(&record)?,
        group: record.text(ORIGIN_GROUP)?,
        address: record.text(ORIGIN_ADDRESS)?,
        attempts,
        reason: reason_of(record.number_or_zero(ORIGIN_REASON)?)?,
        error: decode_error(&record)?,
        moved_at: Timestamp(record.number_or_zero(ORIGIN_MOVED_AT)?),
        unknown: record.unknown,
    })
}

fn decode_id(record: &Record<'_>) -> Result<Option<ItemId>, DecodeError> {
    let Some(number) = record.number(ORIGIN_NUMBER)? else { return Ok(None) };
    let partition = PartitionId(record.small(ORIGIN_PARTITION)?);
    Ok(Some(ItemId { number: ItemNumber(number), partition }))
}

fn decode_error(record: &Record<'_>) -> Result<Option<ItemError>, DecodeError> {
    let Some(message) = record.text(ORIGIN_ERROR_MESSAGE)? else { return Ok(None) };
    Ok(Some(ItemError { code: record.text(ORIGIN_ERROR_CODE)?, message }))
}

fn reason_code(reason: MoveReason) -> u64 {
    match reason {
        MoveReason::Attempts => 0,
        MoveReason::Dead => 1,
        MoveReason::Expired => 2,
        MoveReason::Redrive => 3,
        MoveReason::GroupEnd => 4,
        MoveReason::GroupAbort => 5,
        MoveReason::Rerun => 6,
    }
}

fn reason_of(code: u64) -> Result<MoveReason, DecodeError> {
    match code {
        0 => Ok(MoveReason::Attempts),
        1 => Ok(MoveReason::Dead),
        2 => Ok(MoveReason::Expired),
        3 => Ok(MoveReason::Redrive),
        4 => Ok(MoveReason::GroupEnd),
        5 => Ok(MoveReason::GroupAbort),
        6 => Ok(MoveReason::Rerun),
        _ => Err(DecodeError::row("has a move for a reason that this version does not know")),
    }
}

const TO_QUEUE: u8 = 1;
const TO_PARTITION: u8 = 2;
const TO_NUMBER: u8 = 3;

pub(super) fn encode_moved_to(moved_to: &MovedTo) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, TO_QUEUE, moved_to.queue.as_bytes());
    put_number(&mut out, TO_PARTITION, moved_to.id.partition.0.into());
    put_number(&mut out, TO_NUMBER, moved_to.id.number.0);
    out
}

pub(super) fn decode_moved_to(value: &[u8]) -> Result<MovedTo, DecodeError> {
    let record = Record::read(value, TO_NUMBER)?;
    let id = ItemId {
        partition: PartitionId(record.small(TO_PARTITION)?),
        number: ItemNumber(record.required_number(TO_NUMBER)?),
    };
    let queue = record.text(TO_QUEUE)?.ok_or(DecodeError::row("was moved to no queue"))?;
    Ok(MovedTo { queue, id })
}
