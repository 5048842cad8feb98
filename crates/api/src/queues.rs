//! Requests and replies about queues.

mod history;
mod stats;

use windlass_api_derive::{reply, request};

pub use self::history::*;
pub use self::stats::*;
use crate::time::{Span, Time};

/// A queue and its settings.
#[reply]
pub struct Queue {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// How many partitions it has.
    #[field(2)]
    pub partitions: u32,
    /// How long a lease lasts that asks for nothing else.
    #[field(3)]
    pub lease_timeout: Span,
    /// How often an item is tried before it fails; 0 means no limit.
    #[field(4)]
    pub max_attempts: u32,
    /// How old an item may grow, counted from its making, before it expires; `0s` means any age.
    #[field(13)]
    pub dead_timeout: Span,
    /// The queue that items go to which fail or expire, if there is one.
    #[field(14)]
    pub dead_queue: Option<String>,
    /// How long a failed attempt waits for the next.
    #[field(5)]
    pub retry: RetryPolicy,
    /// Where an item goes whose lease ended by its deadline or by retry: `keep` (its own place) or `tail`.
    #[field(6)]
    #[schemars(extend("enum" = ["keep", "tail"]))]
    pub requeue: String,
    /// How long ended items are kept.
    #[field(7)]
    pub retention: Span,
    /// At this many of them, the oldest go first.
    #[field(8)]
    pub retention_max_items: u64,
    /// At this many bytes of them, the oldest go first.
    #[field(9)]
    pub retention_max_bytes: u64,
    /// The most items that have not ended; 0 means no limit.
    #[field(10)]
    pub max_items: u64,
    /// At most 512 bytes, shown with the queue.
    #[field(11)]
    pub reference: Option<String>,
    /// A JSON object of the owner, opaque to the server: in lists only if they ask for it.
    #[field(15, json)]
    #[schemars(extend("type" = "object"))]
    pub meta: Option<String>,
    /// When it was made.
    #[field(16)]
    pub created_at: Time,
    /// When its settings or `meta` were last updated, at first `created_at`. A rebalance does not count.
    #[field(17)]
    pub updated_at: Time,
    /// In lists that ask for it.
    #[field(12)]
    pub counts: Option<Counts>,
    /// In lists that ask for counts.
    #[field(20)]
    pub activity: Option<Activity>,
    /// Whose payload stays when they have ended and are kept: `failed` (failed, expired and cancelled ones), `all` or `none`.
    #[field(21)]
    #[schemars(extend("enum" = ["failed", "all", "none"]))]
    pub retain_payload: String,
    /// Which ended items are kept: `shown` (those that have a result, an error, events, an address or a `moved_to`) or `all`.
    #[field(22)]
    #[schemars(extend("enum" = ["shown", "all"]))]
    pub keep: String,
    /// Headers that `items.find` answers from an index; `reference` is the field of that name.
    #[field(23)]
    pub indexed_headers: Vec<String>,
    /// Warnings about settings, such as a `dead_queue` that does not exist.
    #[field(24, optional)]
    pub warnings: Vec<String>,
}

/// How long a failed attempt waits for the next.
#[reply]
pub struct RetryPolicy {
    /// `exponential` or `fixed`.
    #[field(1)]
    #[schemars(extend("enum" = ["exponential", "fixed"]))]
    pub strategy: String,
    /// The first delay, and with `fixed` every one.
    #[field(2)]
    pub initial: Span,
    /// What each delay is multiplied by for the next.
    #[field(3)]
    pub factor: f64,
    /// No delay is longer.
    #[field(4)]
    pub max: Span,
    /// Each delay is multiplied by a number within 1 ± this.
    #[field(5)]
    pub jitter: f64,
}

/// Only the fields given are set.
#[request]
pub struct RetryPolicyChange {
    /// `exponential` or `fixed`.
    #[field(1)]
    #[schemars(extend("enum" = ["exponential", "fixed"]))]
    pub strategy: Option<String>,
    /// The first delay, and with `fixed` every one.
    #[field(2)]
    pub initial: Option<Span>,
    /// What each delay is multiplied by for the next.
    #[field(3)]
    pub factor: Option<f64>,
    /// No delay is longer.
    #[field(4)]
    pub max: Option<Span>,
    /// Each delay is multiplied by a number within 1 ± this.
    #[field(5)]
    pub jitter: Option<f64>,
}

