//! Requests and replies about items.

use std::collections::BTreeMap;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Details, Failed};
use crate::payload::{Payload, base64_text, json_text};
use crate::time::{Span, Time};

/// An item to be produced.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
#[schemars(transform = crate::rules_of_fields::enqueue_at_or_delay)]
pub struct NewItem {
    /// The payload, if it is a JSON value: any, also null, with at most 128 levels of brackets, 1000 digits in a
    /// number, and no lone surrogate. Exactly one of `json`, `utf8` and `bytes` is set.
    #[prost(string, optional, tag = "1")]
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value")]
    pub json: Option<String>,
    /// The payload, if it is a text.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utf8: Option<String>,
    /// The payload, if it is bytes: base64 with padding.
    #[prost(bytes = "bytes", optional, tag = "3")]
    #[serde(with = "base64_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("contentEncoding" = "base64"))]
    pub bytes: Option<Bytes>,
    /// What sort of work it is: 1 to 128 characters, `default` if unset.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), extend("default" = "default"))]
    pub kind: Option<String>,
    /// 0 to 255; 0 goes first, and is what it is if unset.
    #[prost(uint32, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 255), extend("default" = 0))]
    pub priority: Option<u32>,
    /// Not before this time. In the past or unset: at once.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enqueue_at: Option<Time>,
    /// So long after the server gets the call, instead of `enqueue_at`.
    #[prost(message, optional, tag = "13")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Its own limit instead of the queue's; 0 means none.
    #[prost(uint32, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How old it may grow before it expires, instead of the queue's; `0s` means any age.
    #[prost(message, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_timeout: Option<Span>,
    /// A name of the producer's choosing, 1 to 512 bytes: no other item that is not final has it in this queue.
    #[prost(string, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// The group it is a member of: it is held until that is started. Not with `address` in a queue of several partitions.
    #[prost(string, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// At most 512 bytes, shown with the item.
    #[prost(string, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// At most 32 entries and 4 KiB, shown with the item.
    #[prost(btree_map = "string, string", tag = "9")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub headers: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct ProduceRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// How long the client will wait for the answer: 30s if unset, at most 15m.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "30s"))]
    pub request_timeout: Option<Span>,
    /// A name for this call, 1 to 128 characters: sent again under it within 24h, the call is not carried out again, and
    /// its first answer is given.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub idempotency_key: Option<String>,
    /// 1 to 1000. Those without group and address become durable together, or none of them.
    #[prost(message, repeated, tag = "3")]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<NewItem>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProduceReply {
    /// In the order given.
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<ProducedItem>,
}

/// What became of one item: it has an id and a state, or an error.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProducedItem {
    /// The id it has from now on.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// `waiting`; `scheduled` if it is due later; `held` if its group has not started.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["held", "scheduled", "waiting"]))]
    pub state: Option<String>,
    /// Why there is no such item.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ProduceError>,
}

/// Why one item was not produced.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProduceError {
    /// A word that programs can rely on.
    #[prost(string, tag = "1")]
    pub code: String,
    /// What was wrong and what to do.
    #[prost(string, tag = "2")]
    pub message: String,
    /// The item that is in the way, if one is.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// Only if there is something to tell.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "client_id", "batch_size"]))]
pub struct LeaseRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Who is asking: shown to operators. 1 to 128 characters.
    #[prost(string, tag = "2")]
    #[schemars(length(min = 1, max = 128))]
    pub client_id: String,
    /// The most items to get: 1 to 1000.
    #[prost(uint32, tag = "3")]
    #[schemars(range(min = 1, max = 1000))]
    pub batch_size: u32,
    /// How long to wait for the first item: 30s if unset, at most 15m; `0s` answers at once.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "30s"))]
    pub request_timeout: Option<Span>,
    /// How long the items are the client's: the queue's if unset, at least 1ms.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_timeout: Option<Span>,
    /// Only these kinds; every kind if unset, and no work at all if empty.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Kinds>,
    /// Only priorities up to this one, inclusive: 0 to 255.
    #[prost(uint32, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 255))]
    pub max_priority: Option<u32>,
}

