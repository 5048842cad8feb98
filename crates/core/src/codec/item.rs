//! The value of an item's row. Numbers and moments are written as distances from one another: a new item's place is
//! its number and its number the time of its making, so most of it is not written at all.

use std::sync::Arc;

use super::DecodeError;
use super::cron::{decode_run, encode_run};
use super::moves::{
    decode_moved_to, decode_origin, decode_outgoing, encode_moved_to, encode_origin, encode_outgoing,
};
use super::wire::{Record, put_bytes, put_fixed, put_near, put_number, put_unless_same, put_unless_zero};
use crate::headers::ItemHashes;
use crate::id::{GroupNumber, ItemNumber, NUMBER_MAX, Permit};
use crate::item::{
    End, Extras, Item, ItemError, LastLease, Lease, LeaseEnd, Outcome, PayloadSize, State, Suspension,
};
use crate::time::{Span, Timestamp};

/// The kind that is not written.
const KIND_DEFAULT: &str = "default";

const PLACE: u8 = 1;
const KIND: u8 = 2;
const PRIORITY: u8 = 3;
const CREATED_AT: u8 = 4;
const ATTEMPTS: u8 = 5;
const ERA: u8 = 6;
const MAX_ATTEMPTS: u8 = 7;
const LAST_PERMIT: u8 = 8;
const LAST_LEASE_END: u8 = 9;
const ERROR_CODE: u8 = 10;
const ERROR_MESSAGE: u8 = 11;
/// One of these three, or that it is suspended, tells the state; an item without any is waiting.
const DUE_AT: u8 = 12;
const PERMIT: u8 = 13;
const END: u8 = 14;
const CLIENT_ID: u8 = 15;
const LEASED_AT: u8 = 16;
const LEASE_TIMEOUT: u8 = 17;
const DEADLINE: u8 = 18;
const CANCEL_REQUESTED: u8 = 19;
const FINISHED_AT: u8 = 20;
const KEPT_BYTES: u8 = 21;
const HAS_RESULT: u8 = 22;
const DEAD_TIMEOUT: u8 = 23;
const ORIGIN: u8 = 24;
const OUTGOING: u8 = 25;
const FACTS_BYTES: u8 = 26;
const ADDRESS: u8 = 27;
const GROUP: u8 = 28;
const EVENT_COUNT: u8 = 29;
const EVENT_BYTES: u8 = 30;
/// The reason, empty if there is none. The fourth state.
const SUSPENDED: u8 = 31;
const HAS_INPUT: u8 = 32;
const PAYLOAD_LOST: u8 = 33;
const CHANGED_AT: u8 = 34;
const LAST_CLIENT_ID: u8 = 35;
/// Of the latest lease that ended.
const LAST_LEASED_AT: u8 = 36;
const ATTEMPTS_LOGGED: u8 = 37;
const ATTEMPT_BYTES: u8 = 38;
const MOVED_TO: u8 = 39;
/// The code of a [`PayloadSize`].
const PAYLOAD_SIZE: u8 = 40;
const PAYLOAD_KEPT: u8 = 41;
const CRON_RUN: u8 = 42;
/// Only for a waiting item; unset: since it was made.
const WAITING_SINCE: u8 = 43;
const HEADER_HASHES: u8 = 44;
const ERROR_ATTEMPT: u8 = 45;
/// Only for a final item; unset: when it finished.
const FINAL_CHANGED_AT: u8 = 46;
const KNOWN_MAX: u8 = FINAL_CHANGED_AT;

pub(super) fn encode(item: &Item, out: &mut Vec<u8>) {
    let number = item.number.0;
    put_unless_same(out, PLACE, item.place, number);
    if &*item.kind != KIND_DEFAULT {
        put_bytes(out, KIND, item.kind.as_bytes());
    }
    put_unless_zero(out, PRIORITY, item.priority.into());
    put_unless_same(out, CREATED_AT, item.created_at.0, number);
    put_unless_zero(out, ATTEMPTS, item.attempts.into());
    put_unless_zero(out, ERA, item.era.into());
    if let Some(group) = item.group {
        put_near(out, GROUP, group.0, number);
    }
    put_unless_zero(out, PAYLOAD_SIZE, item.payload_size.code().into());
    encode_state(&item.state, number, item.created_at, out);
    if let Some(extras) = &item.extras {
        encode_extras(extras, number, out);
    }
}

