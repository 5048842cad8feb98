//! Items, queues, groups and crons, as answers showed them.
//!
//! A record of an item is built on `of`, which leaves everything else out, so that a new field is filled in only where
//! somebody goes by it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::attempt::AttemptEnd;
use windlass_core::group::{Ended, GroupState};
use windlass_core::id::{ItemId, PartitionId, Permit};
use windlass_core::item::{LeaseEnd, MoveReason, Phase};
use windlass_core::partition::Counts;
use windlass_core::time::{Span, Timestamp};

/// An item as a lease handed it out.
#[derive(Clone, Debug)]
pub struct Given {
    pub id: ItemId,
    pub permit: Permit,
    pub kind: Arc<str>,
    pub priority: u8,
    /// How often the item was leased, this lease included.
    pub attempts: u32,
    pub deadline: Timestamp,
    pub created_at: Timestamp,
    /// Unset: the item may grow any age.
    pub dead_timeout: Option<Span>,
    /// Set for an item that was moved.
    pub origin: Option<Box<Origin>>,
    /// The name of the group that the item is a member of.
    pub group: Option<Arc<str>>,
    /// The answer that the item was resumed with.
    pub input: Option<Bytes>,
    /// The number of the last event, or 0.
    pub event_count: u64,
    pub body: Bytes,
}

/// Where an item that was moved came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub queue: Arc<str>,
    pub id: Option<ItemId>,
    /// The name of the group that the item was a member of, or whose end it is.
    pub group: Option<Arc<str>>,
    pub attempts: Option<u32>,
    pub reason: MoveReason,
    /// As in [`ShownItem::error`].
    pub error: Option<Arc<str>>,
    pub moved_at: Timestamp,
}

/// An item as a get, a wait or a subscribe showed it.
#[derive(Clone, Debug)]
pub struct ShownItem {
    pub id: ItemId,
    /// The name of its queue.
    pub queue: Arc<str>,
    pub kind: Arc<str>,
    pub priority: u8,
    pub created_at: Timestamp,
    pub attempts: u32,
    pub phase: Phase,
    /// The serial of what a suspended item waits for, if its worker said.
    pub reason: Option<u64>,
    /// When a final item ended.
    pub finished_at: Option<Timestamp>,
    pub dead_timeout: Option<Span>,
    /// The item's own limit, else its queue's. 0: no limit. Unset: not told.
    pub max_attempts: Option<u32>,
    pub address: Option<Arc<str>>,
    pub last_lease: Option<(Permit, LeaseEnd)>,
    /// The last error: code and message in one text.
    pub error: Option<Arc<str>>,
    /// The number of the last event, or 0.
    pub event_count: u64,
    /// The name of the group that the item is a member of.
    pub group: Option<Arc<str>>,
    /// Where the item came from, if it was moved, redriven or rerun.
    pub origin: Option<Box<Origin>>,
    /// The item that a final item goes on as.
    pub moved_to: Option<ItemId>,
    /// The newest attempts that did not complete. Unset: not told.
    pub attempt_log: Option<Vec<LoggedAttempt>>,
    /// Unset once the item is final, unless its queue keeps the payload.
    pub payload: Option<Bytes>,
    pub result: Option<Bytes>,
    /// The item's state in the trace.
    pub text: String,
}

/// An attempt that did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedAttempt {
    pub attempt: u32,
    pub leased_at: Timestamp,
    pub ended_at: Timestamp,
    pub end: AttemptEnd,
}

/// A queue as a create, an update or a rebalance showed it.
#[derive(Clone, Debug, Default)]
pub struct ShownQueue {
    pub partitions: Vec<PartitionId>,
    /// The store of each partition, retired ones included. `None` is the first store of all.
    pub homes: Vec<(PartitionId, Option<Arc<str>>)>,
}

/// The counts of a queue.
#[derive(Clone, Debug, Default)]
pub struct QueueCounts {
    pub counts: Counts,
    pub kinds: BTreeMap<Arc<str>, Counts>,
    /// How many items wait, by priority.
    pub priorities: BTreeMap<u8, u64>,
    pub retained: u64,
    /// Items that ended here and are not yet taken by the queue that they go to.
    pub moving: u64,
    pub lease_waiters: usize,
    pub partitions: Vec<PartitionCounts>,
}

#[derive(Clone, Debug)]
pub struct PartitionCounts {
    pub partition: PartitionId,
    pub state: PartitionState,
    /// The name of the store that the partition is in.
    pub store: Arc<str>,
    pub counts: Counts,
    /// Whether the partition takes nothing new and goes once it is empty.
    pub drains: bool,
}

/// Whether a partition serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionState {
    Loading,
    Available,
    Faulty { error: String },
    Closed,
}

/// A group with all that ever were members of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownGroup {
    pub name: Arc<str>,
    /// Tells a group from earlier ones of its name.
    pub created_at: Timestamp,
    pub state: GroupState,
    pub live: Counts,
    pub ended: Ended,
}

#[derive(Clone, Debug)]
pub struct ShownCron {
    /// The name of the queue that its items are made in.
    pub queue: Arc<str>,
    pub name: Arc<str>,
    /// Tells a cron from earlier ones of its name.
    pub created_at: Timestamp,
    pub schedule: Arc<str>,
    pub paused: bool,
    pub next_at: Option<Timestamp>,
    pub last_at: Option<Timestamp>,
    /// The serial of its item, which tells the create or update that the cron is as. Unset if the body is lost.
    pub serial: Option<u64>,
}

impl Given {
    /// An item without anything that an item need not have.
    pub fn of(id: ItemId, permit: Permit) -> Self {
        Self {
            id,
            permit,
            kind: Arc::default(),
            priority: 0,
            attempts: 0,
            deadline: Timestamp(0),
            created_at: Timestamp(0),
            dead_timeout: None,
            origin: None,
            group: None,
            input: None,
            event_count: 0,
            body: Bytes::new(),
        }
    }
}

impl ShownItem {
    /// An item without anything that an item need not have.
    pub fn of(id: ItemId, phase: Phase) -> Self {
        Self {
            id,
            queue: Arc::default(),
            kind: Arc::default(),
            priority: 0,
            created_at: Timestamp(0),
            attempts: 0,
            phase,
            reason: None,
            finished_at: None,
            dead_timeout: None,
            max_attempts: None,
            address: None,
            last_lease: None,
            error: None,
            event_count: 0,
            group: None,
            origin: None,
            moved_to: None,
            attempt_log: None,
            payload: None,
            result: None,
            text: String::new(),
        }
    }
}
