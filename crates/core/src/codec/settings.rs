//! The values of settings and queues. Every field is written: a default may change with a version, what is stored not.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::DecodeError;
use super::intake::{decode_former, decode_retired, encode_draining, encode_former, encode_retired};
use super::wire::{
    Input, Record, put_bytes, put_float, put_number, put_unless_same, put_unless_zero, put_varint,
};
use crate::id::{ItemNumber, PartitionId};
use crate::limits::PARTITIONS_MAX;
use crate::route::{SLOTS, SlotMap};
use crate::row::{Queue, QueueName, StoreNames};
use crate::settings::{Keep, Requeue, RetainPayload, RetryPolicy, RetryStrategy, Settings};
use crate::time::{Span, Timestamp};

const VERSION: u8 = 1;
const LEASE_TIMEOUT: u8 = 2;
const MAX_ATTEMPTS: u8 = 3;
const RETRY_STRATEGY: u8 = 4;
const RETRY_INITIAL: u8 = 5;
const RETRY_FACTOR: u8 = 6;
const RETRY_MAX: u8 = 7;
const RETRY_JITTER: u8 = 8;
const REQUEUE: u8 = 9;
const RETENTION: u8 = 10;
const RETENTION_MAX_ITEMS: u8 = 11;
const RETENTION_MAX_BYTES: u8 = 12;
const REFERENCE: u8 = 13;
const MAX_ITEMS: u8 = 14;
const DEAD_TIMEOUT: u8 = 15;
const DEAD_QUEUE: u8 = 16;
const RETAIN_PAYLOAD: u8 = 17;
const KEEP: u8 = 18;
const INDEXED_HEADERS: u8 = 19;
const INDEXED_SINCE: u8 = 20;
const SETTINGS_KNOWN_MAX: u8 = INDEXED_SINCE;

const QUEUE_SETTINGS: u8 = 1;
const QUEUE_PARTITIONS: u8 = 2;
const QUEUE_STORES: u8 = 3;
const QUEUE_SLOTS: u8 = 4;
const QUEUE_ROUTE_VERSION: u8 = 5;
const QUEUE_DRAINING: u8 = 6;
const QUEUE_RETIRED: u8 = 7;
const QUEUE_FORMER: u8 = 8;
const QUEUE_CREATED_AT: u8 = 9;
/// Not written while it is the same as `QUEUE_CREATED_AT`.
const QUEUE_UPDATED_AT: u8 = 10;
const QUEUE_META: u8 = 11;
const QUEUE_KNOWN_MAX: u8 = QUEUE_META;

pub(super) fn encode(settings: &Settings, out: &mut Vec<u8>) {
    put_unless_zero(out, VERSION, settings.version);
    put_unless_zero(out, LEASE_TIMEOUT, settings.lease_timeout.0);
    put_unless_zero(out, MAX_ATTEMPTS, settings.max_attempts.into());
    put_unless_zero(out, RETRY_STRATEGY, strategy_code(settings.retry.strategy));
    put_unless_zero(out, RETRY_INITIAL, settings.retry.initial.0);
    put_float(out, RETRY_FACTOR, settings.retry.factor);
    put_unless_zero(out, RETRY_MAX, settings.retry.max.0);
    put_float(out, RETRY_JITTER, settings.retry.jitter);
    put_unless_zero(out, REQUEUE, requeue_code(settings.requeue));
    put_unless_zero(out, RETENTION, settings.retention.0);
    put_unless_zero(out, RETENTION_MAX_ITEMS, settings.retention_max_items);
    put_unless_zero(out, RETENTION_MAX_BYTES, settings.retention_max_bytes);
    if let Some(reference) = &settings.reference {
        put_bytes(out, REFERENCE, reference.as_bytes());
    }
    put_unless_zero(out, MAX_ITEMS, settings.max_items);
    put_unless_zero(out, DEAD_TIMEOUT, settings.dead_timeout.0);
    if let Some(dead_queue) = &settings.dead_queue {
        put_bytes(out, DEAD_QUEUE, dead_queue.as_bytes());
    }
    put_unless_zero(out, RETAIN_PAYLOAD, retain_payload_code(settings.retain_payload));
    put_unless_zero(out, KEEP, keep_code(settings.keep));
    if !settings.indexed_headers.is_empty() {
        let mut names = Vec::new();
        settings.indexed_headers.iter().for_each(|name| put_name(&mut names, name));
        put_bytes(out, INDEXED_HEADERS, &names);
    }
    if !settings.indexed_since.is_empty() {
        let mut since = Vec::new();
        for (name, number) in &settings.indexed_since {
            put_name(&mut since, name);
            put_varint(&mut since, number.0);
        }
        put_bytes(out, INDEXED_SINCE, &since);
    }
    out.extend_from_slice(&settings.unknown);
}