fn encode_state(state: &State, number: u64, created_at: Timestamp, out: &mut Vec<u8>) {
    match state {
        State::Waiting { since } => put_unless_same(out, WAITING_SINCE, since.0, created_at.0),
        State::Scheduled { due_at } => put_near(out, DUE_AT, due_at.0, number),
        State::Leased(lease) => encode_lease(lease, number, out),
        State::Suspended(suspension) => {
            put_bytes(out, SUSPENDED, suspension.reason.as_deref().unwrap_or_default().as_bytes());
        }
        State::Final(outcome) => encode_outcome(outcome, number, out),
    }
}

fn encode_lease(lease: &Lease, number: u64, out: &mut Vec<u8>) {
    put_near(out, PERMIT, lease.permit.0, number);
    put_bytes(out, CLIENT_ID, lease.client_id.as_bytes());
    put_unless_same(out, LEASED_AT, lease.leased_at.0, lease.permit.0);
    put_unless_zero(out, LEASE_TIMEOUT, lease.timeout.0);
    put_unless_same(out, DEADLINE, lease.deadline.0, (lease.leased_at + lease.timeout).0);
    put_unless_zero(out, CANCEL_REQUESTED, lease.cancel_requested.into());
}

fn encode_outcome(outcome: &Outcome, number: u64, out: &mut Vec<u8>) {
    put_number(out, END, end_code(outcome.end));
    put_unless_same(out, FINISHED_AT, outcome.finished_at.0, number);
    put_unless_same(out, FINAL_CHANGED_AT, outcome.changed_at.0, outcome.finished_at.0);
    put_unless_zero(out, KEPT_BYTES, outcome.kept_bytes);
    put_unless_zero(out, HAS_RESULT, outcome.has_result.into());
    put_unless_zero(out, PAYLOAD_KEPT, outcome.payload_kept.into());
    if let Some(outgoing) = &outcome.outgoing {
        put_bytes(out, OUTGOING, &encode_outgoing(outgoing));
    }
}

fn encode_extras(extras: &Extras, number: u64, out: &mut Vec<u8>) {
    if let Some(max_attempts) = extras.max_attempts {
        put_number(out, MAX_ATTEMPTS, max_attempts.into());
    }
    if let Some(dead_timeout) = extras.dead_timeout {
        put_number(out, DEAD_TIMEOUT, dead_timeout.0);
    }
    if let Some(origin) = &extras.origin {
        put_bytes(out, ORIGIN, &encode_origin(origin));
    }
    if let Some(run) = &extras.cron {
        put_bytes(out, CRON_RUN, &encode_run(run));
    }
    if let Some(last) = &extras.last_lease {
        put_near(out, LAST_PERMIT, last.permit.0, number);
        put_unless_zero(out, LAST_LEASE_END, lease_end_code(last.end));
        put_bytes(out, LAST_CLIENT_ID, last.client_id.as_bytes());
        put_unless_same(out, LAST_LEASED_AT, last.leased_at.0, last.permit.0);
    }
    if let Some(moved_to) = &extras.moved_to {
        put_bytes(out, MOVED_TO, &encode_moved_to(moved_to));
    }
    if let Some(changed_at) = extras.changed_at {
        put_near(out, CHANGED_AT, changed_at.0, number);
    }
    put_unless_zero(out, ATTEMPTS_LOGGED, extras.attempts_logged.into());
    put_unless_zero(out, ATTEMPT_BYTES, extras.attempt_bytes.into());
    put_unless_zero(out, ERROR_ATTEMPT, extras.error_attempt.into());
    if let Some(error) = &extras.error {
        put_bytes(out, ERROR_MESSAGE, error.message.as_bytes());
        if let Some(code) = &error.code {
            put_bytes(out, ERROR_CODE, code.as_bytes());
        }
    }
    put_unless_zero(out, FACTS_BYTES, extras.facts_bytes);
    put_unless_zero(out, EVENT_COUNT, extras.event_count);
    put_unless_zero(out, EVENT_BYTES, extras.event_bytes);
    put_unless_zero(out, HAS_INPUT, extras.has_input.into());
    put_unless_zero(out, PAYLOAD_LOST, extras.payload_lost.into());
    if !extras.header_hashes.is_empty() {
        put_fixed(out, HEADER_HASHES, extras.header_hashes.iter().copied());
    }
    if let Some(address) = &extras.address {
        put_bytes(out, ADDRESS, address.as_bytes());
    }
    out.extend_from_slice(extras.unknown.bytes());
}

