//! Requests and replies of `queues.history`.

use windlass_api_derive::{reply, request};

use crate::time::{Span, Time};

#[request]
pub struct QueuesHistoryRequest {
    /// Names of queues, 1 to 100; those with most waiting if unset.
    #[field(1)]
    pub queues: Option<QueueNames>,
    /// How far back: `1h` if unset, at most `24h`.
    #[field(2)]
    #[schemars(extend("default" = "1h"))]
    pub span: Option<Span>,
}

/// `QueueNames`: a list of its own message, so that "unset" and "empty" differ in protobuf.
#[request(transparent)]
pub struct QueueNames {
    /// Names of queues.
    #[field(1)]
    pub names: Vec<String>,
}

#[reply]
pub struct QueuesHistoryReply {
    /// In the order in which the request names them; else those with most waiting first. It is kept in memory, for the busiest
    /// 1000 queues: of another one there are no buckets.
    #[field(1)]
    pub queues: Vec<QueueHistory>,
}

/// What went on in one queue.
#[reply]
pub struct QueueHistory {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// At most 60, the oldest first, none of them from before the start of the server.
    #[field(2)]
    pub buckets: Vec<HistoryBucket>,
}

/// What went on in one stretch of time.
#[reply]
pub struct HistoryBucket {
    /// When the stretch begins.
    #[field(1)]
    pub at: Time,
    /// Items produced.
    #[field(2)]
    pub produced: u64,
    /// Items completed.
    #[field(3)]
    pub completed: u64,
    /// Items that failed for good.
    #[field(4)]
    pub failed: u64,
    /// Items that their workers sent back for another attempt.
    #[field(5)]
    pub retried: u64,
    /// How long half of the items that were leased had waited at most since they became waiting; unset if none was leased. Never
    /// too short, and too long by less than a quarter and a millisecond.
    #[field(6)]
    pub waited_p50: Option<Span>,
    /// How long 99 of 100 had waited at most; unset if none was leased.
    #[field(7)]
    pub waited_p99: Option<Span>,
}
