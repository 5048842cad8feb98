//! Requests and replies about who holds what.

use windlass_api_derive::{reply, request};

use crate::error::Failed;
use crate::items::Held;
use crate::time::Time;

#[request]
pub struct ListPermitsRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// Begin after the item of this id, also if it is gone by now.
    #[field(2)]
    #[schemars(extend("format" = "uuid"))]
    pub pivot: Option<String>,
    /// The most permits to show: 1 to 1000, and 1000 if unset.
    #[field(3)]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
}

#[reply]
pub struct ListPermitsReply {
    /// By the ids of the items.
    #[field(1)]
    pub permits: Vec<Permit>,
}

/// An item in the hands of a worker.
#[reply]
pub struct Permit {
    /// The item.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// The right to it.
    #[field(2)]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// Who has it.
    #[field(3)]
    pub client_id: String,
    /// What sort of work it is.
    #[field(4)]
    pub kind: String,
    /// This one included.
    #[field(5)]
    pub attempts: u32,
    /// Since when.
    #[field(6)]
    pub leased_at: Time,
    /// Until when, unless the lease is extended.
    #[field(7)]
    pub lease_deadline: Time,
}

#[request]
pub struct RevokeRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// 1 to 1000, each judged by itself.
    #[field(2)]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Held>,
}

#[reply]
pub struct RevokeReply {
    /// How many were taken away from their workers.
    #[field(1)]
    pub revoked: u64,
    /// Those that were refused, in the order given.
    #[field(2)]
    pub failed: Vec<Failed>,
}
