//! What is allowed: names, sizes and numbers. Edges check with these before they ask, so that a client is told the
//! field and the rule.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::headers::INDEXED_HEADERS_MAX;
use crate::id::ItemId;
use crate::item::{ItemError, Origin};
use crate::row::QueueName;
use crate::settings::{RetryPolicy, Settings};
use crate::time::{Span, Timestamp};
use crate::verbs::{ImportItem, LeaseItems, NewEnd, NewItem};

pub const NAME_CHARS_MAX: usize = 128;
pub const BATCH_MAX: usize = 1000;
pub const PARTITIONS_MAX: u32 = 1024;
/// Kinds that one lease may name.
pub const LEASE_KINDS_MAX: usize = 1000;
/// What a worker may say of a failed attempt. It is kept with the item, and written again with each of its states.
pub const ERROR_BYTES_MAX: usize = 4096;
pub const REFERENCE_BYTES_MAX: usize = 512;
pub const ADDRESS_BYTES_MAX: usize = 512;
pub const LEASE_TIMEOUT_MIN: Span = Span::from_millis(1);
pub const RETRY_FACTOR_MAX: f64 = 1000.0;
pub const IDEMPOTENCY_KEPT: Span = Span::from_secs(24 * 3600);
/// How much longer its row is there: while a repeat is on its way from the key's home to other partitions, none of them
/// may forget the call. Longer than any request lasts.
pub const IDEMPOTENCY_MARGIN: Span = Span::from_secs(3600);
/// Calls with an idempotency key that one partition remembers, and the bytes they may take.
pub const IDEMPOTENCY_KEYS_MAX: usize = 1_000_000;
pub const IDEMPOTENCY_BYTES_MAX: usize = 256 << 20;
/// Distinct kinds among the items of one partition, those kept after their end included.
pub const KINDS_MAX: usize = 10_000;
/// Groups of one partition, those included that are kept after their end: the oldest of them make room for new ones.
pub const GROUPS_MAX: usize = 100_000;
/// Rules of one queue, those on its kinds included.
pub const RULES_MAX: usize = 1000;
pub const RULE_REASON_BYTES_MAX: usize = 512;
/// The JSON text of a queue's `meta`.
pub const META_BYTES_MAX: usize = 64 << 10;
/// Crons of all queues together.
pub const CRONS_MAX: usize = 100_000;
/// Crons of one queue: deleting it removes their names in one commit.
pub const QUEUE_CRONS_MAX: usize = 10_000;

/// Events of one emit.
pub const EMIT_MAX: usize = 1000;
/// Events that are kept of one item, and the bytes of their payloads: the oldest go first.
pub const EVENTS_MAX: u64 = 10_000;
pub const EVENTS_BYTES_MAX: u64 = 16 << 20;
/// What a batch of events costs besides their payloads: rows, frames and places in memory; and each event in it: a frame
/// and its type. Counted in what a queue keeps of final items. Within an item the number of events is bound enough.
pub const EVENT_BATCH_OVERHEAD: u64 = 128;
pub const EVENT_OVERHEAD: u64 = 16;
/// What a worker may say of why an item is suspended. It is kept with the item.
pub const REASON_BYTES_MAX: usize = 512;

/// The longest `delay`: 36500 days, the longest duration of the API. No clock is so late that adding it overflows.
pub const DELAY_MAX: Span = Span::from_secs(36_500 * 24 * 3600);

/// How many queues a server takes, and how many partitions they may name together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryLimits {
    pub queues: usize,
    pub partitions: usize,
}

impl Default for RegistryLimits {
    fn default() -> Self {
        Self { queues: 100_000, partitions: 100_000 }
    }
}

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

/// For names of queues, groups and crons.
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

pub fn check_idempotency_key(key: &str) -> Result<(), Invalid> {
    check_label("idempotency_key", key)
}

pub fn check_batch(field: &'static str, len: usize) -> Result<(), Invalid> {
    const RANGE: RangeInclusive<usize> = 1..=BATCH_MAX;
    ensure(RANGE.contains(&len), field, "1 to 1000 items")
}

/// For the items of a call that names them in several lists.
pub fn check_named_once(ids: impl Iterator<Item = ItemId>) -> Result<(), Invalid> {
    let mut named = BTreeSet::new();
    let mut ids = ids;
    ensure(ids.all(|id| named.insert(id)), "items", "items that are named once")
}

