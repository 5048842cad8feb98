//! Requests and replies about queues.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::payload::json_text;
use crate::time::{Span, Time};

/// A queue and its settings.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Queue {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// How many partitions it has.
    #[prost(uint32, tag = "2")]
    pub partitions: u32,
    /// How long a lease lasts that asks for nothing else.
    #[prost(message, required, tag = "3")]
    pub lease_timeout: Span,
    /// How often an item is tried before it fails; 0 means no limit.
    #[prost(uint32, tag = "4")]
    pub max_attempts: u32,
    /// How old an item may grow, counted from its making, before it expires; `0s` means any age.
    #[prost(message, required, tag = "13")]
    pub dead_timeout: Span,
    /// The queue that items go to which fail or expire, if there is one.
    #[prost(string, optional, tag = "14")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_queue: Option<String>,
    /// How long a failed attempt waits for the next.
    #[prost(message, required, tag = "5")]
    pub retry: RetryPolicy,
    /// Where an item goes whose lease ended by its deadline or by retry: `keep` (its own place) or `tail`.
    #[prost(string, tag = "6")]
    #[schemars(extend("enum" = ["keep", "tail"]))]
    pub requeue: String,
    /// How long ended items are kept that have something to show.
    #[prost(message, required, tag = "7")]
    pub retention: Span,
    /// At this many of them, the oldest go first.
    #[prost(uint64, tag = "8")]
    pub retention_max_items: u64,
    /// At this many bytes of them, the oldest go first.
    #[prost(uint64, tag = "9")]
    pub retention_max_bytes: u64,
    /// The most items that have not ended; 0 means no limit.
    #[prost(uint64, tag = "10")]
    pub max_items: u64,
    /// At most 512 bytes, shown with the queue.
    #[prost(string, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// A JSON object of the owner, opaque to the server: in lists only if they ask for it.
    #[prost(string, optional, tag = "15")]
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value", extend("type" = "object"))]
    pub meta: Option<String>,
    /// When it was made.
    #[prost(message, required, tag = "16")]
    pub created_at: Time,
    /// When its settings or `meta` were last updated, at first `created_at`. A rebalance does not count.
    #[prost(message, required, tag = "17")]
    pub updated_at: Time,
    /// In lists that ask for it.
    #[prost(message, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// In lists that ask for counts.
    #[prost(message, optional, tag = "20")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
}

/// How long a failed attempt waits for the next.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RetryPolicy {
    /// `exponential` or `fixed`.
    #[prost(string, tag = "1")]
    #[schemars(extend("enum" = ["exponential", "fixed"]))]
    pub strategy: String,
    /// The first delay, and with `fixed` every one.
    #[prost(message, required, tag = "2")]
    pub initial: Span,
    /// What each delay is multiplied by for the next.
    #[prost(double, tag = "3")]
    pub factor: f64,
    /// No delay is longer.
    #[prost(message, required, tag = "4")]
    pub max: Span,
    /// Each delay is multiplied by a number within 1 ± this.
    #[prost(double, tag = "5")]
    pub jitter: f64,
}

/// Only the fields given are set.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicyChange {
    /// `exponential` or `fixed`.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["exponential", "fixed"]))]
    pub strategy: Option<String>,
    /// The first delay, and with `fixed` every one.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial: Option<Span>,
    /// What each delay is multiplied by for the next.
    #[prost(double, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// No delay is longer.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
    /// Each delay is multiplied by a number within 1 ± this.
    #[prost(double, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
}

