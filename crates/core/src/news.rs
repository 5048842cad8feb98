//! [`News`] of a verb, for others than its caller.

use std::sync::Arc;

use bytes::Bytes;

use crate::group::Member;
use crate::id::ItemNumber;
use crate::item::{End, Item, MoveReason, Phase};
use crate::time::Timestamp;

/// News that others than the caller may be waiting for. A hint: the state decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Some item can be leased that could not before.
    Available,
    /// Some item is on its way to another queue, or a cron to another partition.
    Outgoing,
    /// An item failed or expired, and there is no queue for it to go to.
    Died(Box<Died>),
    /// An item that is watched has ended: see [`crate::partition::Partition::watch`].
    Ended(Box<Ended>),
    /// An item that is followed has new events, or another state: see [`crate::partition::Partition::follow`].
    Changed(Box<Changed>),
}

/// How a live item stands after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub number: ItemNumber,
    pub phase: Phase,
    /// Whether that is another state than before.
    pub shifted: bool,
    /// Why, while it is suspended.
    pub reason: Option<Arc<str>>,
    pub at: Timestamp,
    /// The number of its last event.
    pub event_count: u64,
}

/// An item as it ended, whether or not anything of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub item: Item,
    /// The item as a member of its group, if it had one.
    pub member: Option<Member>,
    pub result: Option<Bytes>,
}

/// An item that failed or expired and that nobody will work on any more, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Died {
    pub number: ItemNumber,
    pub kind: Arc<str>,
    pub attempts: u32,
    pub end: End,
    pub reason: MoveReason,
}
