//! Requests and replies about the events of items, and the frames of their streams.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Failed;
use crate::items::Item;
use crate::payload::{base64_text, json_text};
use crate::time::Time;

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "permit", "events"]))]
pub struct EmitRequest {
    /// The item.
    #[prost(string, tag = "1")]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[prost(uint64, tag = "2")]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// Refused unless this is the number of the last event, so that sending again is safe.
    #[prost(uint64, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// 1 to 1000. They are numbered in the order given.
    #[prost(message, repeated, tag = "4")]
    #[schemars(length(min = 1, max = 1000))]
    pub events: Vec<NewEvent>,
}

/// An event to be emitted.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
pub struct NewEvent {
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
    /// What sort of event it is: 1 to 128 of A-Z a-z 0-9 . _ - and `message` if unset. `snapshot`, `state`, `gap`, `end` and
    /// `input` are the server's.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), extend("default" = "message"))]
    pub r#type: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EmitReply {
    /// The number of the first event of the request.
    #[prost(uint64, tag = "1")]
    pub first_seq: u64,
    /// The number of its last.
    #[prost(uint64, tag = "2")]
    pub last_seq: u64,
    /// Somebody wants the item cancelled: give it up.
    #[prost(bool, tag = "3")]
    pub cancel_requested: bool,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["mode"]))]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct CloseStreamsRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// `graceful`: what was emitted before is still delivered. `immediate`: nothing more but the end.
    #[prost(string, tag = "2")]
    #[schemars(extend("enum" = ["graceful", "immediate"]))]
    pub mode: String,
    /// The name of the queue that the address is of.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CloseStreamsReply {
    /// How many subscriptions were told to end.
    #[prost(uint64, tag = "1")]
    pub closed: u64,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct SuspendRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// 1 to 1000, each judged by itself.
    #[prost(message, repeated, tag = "2")]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Suspend>,
}

/// An item that cannot go on until somebody answers.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "permit"]))]
pub struct Suspend {
    /// The item.
    #[prost(string, tag = "1")]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[prost(uint64, tag = "2")]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// What it waits for: at most 512 bytes, shown with the item.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub reason: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SuspendReply {
    /// How many wait for an answer now.
    #[prost(uint64, tag = "1")]
    pub suspended: u64,
    /// Those that were refused, in the order given.
    #[prost(message, repeated, tag = "2")]
    pub failed: Vec<Failed>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = crate::rules_of_fields::at_most_one_payload)]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct ResumeItemRequest {
    /// The payload, if it is a JSON value: any, also null, with at most 128 levels of brackets, 1000 digits in a
    /// number, and no lone surrogate. The answer is at most one of `json`, `utf8` and `bytes`.
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
    /// The item. Either this or `queue` and `address` are set.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[prost(string, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[prost(string, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResumeItemReply {}

// The frames of a stream, as JSON after `data:`. They have no protobuf form.

/// `event: snapshot`: the item when the subscription began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotFrame {
    pub item: Item,
}

/// An event, under its own type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventFrame {
    pub seq: u64,
    pub r#type: String,
    pub at: Time,
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utf8: Option<String>,
    #[serde(with = "base64_text", skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
}

/// `event: state`: the item is in another state now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StateFrame {
    pub state: String,
    pub at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `event: gap`: the first and the last number of events that are not kept any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GapFrame {
    pub from: u64,
    pub to: u64,
}

/// `event: end`: the last frame. `reason` is `final`, `closed` or `lagged`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndFrame {
    pub reason: String,
    pub state: String,
}
