//! A worker's turn: what it has done, and what it does next.

use windlass_api_derive::{reply, request};

use super::{Completion, Held, Kinds, LeasedItem, Retry};
use crate::error::Failed;
use crate::events::Suspend;
use crate::time::{Span, Time};

#[request]
pub struct NextRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// Who is asking: shown to operators. 1 to 128 characters.
    #[field(2)]
    #[schemars(length(min = 1, max = 128))]
    pub client_id: String,
    /// Items that are done. All lists together name at most 1000 items, each of them once.
    #[field(3, optional)]
    #[schemars(length(max = 1000))]
    pub complete: Vec<Completion>,
    /// Items whose attempt failed.
    #[field(4, optional)]
    #[schemars(length(max = 1000))]
    pub retry: Vec<Retry>,
    /// Items that are given back, their attempts not counted.
    #[field(5, optional)]
    #[schemars(length(max = 1000))]
    pub release: Vec<Held>,
    /// Items that cannot go on until somebody answers.
    #[field(6, optional)]
    #[schemars(length(max = 1000))]
    pub suspend: Vec<Suspend>,
    /// Items that are kept for longer.
    #[field(7, optional)]
    #[schemars(length(max = 1000))]
    pub extend: Vec<Extension>,
    /// What to take next. Unset: nothing, and the call only settles the items it names.
    #[field(8)]
    pub lease: Option<NextLease>,
}

/// An item that is kept for longer.
#[request]
pub struct Extension {
    /// The item.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// As the lease gave it.
    #[field(2)]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// Counted from now; the one that the lease has if unset. At least 1ms.
    #[field(3)]
    pub lease_timeout: Option<Span>,
}

/// What a worker takes next.
#[request]
pub struct NextLease {
    /// The most items to get: 1 to 1000.
    #[field(1)]
    #[schemars(range(min = 1, max = 1000))]
    pub batch_size: u32,
    /// How long the items are the client's: the queue's if unset, at least 1ms.
    #[field(2)]
    pub lease_timeout: Option<Span>,
    /// Only these kinds; every kind if unset, and no work at all if empty.
    #[field(3)]
    pub kinds: Option<Kinds>,
    /// Only priorities up to this one, inclusive: 0 to 255.
    #[field(4)]
    #[schemars(range(max = 255))]
    pub max_priority: Option<u32>,
    /// How long to wait for the first item, if no list names an item: 30s if unset, at most 15m; `0s` answers at once. A call
    /// that names an item never waits for work.
    #[field(5)]
    #[schemars(extend("default" = "30s"))]
    pub request_timeout: Option<Span>,
}

#[reply]
pub struct NextReply {
    /// How many are done.
    #[field(1)]
    pub completed: u64,
    /// How many will be tried again.
    #[field(2)]
    pub retried: u64,
    /// How many have failed for good.
    #[field(3)]
    pub dead: u64,
    /// How many were given back.
    #[field(4)]
    pub released: u64,
    /// How many wait for an answer now.
    #[field(5)]
    pub suspended: u64,
    /// Those that are the worker's for longer.
    #[field(6)]
    pub extended: Vec<ExtendedLease>,
    /// Those that were refused, list by list and in the order given; `verb` tells the list.
    #[field(7)]
    pub failed: Vec<Failed>,
    /// What was leased. Never an item that this call gave back.
    #[field(8)]
    pub items: Vec<LeasedItem>,
}

/// An item that stays in the hands of its worker.
#[reply]
pub struct ExtendedLease {
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
    /// How many inputs came for the item that did not come with its lease: 0, as long as an item gets none while it is leased.
    #[field(4)]
    pub inputs: u64,
}
