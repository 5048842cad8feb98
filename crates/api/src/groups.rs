//! Requests and replies about groups.

use std::collections::BTreeMap;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::items::{NewItem, ProducedItem};
use crate::payload::{base64_text, json_text};
use crate::time::{Span, Time};

/// A group and its members.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Group {
    /// The name of the group.
    #[prost(string, tag = "1")]
    pub group: String,
    /// The name of the queue that it and its members are in.
    #[prost(string, tag = "2")]
    pub queue: String,
    /// `open` (its members are held), `started`, `done` (started, and no member is left), `cancelled` (leased members are
    /// still to finish) or `aborted` (cancelled, and no member is left).
    #[prost(string, tag = "3")]
    #[schemars(extend("enum" = ["open", "started", "done", "cancelled", "aborted"]))]
    pub state: String,
    /// All that ever were members, by the state they are in or ended in.
    #[prost(message, required, tag = "4")]
    pub members: Members,
    /// When it was made.
    #[prost(message, required, tag = "5")]
    pub created_at: Time,
    /// When it was done or aborted.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}

/// How many members are in each state.
#[derive(Clone, Copy, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Members {
    /// Waiting for the group to be started.
    #[prost(uint64, tag = "1")]
    pub held: u64,
    /// Due later.
    #[prost(uint64, tag = "2")]
    pub scheduled: u64,
    /// Ready to be leased.
    #[prost(uint64, tag = "3")]
    pub waiting: u64,
    /// In the hands of workers.
    #[prost(uint64, tag = "4")]
    pub leased: u64,
    /// Given up by their workers until somebody answers.
    #[prost(uint64, tag = "5")]
    pub suspended: u64,
    /// Done.
    #[prost(uint64, tag = "6")]
    pub completed: u64,
    /// Given up for good, those on their way to a dead queue included.
    #[prost(uint64, tag = "7")]
    pub failed: u64,
    /// Not wanted any more: cancelled, cleared or deleted.
    #[prost(uint64, tag = "8")]
    pub cancelled: u64,
    /// Older than their `dead_timeout`.
    #[prost(uint64, tag = "9")]
    pub expired: u64,
}

/// What is produced when a group is done or aborted: as an item in produce, without group and address.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
#[schemars(transform = crate::rules_of_fields::enqueue_at_or_delay)]
pub struct EndItem {
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
    /// Not before this time. Past by then or unset: at once.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enqueue_at: Option<Time>,
    /// So long after the end of the group, instead of `enqueue_at`.
    #[prost(message, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Its own limit instead of the queue's; 0 means none.
    #[prost(uint32, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
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
    /// How old it may grow before it expires, instead of the queue's; `0s` means any age.
    #[prost(message, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_timeout: Option<Span>,
    /// The queue it is produced into: the group's if unset. It must exist.
    #[prost(string, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "group"]))]
pub struct CreateGroupRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// The name of the group: 1 to 128 of `A-Z a-z 0-9 . _ -`, and no other group's in the queue.
    #[prost(string, tag = "2")]
    pub group: String,
    /// What is produced when the group is done.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<EndItem>,
    /// What is produced when the group was cancelled and the last member is gone.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort: Option<EndItem>,
    /// Its first members, at most 1000, as in produce. All of the call is done or nothing.
    #[prost(message, repeated, tag = "5")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub items: Vec<NewItem>,
    /// Start it at once.
    #[prost(bool, tag = "6")]
    pub start: bool,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CreateGroupReply {
    /// The group as it is now.
    #[prost(message, required, tag = "1")]
    pub group: Group,
    /// In the order given.
    #[prost(message, repeated, tag = "2")]
    pub items: Vec<ProducedItem>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "group"]))]
pub struct SetGroupEndRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// The name of the group.
    #[prost(string, tag = "2")]
    pub group: String,
    /// What is produced when the group is done; as it was if unset.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<EndItem>,
    /// What is produced when the group was cancelled and the last member is gone; as it was if unset.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort: Option<EndItem>,
}

macro_rules! by_name {
    ($($request:ident)+) => {
        $(#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        #[schemars(extend("required" = ["queue", "group"]))]
        pub struct $request {
            /// The name of the queue.
            #[prost(string, tag = "1")]
            pub queue: String,
            /// The name of the group.
            #[prost(string, tag = "2")]
            pub group: String,
        })+
    };
}

by_name! { StartGroupRequest CancelGroupRequest GroupInfoRequest DeleteGroupRequest }

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GroupReply {
    /// The group as it is now; one that was deleted as it was.
    #[prost(message, required, tag = "1")]
    pub group: Group,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue"]))]
pub struct ListGroupsRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Begin after this name, also if it is gone by now.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub pivot: Option<String>,
    /// The most groups to get: 1 to 1000, 1000 if unset.
    #[prost(uint32, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListGroupsReply {
    /// In the order of their names.
    #[prost(message, repeated, tag = "1")]
    pub groups: Vec<Group>,
}
