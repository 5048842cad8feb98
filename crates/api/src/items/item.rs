//! One item: as it is now, and the calls that name it.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_api_derive::{reply, request};

use super::change::{RerunItemRequest, UpdateItemRequest};
use super::lease::ItemError;
use crate::payload::Payload;
use crate::time::{Span, Time};

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
    /// Go along `moved_to` to the latest item of the chain, passing over dead letters: where a dead letter is the last, the item
    /// that died is the answer, unless the request names the dead letter itself while it is live. Where the next item is gone,
    /// the last one that is there is the answer.
    #[field(4)]
    pub follow: bool,
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
    /// Wait for the end of the latest item of the chain along `moved_to`, as in `item.get`.
    #[field(5)]
    pub follow: bool,
}

macro_rules! by_id_or_address {
    ($($request:ident)+) => {
        $(impl $request {
            pub fn of(id: impl Into<String>) -> Self {
                Self { id: Some(id.into()), ..Self::default() }
            }

            pub fn at(queue: impl Into<String>, address: impl Into<String>) -> Self {
                Self { queue: Some(queue.into()), address: Some(address.into()), ..Self::default() }
            }
        })+
    };
}

by_id_or_address! { GetItemRequest CancelItemRequest WaitItemRequest UpdateItemRequest RerunItemRequest }

#[reply]
pub struct ItemReply {
    /// The item as it is now.
    #[field(1)]
    pub item: Item,
}

/// An item as it is now.
#[reply]
pub struct Item {
    /// The payload, if it is a JSON value. The payload of an item that has ended is there if its queue keeps it: see
    /// `retain_payload` of the queue.
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
    /// When its state last became another: at first `created_at`. A retry, a release and a new lease count; an extend, an emit, a
    /// cancel request and an update within a state do not. For what fell due it is the time at which it was due.
    #[field(30)]
    pub changed_at: Time,
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
    /// Who has the latest lease of it, or had: from the first lease on, in every state.
    #[field(16)]
    pub client_id: Option<String>,
    /// When its latest lease began, whatever became of that lease: from the first lease on, in every state.
    #[field(31)]
    pub started_at: Option<Time>,
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
    /// Once final: since when it counts as ended, from which its retention is counted. Later than `changed_at` if it fell due before
    /// the server noticed, for example while none ran, or if it fell back.
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
    /// The cron that made it, also when that cron is deleted by now.
    #[field(32)]
    pub cron: Option<String>,
    /// With `cron`: the time of the schedule that it was made for; if it was triggered, the moment of that call.
    #[field(33)]
    pub scheduled_at: Option<Time>,
    /// The item that it goes on as, if it was moved, redriven or rerun.
    #[field(34)]
    pub moved_to: Option<MovedTo>,
    /// Its newest ten attempts that did not complete, in the order in which they ended. Only `item.get` tells them.
    #[field(35)]
    pub attempt_log: Option<AttemptLog>,
}

/// The item that another one goes on as.
#[request]
#[derive(Eq)]
pub struct MovedTo {
    /// The name of its queue.
    #[field(1)]
    pub queue: String,
    /// Its id there.
    #[field(2)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
}

/// `AttemptLog`: a list of its own message, so that "unset" and "empty" differ in protobuf. Empty in `item.get` if there were
/// no attempts; unset in other calls.
#[request(transparent)]
pub struct AttemptLog {
    /// At most ten, in the order in which they ended.
    #[field(1)]
    pub attempts: Vec<Attempt>,
}

/// An attempt that did not complete. Released and suspended leases are no attempts.
#[request]
pub struct Attempt {
    /// Its number in its item.
    #[field(1)]
    pub attempt: u32,
    /// Who had the lease.
    #[field(2)]
    pub client_id: String,
    /// When the lease began.
    #[field(3)]
    pub leased_at: Time,
    /// When the lease ended.
    #[field(4)]
    pub ended_at: Time,
    /// How the lease ended: `retried`, `expired`, `revoked`, `dead` (by a retry that left the item no further attempt) or
    /// `cancelled` (the item was cancelled, cleared or deleted meanwhile, or given up after a cancel request).
    #[field(5)]
    #[schemars(extend("enum" = ["retried", "expired", "revoked", "dead", "cancelled"]))]
    pub outcome: String,
    /// What the worker said of this attempt, if it said anything.
    #[field(6)]
    pub error: Option<ItemError>,
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
    /// `attempts` (they were used up), `dead` (a worker gave it up), `expired`, `redrive`, `rerun`, `group_end` or `group_abort`.
    #[field(6)]
    #[schemars(extend("enum" = ["attempts", "dead", "expired", "redrive", "rerun", "group_end", "group_abort"]))]
    pub reason: String,
    /// What it died of.
    #[field(7)]
    pub error: Option<ItemError>,
    /// When it left that queue.
    #[field(8)]
    pub moved_at: Time,
}
