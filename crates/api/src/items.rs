//! Requests and replies about items.

use std::collections::BTreeMap;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Failed;
use crate::payload::{Payload, base64_text, json_text};
use crate::time::{Span, Time};

/// An item to be produced.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewItem {
    /// The payload, one of three: any JSON value,
    #[prost(string, optional, tag = "1")]
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value")]
    pub json: Option<String>,
    /// or a text,
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utf8: Option<String>,
    /// or bytes as base64.
    #[prost(bytes = "bytes", optional, tag = "3")]
    #[serde(with = "base64_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub bytes: Option<Bytes>,
    /// What sort of work it is: `default` if unset. 1 to 128 characters.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// 0 to 255; 0 goes first, and is the default.
    #[prost(uint32, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Not before this time. In the past or unset: at once.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enqueue_at: Option<Time>,
    /// Its own limit instead of the queue's; 0 means none.
    #[prost(uint32, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// At most 512 bytes, shown with the item.
    #[prost(string, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// At most 32 entries and 4 KiB, shown with the item.
    #[prost(btree_map = "string, string", tag = "9")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct ProduceRequest {
    #[prost(string, tag = "1")]
    pub queue: String,
    /// How long the client will wait for the answer: 30s if unset, at most 15m.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<Span>,
    /// 1 to 1000. All of them become durable, or none.
    #[prost(message, repeated, tag = "3")]
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
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `waiting` or `scheduled`.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ProduceError>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProduceError {
    #[prost(string, tag = "1")]
    pub code: String,
    #[prost(string, tag = "2")]
    pub message: String,
    /// The item that is in the way, if one is.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "client_id", "batch_size"]))]
pub struct LeaseRequest {
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Who is asking: shown to operators. 1 to 128 characters.
    #[prost(string, tag = "2")]
    pub client_id: String,
    /// The most items to get: 1 to 1000.
    #[prost(uint32, tag = "3")]
    pub batch_size: u32,
    /// How long to wait for the first item: 30s if unset, at most 15m; `0s` answers at once.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
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
    pub max_priority: Option<u32>,
}

/// A list that can be unset, or set and empty: that is not the same.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(transparent)]
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
    /// The payload, one of three: any JSON value,
    #[prost(string, optional, tag = "1")]
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value")]
    pub json: Option<String>,
    /// or a text,
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utf8: Option<String>,
    /// or bytes as base64.
    #[prost(bytes = "bytes", optional, tag = "3")]
    #[serde(with = "base64_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub bytes: Option<Bytes>,
    #[prost(string, tag = "4")]
    pub id: String,
    /// The right to the item until `lease_deadline`: every later call for it carries it.
    #[prost(uint64, tag = "5")]
    pub permit: u64,
    #[prost(uint32, tag = "6")]
    pub partition: u32,
    #[prost(string, tag = "7")]
    pub kind: String,
    #[prost(uint32, tag = "8")]
    pub priority: u32,
    /// This one included.
    #[prost(uint32, tag = "9")]
    pub attempts: u32,
    #[prost(message, required, tag = "10")]
    pub lease_deadline: Time,
    #[prost(message, required, tag = "11")]
    pub created_at: Time,
    #[prost(string, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[prost(btree_map = "string, string", tag = "13")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// An item, and the permit to it.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "permit"]))]
pub struct Held {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(uint64, tag = "2")]
    pub permit: u64,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct CompleteRequest {
    #[prost(string, tag = "1")]
    pub queue: String,
    /// How long the client will wait for the answer: 30s if unset, at most 15m.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<Span>,
    #[prost(message, repeated, tag = "3")]
    pub items: Vec<Completion>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "permit"]))]
pub struct Completion {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(uint64, tag = "2")]
    pub permit: u64,
    /// Kept with the item for the retention of its queue.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompleteReply {
    /// How many.
    #[prost(uint64, tag = "1")]
    pub completed: u64,
    #[prost(message, repeated, tag = "2")]
    pub failed: Vec<Failed>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct RetryRequest {
    #[prost(string, tag = "1")]
    pub queue: String,
    #[prost(message, repeated, tag = "2")]
    pub items: Vec<Retry>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "permit"]))]
pub struct Retry {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(uint64, tag = "2")]
    pub permit: u64,
    /// When to try again: the queue's retry policy decides if unset. In the past: at once.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
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
pub struct ItemError {
    /// 1 to 128 characters.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// At most 4096 bytes.
    #[prost(string, tag = "2")]
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
    #[prost(message, repeated, tag = "3")]
    pub failed: Vec<Failed>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct ExtendRequest {
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Counted from now; the one each lease has if unset.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_timeout: Option<Span>,
    #[prost(message, repeated, tag = "3")]
    pub items: Vec<Held>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExtendReply {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<ExtendedItem>,
    #[prost(message, repeated, tag = "2")]
    pub failed: Vec<Failed>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExtendedItem {
    #[prost(string, tag = "1")]
    pub id: String,
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
    #[prost(string, tag = "1")]
    pub queue: String,
    #[prost(message, repeated, tag = "2")]
    pub items: Vec<Held>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReleaseReply {
    /// How many.
    #[prost(uint64, tag = "1")]
    pub released: u64,
    #[prost(message, repeated, tag = "2")]
    pub failed: Vec<Failed>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id"]))]
pub struct GetItemRequest {
    #[prost(string, tag = "1")]
    pub id: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id"]))]
pub struct CancelItemRequest {
    #[prost(string, tag = "1")]
    pub id: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ItemReply {
    #[prost(message, required, tag = "1")]
    pub item: Item,
}

/// An item as it is now.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Item {
    /// The payload, one of three: any JSON value,
    #[prost(string, optional, tag = "1")]
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value")]
    pub json: Option<String>,
    /// or a text,
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utf8: Option<String>,
    /// or bytes as base64.
    #[prost(bytes = "bytes", optional, tag = "3")]
    #[serde(with = "base64_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub bytes: Option<Bytes>,
    #[prost(string, tag = "4")]
    pub id: String,
    #[prost(string, tag = "5")]
    pub queue: String,
    #[prost(uint32, tag = "6")]
    pub partition: u32,
    /// `scheduled`, `waiting`, `leased`; and at the end `completed`, `failed`, `cancelled` or `expired`.
    #[prost(string, tag = "7")]
    pub state: String,
    #[prost(string, tag = "8")]
    pub kind: String,
    #[prost(uint32, tag = "9")]
    pub priority: u32,
    #[prost(uint32, tag = "10")]
    pub attempts: u32,
    /// 0 means no limit.
    #[prost(uint32, tag = "11")]
    pub max_attempts: u32,
    #[prost(message, required, tag = "12")]
    pub created_at: Time,
    #[prost(uint64, tag = "13")]
    pub event_count: u64,
    /// While scheduled: when it is due.
    #[prost(message, optional, tag = "14")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enqueue_at: Option<Time>,
    /// While leased, like the next four.
    #[prost(uint64, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<u64>,
    #[prost(string, optional, tag = "16")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[prost(message, optional, tag = "17")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased_at: Option<Time>,
    #[prost(message, optional, tag = "18")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_deadline: Option<Time>,
    #[prost(bool, optional, tag = "19")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested: Option<bool>,
    /// Once it has ended.
    #[prost(message, optional, tag = "20")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    #[prost(string, optional, tag = "21")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[prost(btree_map = "string, string", tag = "22")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[prost(message, optional, tag = "23")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ItemError>,
    #[prost(message, optional, tag = "24")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
}