/// A list that can be unset, or set and empty: that is not the same.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(transparent, inline)]
pub struct Kinds {
    #[prost(string, repeated, tag = "1")]
    pub kinds: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LeaseReply {
    /// Empty if there was nothing in the time given.
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<LeasedItem>,
}

/// An item in the hands of a worker.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LeasedItem {
    /// The payload, if it is a JSON value. What was produced as `json`, `utf8` or `bytes` is found there.
    #[prost(string, optional, tag = "1")]
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value")]
    pub json: Option<String>,
    /// The payload, if it is a text.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utf8: Option<String>,
    /// The payload, if it is bytes: base64 with padding.
    #[prost(bytes = "bytes", optional, tag = "3")]
    #[serde(with = "base64_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("contentEncoding" = "base64"))]
    pub bytes: Option<Bytes>,
    /// Its id, for as long as there is the item.
    #[prost(string, tag = "4")]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// The right to the item until `lease_deadline`, under 2^53: every later call for it carries it.
    #[prost(uint64, tag = "5")]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// The partition that it is in.
    #[prost(uint32, tag = "6")]
    pub partition: u32,
    /// What sort of work it is.
    #[prost(string, tag = "7")]
    pub kind: String,
    /// 0 goes first.
    #[prost(uint32, tag = "8")]
    #[schemars(range(max = 255))]
    pub priority: u32,
    /// This one included.
    #[prost(uint32, tag = "9")]
    pub attempts: u32,
    /// When the item goes to somebody else, unless the lease is extended.
    #[prost(message, required, tag = "10")]
    pub lease_deadline: Time,
    /// When it was produced.
    #[prost(message, required, tag = "11")]
    pub created_at: Time,
    /// The address its producer gave it.
    #[prost(string, optional, tag = "14")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The group it is a member of.
    #[prost(string, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The answer that it was resumed with, if it was suspended.
    #[prost(message, optional, tag = "16")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// The number of its last event, if it has any.
    #[prost(uint64, optional, tag = "17")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_count: Option<u64>,
    /// What its producer gave.
    #[prost(string, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its producer gave.
    #[prost(btree_map = "string, string", tag = "13")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// An item, and the permit to it.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "permit"]))]
pub struct Held {
    /// The item.
    #[prost(string, tag = "1")]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[prost(uint64, tag = "2")]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct CompleteRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// How long the client will wait for the answer: 30s if unset, at most 15m.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "30s"))]
    pub request_timeout: Option<Span>,
    /// 1 to 1000, each judged by itself.
    #[prost(message, repeated, tag = "3")]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Completion>,
}

/// An item that is done.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "permit"]))]
pub struct Completion {
    /// The item.
    #[prost(string, tag = "1")]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[prost(uint64, tag = "2")]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// Kept with the item for the retention of its queue.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompleteReply {
    /// How many are done.
    #[prost(uint64, tag = "1")]
    pub completed: u64,
    /// Those that were refused, in the order given.
    #[prost(message, repeated, tag = "2")]
    pub failed: Vec<Failed>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct RetryRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// 1 to 1000, each judged by itself.
    #[prost(message, repeated, tag = "2")]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Retry>,
}

/// An item whose attempt failed.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "permit"]), transform = crate::rules_of_fields::retry_at_or_delay)]
pub struct Retry {
    /// The item.
    #[prost(string, tag = "1")]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[prost(uint64, tag = "2")]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// When to try again: the queue's retry policy decides if unset. In the past: at once.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// Try again so long after the server gets the call, instead of `retry_at`.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// No further attempt, whatever is left.
    #[prost(bool, tag = "4")]
    pub dead: bool,
    /// What went wrong: kept with the item.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ItemError>,
}

/// What a worker, or the server, says of a failed attempt.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["message"]))]
pub struct ItemError {
    /// A word for programs: 1 to 128 characters.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub code: Option<String>,
    /// For people: at most 4096 bytes.
    #[prost(string, tag = "2")]
    #[schemars(length(max = 4096))]
    pub message: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RetryReply {
    /// How many will be tried again.
    #[prost(uint64, tag = "1")]
    pub retried: u64,
    /// How many have failed for good.
    #[prost(uint64, tag = "2")]
    pub dead: u64,
    /// Those that were refused, in the order given.
    #[prost(message, repeated, tag = "3")]
    pub failed: Vec<Failed>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct ExtendRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Counted from now; the one each lease has if unset.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_timeout: Option<Span>,
    /// 1 to 1000, each judged by itself.
    #[prost(message, repeated, tag = "3")]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Held>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExtendReply {
    /// Those that are the worker's for longer.
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<ExtendedItem>,
    /// Those that were refused, in the order given.
    #[prost(message, repeated, tag = "2")]
    pub failed: Vec<Failed>,
}

/// An item that stays in the hands of its worker.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExtendedItem {
    /// The item.
    #[prost(string, tag = "1")]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// The new one.
    #[prost(message, required, tag = "2")]
    pub lease_deadline: Time,
    /// Somebody wants the item cancelled: give it up.
    #[prost(bool, tag = "3")]
    pub cancel_requested: bool,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct ReleaseRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// 1 to 1000, each judged by itself.
    #[prost(message, repeated, tag = "2")]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Held>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReleaseReply {
    /// How many were given back.
    #[prost(uint64, tag = "1")]
    pub released: u64,
    /// Those that were refused, in the order given.
    #[prost(message, repeated, tag = "2")]
    pub failed: Vec<Failed>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct GetItemRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
}

impl GetItemRequest {
    pub fn of(id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..Self::default() }
    }

