//! What callers of the engine give and get, where the core has no word for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::cron::CronView;
use windlass_core::group::{GroupView, Member};
use windlass_core::id::{ItemId, PartitionId, Permit};
use windlass_core::item::{Item, ItemError, Lease, Origin, Phase};
use windlass_core::partition::{Counts, Remaining, Totals};
use windlass_core::row::{Queue, QueueName, Stored};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{CronChange, List};

use crate::error::EngineError;
use crate::partition::grant::GrantPart;
use crate::partition::handle::PartitionState;
use crate::store::Room;

/// The place of a change in the order in which its partition committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    pub partition: PartitionId,
    pub sequence: u64,
}

/// What came of a change, and where it is in the order of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<T> {
    pub value: T,
    /// One for each partition asked; the latest one there if it changed nothing. The registry is partition 0.
    pub commits: Vec<Commit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducedItem {
    pub id: ItemId,
    pub phase: Phase,
}

/// What became of a call that judges each item by itself.
#[derive(Clone, Debug)]
pub struct Judged<T> {
    /// In the order given.
    pub results: Vec<Result<T, EngineError>>,
    pub commits: Vec<Commit>,
}

#[derive(Clone, Debug)]
pub struct RetryItem {
    pub id: ItemId,
    pub permit: Permit,
    pub retry_at: Option<Timestamp>,
    /// Counted from when the partition is asked. At most one of `retry_at` and `delay` is set.
    pub delay: Option<Span>,
    pub dead: bool,
    pub error: Option<ItemError>,
}

#[derive(Clone, Debug)]
pub struct SuspendItem {
    pub id: ItemId,
    pub permit: Permit,
    pub reason: Option<Arc<str>>,
}

/// Which items of a dead queue to send where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redrive {
    /// Unset: where each came from; those that came from nowhere stay.
    pub to: Option<QueueName>,
    /// Unset: every kind.
    pub kind: Option<Arc<str>>,
    /// Unset: all there are when it begins.
    pub limit: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub id: ItemId,
    pub permit: Permit,
    pub kind: Arc<str>,
    pub priority: u8,
    /// This one included.
    pub attempts: u32,
    pub deadline: Timestamp,
    pub created_at: Timestamp,
    /// Unset: it may grow any age.
    pub dead_timeout: Option<Span>,
    pub address: Option<Arc<str>>,
    /// Set for an item that was moved.
    pub origin: Option<Box<Origin>>,
    /// The name of the group it is a member of.
    pub group: Option<Arc<str>>,
    /// The answer that it was resumed with.
    pub input: Option<Bytes>,
    /// The number of its last event, or 0.
    pub event_count: u64,
    pub body: Bytes,
}

/// Leased items on their way to a worker. Dropped without [`Grant::accept`], they are given back uncharged: whoever
/// writes the answer accepts once it is written.
#[derive(Debug, Default)]
pub struct Grant {
    pub(crate) items: Vec<Granted>,
    pub(crate) parts: Vec<GrantPart>,
}

impl Grant {
    pub fn items(&self) -> &[Granted] {
        &self.items
    }

    pub fn commits(&self) -> Vec<Commit> {
        self.parts.iter().map(GrantPart::commit).collect()
    }

    pub fn accept(self) -> Vec<Granted> {
        Delivery { parts: self.parts }.accept();
        self.items
    }

    /// Lets go of the items, for whoever has made an answer of them that is still to be written.
    pub fn into_delivery(self) -> Delivery {
        Delivery { parts: self.parts }
    }
}

/// The leases of a [`Grant`] without the items' bodies. Dropped without [`Delivery::accept`], they are given back
/// uncharged.
#[derive(Debug, Default)]
pub struct Delivery {
    parts: Vec<GrantPart>,
}

impl Delivery {
    pub fn accept(mut self) {
        self.parts.iter_mut().for_each(GrantPart::accept);
    }
}

#[derive(Clone, Debug)]
pub struct ItemView {
    pub queue: QueueName,
    pub id: ItemId,
    pub item: Item,
    /// What it is to its group, if it has one.
    pub member: Option<Member>,
    /// Its own, else the queue's. 0: no limit.
    pub max_attempts: u32,
    /// Unset once it is final.
    pub payload: Option<Bytes>,
    pub result: Option<Bytes>,
    /// What of the payload's record is to be seen for as long as the item is, if it has any.
    pub facts: Option<Bytes>,
}

