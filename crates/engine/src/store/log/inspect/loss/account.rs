//! The account of a log: what it holds and what it lost, counted in items.

use std::collections::BTreeMap;

use windlass_core::id::PartitionId;
use windlass_core::row::QueueName;

/// Items that were found in a log and items that are missing, by partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub partitions: BTreeMap<PartitionId, PartitionAccount>,
    /// Frames that cannot be read or are in no file. A frame of which nothing is wanted any more is not counted.
    pub frames_missing: u64,
}

/// The items of one partition. An item is an item row, or what tells that there was one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionAccount {
    /// The queue whose row names the partition.
    pub queue: Option<QueueName>,
    /// Rows of all kinds.
    pub rows: u64,
    /// Items whose row was found.
    pub items: u64,
    /// Items whose row is lost: a body of theirs is there, or their key can be read in a damaged frame or block.
    pub items_lost: u64,
    /// Damage may have taken items that nothing tells of: then `items_lost` is the least.
    pub may_miss_more: bool,
    /// Items that are kept although their payload is lost. A lease ends such an item as `failed` with the code `damaged`.
    pub payloads_lost: u64,
    pub results_lost: u64,
    /// References and headers that were kept without their payload.
    pub facts_lost: u64,
    /// Answers that suspended items were resumed with.
    pub answers_lost: u64,
    /// Attempts in the logs of items.
    pub attempts_lost: u64,
    /// Batches of events.
    pub events_lost: u64,
    /// Payloads of items that groups and crons are to make.
    pub templates_lost: u64,
    /// Commits that are missing between two that were found: their numbers have no gaps.
    pub commits_missing: u64,
}

impl PartitionAccount {
    /// Whether anything of the partition is or may be lost.
    pub fn hurt(&self) -> bool {
        self.items_lost > 0 || self.may_miss_more || self.bodies_lost() > 0 || self.commits_missing > 0
    }

    /// Bodies of every kind whose row is there.
    pub fn bodies_lost(&self) -> u64 {
        self.payloads_lost
            + self.results_lost
            + self.facts_lost
            + self.answers_lost
            + self.attempts_lost
            + self.events_lost
            + self.templates_lost
    }
}

impl Account {
    pub fn items(&self) -> u64 {
        self.partitions.values().map(|partition| partition.items).sum()
    }

    pub fn items_lost(&self) -> u64 {
        self.partitions.values().map(|partition| partition.items_lost).sum()
    }

    pub fn payloads_lost(&self) -> u64 {
        self.partitions.values().map(|partition| partition.payloads_lost).sum()
    }

    /// Whether more items may be lost than `items_lost` counts.
    pub fn may_miss_more(&self) -> bool {
        self.partitions.values().any(|partition| partition.may_miss_more) || self.frames_missing > 0
    }

    /// Partitions that hold something although no queue of this log names them. Empty where the log holds no queue and
    /// no registry: then another directory may hold the registry, and this one cannot know.
    pub fn unclaimed(&self) -> impl Iterator<Item = PartitionId> {
        let knows = self.partitions.contains_key(&PartitionId::REGISTRY);
        let unclaimed = self.partitions.iter().filter(move |(id, partition)| {
            knows && **id != PartitionId::REGISTRY && partition.queue.is_none() && partition.rows > 0
        });
        unclaimed.map(|(id, _)| *id)
    }
}