pub fn check_partitions(partitions: u32) -> Result<(), Invalid> {
    ensure((1..=PARTITIONS_MAX).contains(&partitions), "partitions", "1 to 1024")
}

pub fn check_error(error: &ItemError) -> Result<(), Invalid> {
    if let Some(code) = &error.code {
        check_label("error.code", code)?;
    }
    let fits = error.message.len() <= ERROR_BYTES_MAX && !error.message.contains('\0');
    ensure(fits, "error.message", "at most 4096 bytes without U+0000")
}

/// The rules for a queue's settings.
pub fn check_queue_settings(name: &QueueName, settings: &Settings) -> Result<(), Invalid> {
    check_settings(settings)?;
    let Some(dead_queue) = &settings.dead_queue else { return Ok(()) };
    check_name("dead_queue", dead_queue)?;
    ensure(*dead_queue != name.name, "dead_queue", "another queue than the one it is for")
}

pub fn check_settings(settings: &Settings) -> Result<(), Invalid> {
    check_lease_timeout(settings.lease_timeout)?;
    check_retry_policy(&settings.retry)?;
    settings.reference.as_deref().map_or(Ok(()), check_reference)?;
    check_indexed_headers(&settings.indexed_headers)
}

fn check_retry_policy(retry: &RetryPolicy) -> Result<(), Invalid> {
    // Neither range holds what is no number.
    ensure((1.0..=RETRY_FACTOR_MAX).contains(&retry.factor), "retry.factor", "1 to 1000")?;
    ensure((0.0..=1.0).contains(&retry.jitter), "retry.jitter", "0 to 1")
}

pub fn check_indexed_headers(names: &[Arc<str>]) -> Result<(), Invalid> {
    let different = names.iter().collect::<BTreeSet<_>>().len() == names.len();
    ensure(different && names.len() <= INDEXED_HEADERS_MAX, "indexed_headers", "at most 8 different names")?;
    names.iter().try_for_each(|name| check_label("indexed_headers", name))
}

pub fn check_reference(reference: &str) -> Result<(), Invalid> {
    let fits = reference.len() <= REFERENCE_BYTES_MAX && !reference.contains('\0');
    ensure(fits, "reference", "at most 512 bytes without U+0000")
}

pub fn check_reason(reason: &str) -> Result<(), Invalid> {
    let fits = reason.len() <= REASON_BYTES_MAX && !reason.contains('\0');
    ensure(fits, "reason", "at most 512 bytes without U+0000")
}

/// For a queue's `meta`, which is known to be JSON.
pub fn check_meta(meta: &str) -> Result<(), Invalid> {
    let is_object = meta.trim_start().starts_with('{');
    ensure(is_object && meta.len() <= META_BYTES_MAX, "meta", "a JSON object of at most 65536 bytes")
}

/// For the type of an event: those that the server itself sends are nobody else's.
pub fn check_event_type(name: &str) -> Result<(), Invalid> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let fits = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed);
    ensure(fits, "type", "1 to 128 of A-Z a-z 0-9 . _ -")?;
    let reserved = ["snapshot", "state", "gap", "end", "input"];
    ensure(
        !reserved.contains(&name),
        "type",
        "another than snapshot, state, gap, end and input, which are the server's",
    )
}

pub fn check_emit(events: usize) -> Result<(), Invalid> {
    const RANGE: RangeInclusive<usize> = 1..=EMIT_MAX;
    ensure(RANGE.contains(&events), "events", "1 to 1000 events")
}

pub fn check_address(address: &str) -> Result<(), Invalid> {
    let fits = (1..=ADDRESS_BYTES_MAX).contains(&address.len()) && !address.contains('\0');
    ensure(fits, "address", "1 to 512 bytes without U+0000")
}

/// Both would have a home of their own, and an item can only be in one.
pub fn check_one_home(group: bool, address: bool, partitions: usize) -> Result<(), Invalid> {
    let rule = "unset where there is a `group`, in a queue of several partitions";
    ensure(!(group && address) || partitions <= 1, "address", rule)
}

/// For when a new item is due.
pub fn check_item_time(enqueue_at: Option<Timestamp>, delay: Option<Span>) -> Result<(), Invalid> {
    check_delay(delay, enqueue_at, "unset where there is an `enqueue_at`")
}

/// For when an item is tried again.
pub fn check_retry_time(retry_at: Option<Timestamp>, delay: Option<Span>) -> Result<(), Invalid> {
    check_delay(delay, retry_at, "unset where there is a `retry_at`")
}

