//! Keys as bytes whose order is the order of the keys.

use std::sync::Arc;

use super::{DecodeError, rule_key};
use crate::cron::CronName;
use crate::id::{GroupNumber, ItemNumber, NUMBER_MAX, PartitionId};
use crate::row::{Key, QueueName, Stored};

const NUMBERS: u8 = 0;
const SETTINGS: u8 = 1;
const CLEARED: u8 = 2;
const PARTITIONS: u8 = 3;
const QUEUE: u8 = 4;
const ITEM: u8 = 5;
const TAKEN: u8 = 6;
const ONCE: u8 = 7;
const GROUP: u8 = 8;
const INTAKE: u8 = 9;
const RULE: u8 = 10;
/// The item's number, and the first event's unless all are meant.
const EVENTS: u8 = 12;
const CRON: u8 = 11;
const CRON_HOME: u8 = 13;
/// The partition's number, and the name of its store unless that is the first of all.
const DROPPED: u8 = 14;

// A namespace ends before whatever could continue it: a zero within is followed by 0xff, the one that ends it by 0x00.
const ZERO: [u8; 2] = [0, 0xff];
const END: [u8; 2] = [0, 0];

/// Appends the key. The bytes of two keys compare as the keys do.
pub fn encode_key(key: &Key, out: &mut Vec<u8>) {
    match key {
        Key::Numbers => out.push(NUMBERS),
        Key::Settings => out.push(SETTINGS),
        Key::Cleared => out.push(CLEARED),
        Key::Partitions => out.push(PARTITIONS),
        Key::Queue(name) => {
            out.push(QUEUE);
            encode_in_namespace(&name.namespace, &name.name, out);
        }
        Key::Item(number) => {
            out.push(ITEM);
            out.extend_from_slice(&number.0.to_be_bytes());
        }
        Key::Taken(source) => {
            out.push(TAKEN);
            out.extend_from_slice(&source.0.to_be_bytes());
        }
        Key::Once(key) => {
            out.push(ONCE);
            out.extend_from_slice(key.as_bytes());
        }
        Key::Group(number) => {
            out.push(GROUP);
            out.extend_from_slice(&number.0.to_be_bytes());
        }
        Key::Intake => out.push(INTAKE),
        Key::Rules(queue) => {
            out.push(RULE);
            rule_key::encode_version(queue.as_ref(), out);
        }
        Key::Rule(key) => {
            out.push(RULE);
            rule_key::encode(key, out);
        }
        Key::Events(item, first_seq) => {
            out.push(EVENTS);
            out.extend_from_slice(&item.0.to_be_bytes());
            if let Some(first_seq) = first_seq {
                out.extend_from_slice(&first_seq.to_be_bytes());
            }
        }
        Key::Cron(name) => {
            out.push(CRON);
            out.extend_from_slice(name.as_bytes());
        }
        Key::CronHome(CronName { namespace, name }) => {
            out.push(CRON_HOME);
            encode_in_namespace(namespace, name, out);
        }
        Key::Dropped(Stored { partition, store }) => {
            out.push(DROPPED);
            out.extend_from_slice(&partition.0.to_be_bytes());
            out.extend_from_slice(store.as_deref().unwrap_or_default().as_bytes());
        }
    }
}

pub fn decode_key(bytes: &[u8]) -> Result<Key, DecodeError> {
    let (&tag, rest) = bytes.split_first().ok_or(DecodeError::key("is empty"))?;
    match tag {
        NUMBERS => alone(Key::Numbers, rest),
        SETTINGS => alone(Key::Settings, rest),
        CLEARED => alone(Key::Cleared, rest),
        PARTITIONS => alone(Key::Partitions, rest),
        QUEUE => {
            let (namespace, name) = decode_in_namespace(rest)?;
            Ok(Key::Queue(QueueName { namespace, name }))
        }
        ITEM => decode_number(rest).map(|number| Key::Item(ItemNumber(number))),
        TAKEN => decode_partition(rest).map(Key::Taken),
        ONCE => text(rest).map(Key::Once),
        GROUP => decode_number(rest).map(|number| Key::Group(GroupNumber(number))),
        INTAKE => alone(Key::Intake, rest),
        RULE => rule_key::decode(rest),
        EVENTS => decode_events(rest),
        CRON => text(rest).map(Key::Cron),
        CRON_HOME => {
            let (namespace, name) = decode_in_namespace(rest)?;
            Ok(Key::CronHome(CronName { namespace, name }))
        }
        DROPPED => decode_stored(rest).map(Key::Dropped),
        _ => Err(DecodeError::key("is of a kind that this version does not know")),
    }
}

fn alone(key: Key, rest: &[u8]) -> Result<Key, DecodeError> {
    if rest.is_empty() { Ok(key) } else { Err(DecodeError::key("goes on after its end")) }
}

fn decode_number(bytes: &[u8]) -> Result<u64, DecodeError> {
    let number = bytes.try_into().map(u64::from_be_bytes);
    match number {
        Ok(number) if number <= NUMBER_MAX => Ok(number),
        Ok(_) | Err(_) => Err(DecodeError::key("holds no number of an item or group")),
    }
}

fn decode_events(bytes: &[u8]) -> Result<Key, DecodeError> {
    let Some((item, first_seq)) = bytes.split_at_checked(8) else {
        return Err(DecodeError::key("holds no item's number"));
    };
    let item = ItemNumber(decode_number(item)?);
    let first_seq = (!first_seq.is_empty()).then(|| decode_number(first_seq)).transpose()?;
    Ok(Key::Events(item, first_seq))
}

fn decode_partition(bytes: &[u8]) -> Result<PartitionId, DecodeError> {
    let number = bytes.try_into().map(u32::from_be_bytes);
    number.map(PartitionId).map_err(|_| DecodeError::key("holds no partition number"))
}

fn decode_stored(bytes: &[u8]) -> Result<Stored, DecodeError> {
    let Some((partition, store)) = bytes.split_at_checked(4) else {
        return Err(DecodeError::key("holds no partition number"));
    };
    let store = (!store.is_empty()).then(|| text(store)).transpose()?;
    Ok(Stored { partition: decode_partition(partition)?, store })
}

/// Appends a name after its namespace.
fn encode_in_namespace(namespace: &str, name: &str, out: &mut Vec<u8>) {
    for &byte in namespace.as_bytes() {
        if byte == 0 { out.extend_from_slice(&ZERO) } else { out.push(byte) }
    }
    out.extend_from_slice(&END);
    out.extend_from_slice(name.as_bytes());
}

/// A namespace, and the name after it.
fn decode_in_namespace(bytes: &[u8]) -> Result<(Arc<str>, Arc<str>), DecodeError> {
    let mut namespace = Vec::new();
    let mut rest = bytes;
    loop {
        let zero = rest.iter().position(|&byte| byte == 0);
        let (before, marked) = rest.split_at(zero.ok_or(DecodeError::key("has no end of the namespace"))?);
        namespace.extend_from_slice(before);
        if let Some(after) = marked.strip_prefix(&END) {
            return Ok((text(&namespace)?, text(after)?));
        }
        rest = marked.strip_prefix(&ZERO).ok_or(DecodeError::key("has a stray zero"))?;
        namespace.push(0);
    }
}

fn text(bytes: &[u8]) -> Result<Arc<str>, DecodeError> {
    str::from_utf8(bytes).map(Arc::from).map_err(|_| DecodeError::key("is not UTF-8"))
}