pub(super) fn decode(value: &[u8]) -> Result<Settings, DecodeError> {
    let record = Record::read(value, SETTINGS_KNOWN_MAX)?;
    Ok(Settings {
        version: record.number_or_zero(VERSION)?,
        lease_timeout: Span(record.number_or_zero(LEASE_TIMEOUT)?),
        max_attempts: record.small(MAX_ATTEMPTS)?,
        dead_timeout: Span(record.number_or_zero(DEAD_TIMEOUT)?),
        dead_queue: record.text(DEAD_QUEUE)?,
        retry: RetryPolicy {
            strategy: strategy_of(record.number_or_zero(RETRY_STRATEGY)?)?,
            initial: Span(record.number_or_zero(RETRY_INITIAL)?),
            factor: record.float(RETRY_FACTOR)?,
            max: Span(record.number_or_zero(RETRY_MAX)?),
            jitter: record.float(RETRY_JITTER)?,
        },
        requeue: requeue_of(record.number_or_zero(REQUEUE)?)?,
        retention: Span(record.number_or_zero(RETENTION)?),
        retention_max_items: record.number_or_zero(RETENTION_MAX_ITEMS)?,
        retention_max_bytes: record.number_or_zero(RETENTION_MAX_BYTES)?,
        retain_payload: retain_payload_of(record.number_or_zero(RETAIN_PAYLOAD)?)?,
        keep: keep_of(record.number_or_zero(KEEP)?)?,
        max_items: record.number_or_zero(MAX_ITEMS)?,
        reference: record.text(REFERENCE)?,
        indexed_headers: decode_names(record.bytes(INDEXED_HEADERS)?.unwrap_or_default())?,
        indexed_since: decode_since(record.bytes(INDEXED_SINCE)?.unwrap_or_default())?,
        unknown: record.unknown,
    })
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    put_varint(out, name.len() as u64);
    out.extend_from_slice(name.as_bytes());
}

fn take_name(input: &mut Input<'_>, wrong: DecodeError) -> Result<Arc<str>, DecodeError> {
    let len = usize::try_from(input.varint()?).ok();
    let (name, rest) = len.and_then(|len| input.rest.split_at_checked(len)).ok_or(wrong)?;
    input.rest = rest;
    std::str::from_utf8(name).map(Arc::from).map_err(|_| wrong)
}

fn decode_names(bytes: &[u8]) -> Result<Vec<Arc<str>>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut names = Vec::new();
    while !input.rest.is_empty() {
        names.push(take_name(&mut input, DecodeError::new(INDEXED_HEADERS, "is no list of names"))?);
    }
    Ok(names)
}

fn decode_since(bytes: &[u8]) -> Result<BTreeMap<Arc<str>, ItemNumber>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut since = BTreeMap::new();
    while !input.rest.is_empty() {
        let name = take_name(&mut input, DecodeError::new(INDEXED_SINCE, "is no list of names and numbers"))?;
        since.insert(name, ItemNumber(input.varint()?));
    }
    Ok(since)
}

pub(super) fn encode_queue(queue: &Queue, out: &mut Vec<u8>) {
    let mut nested = Vec::new();
    encode(&queue.settings, &mut nested);
    put_bytes(out, QUEUE_SETTINGS, &nested);
    nested.clear();
    for partition in &queue.partitions {
        put_varint(&mut nested, partition.0.into());
    }
    put_bytes(out, QUEUE_PARTITIONS, &nested);
    if !queue.stores.0.is_empty() {
        put_bytes(out, QUEUE_STORES, &encode_stores(&queue.stores));
    }
    if !queue.slots.0.is_empty() {
        put_bytes(out, QUEUE_SLOTS, &encode_slots(&queue.slots));
    }
    put_unless_zero(out, QUEUE_ROUTE_VERSION, queue.route_version);
    if !queue.draining.is_empty() {
        put_bytes(out, QUEUE_DRAINING, &encode_draining(&queue.draining));
    }
    if !queue.retired.is_empty() {
        put_bytes(out, QUEUE_RETIRED, &encode_retired(&queue.retired));
    }
    if !queue.former.is_empty() {
        put_bytes(out, QUEUE_FORMER, &encode_former(&queue.former));
    }
    put_number(out, QUEUE_CREATED_AT, queue.created_at.0);
    put_unless_same(out, QUEUE_UPDATED_AT, queue.updated_at.0, queue.created_at.0);
    if let Some(meta) = &queue.meta {
        put_bytes(out, QUEUE_META, meta.as_bytes());
    }
    out.extend_from_slice(&queue.unknown);
}

pub(super) fn decode_queue(name: QueueName, value: &[u8]) -> Result<Queue, DecodeError> {
    let record = Record::read(value, QUEUE_KNOWN_MAX)?;
    let wrong = |field| DecodeError::new(field, "is no list of partitions");
    let list = |field| record.bytes(field).map(Option::unwrap_or_default);
    let created_at = record.required_number(QUEUE_CREATED_AT)?;
    Ok(Queue {
        name,
        settings: decode(record.bytes(QUEUE_SETTINGS)?.unwrap_or_default())?,
        meta: record.text(QUEUE_META)?,
        created_at: Timestamp(created_at),
        updated_at: Timestamp(record.near_or_same(QUEUE_UPDATED_AT, created_at)?),
        partitions: decode_partitions(QUEUE_PARTITIONS, list(QUEUE_PARTITIONS)?)?,
        stores: decode_stores(list(QUEUE_STORES)?)?,
        slots: decode_slots(list(QUEUE_SLOTS)?)?,
        route_version: record.number_or_zero(QUEUE_ROUTE_VERSION)?,
        draining: decode_partitions(QUEUE_DRAINING, list(QUEUE_DRAINING)?)?.into_iter().collect(),
        retired: decode_retired(list(QUEUE_RETIRED)?, wrong(QUEUE_RETIRED))?,
        former: decode_former(list(QUEUE_FORMER)?, wrong(QUEUE_FORMER))?,
        unknown: record.unknown,
    })
}

