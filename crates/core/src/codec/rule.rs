//! The values of rules and of their versions.

use super::DecodeError;
use super::wire::{Record, put_bytes, put_number, put_unless_zero};
use crate::row::QueueName;
use crate::rule::{Rule, RuleKey, RulesVersion};
use crate::time::Timestamp;

const CREATED_AT: u8 = 1;
const REASON: u8 = 2;
const UNTIL: u8 = 3;
const KNOWN_MAX: u8 = UNTIL;

const VERSION: u8 = 1;

pub(super) fn encode(rule: &Rule, out: &mut Vec<u8>) {
    put_unless_zero(out, CREATED_AT, rule.created_at.0);
    if let Some(reason) = &rule.reason {
        put_bytes(out, REASON, reason.as_bytes());
    }
    if let Some(until) = rule.until {
        put_number(out, UNTIL, until.0);
    }
    out.extend_from_slice(&rule.unknown);
}

pub(super) fn decode(key: RuleKey, value: &[u8]) -> Result<Rule, DecodeError> {
    let record = Record::read(value, KNOWN_MAX)?;
    Ok(Rule {
        key,
        reason: record.text(REASON)?,
        until: record.number(UNTIL)?.map(Timestamp),
        created_at: Timestamp(record.number_or_zero(CREATED_AT)?),
        unknown: record.unknown,
    })
}

pub(super) fn encode_version(rules: &RulesVersion, out: &mut Vec<u8>) {
    put_unless_zero(out, VERSION, rules.version);
    out.extend_from_slice(&rules.unknown);
}

pub(super) fn decode_version(queue: Option<QueueName>, value: &[u8]) -> Result<RulesVersion, DecodeError> {
    let record = Record::read(value, VERSION)?;
    Ok(RulesVersion { queue, version: record.number_or_zero(VERSION)?, unknown: record.unknown })
}
