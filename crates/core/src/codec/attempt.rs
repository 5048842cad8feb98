//! An attempt of an item, as a body.

use super::DecodeError;
use super::wire::{Record, put_bytes, put_number, put_unless_same, put_unless_zero};
use crate::attempt::{Attempt, AttemptEnd};
use crate::item::ItemError;
use crate::time::Timestamp;

const ATTEMPT: u8 = 1;
const CLIENT_ID: u8 = 2;
const LEASED_AT: u8 = 3;
const ENDED_AT: u8 = 4;
const END: u8 = 5;
const ERROR_MESSAGE: u8 = 6;
const ERROR_CODE: u8 = 7;

pub(crate) fn encode(attempt: &Attempt) -> Vec<u8> {
    let mut out = Vec::new();
    put_unless_zero(&mut out, ATTEMPT, attempt.attempt.into());
    put_bytes(&mut out, CLIENT_ID, attempt.client_id.as_bytes());
    put_number(&mut out, LEASED_AT, attempt.leased_at.0);
    put_unless_same(&mut out, ENDED_AT, attempt.ended_at.0, attempt.leased_at.0);
    put_unless_zero(&mut out, END, end_code(attempt.end));
    if let Some(error) = &attempt.error {
        put_bytes(&mut out, ERROR_MESSAGE, error.message.as_bytes());
        if let Some(code) = &error.code {
            put_bytes(&mut out, ERROR_CODE, code.as_bytes());
        }
    }
    out
}

pub(crate) fn decode(value: &[u8]) -> Result<Attempt, DecodeError> {
    // Fields of a newer version are left out: a body is never written again.
    let record = Record::read(value, ERROR_CODE)?;
    let leased_at = record.required_number(LEASED_AT)?;
    let error = |message| Ok(ItemError { code: record.text(ERROR_CODE)?, message });
    Ok(Attempt {
        attempt: record.small(ATTEMPT)?,
        client_id: record.text(CLIENT_ID)?.unwrap_or_else(|| "".into()),
        leased_at: Timestamp(leased_at),
        ended_at: Timestamp(record.near_or_same(ENDED_AT, leased_at)?),
        end: end_of(record.number_or_zero(END)?)?,
        error: record.text(ERROR_MESSAGE)?.map(error).transpose()?,
    })
}

fn end_code(end: AttemptEnd) -> u64 {
    match end {
        AttemptEnd::Retried => 0,
        AttemptEnd::Expired => 1,
        AttemptEnd::Revoked => 2,
        AttemptEnd::Dead => 3,
        AttemptEnd::Cancelled => 4,
    }
}

fn end_of(code: u64) -> Result<AttemptEnd, DecodeError> {
    match code {
        0 => Ok(AttemptEnd::Retried),
        1 => Ok(AttemptEnd::Expired),
        2 => Ok(AttemptEnd::Revoked),
        3 => Ok(AttemptEnd::Dead),
        4 => Ok(AttemptEnd::Cancelled),
        _ => Err(DecodeError::new(END, "is an end that this version does not know")),
    }
}
