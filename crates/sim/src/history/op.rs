//! The calls, as they were asked.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::id::{ItemId, Permit};
use windlass_core::rule::Stop;
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Clear, Filter};
use windlass_engine::CloseMode;

use super::{FindOp, ManyOp, QueueIndex};
use crate::cron::CronOp;
use crate::group::{Ends, GroupAsk, GroupOp, LastWord, Word};

/// One item as it was to be produced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// No two items of a run share one; the body begins with it.
    pub serial: u64,
    pub len: usize,
    pub kind: Arc<str>,
    pub priority: u8,
    pub enqueue_at: Option<Timestamp>,
    pub max_attempts: Option<u32>,
    pub dead_timeout: Option<Span>,
    /// An item with an address is produced alone.
    pub address: Option<Arc<str>>,
    /// The name of its group. A member is produced alone, or with the group.
    pub group: Option<Arc<str>>,
}

impl Made {
    pub fn body(&self) -> Bytes {
        let mut body = format!("{}:", self.serial).into_bytes();
        let fill = b'a' + (self.serial % 26) as u8;
        body.resize(self.len.max(body.len()), fill);
        body.into()
    }

    /// The body that an update gave the item, by the serial of that update.
    pub fn edited_body(&self, edit: u64) -> Bytes {
        edited_body(self.serial, edit)
    }

