//! What is allowed: names, sizes and numbers. Edges check with these before they ask, so that a client is told the
//! field and the rule.

use std::fmt;
use std::ops::RangeInclusive;

use crate::row::QueueName;

pub const NAME_CHARS_MAX: usize = 128;
pub const BATCH_MAX: usize = 1000;
pub const PARTITIONS_MAX: u32 = 1024;
/// Distinct kinds among the items of one partition, those kept after their end included.
pub const KINDS_MAX: usize = 10_000;

/// A value that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The field's name in the API.
    pub field: &'static str,
    /// Completes the sentence "… must be".
    pub rule: &'static str,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` must be {}", self.field, self.rule)
    }
}

impl std::error::Error for Invalid {}

/// For names of queues, and later of groups and crons.
pub fn check_name(field: &'static str, name: &str) -> Result<(), Invalid> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let fits = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed);
    ensure(fits && name != "." && name != "..", field, "1 to 128 of A-Z a-z 0-9 . _ - and neither . nor ..")
}

pub fn check_queue_name(name: &QueueName) -> Result<(), Invalid> {
    check_name("namespace", &name.namespace)?;
    check_name("queue", &name.name)
}

pub fn check_kind(kind: &str) -> Result<(), Invalid> {
    check_label("kind", kind)
}

pub fn check_client_id(client_id: &str) -> Result<(), Invalid> {
    check_label("client_id", client_id)
}

pub fn check_batch(field: &'static str, len: usize) -> Result<(), Invalid> {
    const RANGE: RangeInclusive<usize> = 1..=BATCH_MAX;
    ensure(RANGE.contains(&len), field, "1 to 1000 items")
}

pub fn check_partitions(partitions: u32) -> Result<(), Invalid> {
    ensure((1..=PARTITIONS_MAX).contains(&partitions), "partitions", "1 to 1024")
}

fn check_label(field: &'static str, label: &str) -> Result<(), Invalid> {
    // A character has at most four bytes: no need to count those of a label that is far too long.
    let short = label.len() <= 4 * NAME_CHARS_MAX && (1..=NAME_CHARS_MAX).contains(&label.chars().count());
    ensure(short && !label.contains('\0'), field, "1 to 128 characters without U+0000")
}

fn ensure(holds: bool, field: &'static str, rule: &'static str) -> Result<(), Invalid> {
    if holds { Ok(()) } else { Err(Invalid { field, rule }) }
}
