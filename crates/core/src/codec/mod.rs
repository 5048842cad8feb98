//! Rows as bytes: tagged fields, so that a version can add some and an older one carries them along.
//!
//! Decoding checks everything and never panics: the bytes may come from a damaged disk or from somebody else.
//! Field numbers and the codes of states are part of the disk format: never give one another meaning.

mod attempt;
mod cron;
mod event;
mod group;
mod intake;
mod item;
mod key;
mod moves;
mod once;
mod rule;
mod rule_key;
mod settings;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub(crate) use attempt::{decode as decode_attempt, encode as encode_attempt};
pub use key::{decode_key, encode_key};
pub(crate) use once::{pack as pack_answers, unpack as unpack_answers};

use crate::id::{ItemNumber, NUMBER_MAX, PartitionId};
use crate::item::MoveNumber;
use crate::row::{Clearable, Cleared, Dropped, Key, Numbers, Partitions, Row, Stored, Taken};
use crate::time::Timestamp;
use crate::verbs::Arrived;
use wire::{Input, Record, at_distance, distance, put_bytes, put_unless_same, put_unless_zero, put_varint};

/// Why bytes are not a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    place: Place,
    problem: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Key,
    Row,
    Field(u8),
}

/// Appends the row without what its key says already.
pub fn encode_value(row: &Row, out: &mut Vec<u8>) {
    match row {
        Row::Item(item) => item::encode(item, out),
        Row::Numbers(numbers) => encode_numbers(numbers, out),
        Row::Settings(settings) => settings::encode(settings, out),
        Row::Cleared(cleared) => encode_cleared(cleared, out),
        Row::Taken(taken) => encode_taken(taken, out),
        Row::Once(once) => once::encode_once(once, out),
        Row::Group(group) => group::encode(group, out),
        Row::Intake(intake) => intake::encode(intake, out),
        Row::Events(batch) => event::encode(batch, out),
        Row::Queue(queue) => settings::encode_queue(queue, out),
        Row::Partitions(partitions) => encode_partitions(partitions, out),
        Row::Rules(rules) => rule::encode_version(rules, out),
        Row::Rule(rule) => rule::encode(rule, out),
        Row::Cron(cron) => cron::encode(cron, out),
        Row::CronHome(home) => cron::encode_home(home, out),
        Row::Dropped(dropped) => out.extend_from_slice(&dropped.unknown),
    }
}

pub fn decode_row(key: &[u8], value: &[u8]) -> Result<Row, DecodeError> {
    match decode_key(key)? {
        Key::Item(number) => item::decode(number, value).map(Row::Item),
        Key::Numbers => decode_numbers(value).map(Row::Numbers),
        Key::Settings => settings::decode(value).map(Row::Settings),
        Key::Cleared => decode_cleared(value).map(Row::Cleared),
        Key::Taken(source) => decode_taken(source, value).map(Row::Taken),
        Key::Once(key) => once::decode_once(key, value).map(|once| Row::Once(Box::new(once))),
        Key::Group(number) => group::decode(number, value).map(|group| Row::Group(Box::new(group))),
        Key::Intake => intake::decode(value).map(|intake| Row::Intake(Box::new(intake))),
        Key::Events(item, Some(first_seq)) => event::decode(item, first_seq, value).map(Row::Events),
        Key::Events(_, None) => Err(DecodeError::key("is no row's")),
        Key::Queue(name) => settings::decode_queue(name, value).map(|queue| Row::Queue(Box::new(queue))),
        Key::Partitions => decode_partitions(value).map(Row::Partitions),
        Key::Rules(queue) => rule::decode_version(queue, value).map(Row::Rules),
        Key::Rule(key) => rule::decode(key, value).map(|rule| Row::Rule(Box::new(rule))),
        Key::Cron(name) => cron::decode(name, value).map(|cron| Row::Cron(Box::new(cron))),
        Key::CronHome(name) => cron::decode_home(name, value).map(|home| Row::CronHome(Box::new(home))),
        Key::Dropped(stored) => decode_dropped(stored, value).map(Row::Dropped),
    }
}

const NUMBERS_ITEM: u8 = 1;
const NUMBERS_PERMIT: u8 = 2;
const NUMBERS_MOVED: u8 = 3;

fn encode_numbers(numbers: &Numbers, out: &mut Vec<u8>) {
    put_unless_zero(out, NUMBERS_ITEM, numbers.item);
    put_unless_same(out, NUMBERS_PERMIT, numbers.permit, numbers.item);
    put_unless_zero(out, NUMBERS_MOVED, numbers.moved.0);
    out.extend_from_slice(&numbers.unknown);
}

