//! The row of a call that is remembered, and its answers, packed: there may be a million of them in memory.

use std::sync::Arc;

use super::DecodeError;
use super::wire::{Input, Record, at_distance, distance, put_bytes, put_unless_zero, put_varint};
use crate::id::{ItemId, ItemNumber, PartitionId};
use crate::item::Phase;
use crate::refusal::Refusal;
use crate::route::Slot;
use crate::row::{Answers, Once};
use crate::time::Timestamp;
use crate::verbs::Produced;

const DIGEST: u8 = 1;
const CLAIMED_AT: u8 = 2;
const ANSWERS: u8 = 3;
const INDEXES: u8 = 4;
const SLOTS: u8 = 5;

pub(super) fn encode_once(once: &Once, out: &mut Vec<u8>) {
    put_bytes(out, DIGEST, &once.digest);
    put_unless_zero(out, CLAIMED_AT, once.claimed_at.0);
    put_bytes(out, ANSWERS, once.answers.packed());
    if !once.indexes.is_empty() {
        let mut nested = Vec::with_capacity(2 * once.indexes.len());
        once.indexes.iter().for_each(|index| put_varint(&mut nested, (*index).into()));
        put_bytes(out, INDEXES, &nested);
    }
    if !once.slots.is_empty() {
        let mut nested = Vec::with_capacity(2 * once.slots.len());
        once.slots.iter().for_each(|slot| put_varint(&mut nested, slot.index() as u64));
        put_bytes(out, SLOTS, &nested);
    }
    out.extend_from_slice(&once.unknown);
}

pub(super) fn decode_once(key: Arc<str>, value: &[u8]) -> Result<Once, DecodeError> {
    let record = Record::read(value, SLOTS)?;
    let digest = record.bytes(DIGEST)?.and_then(|digest| digest.try_into().ok());
    let packed = record.bytes(ANSWERS)?.unwrap_or_default();
    // Whoever repeats the call must find them readable.
    let answers = unpack(packed)?.len();
    let indexes = decode_indexes(record.bytes(INDEXES)?.unwrap_or_default())?;
    if !indexes.is_empty() && indexes.len() != answers {
        return Err(DecodeError::new(INDEXES, "names other items than were answered"));
    }
    let slots = decode_slots(record.bytes(SLOTS)?.unwrap_or_default())?;
    Ok(Once {
        key,
        digest: digest.ok_or(DecodeError::new(DIGEST, "is no digest"))?,
        claimed_at: Timestamp(record.number_or_zero(CLAIMED_AT)?),
        indexes,
        answers: Answers::of_packed(packed),
        slots,
        unknown: record.unknown,
    })
}

fn decode_indexes(bytes: &[u8]) -> Result<Box<[u16]>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut indexes = Vec::new();
    while !input.rest.is_empty() {
        let index = input.varint()?.try_into();
        indexes.push(index.map_err(|_| DecodeError::new(INDEXES, "holds too large a number"))?);
    }
    Ok(indexes.into())
}

fn decode_slots(bytes: &[u8]) -> Result<Box<[Slot]>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut slots = Vec::new();
    while !input.rest.is_empty() {
        let slot = u16::try_from(input.varint()?).ok().and_then(Slot::at);
        slots.push(slot.ok_or(DecodeError::new(SLOTS, "names a slot that there is not"))?);
    }
    Ok(slots.into())
}

const WAITING: u64 = 0;
const SCHEDULED: u64 = 1;
const DUPLICATE_ADDRESS: u64 = 2;
const HELD: u64 = 3;
const NO_SUCH_GROUP: u64 = 4;
const GROUP_FINISHED: u64 = 5;
/// Followed by the partition.
const HELD_ELSEWHERE: u64 = 6;

