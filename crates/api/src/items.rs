//! Requests and replies about items.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_api_derive::{reply, request};

use crate::error::{Details, Failed};
use crate::payload::Payload;
use crate::time::{Span, Time};

/// An item to be produced.
#[request]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
#[schemars(transform = crate::rules_of_fields::enqueue_at_or_delay)]
pub struct NewItem {
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
    /// What sort of work it is: 1 to 128 characters, `default` if unset.
    #[field(4)]
    #[schemars(length(min = 1, max = 128), extend("default" = "default"))]
    pub kind: Option<String>,
    /// 0 to 255; 0 goes first, and is what it is if unset.
    #[field(5)]
    #[schemars(range(max = 255), extend("default" = 0))]
    pub priority: Option<u32>,
    /// Not before this time. In the past or unset: at once.
    #[field(6)]
    pub enqueue_at: Option<Time>,
    /// So long after the server gets the call, instead of `enqueue_at`.
    #[field(13)]
    pub delay: Option<Span>,
    /// Its own limit instead of the queue's; 0 means none.
    #[field(7)]
    pub max_attempts: Option<u32>,
    /// How old it may grow before it expires, instead of the queue's; `0s` means any age.
    #[field(10)]
    pub dead_timeout: Option<Span>,
    /// A name of the producer's choosing, 1 to 512 bytes: no other item that is not final has it in this queue.
    #[field(11)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// The group it is a member of: it is held until that is started. Not with `address` in a queue of several partitions.
    #[field(12)]
    pub group: Option<String>,
    /// At most 512 bytes, shown with the item.
    #[field(8)]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// At most 32 entries and 4 KiB, shown with the item.
    #[field(9, optional)]
    #[schemars(extend("maxProperties" = 32))]
    pub headers: BTreeMap<String, String>,
}

#[request]
pub struct ProduceRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// How long the client will wait for the answer: 30s if unset, at most 15m.
    #[field(2)]
    #[schemars(extend("default" = "30s"))]
    pub request_timeout: Option<Span>,
    /// A name for this call, 1 to 128 characters: sent again under it within 24h, the call is not carried out again, and
    /// its first answer is given.
    #[field(4)]
    #[schemars(length(min = 1, max = 128))]
    pub idempotency_key: Option<String>,
    /// 1 to 1000. Those without group and address become durable together, or none of them.
    #[field(3)]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<NewItem>,
}

#[reply]
pub struct ProduceReply {
    /// In the order given.
    #[field(1)]
    pub items: Vec<ProducedItem>,
}

/// What became of one item: it has an id and a state, or an error.
#[reply]
pub struct ProducedItem {
    /// The id it has from now on.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// `waiting`; `scheduled` if it is due later; `held` if its group has not started.
    #[field(2)]
    #[schemars(extend("enum" = ["held", "scheduled", "waiting"]))]
    pub state: Option<String>,
    /// Why there is no such item.
    #[field(3)]
    pub error: Option<ProduceError>,
}

/// Why one item was not produced.
#[reply]
pub struct ProduceError {
    /// A word that programs can rely on.
    #[field(1)]
    pub code: String,
    /// What was wrong and what to do.
    #[field(2)]
    pub message: String,
    /// The item that is in the way, if one is.
    #[field(3)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// Only if there is something to tell.
    #[field(4)]
    pub details: Option<Details>,
}

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

/// A list that can be unset, or set and empty: that is not the same.
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

#[request]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct GetItemRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[field(2)]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[field(3)]
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

#[request]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct CancelItemRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[field(2)]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[field(3)]
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

#[request]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct WaitItemRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[field(2)]
    pub queue: Option<String>,
    /// The item that has this address when the wait begins; if all that had it are final, the latest that is kept.
    #[field(3)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// How long to wait for its end: `30s` if unset, at most `15m`. `0s` answers at once.
    #[field(4)]
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

#[reply]
pub struct ItemReply {
    /// The item as it is now.
    #[field(1)]
    pub item: Item,
}

/// An item as it is now.
#[reply]
pub struct Item {
    /// The payload, if it is a JSON value. An item that has ended has no payload any more.
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
    /// The name of its queue.
    #[field(5)]
    pub queue: String,
    /// The partition that it is in.
    #[field(6)]
    pub partition: u32,
    /// Live: `held`, `scheduled`, `waiting`, `leased`, `suspended`. Final: `completed`, `failed`, `cancelled`, `expired`.
    #[field(7)]
    #[schemars(extend("enum" = ["held", "scheduled", "waiting", "leased", "suspended", "completed", "failed", "cancelled", "expired"]))]
    pub state: String,
    /// What sort of work it is.
    #[field(8)]
    pub kind: String,
    /// 0 goes first.
    #[field(9)]
    #[schemars(range(max = 255))]
    pub priority: u32,
    /// How often it was leased, releases not counted.
    #[field(10)]
    pub attempts: u32,
    /// 0 means no limit.
    #[field(11)]
    pub max_attempts: Option<u32>,
    /// When it was produced.
    #[field(12)]
    pub created_at: Time,
    /// The number of its last event.
    #[field(13)]
    pub event_count: u64,
    /// While scheduled: when it is due.
    #[field(14)]
    pub enqueue_at: Option<Time>,
    /// While leased: the right to the item.
    #[field(15)]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: Option<u64>,
    /// While leased: by whom.
    #[field(16)]
    pub client_id: Option<String>,
    /// While leased: since when.
    #[field(17)]
    pub leased_at: Option<Time>,
    /// While leased: until when, unless the lease is extended.
    #[field(18)]
    pub lease_deadline: Option<Time>,
    /// While leased: whether its worker was asked to give it up.
    #[field(19)]
    pub cancel_requested: Option<bool>,
    /// While suspended: what it waits for, if its worker said so.
    #[field(29)]
    pub reason: Option<String>,
    /// Once final: since when.
    #[field(20)]
    pub finished_at: Option<Time>,
    /// The address its producer gave it.
    #[field(27)]
    pub address: Option<String>,
    /// The group it is a member of.
    #[field(28)]
    pub group: Option<String>,
    /// What its producer gave.
    #[field(21)]
    pub reference: Option<String>,
    /// What its producer gave.
    #[field(22, optional)]
    pub headers: BTreeMap<String, String>,
    /// What the last failed attempt left.
    #[field(23)]
    pub error: Option<ItemError>,
    /// What its worker gave with the completion.
    #[field(24)]
    pub result: Option<Payload>,
    /// How old it may grow, counted from `created_at`, before it expires; any age if unset.
    #[field(25)]
    pub dead_timeout: Option<Span>,
    /// Where it was moved here from, if it was.
    #[field(26)]
    pub origin: Option<Origin>,
}

/// Where an item was moved from, and why. There it has ended, here it is new.
#[request]
pub struct Origin {
    /// The queue it was in.
    #[field(1)]
    pub queue: String,
    /// Its id there.
    #[field(2)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// Its group there.
    #[field(3)]
    pub group: Option<String>,
    /// Its address there.
    #[field(4)]
    pub address: Option<String>,
    /// How often it was leased there.
    #[field(5)]
    pub attempts: Option<u32>,
    /// `attempts` (they were used up), `dead` (a worker gave it up), `expired`, `redrive`, `group_end` or `group_abort`.
    #[field(6)]
    #[schemars(extend("enum" = ["attempts", "dead", "expired", "redrive", "group_end", "group_abort"]))]
    pub reason: String,
    /// What it died of.
    #[field(7)]
    pub error: Option<ItemError>,
    /// When it left that queue.
    #[field(8)]
    pub moved_at: Time,
}
