//! The value of a group's row.

use super::DecodeError;
use super::wire::{Record, put_bytes, put_fixed, put_near, put_number, put_unless_same, put_unless_zero};
use crate::group::{Ended, Group, GroupState, Template};
use crate::headers::{Hashes, IndexedNames};
use crate::id::{GroupNumber, ItemNumber, NUMBER_MAX};
use crate::time::{Span, Timestamp};

const NAME: u8 = 1;
const CREATED_AT: u8 = 2;
const STATE: u8 = 3;
const CANCELLED_AT: u8 = 4;
/// When it was done or aborted.
const OVER_AT: u8 = 5;
const COMPLETED: u8 = 6;
const FAILED: u8 = 7;
const CANCELLED: u8 = 8;
const EXPIRED: u8 = 9;
const END: u8 = 10;
const ABORT: u8 = 11;
const DELETED: u8 = 12;
const STARTED_AT: u8 = 13;
const KEEPS_ALL: u8 = 14;
const DROPS_PAYLOAD: u8 = 15;
const KNOWN_MAX: u8 = DROPS_PAYLOAD;

pub(super) fn encode(group: &Group, out: &mut Vec<u8>) {
    let number = group.number.0;
    put_bytes(out, NAME, group.name.as_bytes());
    put_unless_same(out, CREATED_AT, group.created_at.0, number);
    encode_state(group.state, number, out);
    let Ended { completed, failed, cancelled, expired } = group.ended;
    put_unless_zero(out, COMPLETED, completed);
    put_unless_zero(out, FAILED, failed);
    put_unless_zero(out, CANCELLED, cancelled);
    put_unless_zero(out, EXPIRED, expired);
    for (field, template) in [(END, &group.end), (ABORT, &group.abort)] {
        if let Some(template) = template {
            put_bytes(out, field, &encode_template(template));
        }
    }
    put_unless_zero(out, DELETED, group.deleted.into());
    if let Some(at) = group.started_at {
        put_near(out, STARTED_AT, at.0, number);
    }
    put_unless_zero(out, KEEPS_ALL, group.keeps_all.into());
    put_unless_zero(out, DROPS_PAYLOAD, group.drops_payload.into());
    out.extend_from_slice(&group.unknown);
}

fn encode_state(state: GroupState, number: u64, out: &mut Vec<u8>) {
    let code = match state {
        GroupState::Open => 0,
        GroupState::Started => 1,
        GroupState::Done { .. } => 2,
        GroupState::Cancelled { .. } => 3,
        GroupState::Aborted { .. } => 4,
    };
    put_unless_zero(out, STATE, code);
    if let Some(at) = state.cancelled_at() {
        put_near(out, CANCELLED_AT, at.0, number);
    }
    if let Some(at) = state.over_since() {
        put_near(out, OVER_AT, at.0, number);
    }
}

pub(super) fn decode(number: GroupNumber, value: &[u8]) -> Result<Group, DecodeError> {
    let record = Record::read(value, KNOWN_MAX)?;
    let template = |field| record.bytes(field)?.map(decode_template).transpose();
    Ok(Group {
        number,
        name: record.text(NAME)?.ok_or(DecodeError::row("is of a group without a name"))?,
        created_at: Timestamp(record.near_or_same(CREATED_AT, number.0)?),
        state: decode_state(&record, number.0)?,
        ended: Ended {
            completed: record.number_or_zero(COMPLETED)?,
            failed: record.number_or_zero(FAILED)?,
            cancelled: record.number_or_zero(CANCELLED)?,
            expired: record.number_or_zero(EXPIRED)?,
        },
        end: template(END)?.map(Box::new),
        abort: template(ABORT)?.map(Box::new),
        deleted: record.flag(DELETED)?,
        started_at: record.near(STARTED_AT, number.0)?.map(Timestamp),
        keeps_all: record.flag(KEEPS_ALL)?,
        drops_payload: record.flag(DROPS_PAYLOAD)?,
        unknown: record.unknown,
    })
}