fn decode_numbers(value: &[u8]) -> Result<Numbers, DecodeError> {
    let record = Record::read(value, NUMBERS_MOVED)?;
    let item = record.number_or_zero(NUMBERS_ITEM)?;
    let permit = record.near_or_same(NUMBERS_PERMIT, item)?;
    let moved = MoveNumber(record.number_or_zero(NUMBERS_MOVED)?);
    Ok(Numbers { item, permit, moved, unknown: record.unknown })
}

const TAKEN_LAST: u8 = 1;
const TAKEN_ITEMS: u8 = 2;
const TAKEN_TURNED_AWAY: u8 = 3;

fn encode_taken(taken: &Taken, out: &mut Vec<u8>) {
    let Arrived { last, items, turned_away } = &taken.arrived;
    put_unless_zero(out, TAKEN_LAST, last.0);
    if !items.is_empty() {
        put_bytes(out, TAKEN_ITEMS, &encode_arrived_items(*last, items));
    }
    if !turned_away.is_empty() {
        put_bytes(out, TAKEN_TURNED_AWAY, &encode_turned_away(*last, turned_away));
    }
    out.extend_from_slice(&taken.unknown);
}

fn decode_taken(source: PartitionId, value: &[u8]) -> Result<Taken, DecodeError> {
    let record = Record::read(value, TAKEN_TURNED_AWAY)?;
    let last = MoveNumber(record.number_or_zero(TAKEN_LAST)?);
    let items = decode_arrived_items(last, record.bytes(TAKEN_ITEMS)?.unwrap_or_default())?;
    let turned_away = decode_turned_away(last, record.bytes(TAKEN_TURNED_AWAY)?.unwrap_or_default())?;
    Ok(Taken { source, arrived: Arrived { last, items, turned_away }, unknown: record.unknown })
}

/// Each move with its item, as distances from the last move and from the move's own number.
fn encode_arrived_items(last: MoveNumber, items: &BTreeMap<MoveNumber, ItemNumber>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (moved, item) in items {
        put_varint(&mut bytes, distance(moved.0, last.0));
        put_varint(&mut bytes, distance(item.0, moved.0));
    }
    bytes
}

fn decode_arrived_items(
    last: MoveNumber,
    bytes: &[u8],
) -> Result<BTreeMap<MoveNumber, ItemNumber>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut items = BTreeMap::new();
    while !input.rest.is_empty() {
        let moved = at_distance(input.varint()?, last.0);
        let item = at_distance(input.varint()?, moved);
        if item > NUMBER_MAX {
            return Err(DecodeError::new(TAKEN_ITEMS, "holds no item's number"));
        }
        items.insert(MoveNumber(moved), ItemNumber(item));
    }
    Ok(items)
}

/// Each move as the distance from the last move.
fn encode_turned_away(last: MoveNumber, turned_away: &BTreeSet<MoveNumber>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for moved in turned_away {
        put_varint(&mut bytes, distance(moved.0, last.0));
    }
    bytes
}

fn decode_turned_away(last: MoveNumber, bytes: &[u8]) -> Result<BTreeSet<MoveNumber>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut turned_away = BTreeSet::new();
    while !input.rest.is_empty() {
        turned_away.insert(MoveNumber(at_distance(input.varint()?, last.0)));
    }
    Ok(turned_away)
}

type Times = BTreeMap<(Clearable, u32), Timestamp>;

const WAITING_BEFORE: u8 = 1;
const SCHEDULED_BEFORE: u8 = 2;
const LEASED_BEFORE: u8 = 3;
const CLEARED_TIMES: u8 = 4;
const SUSPENDED_BEFORE: u8 = 5;
/// As `CLEARED_TIMES`, without the times.
const CLEARED_KEEPS_ALL: u8 = 6;
/// Likewise.
const CLEARED_DROPS_PAYLOAD: u8 = 7;

fn encode_cleared(cleared: &Cleared, out: &mut Vec<u8>) {
    put_unless_zero(out, WAITING_BEFORE, cleared.waiting_before.into());
    put_unless_zero(out, SCHEDULED_BEFORE, cleared.scheduled_before.into());
    put_unless_zero(out, LEASED_BEFORE, cleared.leased_before.into());
    put_unless_zero(out, SUSPENDED_BEFORE, cleared.suspended_before.into());
    if !cleared.times.is_empty() {
        put_bytes(out, CLEARED_TIMES, &encode_times(&cleared.times));
    }
    if !cleared.keeps_all.is_empty() {
        put_bytes(out, CLEARED_KEEPS_ALL, &encode_eras(&cleared.keeps_all));
    }
    if !cleared.drops_payload.is_empty() {
        put_bytes(out, CLEARED_DROPS_PAYLOAD, &encode_eras(&cleared.drops_payload));
    }
    out.extend_from_slice(&cleared.unknown);
}

