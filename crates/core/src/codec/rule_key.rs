//! Keys of rules. Texts within them end before whatever could continue them, so that their bytes compare as they do: a
//! zero within is followed by 0xff, the one that ends a text by 0x00.

use std::sync::Arc;

use super::DecodeError;
use crate::row::{Key, QueueName};
use crate::rule::{RuleKey, Stop};

const VERSION: u8 = 0;
const RULE: u8 = 1;

const NONE: u8 = 0;
const SOME: u8 = 1;

const PAUSE: u8 = 0;
const BLOCK: u8 = 1;

pub(super) fn encode_version(queue: Option<&QueueName>, out: &mut Vec<u8>) {
    out.push(VERSION);
    encode_queue(queue, out);
}

pub(super) fn encode(key: &RuleKey, out: &mut Vec<u8>) {
    out.push(RULE);
    encode_queue(key.queue.as_ref(), out);
    match &key.kind {
        None => out.push(NONE),
        Some(kind) => {
            out.push(SOME);
            encode_text(kind, out);
        }
    }
    out.push(match key.stop {
        Stop::Pause => PAUSE,
        Stop::Block => BLOCK,
    });
}

/// Of what follows the tag.
pub(super) fn decode(bytes: &[u8]) -> Result<Key, DecodeError> {
    let mut rest = bytes;
    let key = match byte(&mut rest)? {
        VERSION => Key::Rules(decode_queue(&mut rest)?),
        RULE => {
            let queue = decode_queue(&mut rest)?;
            let kind = is_some(&mut rest)?.then(|| decode_text(&mut rest)).transpose()?;
            let stop = match byte(&mut rest)? {
                PAUSE => Stop::Pause,
                BLOCK => Stop::Block,
                _ => return Err(DecodeError::key("is of a rule that this version does not know")),
            };
            Key::Rule(RuleKey { queue, kind, stop })
        }
        _ => return Err(DecodeError::key("is of a kind that this version does not know")),
    };
    if rest.is_empty() { Ok(key) } else { Err(DecodeError::key("goes on after its end")) }
}

fn encode_queue(queue: Option<&QueueName>, out: &mut Vec<u8>) {
    match queue {
        None => out.push(NONE),
        Some(queue) => {
            out.push(SOME);
            encode_text(&queue.namespace, out);
            encode_text(&queue.name, out);
        }
    }
}

fn decode_queue(rest: &mut &[u8]) -> Result<Option<QueueName>, DecodeError> {
    if !is_some(rest)? {
        return Ok(None);
    }
    Ok(Some(QueueName { namespace: decode_text(rest)?, name: decode_text(rest)? }))
}

fn encode_text(text: &str, out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn decode_text(rest: &mut &[u8]) -> Result<Arc<str>, DecodeError> {
    let mut text = Vec::new();
    loop {
        match byte(rest)? {
            0 => match byte(rest)? {
                0 => break,
                0xff => text.push(0),
                _ => return Err(DecodeError::key("has a stray zero")),
            },
            other => text.push(other),
        }
    }
    str::from_utf8(&text).map(Arc::from).map_err(|_| DecodeError::key("is not UTF-8"))
}

fn is_some(rest: &mut &[u8]) -> Result<bool, DecodeError> {
    match byte(rest)? {
        NONE => Ok(false),
        SOME => Ok(true),
        _ => Err(DecodeError::key("is of a kind that this version does not know")),
    }
}

fn byte(rest: &mut &[u8]) -> Result<u8, DecodeError> {
    let (first, after) = rest.split_first().ok_or(DecodeError::key("ends too early"))?;
    *rest = after;
    Ok(*first)
}
