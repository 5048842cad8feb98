//! What a partition takes in, and what the registry knows of partitions that come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::DecodeError;
use super::wire::{Input, Record, put_bytes, put_unless_zero, put_varint};
use crate::id::PartitionId;
use crate::route::SlotSet;
use crate::row::{Intake, QueueName};

const VERSION: u8 = 1;
const CLOSED: u8 = 2;
const AT_HOME: u8 = 3;
const NAMESPACE: u8 = 4;
const QUEUE: u8 = 5;
const SHARES: u8 = 6;

pub(super) fn encode(intake: &Intake, out: &mut Vec<u8>) {
    put_unless_zero(out, VERSION, intake.version);
    put_unless_zero(out, CLOSED, intake.closed.into());
    if let Some(slots) = &intake.at_home {
        put_bytes(out, AT_HOME, &slots.to_bytes());
    }
    if let Some(QueueName { namespace, name }) = &intake.queue {
        put_bytes(out, NAMESPACE, namespace.as_bytes());
        put_bytes(out, QUEUE, name.as_bytes());
    }
    put_unless_zero(out, SHARES, intake.shares.into());
    out.extend_from_slice(&intake.unknown);
}

pub(super) fn decode(value: &[u8]) -> Result<Intake, DecodeError> {
    let record = Record::read(value, SHARES)?;
    let slots = |bytes| SlotSet::of_bytes(bytes).ok_or(DecodeError::new(AT_HOME, "is no set of slots"));
    Ok(Intake {
        version: record.number_or_zero(VERSION)?,
        closed: record.flag(CLOSED)?,
        at_home: record.bytes(AT_HOME)?.map(slots).transpose()?,
        queue: record
            .text(NAMESPACE)?
            .zip(record.text(QUEUE)?)
            .map(|(namespace, name)| QueueName { namespace, name }),
        shares: record.small(SHARES)?,
        unknown: record.unknown,
    })
}

pub(super) fn encode_draining(draining: &BTreeSet<PartitionId>) -> Vec<u8> {
    let mut bytes = Vec::new();
    draining.iter().for_each(|partition| put_varint(&mut bytes, partition.0.into()));
    bytes
}

/// Each with the length and the name of its store; 0 if that is the first of all.
pub(super) fn encode_retired(retired: &BTreeMap<PartitionId, Option<Arc<str>>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (partition, store) in retired {
        let store = store.as_deref().unwrap_or_default();
        put_varint(&mut bytes, partition.0.into());
        put_varint(&mut bytes, store.len() as u64);
        bytes.extend_from_slice(store.as_bytes());
    }
    bytes
}

pub(super) fn decode_retired(
    bytes: &[u8],
    wrong: DecodeError,
) -> Result<BTreeMap<PartitionId, Option<Arc<str>>>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut retired = BTreeMap::new();
    while !input.rest.is_empty() {
        let partition = input.varint()?.try_into().map_err(|_| wrong)?;
        let len = input.varint()?.try_into().map_err(|_| wrong)?;
        let (store, rest) = input.rest.split_at_checked(len).ok_or(wrong)?;
        let store = std::str::from_utf8(store).map_err(|_| wrong)?;
        retired.insert(PartitionId(partition), (!store.is_empty()).then(|| store.into()));
        input.rest = rest;
    }
    Ok(retired)
}

/// Each with one bit for each slot.
pub(super) fn encode_former(former: &BTreeMap<PartitionId, SlotSet>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (partition, slots) in former {
        put_varint(&mut bytes, partition.0.into());
        bytes.extend_from_slice(&slots.to_bytes());
    }
    bytes
}

pub(super) fn decode_former(
    bytes: &[u8],
    wrong: DecodeError,
) -> Result<BTreeMap<PartitionId, SlotSet>, DecodeError> {
    let mut input = Input { rest: bytes };
    let mut former = BTreeMap::new();
    while !input.rest.is_empty() {
        let partition = input.varint()?.try_into().map_err(|_| wrong)?;
        let (slots, rest) = input.rest.split_at_checked(SlotSet::BYTES).ok_or(wrong)?;
        former.insert(PartitionId(partition), SlotSet::of_bytes(slots).ok_or(wrong)?);
        input.rest = rest;
    }
    Ok(former)
}
