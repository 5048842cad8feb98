//! The values of a cron's row and of the row of its name, and what an item tells of its cron.

use std::sync::Arc;

use super::DecodeError;
use super::group::{decode_template, encode_template};
use super::wire::{Record, put_bytes, put_near, put_number, put_unless_same, put_unless_zero};
use crate::cron::{CatchUp, Cron, CronHome, CronName, Leaves, Overlap};
use crate::id::{ItemId, ItemNumber, PartitionId};
use crate::item::{Assigned, CronRun, MoveNumber};
use crate::row::QueueName;
use crate::time::Timestamp;

const NUMBER: u8 = 1;
const CREATED_AT: u8 = 2;
const SCHEDULE: u8 = 3;
const TIMEZONE: u8 = 4;
const CATCH_UP: u8 = 5;
const OVERLAP: u8 = 6;
const TEMPLATE: u8 = 7;
const ADDRESS: u8 = 8;
const PAUSED: u8 = 9;
const NEXT_AT: u8 = 10;
const LAST_AT: u8 = 11;
const LAST_ITEM: u8 = 12;
/// `LEAVES_TO`, `LEAVES_NUMBER` and `LEAVES_QUEUE` are written together: only for a cron that moves to another partition.
const LEAVES_TO: u8 = 13;
const LEAVES_NUMBER: u8 = 14;
const LEAVES_QUEUE: u8 = 15;
/// `LAST_ELSEWHERE_PARTITION` and `LAST_ELSEWHERE` are written together.
const LAST_ELSEWHERE_PARTITION: u8 = 16;
const LAST_ELSEWHERE: u8 = 17;
const KNOWN_MAX: u8 = LAST_ELSEWHERE;

pub(super) fn encode(cron: &Cron, out: &mut Vec<u8>) {
    put_number(out, NUMBER, cron.number);
    put_unless_same(out, CREATED_AT, cron.created_at.0, cron.number);
    put_bytes(out, SCHEDULE, cron.schedule.as_bytes());
    put_bytes(out, TIMEZONE, cron.timezone.as_bytes());
    put_unless_zero(out, CATCH_UP, catch_up_code(cron.catch_up));
    put_unless_zero(out, OVERLAP, overlap_code(cron.overlap));
    put_bytes(out, TEMPLATE, &encode_template(&cron.template));
    if let Some(address) = &cron.address {
        put_bytes(out, ADDRESS, address.as_bytes());
    }
    put_unless_zero(out, PAUSED, cron.paused.into());
    let near = [
        (NEXT_AT, cron.next_at.map(|at| at.0)),
        (LAST_AT, cron.last_at.map(|at| at.0)),
        (LAST_ITEM, cron.last_item.map(|number| number.0)),
    ];
    for (field, value) in near {
        if let Some(value) = value {
            put_near(out, field, value, cron.number);
        }
    }
    if let Some(id) = cron.last_item_elsewhere {
        put_number(out, LAST_ELSEWHERE_PARTITION, id.partition.0.into());
        put_near(out, LAST_ELSEWHERE, id.number.0, cron.number);
    }
    if let Some(Leaves { queue, assigned }) = &cron.leaves {
        put_number(out, LEAVES_TO, assigned.partition.0.into());
        put_number(out, LEAVES_NUMBER, assigned.number.0);
        put_bytes(out, LEAVES_QUEUE, queue.as_bytes());
    }
    out.extend_from_slice(&cron.unknown);
}