fn decode_state(record: &Record<'_>, number: u64) -> Result<GroupState, DecodeError> {
    let time = |field| Ok(Timestamp(record.near_or_same(field, number)?));
    match record.number_or_zero(STATE)? {
        0 => Ok(GroupState::Open),
        1 => Ok(GroupState::Started),
        2 => Ok(GroupState::Done { at: time(OVER_AT)? }),
        3 => Ok(GroupState::Cancelled { at: time(CANCELLED_AT)? }),
        4 => Ok(GroupState::Aborted { cancelled_at: time(CANCELLED_AT)?, at: time(OVER_AT)? }),
        _ => Err(DecodeError::new(STATE, "is a state that this version does not know")),
    }
}

const BODY: u8 = 1;
const BODY_BYTES: u8 = 2;
const FACTS_BYTES: u8 = 3;
const QUEUE: u8 = 4;
const KIND: u8 = 5;
const PRIORITY: u8 = 6;
const DUE_AT: u8 = 7;
const MAX_ATTEMPTS: u8 = 8;
const DEAD_TIMEOUT: u8 = 9;
const DELAY: u8 = 10;
/// What [`IndexedNames`] holds, and the hashes.
const HASHES: u8 = 11;
const TEMPLATE_KNOWN_MAX: u8 = HASHES;

pub(super) fn encode_template(template: &Template) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, BODY, template.body.0);
    put_unless_zero(&mut out, BODY_BYTES, template.body_bytes);
    put_unless_zero(&mut out, FACTS_BYTES, template.facts_bytes);
    if let Some(queue) = &template.queue {
        put_bytes(&mut out, QUEUE, queue.as_bytes());
    }
    put_bytes(&mut out, KIND, template.kind.as_bytes());
    put_unless_zero(&mut out, PRIORITY, template.priority.into());
    let numbers = [
        (DUE_AT, template.due_at.map(|at| at.0)),
        (MAX_ATTEMPTS, template.max_attempts.map(u64::from)),
        (DEAD_TIMEOUT, template.dead_timeout.map(|timeout| timeout.0)),
        (DELAY, template.delay.map(|delay| delay.0)),
    ];
    for (field, number) in numbers {
        if let Some(number) = number {
            put_number(&mut out, field, number);
        }
    }
    match &template.hashes {
        Hashes::Unknown => {}
        Hashes::Known { names, hashes } => {
            let hashes = hashes.iter().copied();
            put_fixed(&mut out, HASHES, std::iter::once(names.0).chain(hashes));
        }
    }
    out.extend_from_slice(&template.unknown);
    out
}

fn decode_hashes(record: &Record<'_>) -> Result<Hashes, DecodeError> {
    let Some(numbers) = record.fixed(HASHES)? else { return Ok(Hashes::Unknown) };
    let (names, hashes) = numbers
        .split_first()
        .ok_or(DecodeError::new(HASHES, "has hashes without the fingerprint of their header names"))?;
    Ok(Hashes::Known { names: IndexedNames(*names), hashes: hashes.into() })
}

pub(super) fn decode_template(value: &[u8]) -> Result<Template, DecodeError> {
    let record = Record::read(value, TEMPLATE_KNOWN_MAX)?;
    let body = record.number_or_zero(BODY)?;
    if body > NUMBER_MAX {
        return Err(DecodeError::row("has a template whose body is under no number"));
    }
    Ok(Template {
        body: ItemNumber(body),
        body_bytes: record.number_or_zero(BODY_BYTES)?,
        facts_bytes: record.number_or_zero(FACTS_BYTES)?,
        hashes: decode_hashes(&record)?,
        queue: record.text(QUEUE)?,
        kind: record.text(KIND)?.ok_or(DecodeError::row("has a template without a kind"))?,
        priority: record.small(PRIORITY)?,
        due_at: record.number(DUE_AT)?.map(Timestamp),
        delay: record.number(DELAY)?.map(Span),
        max_attempts: record.number(MAX_ATTEMPTS)?.map(|_| record.small(MAX_ATTEMPTS)).transpose()?,
        dead_timeout: record.number(DEAD_TIMEOUT)?.map(Span),
        unknown: record.unknown,
    })
}