/// What is not given has its default.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue"]))]
pub struct CreateQueueRequest {
    /// 1 to 128 of A-Z a-z 0-9 . _ -
    #[prost(string, tag = "1")]
    pub queue: String,
    /// How many partitions: 1 to 1024, 1 if unset.
    #[prost(uint32, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024), extend("default" = 1))]
    pub partitions: Option<u32>,
    /// How long a lease lasts that asks for nothing else: 1m if unset.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "1m"))]
    pub lease_timeout: Option<Span>,
    /// How often an item is tried before it fails: 3 if unset; 0 means no limit.
    #[prost(uint32, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 3))]
    pub max_attempts: Option<u32>,
    /// How old an item may grow, counted from its making, before it expires: `0s` means any age,
    /// also if unset. An item may have its own.
    #[prost(message, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "0s"))]
    pub dead_timeout: Option<Span>,
    /// The queue that items go to which fail or expire; it may be made later. If unset they end
    /// where they are.
    #[prost(string, optional, tag = "13")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_queue: Option<String>,
    /// How long a failed attempt waits for the next: if unset, 1s, doubled each time up to 1h, with a jitter of 0.1.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicyChange>,
    /// Where an item goes whose lease ended by its deadline or by retry: `keep` (its own place, also if unset)
    /// or `tail`.
    #[prost(string, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["keep", "tail"], "default" = "keep"))]
    pub requeue: Option<String>,
    /// How long ended items are kept that have something to show: 2d if unset.
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "48h"))]
    pub retention: Option<Span>,
    /// At this many of them, the oldest go first: 1000000 if unset.
    #[prost(uint64, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1_000_000))]
    pub retention_max_items: Option<u64>,
    /// At this many bytes of them, the oldest go first: 1073741824 if unset.
    #[prost(uint64, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1_073_741_824))]
    pub retention_max_bytes: Option<u64>,
    /// The most items that have not ended; 0 means no limit, also if unset.
    #[prost(uint64, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub max_items: Option<u64>,
    /// At most 512 bytes, shown with the queue.
    #[prost(string, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// A JSON object of at most 64 KiB, shown with the queue and not looked into; null is as unset.
    #[prost(string, optional, tag = "14")]
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value", extend("type" = ["null", "object"]))]
    pub meta: Option<String>,
    /// A queue of that name is answered as it is, if every field given is the same; else it is `already_exists`.
    #[prost(bool, tag = "15")]
    pub exists_ok: bool,
}

/// Only the fields given change; an empty `dead_queue` or `reference` removes it, as null does `meta`.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue"]))]
pub struct UpdateQueueRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// How long a lease lasts that asks for nothing else.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_timeout: Option<Span>,
    /// How often an item is tried before it fails; 0 means no limit.
    #[prost(uint32, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How old an item may grow, counted from its making, before it expires; `0s` means any age.
    /// Items that are there keep what they have.
    #[prost(message, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_timeout: Option<Span>,
    /// The queue that items go to which fail or expire; empty: none any more.
    #[prost(string, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_queue: Option<String>,
    /// How long a failed attempt waits for the next.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicyChange>,
    /// Where an item goes whose lease ended by its deadline or by retry: `keep` (its own place) or `tail`.
    #[prost(string, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["keep", "tail"]))]
    pub requeue: Option<String>,
    /// How long ended items are kept that have something to show.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Span>,
    /// At this many of them, the oldest go first.
    #[prost(uint64, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_max_items: Option<u64>,
    /// At this many bytes of them, the oldest go first.
    #[prost(uint64, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_max_bytes: Option<u64>,
    /// The most items that have not ended; 0 means no limit.
    #[prost(uint64, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
    /// At most 512 bytes, shown with the queue; empty: none any more.
    #[prost(string, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// A JSON object of at most 64 KiB instead of the one there is; null: none any more.
    #[prost(string, optional, tag = "13")]
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value", extend("type" = ["null", "object"]))]
    pub meta: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QueueReply {
    /// The queue as it is now.
    #[prost(message, required, tag = "1")]
    pub queue: Queue,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue"]))]
pub struct QueueInfoRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListQueuesRequest {
    /// Begin after this name, also if it is gone by now.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub pivot: Option<String>,
    /// The most queues to get: 1 to 1000, 1000 if unset.
    #[prost(uint32, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
    /// Show each queue with its counts.
    #[prost(bool, tag = "3")]
    pub counts: bool,
    /// Show each queue with its `meta`.
    #[prost(bool, tag = "4")]
    pub meta: bool,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListQueuesReply {
    /// In the order of their names. With `meta` a page may hold fewer than `limit`, for it is bounded in bytes too: only an
    /// empty one is the end.
    #[prost(message, repeated, tag = "1")]
    pub queues: Vec<Queue>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue"]))]
pub struct DeleteQueueRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Also if it still holds items.
    #[prost(bool, tag = "2")]
    pub force: bool,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeleteQueueReply {}

/// None of the three given: waiting and scheduled.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue"]))]
pub struct ClearQueueRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Those that wait.
    #[prost(bool, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<bool>,
    /// Those that are due later.
    #[prost(bool, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<bool>,
    /// Those in the hands of workers, whose permits are then lost.
    #[prost(bool, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased: Option<bool>,
    /// Those that wait for an answer: only if asked for.
    #[prost(bool, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClearQueueReply {
    /// How many items ended as cancelled.
    #[prost(uint64, tag = "1")]
    pub cleared: u64,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue"]))]
pub struct RedriveQueueRequest {
    /// The name of the queue whose waiting items are sent on: mostly a dead queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Where to. If unset, each goes back to where it came from, and one that was never moved stays.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Only this kind.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub kind: Option<String>,
    /// The most items to send, at least 1: all there are if unset.
    #[prost(uint64, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RedriveQueueReply {
    /// How many were sent on.
    #[prost(uint64, tag = "1")]
    pub moved: u64,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "partitions"]))]
