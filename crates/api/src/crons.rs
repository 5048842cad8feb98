//! Requests and replies about crons.

use std::collections::BTreeMap;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::items::ProducedItem;
use crate::payload::{base64_text, json_text};
use crate::time::{Span, Time};

/// What produces an item at each time of a schedule.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cron {
    /// Its name, which is one cron's of the whole server.
    #[prost(string, tag = "1")]
    pub cron: String,
    /// The name of the queue that it produces into.
    #[prost(string, tag = "2")]
    pub queue: String,
    /// When it runs, as it was written.
    #[prost(string, tag = "3")]
    pub schedule: String,
    /// Whose clocks the schedule goes by: a name of the IANA time zone database.
    #[prost(string, tag = "4")]
    pub timezone: String,
    /// What is produced each time.
    #[prost(message, required, tag = "5")]
    pub item: CronItem,
    /// What becomes of times that were missed by more than 5 s: `skip` (nothing), `one` (one item for all of them) or
    /// `all` (one for each).
    #[prost(string, tag = "6")]
    #[schemars(extend("enum" = ["skip", "one", "all"]))]
    pub catch_up: String,
    /// What becomes of a time that comes while the previous item is not final: `allow` (one more) or `skip` (nothing).
    #[prost(string, tag = "7")]
    #[schemars(extend("enum" = ["allow", "skip"]))]
    pub overlap: String,
    /// Whether it is stopped for now.
    #[prost(bool, tag = "8")]
    pub paused: bool,
    /// The next time of its schedule, also while it is paused; null if there is none.
    #[prost(message, optional, tag = "9")]
    pub next_at: Option<Time>,
    /// The last time of its schedule that ran; null if there is none.
    #[prost(message, optional, tag = "10")]
    pub last_at: Option<Time>,
    /// The next ten times of its schedule. Not in lists.
    #[prost(message, repeated, tag = "11")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next_times: Vec<Time>,
    /// When it was made: what `@every` counts from.
    #[prost(message, required, tag = "12")]
    pub created_at: Time,
}

/// What a cron produces: as an item in produce, without group and `enqueue_at`.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
pub struct CronItem {
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
    /// A name, 1 to 512 bytes: while an item that is not final has it in this queue, a time produces nothing.
    #[prost(string, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
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
    /// So long after the run that produces it.
    #[prost(message, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["cron", "queue", "schedule", "item"]))]
pub struct CreateCronRequest {
    /// The name of the cron: 1 to 128 of `A-Z a-z 0-9 . _ -`, and no other cron's of the server.
    #[prost(string, tag = "1")]
    pub cron: String,
    /// The name of the queue to produce into.
    #[prost(string, tag = "2")]
    pub queue: String,
    /// Five fields (minute, hour, day of the month, month, day of the week), six with the second first, `@hourly`,
    /// `@daily`, `@weekly`, `@monthly`, `@yearly`, or `@every` and a duration of at least 1s.
    #[prost(string, tag = "3")]
    #[schemars(length(max = 256))]
    pub schedule: String,
    /// Whose clocks the schedule goes by: a name of the IANA time zone database, `UTC` if unset.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("default" = "UTC"))]
    pub timezone: Option<String>,
    /// What is produced each time.
    #[prost(message, required, tag = "5")]
    pub item: CronItem,
    /// What becomes of times that were missed by more than 5 s: `skip` (nothing) if unset, `one` or `all`.
    #[prost(string, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["skip", "one", "all"], "default" = "skip"))]
    pub catch_up: Option<String>,
    /// What becomes of a time that comes while the previous item is not final: `allow` (one more) if unset, or `skip`.
    #[prost(string, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["allow", "skip"], "default" = "allow"))]
    pub overlap: Option<String>,
    /// A cron of that name is answered as it is, if its queue and every field given are the same; else it is `already_exists`.
    #[prost(bool, tag = "8")]
    pub exists_ok: bool,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["cron"]))]
pub struct UpdateCronRequest {
    /// The name of the cron.
    #[prost(string, tag = "1")]
    pub cron: String,
    /// A cron stays in its queue: if set, this must be that.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// When it runs from now on; as it was if unset, like all that follows.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub schedule: Option<String>,
    /// Whose clocks the schedule goes by.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub timezone: Option<String>,
    /// What is produced each time: all of it anew.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<CronItem>,
    /// What becomes of times that were missed by more than 5 s.
    #[prost(string, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["skip", "one", "all"]))]
    pub catch_up: Option<String>,
    /// What becomes of a time that comes while the previous item is not final.
    #[prost(string, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["allow", "skip"]))]
    pub overlap: Option<String>,
}

macro_rules! by_name {
    ($($request:ident)+) => {
        $(#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        #[schemars(extend("required" = ["cron"]))]
        pub struct $request {
            /// The name of the cron.
            #[prost(string, tag = "1")]
            pub cron: String,
        })+
    };
}

by_name! { CronInfoRequest DeleteCronRequest PauseCronRequest ResumeCronRequest TriggerCronRequest }

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CronReply {
    /// The cron as it is now.
    #[prost(message, required, tag = "1")]
    pub cron: Cron,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeleteCronReply {}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResumeCronReply {}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TriggerCronReply {
    /// What was produced.
    #[prost(message, required, tag = "1")]
    pub item: ProducedItem,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListCronsRequest {
    /// Begin after this name, also if it is gone by now.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub pivot: Option<String>,
    /// The most crons to get: 1 to 1000, 1000 if unset.
    #[prost(uint32, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListCronsReply {
    /// Of all queues, in the order of their names. A page may hold fewer than `limit`, for it is bounded in bytes too: only an
    /// empty one is the end.
    #[prost(message, repeated, tag = "1")]
    pub crons: Vec<Cron>,
}
