//! Wire values become the engine's, or a refusal that names the field and the rule.

use std::fmt;
use std::sync::{Arc, LazyLock};

use uuid::Uuid;
use windlass_api::json;
use windlass_api::payload::Payload;
use windlass_api::shape::HEADERS_MAX;
use windlass_api::{Code, Span as WireSpan, Time};
use windlass_core::id::{ItemId, ItemNumber, PartitionId, Permit};
use windlass_core::limits::{self, Invalid};
use windlass_core::row::QueueName;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::Held;

use super::error::Problem;
use super::wire::Encoding;

/// The only namespace so far. An `Arc`, so that no call allocates its name.
pub(super) static NAMESPACE: LazyLock<Arc<str>> = LazyLock::new(|| "default".into());
const HEADER_BYTES_MAX: usize = 4096;
const UUID_CHARS: usize = 36;
const LIST_MAX: u32 = 1000;
const REQUEST_TIMEOUT_DEFAULT: Span = Span::from_secs(30);
const REQUEST_TIMEOUT_MAX: Span = Span::from_secs(15 * 60);
/// For calls that do not say how long they will wait, and for what a lease does after its wait.
pub(super) const COMMIT_TIMEOUT: Span = Span::from_secs(30);
/// For what takes the longer the more there is in a queue.
pub(super) const WHOLE_QUEUE_TIMEOUT: Span = REQUEST_TIMEOUT_MAX;

pub(super) fn queue_name(name: &str) -> Result<QueueName, Problem> {
    queue_name_in("queue", name)
}

pub(super) fn queue_name_in(field: &'static str, name: &str) -> Result<QueueName, Problem> {
    limits::check_name(field, name)?;
    Ok(QueueName { namespace: Arc::clone(&NAMESPACE), name: name.into() })
}

pub(super) fn span(span: WireSpan) -> Span {
    Span::from_micros(span.as_micros())
}

/// A time before 1970 is as past as any other.
pub(super) fn moment(time: Time) -> Timestamp {
    Timestamp(u64::try_from(time.as_micros()).unwrap_or(0))
}

/// How long the client will wait. Zero is for calls that may answer at once with nothing.
pub(super) fn request_timeout(timeout: Option<WireSpan>, zero: bool) -> Result<Span, Problem> {
    request_timeout_in("", timeout, zero)
}

/// As [`request_timeout`], for a field within something.
pub(super) fn request_timeout_in(
    within: &str,
    timeout: Option<WireSpan>,
    zero: bool,
) -> Result<Span, Problem> {
    let timeout = timeout.map_or(REQUEST_TIMEOUT_DEFAULT, span);
    let enough = zero || timeout > Span::ZERO;
    if enough && timeout <= REQUEST_TIMEOUT_MAX {
        return Ok(timeout);
    }
    let rule = if zero { "at most 15m" } else { "more than 0s and at most 15m" };
    Err(Problem::invalid_in(within, Invalid { field: "request_timeout", rule }))
}

/// A UUID that is no item's stands for one that does not exist.
pub(super) fn item_id(field: impl fmt::Display, text: &str) -> Result<ItemId, Problem> {
    const NONE: ItemId = ItemId { number: ItemNumber(0), partition: PartitionId::REGISTRY };
    Ok(ItemId::from_uuid(uuid(field, text)?).unwrap_or(NONE))
}

/// Where a list by id begins: after any UUID, in its place among the ids. None is at the start.
pub(super) fn item_pivot(text: &str) -> Result<Option<ItemId>, Problem> {
    Ok(ItemId::not_after(uuid("pivot", text)?))
}

fn uuid(field: impl fmt::Display, text: &str) -> Result<Uuid, Problem> {
    let uuid = (text.len() == UUID_CHARS).then(|| Uuid::try_parse(text).ok()).flatten();
    uuid.ok_or_else(|| Problem::invalid(format!("`{field}` must be the id of an item, a UUID")))
}

/// How a request names one item.
#[derive(Clone)]
pub(super) enum ItemName {
    /// As it is known, and as the request gave it.
    Id(ItemId, String),
    Address(QueueName, Arc<str>),
}

pub(super) fn item_name(
    id: Option<String>,
    queue: Option<String>,
    at: Option<String>,
) -> Result<ItemName, Problem> {
    match (id, queue, at) {
        (Some(id), None, None) => Ok(ItemName::Id(item_id("id", &id)?, id)),
        (None, Some(queue), Some(at)) => Ok(ItemName::Address(queue_name(&queue)?, address("", at)?)),
        (_, _, _) => Err(Problem::invalid("either `id`, or both `queue` and `address`, must be set")),
    }
}

pub(super) fn group(within: impl fmt::Display, group: String) -> Result<Arc<str>, Problem> {
    limits::check_name("group", &group).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    Ok(group.into())
}

pub(super) fn address(within: impl fmt::Display, address: String) -> Result<Arc<str>, Problem> {
    limits::check_address(&address).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    Ok(address.into())
}

pub(super) fn idempotency_key(key: String) -> Result<Arc<str>, Problem> {
    limits::check_idempotency_key(&key)?;
    Ok(key.into())
}

/// An item and the permit that its caller has, in the fields `id` and `permit`.
pub(super) fn held(within: impl fmt::Display, id: &str, permit: u64) -> Result<Held, Problem> {
    let id = item_id(format_args!("{within}id"), id)?;
    // No lease is ever given the permit 0: in protobuf it stands for one that is missing.
    if permit == 0 {
        let missing = format!("`{within}permit` must be the number that came with the lease");
        return Err(Problem::invalid(missing));
    }
    Ok(Held { id, permit: Permit(permit) })
}