pub struct RebalanceQueueRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// How many partitions it is to have, 1 to 1024.
    #[prost(uint32, tag = "2")]
    #[schemars(range(min = 1, max = 1024))]
    pub partitions: u32,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue"]))]
pub struct QueueStatsRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
}

/// Exact as of its answer.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QueueStatsReply {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Over all partitions.
    #[prost(message, required, tag = "2")]
    pub counts: Counts,
    /// The same, by kind.
    #[prost(btree_map = "string, message", tag = "3")]
    pub kinds: BTreeMap<String, Counts>,
    /// How many wait, by priority.
    #[prost(btree_map = "uint32, uint64", tag = "4")]
    #[schemars(with = "BTreeMap<String, u64>", extend("propertyNames" = {"pattern": "^[0-9]+$"}))]
    pub priorities: BTreeMap<u32, u64>,
    /// How long the oldest one has waited; `0s` if none waits.
    #[prost(message, required, tag = "5")]
    pub oldest_waiting_age: Span,
    /// Leases that wait for work.
    #[prost(uint64, tag = "6")]
    pub lease_waiters: u64,
    /// Ended here, and not yet taken by the queue they go to.
    #[prost(uint64, tag = "7")]
    pub moving: u64,
    /// Ended items that are kept.
    #[prost(uint64, tag = "8")]
    pub retained: u64,
    /// Whether a rule of the user stands on the whole queue.
    #[prost(bool, tag = "9")]
    pub paused: bool,
    /// Whether a rule of the administrator stands on the whole queue.
    #[prost(bool, tag = "10")]
    pub blocked: bool,
    /// How many of those waiting a rule holds back.
    #[prost(uint64, tag = "11")]
    pub stopped: u64,
    /// Each by itself.
    #[prost(message, repeated, tag = "12")]
    pub partitions: Vec<PartitionStats>,
}

/// What goes on in a queue.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Activity {
    /// How many of those waiting a rule holds back.
    #[prost(uint64, tag = "1")]
    pub stopped: u64,
    /// Whether a rule of the user stands on the whole queue.
    #[prost(bool, tag = "2")]
    pub paused: bool,
    /// Whether a rule of the administrator stands on the whole queue.
    #[prost(bool, tag = "3")]
    pub blocked: bool,
    /// How long the oldest one has waited; `0s` if none waits.
    #[prost(message, required, tag = "4")]
    pub oldest_waiting_age: Span,
    /// Leases that wait for work.
    #[prost(uint64, tag = "5")]
    pub lease_waiters: u64,
    /// Items produced since the server was started.
    #[prost(uint64, tag = "6")]
    pub produced: u64,
    /// Items completed since then.
    #[prost(uint64, tag = "7")]
    pub completed: u64,
    /// Items that failed since then.
    #[prost(uint64, tag = "8")]
    pub failed: u64,
}

/// Items that have not ended, by state.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Counts {
    /// Members of a group that has not started.
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
}

/// One partition of a queue.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PartitionStats {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// `available`, `loading` or `faulty`; `paused` or `draining` if somebody wants it so.
    #[prost(string, tag = "2")]
    #[schemars(extend("enum" = ["available", "paused", "draining", "faulty", "loading"]))]
    pub state: String,
    /// The name of the store that holds it.
    #[prost(string, tag = "3")]
    pub store: String,
    /// What is in it.
    #[prost(message, required, tag = "4")]
    pub counts: Counts,
    /// Why it is faulty.
    #[prost(string, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is left to do, while it drains.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<Remaining>,
    /// The disk of its store is full: nothing new is taken in, and workers can finish what they have.
    #[prost(bool, tag = "7")]
    pub disk_full: bool,
}

/// What a partition that drains has still to do before it is removed.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Remaining {
    /// Items that have not ended.
    #[prost(uint64, tag = "1")]
    pub items: u64,
    /// Groups that are not finished.
    #[prost(uint64, tag = "2")]
    pub groups: u64,
}
