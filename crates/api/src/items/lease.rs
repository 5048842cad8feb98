//! Leased items: how a worker gets them, and what it says of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_api_derive::{reply, request};

use super::item::Origin;
use crate::error::Failed;
use crate::payload::Payload;
use crate::time::{Span, Time};

#[request]
pub struct LeaseRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// Who is asking: shown to operators. 1 to 128 characters.
    #[field(2)]
    #[schemars(length(min = 1, max = 128))]
    pub client_id: String,
    /// The most items to get: 1 to 1000.
    #[field(3)]
    #[schemars(range(min = 1, max = 1000))]
    pub batch_size: u32,
    /// How long to wait for the first item: 30s if unset, at most 15m; `0s` answers at once.
    #[field(4)]
    #[schemars(extend("default" = "30s"))]
    pub request_timeout: Option<Span>,
    /// How long the items are the client's: the queue's if unset, at least 1ms.
    #[field(5)]
    pub lease_timeout: Option<Span>,
    /// Only these kinds; every kind if unset, and no work at all if empty.
    #[field(6)]
    pub kinds: Option<Kinds>,
    /// Only priorities up to this one, inclusive: 0 to 255.
    #[field(7)]
    #[schemars(range(max = 255))]
    pub max_priority: Option<u32>,
}

/// `Kinds`: a list of its own message, so that "unset" and "empty" differ in protobuf.
#[request(transparent)]
pub struct Kinds {
    /// Each 1 to 128 characters.
    #[field(1)]
    pub kinds: Vec<String>,
}

#[reply]
pub struct LeaseReply {
    /// Empty if there was nothing in the time given.
    #[field(1)]
    pub items: Vec<LeasedItem>,
}

/// An item in the hands of a worker.
#[reply]
pub struct LeasedItem {
    /// The payload, if it is a JSON value. What was produced as `json`, `utf8` or `bytes` is found there.
    #[field(1, json)]
    pub json: Option<String>,
    /// The payload, if it is a text.
    #[field(2)]
    pub utf8: Option<String>,
    /// The payload, if it is bytes: in JSON, base64 with padding.
    #[field(3)]
    pub bytes: Option<Bytes>,
    /// Its id, for as long as there is the item.
    #[field(4)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// The right to the item until `lease_deadline`, under 2^53: every later call for it carries it.
    #[field(5)]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// The partition that it is in.
    #[field(6)]
    pub partition: u32,
    /// What sort of work it is.
    #[field(7)]
    pub kind: String,
    /// 0 goes first.
    #[field(8)]
    #[schemars(range(max = 255))]
    pub priority: u32,
    /// This one included.
    #[field(9)]
    pub attempts: u32,
    /// When the item goes to somebody else, unless the lease is extended.
    #[field(10)]
    pub lease_deadline: Time,
    /// When it was produced.
    #[field(11)]
    pub created_at: Time,
    /// The address its producer gave it.
    #[field(14)]
    pub address: Option<String>,
    /// The group it is a member of.
    #[field(15)]
    pub group: Option<String>,
    /// The answer that it was resumed with, if it was suspended.
    #[field(16)]
    pub input: Option<Payload>,
    /// The number of its last event, if it has any.
    #[field(17)]
    pub event_count: Option<u64>,
    /// What its producer gave.
    #[field(12)]
    pub reference: Option<String>,
    /// What its producer gave.
    #[field(13, optional)]
    pub headers: BTreeMap<String, String>,
    /// How often it may be leased; 0 means no limit.
    #[field(18)]
    pub max_attempts: Option<u32>,
    /// What the attempt before this one left.
    #[field(19)]
    pub error: Option<ItemError>,
    /// Where it was moved here from, if it was.
    #[field(20)]
    pub origin: Option<Origin>,
    /// The cron that made it.
    #[field(21)]
    pub cron: Option<String>,
    /// With `cron`: the time of the schedule that it was made for; if it was triggered, the moment of that call.
    #[field(22)]
    pub scheduled_at: Option<Time>,
}

/// An item, and the permit to it.
#[request]
pub struct Held {
    /// The item.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[field(2)]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
}

#[request]
pub struct CompleteRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// How long the client will wait for the answer: 30s if unset, at most 15m.
    #[field(2)]
    #[schemars(extend("default" = "30s"))]
    pub request_timeout: Option<Span>,
    /// 1 to 1000, each judged by itself.
    #[field(3)]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Completion>,
}

/// An item that is done.
#[request]
pub struct Completion {
    /// The item.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[field(2)]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// Kept with the item for the retention of its queue.
    #[field(3)]
    pub result: Option<Payload>,
}

#[reply]
pub struct CompleteReply {
    /// How many are done.
    #[field(1)]
    pub completed: u64,
    /// Those that were refused, in the order given.
    #[field(2)]
    pub failed: Vec<Failed>,
}

#[request]
pub struct RetryRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// 1 to 1000, each judged by itself.
    #[field(2)]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Retry>,
}

/// An item whose attempt failed.
#[request]
#[schemars(transform = crate::rules_of_fields::retry_at_or_delay)]
pub struct Retry {
    /// The item.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[field(2)]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// When to try again: the queue's retry policy decides if unset. In the past: at once.
    #[field(3)]
    pub retry_at: Option<Time>,
    /// Try again so long after the server gets the call, instead of `retry_at`.
    #[field(6)]
    pub delay: Option<Span>,
    /// No further attempt, whatever is left.
    #[field(4)]
    pub dead: bool,
    /// What went wrong: kept with the item.
    #[field(5)]
    pub error: Option<ItemError>,
}

/// What a worker, or the server, says of a failed attempt.
#[request]
pub struct ItemError {
    /// A word for programs: 1 to 128 characters.
    #[field(1)]
    #[schemars(length(min = 1, max = 128))]
    pub code: Option<String>,
    /// For people: at most 4096 bytes.
    #[field(2)]
    #[schemars(length(max = 4096))]
    pub message: String,
}

#[reply]
pub struct RetryReply {
    /// How many will be tried again.
    #[field(1)]
    pub retried: u64,
    /// How many have failed for good.
    #[field(2)]
    pub dead: u64,
    /// Those that were refused, in the order given.
    #[field(3)]
    pub failed: Vec<Failed>,
}

#[request]
pub struct ExtendRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// Counted from now; the one each lease has if unset.
    #[field(2)]
    pub lease_timeout: Option<Span>,
    /// 1 to 1000, each judged by itself.
    #[field(3)]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Held>,
}

#[reply]
pub struct ExtendReply {
    /// Those that are the worker's for longer.
    #[field(1)]
    pub items: Vec<ExtendedItem>,
    /// Those that were refused, in the order given.
    #[field(2)]
    pub failed: Vec<Failed>,
}

/// An item that stays in the hands of its worker.
#[reply]
pub struct ExtendedItem {
    /// The item.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// The new one.
    #[field(2)]
    pub lease_deadline: Time,
    /// Somebody wants the item cancelled: give it up.
    #[field(3)]
    pub cancel_requested: bool,
}

#[request]
pub struct ReleaseRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// 1 to 1000, each judged by itself.
    #[field(2)]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Held>,
}

#[reply]
pub struct ReleaseReply {
    /// How many were given back.
    #[field(1)]
    pub released: u64,
    /// Those that were refused, in the order given.
    #[field(2)]
    pub failed: Vec<Failed>,
}