pub(super) fn decode(number: ItemNumber, value: &[u8]) -> Result<Item, DecodeError> {
    let mut record = Record::read(value, KNOWN_MAX)?;
    let place = record.near_or_same(PLACE, number.0)?;
    if place > NUMBER_MAX {
        return Err(DecodeError::new(PLACE, "holds a place beyond the largest"));
    }
    let created_at = Timestamp(record.near_or_same(CREATED_AT, number.0)?);
    Ok(Item {
        number,
        place,
        kind: record.text(KIND)?.unwrap_or_else(|| KIND_DEFAULT.into()),
        priority: record.small(PRIORITY)?,
        created_at,
        attempts: record.small(ATTEMPTS)?,
        era: record.small(ERA)?,
        group: decode_group(&record, number.0)?,
        payload_size: PayloadSize::of_code(record.small(PAYLOAD_SIZE)?),
        state: decode_state(&record, number.0, created_at)?,
        extras: decode_extras(&mut record, number.0)?,
    })
}

fn decode_group(record: &Record<'_>, number: u64) -> Result<Option<GroupNumber>, DecodeError> {
    match record.near(GROUP, number)? {
        Some(group) if group > NUMBER_MAX => Err(DecodeError::new(GROUP, "holds no group's number")),
        group => Ok(group.map(GroupNumber)),
    }
}

fn decode_state(record: &Record<'_>, number: u64, created_at: Timestamp) -> Result<State, DecodeError> {
    let (due_at, permit, end) =
        (record.near(DUE_AT, number)?, record.near(PERMIT, number)?, record.number(END)?);
    let suspended = record.text(SUSPENDED)?;
    match (due_at, permit, end, suspended) {
        (None, None, None, None) => {
            Ok(State::Waiting { since: Timestamp(record.near_or_same(WAITING_SINCE, created_at.0)?) })
        }
        (Some(due_at), None, None, None) => Ok(State::Scheduled { due_at: Timestamp(due_at) }),
        (None, Some(permit), None, None) => Ok(State::Leased(Box::new(decode_lease(record, permit)?))),
        (None, None, Some(end), None) => Ok(State::Final(Box::new(decode_outcome(record, end, number)?))),
        (None, None, None, Some(reason)) => {
            let reason = Some(reason).filter(|reason| !reason.is_empty());
            Ok(State::Suspended(Box::new(Suspension { reason })))
        }
        (_, _, _, _) => Err(DecodeError::row("says two states of one item")),
    }
}

fn decode_lease(record: &Record<'_>, permit: u64) -> Result<Lease, DecodeError> {
    let leased_at = Timestamp(record.near_or_same(LEASED_AT, permit)?);
    let timeout = Span(record.number_or_zero(LEASE_TIMEOUT)?);
    Ok(Lease {
        permit: Permit(permit),
        client_id: record.text(CLIENT_ID)?.unwrap_or_else(|| Arc::from("")),
        leased_at,
        deadline: Timestamp(record.near_or_same(DEADLINE, (leased_at + timeout).0)?),
        timeout,
        cancel_requested: record.flag(CANCEL_REQUESTED)?,
    })
}

fn decode_outcome(record: &Record<'_>, end: u64, number: u64) -> Result<Outcome, DecodeError> {
    let finished_at = Timestamp(record.near_or_same(FINISHED_AT, number)?);
    Ok(Outcome {
        end: end_of(end)?,
        changed_at: Timestamp(record.near_or_same(FINAL_CHANGED_AT, finished_at.0)?),
        finished_at,
        kept_bytes: record.number_or_zero(KEPT_BYTES)?,
        has_result: record.flag(HAS_RESULT)?,
        payload_kept: record.flag(PAYLOAD_KEPT)?,
        outgoing: record.bytes(OUTGOING)?.map(decode_outgoing).transpose()?.map(Box::new),
    })
}