    pub fn at(queue: impl Into<String>, address: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), address: Some(address.into()), ..Self::default() }
    }
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct CancelItemRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
}

impl CancelItemRequest {
    pub fn of(id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..Self::default() }
    }

    pub fn at(queue: impl Into<String>, address: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), address: Some(address.into()), ..Self::default() }
    }
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct WaitItemRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The item that has this address when the wait begins; if all that had it are final, the latest that is kept.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// How long to wait for its end: `30s` if unset, at most `15m`. `0s` answers at once.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<Span>,
}

impl WaitItemRequest {
    pub fn of(id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..Self::default() }
    }

    pub fn at(queue: impl Into<String>, address: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), address: Some(address.into()), ..Self::default() }
    }
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ItemReply {
    /// The item as it is now.
    #[prost(message, required, tag = "1")]
    pub item: Item,
}

/// An item as it is now.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Item {
    /// The payload, if it is a JSON value. An item that has ended has no payload any more.
    #[prost(string, optional, tag = "1")]
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value")]
    pub json: Option<String>,
    /// The payload, if it is a text.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utf8: Option<String>,
    /// The payload, if it is bytes: base64 with padding.
    #[prost(bytes = "bytes", optional, tag = "3")]
    #[serde(with = "base64_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("contentEncoding" = "base64"))]
    pub bytes: Option<Bytes>,
    /// Its id, for as long as there is the item.
    #[prost(string, tag = "4")]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// The name of its queue.
    #[prost(string, tag = "5")]
    pub queue: String,
    /// The partition that it is in.
    #[prost(uint32, tag = "6")]
    pub partition: u32,
    /// Live: `held`, `scheduled`, `waiting`, `leased`, `suspended`. Final: `completed`, `failed`, `cancelled`, `expired`.
    #[prost(string, tag = "7")]
    #[schemars(extend("enum" = ["held", "scheduled", "waiting", "leased", "suspended", "completed", "failed", "cancelled", "expired"]))]
    pub state: String,
    /// What sort of work it is.
    #[prost(string, tag = "8")]
    pub kind: String,
    /// 0 goes first.
    #[prost(uint32, tag = "9")]
    #[schemars(range(max = 255))]
    pub priority: u32,
    /// How often it was leased, releases not counted.
    #[prost(uint32, tag = "10")]
    pub attempts: u32,
    /// 0 means no limit.
    #[prost(uint32, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// When it was produced.
    #[prost(message, required, tag = "12")]
    pub created_at: Time,
    /// The number of its last event.
    #[prost(uint64, tag = "13")]
    pub event_count: u64,
    /// While scheduled: when it is due.
    #[prost(message, optional, tag = "14")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enqueue_at: Option<Time>,
    /// While leased: the right to the item.
    #[prost(uint64, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: Option<u64>,
    /// While leased: by whom.
    #[prost(string, optional, tag = "16")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// While leased: since when.
    #[prost(message, optional, tag = "17")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased_at: Option<Time>,
    /// While leased: until when, unless the lease is extended.
    #[prost(message, optional, tag = "18")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_deadline: Option<Time>,
    /// While leased: whether its worker was asked to give it up.
    #[prost(bool, optional, tag = "19")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested: Option<bool>,
    /// While suspended: what it waits for, if its worker said so.
    #[prost(string, optional, tag = "29")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Once final: since when.
    #[prost(message, optional, tag = "20")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The address its producer gave it.
    #[prost(string, optional, tag = "27")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The group it is a member of.
    #[prost(string, optional, tag = "28")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What its producer gave.
    #[prost(string, optional, tag = "21")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its producer gave.
    #[prost(btree_map = "string, string", tag = "22")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What the last failed attempt left.
    #[prost(message, optional, tag = "23")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ItemError>,
    /// What its worker gave with the completion.
    #[prost(message, optional, tag = "24")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// How old it may grow, counted from `created_at`, before it expires; any age if unset.
    #[prost(message, optional, tag = "25")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_timeout: Option<Span>,
    /// Where it was moved here from, if it was.
    #[prost(message, optional, tag = "26")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Where an item was moved from, and why. There it has ended, here it is new.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "reason", "moved_at"]))]
pub struct Origin {
    /// The queue it was in.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Its id there.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// Its group there.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its address there.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// How often it was leased there.
    #[prost(uint32, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// `attempts` (they were used up), `dead` (a worker gave it up), `expired`, `redrive`, `group_end` or `group_abort`.
    #[prost(string, tag = "6")]
    #[schemars(extend("enum" = ["attempts", "dead", "expired", "redrive", "group_end", "group_abort"]))]
    pub reason: String,
    /// What it died of.
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ItemError>,
    /// When it left that queue.
    #[prost(message, required, tag = "8")]
    pub moved_at: Time,
}
