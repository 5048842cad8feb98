//! Why an item is not running.

use windlass_api_derive::{reply, request};

use crate::time::Time;

#[request]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct ExplainItemRequest {
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

#[reply]
pub struct ExplainItemReply {
    /// The item.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// Its state; not known while its partition is faulty.
    #[field(2)]
    pub state: Option<String>,
    /// Everything that stands in its way. None: a lease that waits is about to take it.
    #[field(3)]
    pub reasons: Vec<Reason>,
}

/// One thing that stands in an item's way. Beside `code` and `message` it has what belongs to its code.
#[reply]
pub struct Reason {
    /// `scheduled`, `held`, `paused`, `blocked`, `behind`, `no_worker`, `leased`, `suspended`, `moving`, `partition_faulty` or
    /// `final`.
    #[field(1)]
    #[schemars(extend("enum" = [
        "scheduled", "held", "paused", "blocked", "behind", "no_worker", "leased", "suspended", "moving",
        "partition_faulty", "final",
    ]))]
    pub code: String,
    /// The same in words, and what to do about it.
    #[field(2)]
    pub message: String,
    /// `scheduled`: when it is due; `paused`, `blocked`: when the rule lifts itself.
    #[field(3)]
    pub until: Option<Time>,
    /// `held`: the group that is not started.
    #[field(4)]
    pub group: Option<String>,
    /// `paused`, `blocked`: the kind that the rule stands on, if not on the whole queue.
    #[field(5)]
    pub kind: Option<String>,
    /// `paused`, `blocked`: what whoever set the rule said; `suspended`: what the worker said.
    #[field(6)]
    pub reason: Option<String>,
    /// `paused`, `blocked`: since when the rule stands.
    #[field(7)]
    pub created_at: Option<Time>,
    /// `behind`: how many go before it.
    #[field(8)]
    pub position: Option<u64>,
    /// `behind`: whether that is their very number. Otherwise there are at least so many, or, in a queue of several
    /// partitions, about so many.
    #[field(9)]
    pub exact: Option<bool>,
    /// `leased`: who has it.
    #[field(10)]
    pub client_id: Option<String>,
    /// `leased`: until when, unless the lease is extended.
    #[field(11)]
    pub lease_deadline: Option<Time>,
    /// `moving`: the queue that it goes to.
    #[field(12)]
    pub to: Option<String>,
    /// `partition_faulty`: what is wrong with the partition.
    #[field(13)]
    pub error: Option<String>,
}