/// A code for each, and the number it speaks of as the distance from the one before: none at all, if it speaks of none.
pub(crate) fn pack(answers: &[Result<Produced, Refusal>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 * answers.len());
    let mut last = 0;
    for answer in answers {
        let (code, number) = match answer {
            Ok(Produced { number, phase }) => (phase_code(*phase), number.0),
            Err(refusal) => refusal_code(refusal, last),
        };
        put_varint(&mut bytes, code);
        put_varint(&mut bytes, distance(number, last));
        if let Err(Refusal::HeldElsewhere { id }) = answer {
            put_varint(&mut bytes, id.partition.0.into());
        }
        last = number;
    }
    bytes
}

fn refusal_code(refusal: &Refusal, last: u64) -> (u64, u64) {
    match refusal {
        Refusal::DuplicateAddress { number } => (DUPLICATE_ADDRESS, number.0),
        Refusal::HeldElsewhere { id } => (HELD_ELSEWHERE, id.number.0),
        Refusal::NoSuchGroup => (NO_SUCH_GROUP, last),
        Refusal::GroupFinished => (GROUP_FINISHED, last),
        Refusal::NotFound
        | Refusal::LeaseLost { .. }
        | Refusal::NotAfter { .. }
        | Refusal::NotSuspended
        | Refusal::Ended
        | Refusal::NotEnded
        | Refusal::WrongPhase { .. }
        | Refusal::MovedOn { .. }
        | Refusal::Leaving
        | Refusal::NoPayload { .. }
        | Refusal::KeyTaken
        | Refusal::NoSuchPivot
        | Refusal::GroupExists
        | Refusal::GroupNotOver
        | Refusal::Moved
        | Refusal::Draining
        | Refusal::QueueExists
        | Refusal::QueueDiffers { .. }
        | Refusal::NoSuchQueue { .. }
        | Refusal::NoSuchPartition { .. }
        | Refusal::NotEmpty { .. }
        | Refusal::TooMany { .. }
        | Refusal::AtLimit { .. }
        | Refusal::Cron(_)
        | Refusal::NotUnclaimed
        | Refusal::UnclaimedNotEmpty { .. }
        | Refusal::UnclaimedDamaged { .. }
        | Refusal::PartitionNamed { .. }
        | Refusal::CronNamed { .. }
        | Refusal::Invalid(_) => unreachable!("a single item is not refused like that: {refusal:?}"),
    }
}

fn phase_code(phase: Phase) -> u64 {
    match phase {
        Phase::Waiting => WAITING,
        Phase::Scheduled => SCHEDULED,
        Phase::Held => HELD,
        Phase::Leased
        | Phase::Suspended
        | Phase::Completed
        | Phase::Failed
        | Phase::Cancelled
        | Phase::Expired => unreachable!("nothing is produced in that state"),
    }
}

pub(crate) fn unpack(bytes: &[u8]) -> Result<Vec<Result<Produced, Refusal>>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut answers = Vec::new();
    let mut last = 0;
    while !input.rest.is_empty() {
        let code = input.varint()?;
        last = at_distance(input.varint()?, last);
        let number = ItemNumber(last);
        answers.push(match code {
            WAITING => Ok(Produced { number, phase: Phase::Waiting }),
            SCHEDULED => Ok(Produced { number, phase: Phase::Scheduled }),
            HELD => Ok(Produced { number, phase: Phase::Held }),
            DUPLICATE_ADDRESS => Err(Refusal::DuplicateAddress { number }),
            NO_SUCH_GROUP => Err(Refusal::NoSuchGroup),
            GROUP_FINISHED => Err(Refusal::GroupFinished),
            HELD_ELSEWHERE => {
                Err(Refusal::HeldElsewhere { id: ItemId { partition: partition(&mut input)?, number } })
            }
            _ => return Err(DecodeError::new(ANSWERS, "has an answer that this version does not know")),
        });
    }
    Ok(answers)
}

fn partition(input: &mut Input<'_>) -> Result<PartitionId, DecodeError> {
    let number = input.varint()?.try_into();
    number.map(PartitionId).map_err(|_| DecodeError::new(ANSWERS, "names a partition that cannot be"))
}