    /// The serial of the item that a body was made for, if [`Made::body`] made it.
    pub fn serial_of(body: &[u8]) -> Option<u64> {
        let digits = body.split(|byte| *byte == b':').next()?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

#[derive(Clone, Debug)]
pub enum Op {
    Produce {
        queue: QueueIndex,
        items: Vec<Made>,
    },
    /// Produces under an idempotency key that the serial of the first item makes.
    ProduceOnce {
        queue: QueueIndex,
        items: Vec<Made>,
    },
    Lease {
        queue: QueueIndex,
        batch_size: usize,
        timeout: Option<Span>,
        filter: Filter,
        wait: Span,
    },
    Complete {
        queue: QueueIndex,
        items: Vec<(ItemId, Permit, Option<Bytes>)>,
    },
    Retry {
        queue: QueueIndex,
        items: Vec<RetryOp>,
    },
    Extend {
        queue: QueueIndex,
        timeout: Option<Span>,
        items: Vec<(ItemId, Permit)>,
    },
    Release {
        queue: QueueIndex,
        items: Vec<(ItemId, Permit)>,
    },
    Revoke {
        queue: QueueIndex,
        items: Vec<(ItemId, Permit)>,
    },
    Suspend {
        queue: QueueIndex,
        items: Vec<SuspendOp>,
    },
    /// `input` is the serial of the answer. No event has the same: the answer becomes one.
    Resume {
        id: ItemId,
        input: Option<u64>,
    },
    Cancel(ItemId),
    /// Changes an item that nobody works on.
    Change(ChangeOp),
    Rerun {
        id: ItemId,
        delay: Option<Span>,
    },
    /// Asks for a page of a walk through a queue.
    Find(Box<FindOp>),
    /// Changes those items of a queue that a filter takes.
    ChangeMany(Box<ManyOp>),
    /// Asks for the latest item of the chain that begins with this one.
    Latest(ItemId),
    /// Also asks for the attempt log.
    Get(ItemId),
    Wait {
        id: ItemId,
        wait: Span,
    },
    /// `events` are serials that no other event has.
    Emit {
        id: ItemId,
        permit: Permit,
        events: Vec<u64>,
    },
    /// Begins to follow from the item's present state on, which is the answer.
    Subscribe(ItemId),
    Follow {
        id: ItemId,
        after: u64,
        /// The stream goes on where an [`Op::Subscribe`] of the same caller has begun.
        is_subscribed: bool,
        /// How long at most.
        micros: u64,
    },
    Close {
        id: ItemId,
        mode: CloseMode,
    },
    Clear {
        queue: QueueIndex,
        clear: Clear,
    },
    Redrive {
        queue: QueueIndex,
        to: Option<QueueIndex>,
        kind: Option<Arc<str>>,
        limit: Option<u64>,
    },
    Stats(QueueIndex),
    Create {
        queue: QueueIndex,
        settings: Settings,
        partitions: u32,
    },
    Update {
        queue: QueueIndex,
        settings: Settings,
    },
    Delete {
        queue: QueueIndex,
        force: bool,
    },
    Rebalance {
        queue: QueueIndex,
        partitions: u32,
    },
    /// Pauses or blocks one kind, or the whole queue.
    Stop {
        queue: QueueIndex,
        kind: Option<Arc<str>>,
        stop: Stop,
        until: Option<Timestamp>,
    },
    Go {
        queue: QueueIndex,
        kind: Option<Arc<str>>,
        stop: Stop,
    },
    Group(Box<GroupOp>),
    /// Lists the groups of a queue.
    Groups(QueueIndex),
    Cron(Box<CronOp>),
    /// Lists all crons of the server.
    Crons,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOp {
    pub id: ItemId,
    pub permit: Permit,
    pub retry_at: Option<Timestamp>,
    pub dead: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspendOp {
    pub id: ItemId,
    pub permit: Permit,
    /// A serial that no other suspend has, so that it tells which suspend an item is shown with.
    pub reason: Option<u64>,
}

/// What is to become of an item. A field that is unset stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeOp {
    pub id: ItemId,
    pub priority: Option<u8>,
    pub enqueue_at: Option<Timestamp>,
    pub max_attempts: Option<u32>,
    pub dead_timeout: Option<Span>,
    /// A serial that no other update has: the item gets a payload that is made of it.
    pub edit: Option<u64>,
}

/// The payload that an update gives an item: it tells the item, as each of its payloads does, and the update.
pub fn edited_body(serial: u64, edit: u64) -> Bytes {
    Bytes::from(format!("{serial}:edit {edit}"))
}

/// The serial that a reason was made of, or 0 if it was made otherwise.
pub fn reason_of(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

/// The body of an answer. The event of the answer holds another, so that neither is taken for the other.
pub fn input_body(serial: u64) -> Bytes {
    Bytes::from(format!("answer {serial}"))
}

impl Op {
    /// Whether the call takes away many items of the queue at once: a clear, a delete, or a change of many.
    pub fn sweeps(&self, queue: QueueIndex) -> bool {
        let by_queue = matches!(self, Self::Clear { queue: there, .. } | Self::Delete { queue: there, .. } if *there == queue);
        by_queue || self.many().is_some_and(|op| op.queue == queue && op.ends_items())
    }

    /// Whether items of the queue may be gone after the call without having been kept as they ended.
    pub fn forgets(&self, queue: QueueIndex) -> bool {
        let with_queue = matches!(self, Self::Delete { queue: there, .. } if *there == queue);
        with_queue || self.many().is_some_and(|op| op.queue == queue && op.deletes())
    }

    /// A page of a walk.
    pub fn find(&self) -> Option<&FindOp> {
        if let Self::Find(op) = self { Some(op) } else { None }
    }

    /// A change of many items.
    pub fn many(&self) -> Option<&ManyOp> {
        if let Self::ChangeMany(op) = self { Some(op) } else { None }
    }

    /// The settings that the call gives the queue.
    pub fn settings_of(&self, queue: QueueIndex) -> Option<&Settings> {
        if let Self::Create { queue: there, settings, .. } | Self::Update { queue: there, settings } = self
            && *there == queue
        {
            return Some(settings);
        }
        None
    }

    /// The queue and the items of a call that makes items itself.
    pub fn produces(&self) -> Option<(QueueIndex, &[Made])> {
        if let Self::Produce { queue, items } | Self::ProduceOnce { queue, items } = self {
            return Some((*queue, items));
        }
        let op = self.group()?;
        if let GroupAsk::Create { items, .. } = &op.ask { Some((op.queue, items)) } else { None }
    }

    /// An update of an item.
    pub fn change(&self) -> Option<&ChangeOp> {
        if let Self::Change(op) = self { Some(op) } else { None }
    }

    /// The item that the call is to rerun.
    pub fn rerun_of(&self) -> Option<ItemId> {
        if let Self::Rerun { id, .. } = self { Some(*id) } else { None }
    }

    pub fn group(&self) -> Option<&GroupOp> {
        if let Self::Group(op) = self { Some(op) } else { None }
    }

    pub fn cron(&self) -> Option<&CronOp> {
        if let Self::Cron(op) = self { Some(op) } else { None }
    }

    /// The end and abort items that the call leaves to a group to make.
    pub fn last_words(&self) -> impl Iterator<Item = (Word, &LastWord)> {
        self.group().and_then(|op| op.ask.ends()).into_iter().flat_map(Ends::words)
    }

    /// The queue that a call on leased items names.
    pub fn judged_in(&self) -> Option<QueueIndex> {
        if let Self::Complete { queue, .. }
        | Self::Retry { queue, .. }
        | Self::Extend { queue, .. }
        | Self::Release { queue, .. }
        | Self::Revoke { queue, .. }
        | Self::Suspend { queue, .. } = self
        {
            return Some(*queue);
        }
        None
    }
}