/// What is not given has its default.
#[request]
pub struct CreateQueueRequest {
    /// 1 to 128 of A-Z a-z 0-9 . _ -
    #[field(1)]
    pub queue: String,
    /// How many partitions: 1 to 1024, 1 if unset.
    #[field(2)]
    #[schemars(range(min = 1, max = 1024), extend("default" = 1))]
    pub partitions: Option<u32>,
    /// How long a lease lasts that asks for nothing else: 1m if unset.
    #[field(3)]
    #[schemars(extend("default" = "1m"))]
    pub lease_timeout: Option<Span>,
    /// How often an item is tried before it fails: 3 if unset; 0 means no limit.
    #[field(4)]
    #[schemars(extend("default" = 3))]
    pub max_attempts: Option<u32>,
    /// How old an item may grow, counted from its making, before it expires: `0s` means any age,
    /// also if unset. An item may have its own.
    #[field(12)]
    #[schemars(extend("default" = "0s"))]
    pub dead_timeout: Option<Span>,
    /// The queue that items go to which fail or expire; it may be made later. If unset they end
    /// where they are.
    #[field(13)]
    pub dead_queue: Option<String>,
    /// How long a failed attempt waits for the next: if unset, 1s, doubled each time up to 1h, with a jitter of 0.1.
    #[field(5)]
    pub retry: Option<RetryPolicyChange>,
    /// Where an item goes whose lease ended by its deadline or by retry: `keep` (its own place, also if unset)
    /// or `tail`.
    #[field(6)]
    #[schemars(extend("enum" = ["keep", "tail"], "default" = "keep"))]
    pub requeue: Option<String>,
    /// How long ended items are kept that have something to show: 2d if unset.
    #[field(7)]
    #[schemars(extend("default" = "48h"))]
    pub retention: Option<Span>,
    /// At this many of them, the oldest go first: 1000000 if unset.
    #[field(8)]
    #[schemars(extend("default" = 1_000_000))]
    pub retention_max_items: Option<u64>,
    /// At this many bytes of them, the oldest go first: 1073741824 if unset.
    #[field(9)]
    #[schemars(extend("default" = 1_073_741_824))]
    pub retention_max_bytes: Option<u64>,
    /// The most items that have not ended; 0 means no limit, also if unset.
    #[field(10)]
    #[schemars(extend("default" = 0))]
    pub max_items: Option<u64>,
    /// At most 512 bytes, shown with the queue.
    #[field(11)]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// A JSON object of at most 64 KiB, shown with the queue and not looked into; null is as unset.
    #[field(14, json)]
    #[schemars(extend("type" = ["null", "object"]))]
    pub meta: Option<String>,
    /// A queue of that name is answered as it is, if every field given is the same; else it is `already_exists`.
    #[field(15)]
    pub exists_ok: bool,
    /// Whose payload stays when they have ended and are kept: `failed` (failed, expired and cancelled ones, also if unset), `all`
    /// or `none`.
    #[field(16)]
    #[schemars(extend("enum" = ["failed", "all", "none"], "default" = "failed"))]
    pub retain_payload: Option<String>,
    /// Which ended items are kept: `shown` (those that have a result, an error, events, an address or a `moved_to`, also if
    /// unset) or `all`.
    #[field(17)]
    #[schemars(extend("enum" = ["shown", "all"], "default" = "shown"))]
    pub keep: Option<String>,
    /// Headers that `items.find` answers from an index: at most 8 different names; `reference` is the field of that name.
    #[field(18)]
    pub indexed_headers: Option<HeaderNames>,
}

/// `HeaderNames`: a list of its own message, so that "unset" and "empty" differ in protobuf.
#[request(transparent)]
pub struct HeaderNames {
    /// Names of headers.
    #[field(1)]
    pub names: Vec<String>,
}

/// Only the fields given change; an empty `dead_queue` or `reference` removes it, as null does `meta`.
#[request]
pub struct UpdateQueueRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// How long a lease lasts that asks for nothing else.
    #[field(2)]
    pub lease_timeout: Option<Span>,
    /// How often an item is tried before it fails; 0 means no limit.
    #[field(3)]
    pub max_attempts: Option<u32>,
    /// How old an item may grow, counted from its making, before it expires; `0s` means any age.
    /// Items that are there keep what they have.
    #[field(11)]
    pub dead_timeout: Option<Span>,
    /// The queue that items go to which fail or expire; empty: none any more.
    #[field(12)]
    pub dead_queue: Option<String>,
    /// How long a failed attempt waits for the next.
    #[field(4)]
    pub retry: Option<RetryPolicyChange>,
    /// Where an item goes whose lease ended by its deadline or by retry: `keep` (its own place) or `tail`.
    #[field(5)]
    #[schemars(extend("enum" = ["keep", "tail"]))]
    pub requeue: Option<String>,
    /// How long ended items are kept that have something to show.
    #[field(6)]
    pub retention: Option<Span>,
    /// At this many of them, the oldest go first.
    #[field(7)]
    pub retention_max_items: Option<u64>,
    /// At this many bytes of them, the oldest go first.
    #[field(8)]
    pub retention_max_bytes: Option<u64>,
    /// The most items that have not ended; 0 means no limit.
    #[field(9)]
    pub max_items: Option<u64>,
    /// At most 512 bytes, shown with the queue; empty: none any more.
    #[field(10)]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// A JSON object of at most 64 KiB instead of the one there is; null: none any more.
    #[field(13, json)]
    #[schemars(extend("type" = ["null", "object"]))]
    pub meta: Option<String>,
    /// Whose payload stays when they have ended and are kept: `failed` (failed, expired and cancelled ones), `all` or `none`.
    /// It counts for items that end from then on.
    #[field(14)]
    #[schemars(extend("enum" = ["failed", "all", "none"]))]
    pub retain_payload: Option<String>,
    /// Which ended items are kept: `shown` (those that have a result, an error, events, an address or a `moved_to`) or `all`.
    /// It counts for items that end from then on.
    #[field(15)]
    #[schemars(extend("enum" = ["shown", "all"]))]
    pub keep: Option<String>,
    /// Headers that `items.find` answers from an index: at most 8 different names, and none if empty; `reference` is the field
    /// of that name. It counts for items that are produced, and headers that are updated, from then on.
    #[field(16)]
    pub indexed_headers: Option<HeaderNames>,
}

