//! Why something was not done.

use std::sync::Arc;

use crate::cron::CronRefusal;
use crate::id::{ItemId, ItemNumber, PartitionId};
use crate::item::{LeaseEnd, Phase};
use crate::limits::Invalid;
use crate::row::QueueName;

/// One answer for each item of a verb, in the order given.
pub type Each<T> = Vec<Result<T, Refusal>>;

/// A bound that waiting does not mend: something must be deleted, or the bound raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `limits.queues` of the configuration.
    Queues,
    /// `limits.partitions` of the configuration.
    Partitions,
    PartitionsPerQueue,
    Crons,
    CronsPerQueue,
    RulesPerQueue,
    // Numbers that are used up and never issued again.
    ItemNumbers,
    PartitionNumbers,
    QueueVersions,
    Clears,
}

/// Why a verb was not carried out. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such item here, or one that is final and forgotten.
    NotFound,
    /// The permit is not, or no longer, the right to the item.
    LeaseLost {
        reason: Option<LeaseEnd>,
    },
    /// The last event is not the one that was to be the last.
    NotAfter {
        last_seq: u64,
    },
    /// Nobody waits for an answer to the item.
    NotSuspended,
    /// The item has ended, and what is asked for is for live ones.
    Ended,
    /// The item has not ended, and what is asked for is for final ones.
    NotEnded,
    /// What is asked for is not for items of this state.
    WrongPhase {
        phase: Phase,
    },
    /// The item goes on as this one.
    MovedOn {
        id: ItemId,
    },
    /// The item is on its way to another queue or partition.
    Leaving,
    /// The payload of the item is not kept, or the store has lost it.
    NoPayload {
        lost: bool,
    },
    /// An item of that address is not final yet: this one.
    DuplicateAddress {
        number: ItemNumber,
    },
    /// As [`Refusal::DuplicateAddress`]; it is in a partition that was home to the address before.
    HeldElsewhere {
        id: ItemId,
    },
    /// Somebody else takes this by now: whoever sent it has not heard yet.
    Moved,
    /// Partitions of the queue are still being leased empty.
    Draining,
    /// The idempotency key was used for a call with other items.
    KeyTaken,
    /// Where to begin is not in the list, or not any more.
    NoSuchPivot,
    GroupExists,
    NoSuchGroup,
    /// The group is done or was cancelled, and what is asked for is for others.
    GroupFinished,
    /// The group is neither done nor aborted.
    GroupNotOver,
    QueueExists,
    /// There is a queue of that name, and this field of it, by its name in the API, is not as was given.
    QueueDiffers {
        field: &'static str,
    },
    /// The queue that a verb names, or one that something of the verb is to go to.
    NoSuchQueue {
        queue: Arc<str>,
    },
    /// The queue has no partition of that number.
    NoSuchPartition {
        queue: Arc<str>,
        partition: PartitionId,
    },
    /// No unclaimed partition of that number is in that store.
    NotUnclaimed,
    /// The unclaimed partition still has so many items that are not final, not yet where they are moved to, or owed by a
    /// group that ends; and so many crons.
    UnclaimedNotEmpty {
        live: u64,
        crons: u64,
    },
    /// The unclaimed partition cannot be read.
    UnclaimedDamaged {
        damage: Arc<str>,
    },
    /// A queue has a partition of that number, in another store.
    PartitionNamed {
        queue: Arc<str>,
    },
    /// A cron of the unclaimed partition has a name that another cron has.
    CronNamed {
        cron: Arc<str>,
    },
    /// The queue still has so many items that are not final, or not yet where they are moved to.
    NotEmpty {
        live: u64,
    },
    /// A bound of the partition is reached that time or work mends: what, and how many there may be.
    TooMany {
        what: &'static str,
        max: usize,
    },
    /// A bound is reached that waiting does not mend: which, and how many there may be.
    AtLimit {
        limit: Limit,
        max: usize,
    },
    /// A value that can never be right: which, and the rule it breaks.
    Invalid(Invalid),
    Cron(CronRefusal),
}

impl Refusal {
    pub fn no_such_queue(name: &QueueName) -> Self {
        Self::NoSuchQueue { queue: Arc::clone(&name.name) }
    }
}
