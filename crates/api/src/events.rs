//! Requests and replies about the events of items, and the frames of their streams.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_api_derive::{reply, request};

use crate::error::Failed;
use crate::items::{Item, MovedTo};
use crate::payload::{base64_text, json_text};
use crate::time::Time;

#[request]
pub struct EmitRequest {
    /// The item.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[field(2)]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// Refused unless this is the number of the last event, so that sending again is safe.
    #[field(3)]
    pub after: Option<u64>,
    /// 1 to 1000. They are numbered in the order given.
    #[field(4)]
    #[schemars(length(min = 1, max = 1000))]
    pub events: Vec<NewEvent>,
}

/// An event to be emitted.
#[request]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
pub struct NewEvent {
    /// The payload, if it is a JSON value: any, also null, with at most 128 levels of brackets, 1000 digits in a
    /// number, and no lone surrogate. Exactly one of `json`, `utf8` and `bytes` is set.
    #[field(1, json)]
    pub json: Option<String>,
    /// The payload, if it is a text.
    #[field(2)]
    pub utf8: Option<String>,
    /// The payload, if it is bytes: in JSON, base64 with padding.
    #[field(3)]
    pub bytes: Option<Bytes>,
    /// What sort of event it is: 1 to 128 of A-Z a-z 0-9 . _ - and `message` if unset. `snapshot`, `state`, `gap`, `end` and
    /// `input` are the server's.
    #[field(4)]
    #[schemars(length(min = 1, max = 128), extend("default" = "message"))]
    pub r#type: Option<String>,
}

#[reply]
pub struct EmitReply {
    /// The number of the first event of the request.
    #[field(1)]
    pub first_seq: u64,
    /// The number of its last.
    #[field(2)]
    pub last_seq: u64,
    /// Somebody wants the item cancelled: give it up.
    #[field(3)]
    pub cancel_requested: bool,
}

#[request]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct CloseStreamsRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// `graceful`: what was emitted before is still delivered. `immediate`: nothing more but the end.
    #[field(2)]
    #[schemars(extend("enum" = ["graceful", "immediate"]))]
    pub mode: String,
    /// The name of the queue that the address is of.
    #[field(3)]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[field(4)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
}

#[reply]
pub struct CloseStreamsReply {
    /// How many subscriptions were told to end.
    #[field(1)]
    pub closed: u64,
}

#[request]
pub struct SuspendRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// 1 to 1000, each judged by itself.
    #[field(2)]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Suspend>,
}

/// An item that cannot go on until somebody answers.
#[request]
pub struct Suspend {
    /// The item.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[field(2)]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// What it waits for: at most 512 bytes, shown with the item.
    #[field(3)]
    #[schemars(length(max = 512))]
    pub reason: Option<String>,
}

#[reply]
pub struct SuspendReply {
    /// How many wait for an answer now.
    #[field(1)]
    pub suspended: u64,
    /// Those that were refused, in the order given.
    #[field(2)]
    pub failed: Vec<Failed>,
}

#[request]
#[schemars(transform = crate::rules_of_fields::at_most_one_payload)]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct ResumeItemRequest {
    /// The payload, if it is a JSON value: any, also null, with at most 128 levels of brackets, 1000 digits in a
    /// number, and no lone surrogate. The answer is at most one of `json`, `utf8` and `bytes`.
    #[field(1, json)]
    pub json: Option<String>,
    /// The payload, if it is a text.
    #[field(2)]
    pub utf8: Option<String>,
    /// The payload, if it is bytes: in JSON, base64 with padding.
    #[field(3)]
    pub bytes: Option<Bytes>,
    /// The item. Either this or `queue` and `address` are set.
    #[field(4)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[field(5)]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[field(6)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
}

#[reply]
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
    /// The item that this one goes on as, if it was moved, redriven or rerun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<MovedTo>,
}