fn decode_cleared(value: &[u8]) -> Result<Cleared, DecodeError> {
    let record = Record::read(value, CLEARED_DROPS_PAYLOAD)?;
    let eras = |field| decode_eras(field, record.bytes(field)?.unwrap_or_default());
    Ok(Cleared {
        waiting_before: record.small(WAITING_BEFORE)?,
        scheduled_before: record.small(SCHEDULED_BEFORE)?,
        leased_before: record.small(LEASED_BEFORE)?,
        suspended_before: record.small(SUSPENDED_BEFORE)?,
        times: decode_times(record.bytes(CLEARED_TIMES)?.unwrap_or_default())?,
        keeps_all: eras(CLEARED_KEEPS_ALL)?,
        drops_payload: eras(CLEARED_DROPS_PAYLOAD)?,
        unknown: record.unknown,
    })
}

fn encode_times(times: &Times) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (&(which, era), at) in times {
        put_era(which, era, &mut bytes);
        put_varint(&mut bytes, at.0);
    }
    bytes
}

fn encode_eras(eras: &BTreeSet<(Clearable, u32)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    eras.iter().for_each(|&(which, era)| put_era(which, era, &mut bytes));
    bytes
}

fn put_era(which: Clearable, era: u32, out: &mut Vec<u8>) {
    let which = match which {
        Clearable::Waiting => 0,
        Clearable::Scheduled => 1,
        Clearable::Leased => 2,
        Clearable::Suspended => 3,
    };
    put_varint(out, which);
    put_varint(out, era.into());
}

fn decode_times(bytes: &[u8]) -> Result<Times, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut times = Times::new();
    while !input.rest.is_empty() {
        let era = take_era(CLEARED_TIMES, &mut input)?;
        times.insert(era, Timestamp(input.varint()?));
    }
    Ok(times)
}

fn decode_eras(field: u8, bytes: &[u8]) -> Result<BTreeSet<(Clearable, u32)>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut eras = BTreeSet::new();
    while !input.rest.is_empty() {
        eras.insert(take_era(field, &mut input)?);
    }
    Ok(eras)
}

fn take_era(field: u8, input: &mut Input<'_>) -> Result<(Clearable, u32), DecodeError> {
    let wrong = |problem| DecodeError::new(field, problem);
    let which = match input.varint()? {
        0 => Clearable::Waiting,
        1 => Clearable::Scheduled,
        2 => Clearable::Leased,
        3 => Clearable::Suspended,
        _ => return Err(wrong("has a state that this version does not know")),
    };
    let era = input.varint()?.try_into().map_err(|_| wrong("holds too large a number"))?;
    Ok((which, era))
}

const PARTITIONS_LAST: u8 = 1;

fn encode_partitions(partitions: &Partitions, out: &mut Vec<u8>) {
    put_unless_zero(out, PARTITIONS_LAST, partitions.last.into());
    out.extend_from_slice(&partitions.unknown);
}

fn decode_partitions(value: &[u8]) -> Result<Partitions, DecodeError> {
    let record = Record::read(value, PARTITIONS_LAST)?;
    Ok(Partitions { last: record.small(PARTITIONS_LAST)?, unknown: record.unknown })
}

/// No field is known: the key says everything.
fn decode_dropped(stored: Stored, value: &[u8]) -> Result<Dropped, DecodeError> {
    Ok(Dropped { stored, unknown: Record::read(value, 0)?.unknown })
}

impl DecodeError {
    const fn new(field: u8, problem: &'static str) -> Self {
        Self { place: Place::Field(field), problem }
    }

    const fn row(problem: &'static str) -> Self {
        Self { place: Place::Row, problem }
    }

    const fn key(problem: &'static str) -> Self {
        Self { place: Place::Key, problem }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Key => write!(f, "the row's key {}", self.problem),
            Place::Row => write!(f, "the row {}", self.problem),
            Place::Field(field) => write!(f, "field {field} of the row {}", self.problem),
        }
    }
}

impl std::error::Error for DecodeError {}