/// Both requests give the same settings under the same names. `own` are the other fields of the request made.
macro_rules! same_settings {
    ($from:ident as $to:ident, own: [$($own:ident)*]) => {
        impl From<$from> for $to {
            fn from(given: $from) -> Self {
                Self {
                    queue: given.queue,
                    lease_timeout: given.lease_timeout,
                    max_attempts: given.max_attempts,
                    dead_timeout: given.dead_timeout,
                    dead_queue: given.dead_queue,
                    retry: given.retry,
                    requeue: given.requeue,
                    retention: given.retention,
                    retention_max_items: given.retention_max_items,
                    retention_max_bytes: given.retention_max_bytes,
                    max_items: given.max_items,
                    reference: given.reference,
                    meta: given.meta,
                    retain_payload: given.retain_payload,
                    keep: given.keep,
                    indexed_headers: given.indexed_headers,
                    $($own: Default::default(),)*
                }
            }
        }
    };
}

same_settings! { CreateQueueRequest as UpdateQueueRequest, own: [] }
same_settings! { UpdateQueueRequest as CreateQueueRequest, own: [partitions exists_ok] }

#[reply]
pub struct QueueReply {
    /// The queue as it is now.
    #[field(1)]
    pub queue: Queue,
}

#[request]
pub struct QueueInfoRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
}

#[request]
pub struct ListQueuesRequest {
    /// Begin after this name, also if it is gone by now.
    #[field(1)]
    #[schemars(length(max = 128))]
    pub pivot: Option<String>,
    /// The most queues to get: 1 to 1000, 1000 if unset.
    #[field(2)]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
    /// Show each queue with its counts.
    #[field(3)]
    pub counts: bool,
    /// Show each queue with its `meta`.
    #[field(4)]
    pub meta: bool,
    /// `name` (also if unset); or those first with the most `waiting` items, the most `failed` ones that are kept, or the `oldest`
    /// item that waits: these three show counts, take no pivot, and answer one page.
    #[field(5)]
    #[schemars(extend("enum" = ["name", "waiting", "failed", "oldest"], "default" = "name"))]
    pub order: Option<String>,
}

#[reply]
pub struct ListQueuesReply {
    /// In the order asked for. With `meta` a page may hold fewer than `limit`, for it is bounded in bytes too: only an
    /// empty one is the end.
    #[field(1)]
    pub queues: Vec<Queue>,
}

#[request]
pub struct DeleteQueueRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// Also if it still holds items.
    #[field(2)]
    pub force: bool,
}

#[reply]
pub struct DeleteQueueReply {}

/// None of the three given: waiting and scheduled.
#[request]
pub struct ClearQueueRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// Those that wait.
    #[field(2)]
    pub waiting: Option<bool>,
    /// Those that are due later.
    #[field(3)]
    pub scheduled: Option<bool>,
    /// Those in the hands of workers, whose permits are then lost.
    #[field(4)]
    pub leased: Option<bool>,
    /// Those that wait for an answer: only if asked for.
    #[field(5)]
    pub suspended: Option<bool>,
}

#[reply]
pub struct ClearQueueReply {
    /// How many items ended as cancelled.
    #[field(1)]
    pub cleared: u64,
}

#[request]
pub struct RedriveQueueRequest {
    /// The name of the queue whose waiting items are sent on: mostly a dead queue.
    #[field(1)]
    pub queue: String,
    /// Where to. If unset, each goes back to where it came from, and one that was never moved stays.
    #[field(2)]
    pub to: Option<String>,
    /// Only this kind.
    #[field(3)]
    #[schemars(length(min = 1, max = 128))]
    pub kind: Option<String>,
    /// The most items to send, at least 1: all there are if unset.
    #[field(4)]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

#[reply]
pub struct RedriveQueueReply {
    /// How many were sent on.
    #[field(1)]
    pub moved: u64,
    /// How many stay because the address that they had is taken where they came from.
    #[field(2)]
    pub skipped: u64,
}

#[request]
pub struct RebalanceQueueRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// How many partitions it is to have, 1 to 1024.
    #[field(2)]
    #[schemars(range(min = 1, max = 1024))]
    pub partitions: u32,
}