/// How many a page of a list may hold.
pub(super) fn list_limit(limit: Option<u32>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(LIST_MAX);
    let fits = (1..=LIST_MAX).contains(&limit);
    if fits { Ok(limit as usize) } else { Err(Problem::invalid("`limit` must be 1 to 1000")) }
}

pub(super) fn priority(field: impl fmt::Display, priority: u32) -> Result<u8, Problem> {
    u8::try_from(priority).map_err(|_| Problem::invalid(format!("`{field}` must be 0 to 255")))
}

/// Where a list by name begins: after any text that is no longer than a name.
pub(super) fn name_pivot(pivot: Option<String>) -> Result<Option<Arc<str>>, Problem> {
    pivot.as_deref().map_or(Ok(()), |pivot| short_text("pivot", pivot))?;
    Ok(pivot.map(Into::into))
}

/// The name of a store, which is there or not.
pub(super) fn store_name(store: Option<String>) -> Result<Option<Arc<str>>, Problem> {
    store.as_deref().map_or(Ok(()), |store| short_text("store", store))?;
    Ok(store.map(Into::into))
}

fn short_text(field: &str, text: &str) -> Result<(), Problem> {
    let fits = text.chars().count() <= limits::NAME_CHARS_MAX && !text.contains('\0');
    let refused = || Problem::invalid(format!("`{field}` must be at most 128 characters without U+0000"));
    if fits { Ok(()) } else { Err(refused()) }
}

/// For a text that is not used: every other text has rules of its own.
pub(super) fn no_nul(field: impl fmt::Display, text: &str) -> Result<(), Problem> {
    let refused = || Problem::invalid(format!("`{field}` must be without U+0000"));
    if text.contains('\0') { Err(refused()) } else { Ok(()) }
}

pub(super) fn text(field: impl fmt::Display, text: &str, bytes_max: usize) -> Result<(), Problem> {
    if text.len() <= bytes_max && !text.contains('\0') {
        return Ok(());
    }
    Err(Problem::invalid(format!("`{field}` must be at most {bytes_max} bytes without U+0000")))
}

pub(super) fn reference(within: impl fmt::Display, reference: &str) -> Result<(), Problem> {
    limits::check_reference(reference).map_err(|invalid| Problem::invalid_in(within, invalid))
}

pub(super) fn headers<'a>(
    within: impl fmt::Display,
    headers: impl ExactSizeIterator<Item = (&'a String, &'a String)>,
) -> Result<(), Problem> {
    let count = headers.len();
    let mut bytes = 0;
    for (name, value) in headers {
        text(format_args!("{within}headers"), name, HEADER_BYTES_MAX)?;
        text(format_args!("{within}headers"), value, HEADER_BYTES_MAX)?;
        bytes += name.len() + value.len();
    }
    let fits = count <= HEADERS_MAX && bytes <= HEADER_BYTES_MAX;
    if fits { Ok(()) } else { Err(too_many_headers(within)) }
}

pub(super) fn too_many_headers(within: impl fmt::Display) -> Problem {
    Problem::invalid(format!(
        "`{within}headers` must be at most {HEADERS_MAX} entries and {HEADER_BYTES_MAX} bytes"
    ))
}

/// A queue's `meta`: JSON null is none.
pub(super) fn meta(meta: String, rule: PayloadRule) -> Result<Option<Arc<str>>, Problem> {
    json("meta", &meta, rule.encoding)?;
    if meta.trim() == "null" {
        return Ok(None);
    }
    limits::check_meta(&meta)?;
    Ok(Some(meta.into()))
}

/// The text of a field that holds JSON. JSON within JSON was read already; within protobuf it may be any text.
fn json(field: impl fmt::Display, text: &str, encoding: Encoding) -> Result<(), Problem> {
    let read = match encoding {
        Encoding::Json => Ok(()),
        Encoding::Protobuf => serde_json::from_str::<&serde_json::value::RawValue>(text).map(drop),
    };
    read.map_err(|error| Problem::invalid(format!("`{field}` is not JSON: {error}")))?;
    json::check(text).map_err(|unreadable| {
        let instead = "put it into a text, or send a payload as `utf8` or `bytes`";
        Problem::invalid(format!("`{field}` has {unreadable}, at which many readers fail: {instead}"))
    })
}

/// What a payload is held to.
#[derive(Clone, Copy, Debug)]
pub(super) struct PayloadRule {
    pub(super) bytes_max: usize,
    pub(super) encoding: Encoding,
}

pub(super) fn payload(
    within: impl fmt::Display,
    payload: &Payload,
    rule: PayloadRule,
) -> Result<(), Problem> {
    let fields = [payload.json.is_some(), payload.utf8.is_some(), payload.bytes.is_some()];
    if fields.into_iter().filter(|set| *set).count() != 1 {
        let message =
            format!("`{within}json`, `{within}utf8`, `{within}bytes`: exactly one of them must be set");
        return Err(Problem::invalid(message));
    }
    let bytes = payload.as_bytes().len();
    if bytes > rule.bytes_max {
        let max = rule.bytes_max;
        let names = ["json", "utf8", "bytes"].into_iter().zip(fields);
        let field = names.filter(|(_, set)| *set).map(|(name, _)| name).next().unwrap_or_default();
        let message = format!("`{within}{field}` has {bytes} bytes: at most {max} are allowed");
        return Err(Problem::new(Code::TooLarge, message));
    }
    let text = payload.json.as_deref();
    text.map_or(Ok(()), |text| json(format_args!("{within}json"), text, rule.encoding))
}
