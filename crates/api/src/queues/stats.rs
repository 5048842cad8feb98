//! What is in a queue, and what goes on there.

use std::collections::BTreeMap;

use windlass_api_derive::{reply, request};

use crate::time::Span;

#[request]
pub struct QueueStatsRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
}

/// Exact as of its answer.
#[reply]
pub struct QueueStatsReply {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// Over all partitions.
    #[field(2)]
    pub counts: Counts,
    /// The same, by kind.
    #[field(3)]
    pub kinds: BTreeMap<String, Counts>,
    /// How many wait, by priority.
    #[field(4)]
    #[schemars(with = "BTreeMap<String, u64>", extend("propertyNames" = {"pattern": "^[0-9]+$"}))]
    pub priorities: BTreeMap<u32, u64>,
    /// How long the oldest one has waited; `0s` if none waits.
    #[field(5)]
    pub oldest_waiting_age: Span,
    /// Leases that wait for work.
    #[field(6)]
    pub lease_waiters: u64,
    /// Ended here, and not yet taken by the queue they go to.
    #[field(7)]
    pub moving: u64,
    /// Ended items that are kept.
    #[field(8)]
    pub retained: u64,
    /// Whether a rule of the user stands on the whole queue.
    #[field(9)]
    pub paused: bool,
    /// Whether a rule of the administrator stands on the whole queue.
    #[field(10)]
    pub blocked: bool,
    /// How many of those waiting a rule holds back.
    #[field(11)]
    pub stopped: u64,
    /// Each by itself.
    #[field(12)]
    pub partitions: Vec<PartitionStats>,
    /// As the queue itself shows them.
    #[field(13, optional)]
    pub warnings: Vec<String>,
}

/// What goes on in a queue.
#[reply]
pub struct Activity {
    /// How many of those waiting a rule holds back.
    #[field(1)]
    pub stopped: u64,
    /// Whether a rule of the user stands on the whole queue.
    #[field(2)]
    pub paused: bool,
    /// Whether a rule of the administrator stands on the whole queue.
    #[field(3)]
    pub blocked: bool,
    /// How long the oldest one has waited; `0s` if none waits.
    #[field(4)]
    pub oldest_waiting_age: Span,
    /// Leases that wait for work.
    #[field(5)]
    pub lease_waiters: u64,
    /// Items produced since the server was started.
    #[field(6)]
    pub produced: u64,
    /// Items completed since then.
    #[field(7)]
    pub completed: u64,
    /// Items that failed since then.
    #[field(8)]
    pub failed: u64,
}

/// Items that have not ended, by state.
#[reply]
pub struct Counts {
    /// Members of a group that has not started.
    #[field(1)]
    pub held: u64,
    /// Due later.
    #[field(2)]
    pub scheduled: u64,
    /// Ready to be leased.
    #[field(3)]
    pub waiting: u64,
    /// In the hands of workers.
    #[field(4)]
    pub leased: u64,
    /// Given up by their workers until somebody answers.
    #[field(5)]
    pub suspended: u64,
}

/// One partition of a queue.
#[reply]
pub struct PartitionStats {
    /// Its number.
    #[field(1)]
    pub partition: u32,
    /// `available`, `loading` or `faulty`; `paused` or `draining` if somebody wants it so.
    #[field(2)]
    #[schemars(extend("enum" = ["available", "paused", "draining", "faulty", "loading"]))]
    pub state: String,
    /// The name of the store that holds it.
    #[field(3)]
    pub store: String,
    /// What is in it.
    #[field(4)]
    pub counts: Counts,
    /// Why it is faulty.
    #[field(5)]
    pub error: Option<String>,
    /// What is left to do, while it drains.
    #[field(6)]
    pub remaining: Option<Remaining>,
    /// The disk of its store is full: nothing new is taken in, and workers can finish what they have.
    #[field(7)]
    pub disk_full: bool,
}

/// What a partition that drains has still to do before it is removed.
#[reply]
pub struct Remaining {
    /// Items that have not ended.
    #[field(1)]
    pub items: u64,
    /// Groups that are not finished.
    #[field(2)]
    pub groups: u64,
}