fn decode_extras(record: &mut Record<'_>, number: u64) -> Result<Option<Box<Extras>>, DecodeError> {
    let extras = Extras {
        max_attempts: record.number(MAX_ATTEMPTS)?.map(|_| record.small(MAX_ATTEMPTS)).transpose()?,
        dead_timeout: record.number(DEAD_TIMEOUT)?.map(Span),
        address: record.text(ADDRESS)?,
        origin: record.bytes(ORIGIN)?.map(decode_origin).transpose()?.map(Box::new),
        cron: record.bytes(CRON_RUN)?.map(decode_run).transpose()?.map(Box::new),
        moved_to: record.bytes(MOVED_TO)?.map(decode_moved_to).transpose()?.map(Box::new),
        last_lease: decode_last_lease(record, number)?,
        changed_at: record.near(CHANGED_AT, number)?.map(Timestamp),
        attempts_logged: record.small(ATTEMPTS_LOGGED)?,
        attempt_bytes: record.small(ATTEMPT_BYTES)?,
        error_attempt: record.small(ERROR_ATTEMPT)?,
        error: decode_error(record)?,
        facts_bytes: record.number_or_zero(FACTS_BYTES)?,
        event_count: record.number_or_zero(EVENT_COUNT)?,
        event_bytes: record.number_or_zero(EVENT_BYTES)?,
        has_input: record.flag(HAS_INPUT)?,
        header_hashes: ItemHashes::from(&*record.fixed(HEADER_HASHES)?.unwrap_or_default()),
        payload_lost: record.flag(PAYLOAD_LOST)?,
        unknown: std::mem::take(&mut record.unknown).into(),
    };
    Ok((extras != Extras::default()).then(|| Box::new(extras)))
}

fn decode_last_lease(record: &Record<'_>, number: u64) -> Result<Option<LastLease>, DecodeError> {
    let Some(permit) = record.near(LAST_PERMIT, number)? else { return Ok(None) };
    Ok(Some(LastLease {
        permit: Permit(permit),
        end: lease_end_of(record.number_or_zero(LAST_LEASE_END)?)?,
        client_id: record.text(LAST_CLIENT_ID)?.unwrap_or_else(|| Arc::from("")),
        leased_at: Timestamp(record.near_or_same(LAST_LEASED_AT, permit)?),
    }))
}

fn decode_error(record: &Record<'_>) -> Result<Option<ItemError>, DecodeError> {
    let Some(message) = record.text(ERROR_MESSAGE)? else { return Ok(None) };
    Ok(Some(ItemError { code: record.text(ERROR_CODE)?, message }))
}

fn end_code(end: End) -> u64 {
    match end {
        End::Completed => 0,
        End::Failed => 1,
        End::Cancelled => 2,
        End::Expired => 3,
    }
}

fn end_of(code: u64) -> Result<End, DecodeError> {
    match code {
        0 => Ok(End::Completed),
        1 => Ok(End::Failed),
        2 => Ok(End::Cancelled),
        3 => Ok(End::Expired),
        _ => Err(DecodeError::new(END, "is an end that this version does not know")),
    }
}

fn lease_end_code(end: LeaseEnd) -> u64 {
    match end {
        LeaseEnd::Expired => 0,
        LeaseEnd::Revoked => 1,
        LeaseEnd::Cancelled => 2,
        LeaseEnd::Completed => 3,
        LeaseEnd::Retried => 4,
        LeaseEnd::Released => 5,
        LeaseEnd::Suspended => 6,
    }
}

fn lease_end_of(code: u64) -> Result<LeaseEnd, DecodeError> {
    match code {
        0 => Ok(LeaseEnd::Expired),
        1 => Ok(LeaseEnd::Revoked),
        2 => Ok(LeaseEnd::Cancelled),
        3 => Ok(LeaseEnd::Completed),
        4 => Ok(LeaseEnd::Retried),
        5 => Ok(LeaseEnd::Released),
        6 => Ok(LeaseEnd::Suspended),
        _ => Err(DecodeError::new(LAST_LEASE_END, "is an end that this version does not know")),
    }
}