impl ItemView {
    /// Its state's name, as clients see it.
    pub fn phase(&self) -> Phase {
        match &self.member {
            Some(Member { held: true, .. }) => Phase::Held,
            Some(_) | None => self.item.state.phase(),
        }
    }
}

/// A group as it was made, with its first members.
#[derive(Clone, Debug)]
pub struct CreatedGroup {
    pub group: GroupView,
    /// In the order given.
    pub items: Vec<ProducedItem>,
}

/// A cron, the queue it makes items in, and the body of those.
#[derive(Clone, Debug)]
pub struct CronInfo {
    pub queue: QueueName,
    pub view: CronView,
    /// Unset only if it is lost: the log was damaged.
    pub body: Option<Bytes>,
}

/// What a caller gave of a cron that may be there already.
#[derive(Clone, Debug)]
pub struct GivenCron {
    pub fields: CronChange,
    /// Whether two bodies of items say the same: what is in a body is known to the caller alone.
    pub is_same_body: fn(&Bytes, &Bytes) -> bool,
}

/// An item in the hands of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub id: ItemId,
    pub kind: Arc<str>,
    /// This one included.
    pub attempts: u32,
    /// With its deadline as in force.
    pub lease: Lease,
}

/// Which part of which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub partition: PartitionId,
    pub list: List,
    /// Begins after this item, which must be in the list. Unset: at the beginning.
    pub after: Option<ItemId>,
    pub limit: usize,
}

#[derive(Clone, Debug, Default)]
pub struct QueueStats {
    pub counts: Counts,
    pub kinds: BTreeMap<Arc<str>, Counts>,
    /// How many wait, by priority.
    pub priorities: BTreeMap<u8, u64>,
    pub retained: u64,
    /// Ended here, and not yet taken by the queue they go to.
    pub moving: u64,
    pub oldest_waiting: Option<Timestamp>,
    pub lease_waiters: usize,
    /// How many of those that wait are held back by a rule.
    pub stopped: u64,
    /// Whether the whole queue is.
    pub paused: bool,
    pub blocked: bool,
    pub partitions: Vec<PartitionStats>,
}

#[derive(Clone, Debug)]
pub struct PartitionStats {
    pub partition: PartitionId,
    pub state: PartitionState,
    /// Whether the whole queue is paused or blocked.
    pub paused: bool,
    /// The name of the store that it is in.
    pub store: Arc<str>,
    /// How much room that store has.
    pub room: Room,
    pub counts: Counts,
    /// What is left to do, while it drains.
    pub remaining: Option<Remaining>,
}

/// A queue as its writers last told of it: no question to them, hence no work for them.
#[derive(Clone, Debug)]
pub struct QueueOverview {
    pub queue: Queue,
    /// Of the partitions that serve.
    pub counts: Counts,
    pub oldest_waiting: Option<Timestamp>,
    pub lease_waiters: usize,
    /// Calls that wait for an item to end.
    pub item_waiters: usize,
    /// Open streams of items.
    pub subscribers: usize,
    pub retained: u64,
    /// Ended here, and not yet taken by the queue they go to.
    pub moving: u64,
    /// How many of those that wait are held back by a rule.
    pub stopped: u64,
    /// Whether the whole queue is.
    pub paused: bool,
    pub blocked: bool,
    /// How many pauses, and how many blocks, stand on it and its kinds.
    pub rules: [usize; 2],
    /// Since the engine was opened.
    pub totals: Totals,
    pub partitions: Vec<(PartitionId, PartitionState)>,
    /// The store of each, in the same order.
    pub stores: Vec<Arc<str>>,
}

/// Commits that succeeded since the engine was opened, those of the registry included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitStats {
    pub commits: u64,
    pub latency_micros: Histogram,
    /// How many changes each held.
    pub changes: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The largest value of each bucket but the last, which has no end.
    pub bounds: &'static [u64],
    /// One more than bounds; not cumulative.
    pub buckets: Vec<u64>,
    pub sum: u64,
    pub count: u64,
}

/// A partition that a store holds and no queue names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclaimed {
    pub stored: Stored,
    /// The queue that the partition was of when it was last served.
    pub queue: Option<QueueName>,
    /// Items that have not ended, or not yet arrived where they go. Unset if the partition cannot be read.
    pub items: Option<u64>,
    /// Crons that the partition runs once it is served. Unset if the partition cannot be read.
    pub crons: Option<u64>,
    /// Items that have ended and are kept. Unset if the partition cannot be read.
    pub retained: Option<u64>,
}