fn check_delay(delay: Option<Span>, at: Option<Timestamp>, alone: &'static str) -> Result<(), Invalid> {
    let Some(delay) = delay else { return Ok(()) };
    ensure(at.is_none(), "delay", alone)?;
    ensure(delay <= DELAY_MAX, "delay", "at most 36500d")
}

pub fn check_lease_timeout(timeout: Span) -> Result<(), Invalid> {
    ensure(timeout >= LEASE_TIMEOUT_MIN, "lease_timeout", "at least 1ms")
}

pub fn check_lease(lease: &LeaseItems) -> Result<(), Invalid> {
    check_client_id(&lease.client_id)?;
    check_batch("batch_size", lease.batch_size)?;
    lease.lease_timeout.map_or(Ok(()), check_lease_timeout)?;
    let kinds = lease.filter.kinds.as_deref().unwrap_or_default();
    ensure(kinds.len() <= LEASE_KINDS_MAX, "kinds", "at most 1000 kinds")?;
    kinds.iter().try_for_each(|kind| check_kind(kind))
}

pub fn check_rule_reason(reason: &str) -> Result<(), Invalid> {
    let fits = reason.len() <= RULE_REASON_BYTES_MAX && !reason.contains('\0');
    ensure(fits, "reason", "at most 512 bytes without U+0000")
}

pub(crate) fn check_end(field: &'static str, end: Option<&NewEnd>) -> Result<(), Invalid> {
    let Some(end) = end else { return Ok(()) };
    check_kind(&end.item.kind)?;
    let alone = end.item.group.is_none() && end.item.address.is_none();
    ensure(alone, field, "an item without group and address")?;
    check_item_time(end.item.enqueue_at, end.item.delay)?;
    end.queue.as_deref().map_or(Ok(()), |queue| check_name("queue", queue))
}

pub(crate) fn check_cron_item(item: &NewItem) -> Result<(), Invalid> {
    check_kind(&item.kind)?;
    ensure(
        item.group.is_none() && item.enqueue_at.is_none(),
        "item",
        "one without `group` and `enqueue_at`",
    )?;
    check_item_time(None, item.delay)?;
    item.address.as_deref().map_or(Ok(()), check_address)
}

pub(crate) fn check_items(items: &[NewItem]) -> Result<(), Invalid> {
    check_batch("items", items.len())?;
    let mut checked = None;
    for item in items {
        // A batch is mostly of one kind.
        if !checked.is_some_and(|kind| Arc::ptr_eq(kind, &item.kind)) {
            check_kind(&item.kind)?;
            checked = Some(&item.kind);
        }
        check_item_time(item.enqueue_at, item.delay)?;
        item.address.as_deref().map_or(Ok(()), check_address)?;
    }
    Ok(())
}

pub(crate) fn check_imports(items: &[ImportItem]) -> Result<(), Invalid> {
    check_batch("items", items.len())?;
    items.iter().try_for_each(|item| {
        check_kind(&item.kind)?;
        item.address.as_deref().map_or(Ok(()), check_address)?;
        item.error.as_ref().map_or(Ok(()), check_error)?;
        item.started.as_ref().map_or(Ok(()), |(_, client_id)| check_client_id(client_id))?;
        item.cron.as_ref().map_or(Ok(()), |run| check_name("cron", &run.name))?;
        let suspended = item.suspended.as_deref();
        suspended.and_then(|suspension| suspension.reason.as_deref()).map_or(Ok(()), check_reason)?;
        item.origin.as_deref().map_or(Ok(()), check_origin)
    })
}

/// A redrive sends the item to where its origin says.
fn check_origin(origin: &Origin) -> Result<(), Invalid> {
    check_name("origin", &origin.queue)?;
    origin.address.as_deref().map_or(Ok(()), check_address)?;
    origin.error.as_ref().map_or(Ok(()), check_error)
}

fn check_label(field: &'static str, label: &str) -> Result<(), Invalid> {
    // A character has at most four bytes: no need to count those of a label that is far too long.
    let short = label.len() <= 4 * NAME_CHARS_MAX && (1..=NAME_CHARS_MAX).contains(&label.chars().count());
    ensure(short && !label.contains('\0'), field, "1 to 128 characters without U+0000")
}

fn ensure(holds: bool, field: &'static str, rule: &'static str) -> Result<(), Invalid> {
    if holds { Ok(()) } else { Err(Invalid { field, rule }) }
}