pub(super) fn decode(name: Arc<str>, value: &[u8]) -> Result<Cron, DecodeError> {
    let record = Record::read(value, KNOWN_MAX)?;
    let number = record.number_or_zero(NUMBER)?;
    let time = |field| Ok(record.near(field, number)?.map(Timestamp));
    let template = record.bytes(TEMPLATE)?.ok_or(DecodeError::row("is of a cron without an item"))?;
    Ok(Cron {
        name,
        number,
        created_at: Timestamp(record.near_or_same(CREATED_AT, number)?),
        schedule: record.text(SCHEDULE)?.ok_or(DecodeError::row("is of a cron without a schedule"))?,
        timezone: record.text(TIMEZONE)?.ok_or(DecodeError::row("is of a cron without a time zone"))?,
        catch_up: catch_up_of(record.number_or_zero(CATCH_UP)?)?,
        overlap: overlap_of(record.number_or_zero(OVERLAP)?)?,
        template: decode_template(template)?,
        address: record.text(ADDRESS)?,
        paused: record.flag(PAUSED)?,
        next_at: time(NEXT_AT)?,
        last_at: time(LAST_AT)?,
        last_item: record.near(LAST_ITEM, number)?.map(ItemNumber),
        last_item_elsewhere: decode_last_elsewhere(&record, number)?,
        leaves: decode_leaves(&record)?,
        unknown: record.unknown,
    })
}

fn decode_last_elsewhere(record: &Record<'_>, number: u64) -> Result<Option<ItemId>, DecodeError> {
    let Some(last) = record.near(LAST_ELSEWHERE, number)? else { return Ok(None) };
    let partition = PartitionId(record.small(LAST_ELSEWHERE_PARTITION)?);
    Ok(Some(ItemId { partition, number: ItemNumber(last) }))
}

fn decode_leaves(record: &Record<'_>) -> Result<Option<Leaves>, DecodeError> {
    let (number, queue) = (record.number(LEAVES_NUMBER)?, record.text(LEAVES_QUEUE)?);
    let Some((number, queue)) = number.zip(queue) else { return Ok(None) };
    let partition = PartitionId(record.small(LEAVES_TO)?);
    Ok(Some(Leaves { queue, assigned: Assigned { partition, number: MoveNumber(number) } }))
}

fn catch_up_code(catch_up: CatchUp) -> u64 {
    match catch_up {
        CatchUp::Skip => 0,
        CatchUp::One => 1,
        CatchUp::All => 2,
    }
}

fn catch_up_of(code: u64) -> Result<CatchUp, DecodeError> {
    match code {
        0 => Ok(CatchUp::Skip),
        1 => Ok(CatchUp::One),
        2 => Ok(CatchUp::All),
        _ => Err(DecodeError::new(CATCH_UP, "is a way that this version does not know")),
    }
}

fn overlap_code(overlap: Overlap) -> u64 {
    match overlap {
        Overlap::Allow => 0,
        Overlap::Skip => 1,
    }
}

fn overlap_of(code: u64) -> Result<Overlap, DecodeError> {
    match code {
        0 => Ok(Overlap::Allow),
        1 => Ok(Overlap::Skip),
        _ => Err(DecodeError::new(OVERLAP, "is a way that this version does not know")),
    }
}

const QUEUE: u8 = 1;

/// The namespace is in the key: that of the name is that of the queue.
pub(super) fn encode_home(home: &CronHome, out: &mut Vec<u8>) {
    put_bytes(out, QUEUE, home.queue.name.as_bytes());
    out.extend_from_slice(&home.unknown);
}

pub(super) fn decode_home(name: CronName, value: &[u8]) -> Result<CronHome, DecodeError> {
    let record = Record::read(value, QUEUE)?;
    let queue = record.text(QUEUE)?.ok_or(DecodeError::row("is of a cron's name without a queue"))?;
    let CronName { namespace, name } = name;
    Ok(CronHome { name, queue: QueueName { namespace, name: queue }, unknown: record.unknown })
}

const RUN_NAME: u8 = 1;
const RUN_SCHEDULED_AT: u8 = 2;

pub(super) fn encode_run(run: &CronRun) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, RUN_NAME, run.name.as_bytes());
    put_number(&mut out, RUN_SCHEDULED_AT, run.scheduled_at.0);
    out
}

pub(super) fn decode_run(value: &[u8]) -> Result<CronRun, DecodeError> {
    let record = Record::read(value, RUN_SCHEDULED_AT)?;
    let name = record.text(RUN_NAME)?.ok_or(DecodeError::row("was made by a cron without a name"))?;
    Ok(CronRun { name, scheduled_at: Timestamp(record.number_or_zero(RUN_SCHEDULED_AT)?) })
}