fn decode_partitions(field: u8, bytes: &[u8]) -> Result<Vec<PartitionId>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut partitions = Vec::new();
    while !input.rest.is_empty() {
        let number = input.varint()?;
        let number = number.try_into().map_err(|_| DecodeError::new(field, "holds too large a number"))?;
        partitions.push(PartitionId(number));
    }
    Ok(partitions)
}

/// Each name once, with how many partitions in a row are in that store.
fn encode_stores(stores: &StoreNames) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in stores.0.chunk_by(|one, next| one == next) {
        put_varint(&mut bytes, run.len() as u64);
        put_varint(&mut bytes, run[0].len() as u64);
        bytes.extend_from_slice(run[0].as_bytes());
    }
    bytes
}

fn decode_stores(bytes: &[u8]) -> Result<StoreNames, DecodeError> {
    let wrong = || DecodeError::new(QUEUE_STORES, "is not a list of stores");
    let mut input = Input { rest: bytes };
    let mut stores = Vec::new();
    while !input.rest.is_empty() {
        let (run, len) = (input.varint()?, input.varint()?);
        let len = usize::try_from(len).ok().filter(|len| *len <= input.rest.len()).ok_or_else(wrong)?;
        let (name, rest) = input.rest.split_at(len);
        let name: Arc<str> = std::str::from_utf8(name).map_err(|_| wrong())?.into();
        // Read from a disk: no more than there can be partitions.
        let room = u64::from(PARTITIONS_MAX).saturating_sub(stores.len() as u64);
        stores.extend(std::iter::repeat_n(name, usize::try_from(run.min(room)).map_err(|_| wrong())?));
        input.rest = rest;
    }
    Ok(StoreNames(stores))
}

/// How many slots in a row are at home in which place of the list.
fn encode_slots(slots: &SlotMap) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in slots.0.chunk_by(|one, next| one == next) {
        put_varint(&mut bytes, run.len() as u64);
        put_varint(&mut bytes, run[0].into());
    }
    bytes
}

fn decode_slots(bytes: &[u8]) -> Result<SlotMap, DecodeError> {
    let wrong = || DecodeError::new(QUEUE_SLOTS, "is not a map of slots");
    let mut input = Input { rest: bytes };
    let mut slots = Vec::new();
    while !input.rest.is_empty() {
        let run = usize::try_from(input.varint()?).map_err(|_| wrong())?;
        let home: u16 = input.varint()?.try_into().map_err(|_| wrong())?;
        // Read from a disk: no more than there can be.
        slots.extend(std::iter::repeat_n(home, run.min(SLOTS - slots.len())));
    }
    Ok(SlotMap(slots))
}

fn strategy_code(strategy: RetryStrategy) -> u64 {
    match strategy {
        RetryStrategy::Exponential => 0,
        RetryStrategy::Fixed => 1,
    }
}

fn strategy_of(code: u64) -> Result<RetryStrategy, DecodeError> {
    match code {
        0 => Ok(RetryStrategy::Exponential),
        1 => Ok(RetryStrategy::Fixed),
        _ => Err(DecodeError::new(RETRY_STRATEGY, "is a strategy that this version does not know")),
    }
}

fn requeue_code(requeue: Requeue) -> u64 {
    match requeue {
        Requeue::Keep => 0,
        Requeue::Tail => 1,
    }
}

fn requeue_of(code: u64) -> Result<Requeue, DecodeError> {
    match code {
        0 => Ok(Requeue::Keep),
        1 => Ok(Requeue::Tail),
        _ => Err(DecodeError::new(REQUEUE, "is a place that this version does not know")),
    }
}

fn retain_payload_code(retain: RetainPayload) -> u64 {
    match retain {
        RetainPayload::Failed => 0,
        RetainPayload::All => 1,
        RetainPayload::None => 2,
    }
}

fn retain_payload_of(code: u64) -> Result<RetainPayload, DecodeError> {
    match code {
        0 => Ok(RetainPayload::Failed),
        1 => Ok(RetainPayload::All),
        2 => Ok(RetainPayload::None),
        _ => Err(DecodeError::new(RETAIN_PAYLOAD, "is a way that this version does not know")),
    }
}

fn keep_code(keep: Keep) -> u64 {
    match keep {
        Keep::Shown => 0,
        Keep::All => 1,
    }
}

fn keep_of(code: u64) -> Result<Keep, DecodeError> {
    match code {
        0 => Ok(Keep::Shown),
        1 => Ok(Keep::All),
        _ => Err(DecodeError::new(KEEP, "is a way that this version does not know")),
    }
}
