//! Damage to what was stored: who told of it, and what may be missing because of it.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::id::PartitionId;

use super::Moment;

/// Partitions that may lack something after rot, as far as anybody was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    pub partitions: BTreeMap<PartitionId, Loss>,
    /// Something is missing of which nobody can say to what partition it belonged.
    pub is_anywhere: bool,
    /// Partitions that lose commits without a known number of items if a server starts on the logs as they are.
    pub at_start: BTreeSet<PartitionId>,
}

/// The part of a partition that is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    pub items: u64,
    /// More than `items` may be missing.
    pub may_be_more: bool,
}

impl Losses {
    /// Whether items of a partition may be missing without end.
    pub fn are_unknown(&self, partition: PartitionId) -> bool {
        self.is_anywhere || self.partitions.get(&partition).is_some_and(|loss| loss.may_be_more)
    }

    /// A server starts: `at_start` is lost.
    pub fn start(&mut self) {
        for partition in std::mem::take(&mut self.at_start) {
            self.add(partition, Loss { items: 0, may_be_more: true });
        }
    }

    /// Adds a loss that somebody else found: the larger of the two counts.
    pub fn add(&mut self, partition: PartitionId, loss: Loss) {
        let known = self.partitions.entry(partition).or_default();
        known.items = known.items.max(loss.items);
        known.may_be_more |= loss.may_be_more;
    }
}

/// Damage as somebody told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub at: Moment,
    pub by: Teller,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// A server that refused to start.
    Start,
    /// An operator who looked through the logs while no server ran.
    Inspect,
    /// An operator who salvaged the logs.
    Salvage,
}

/// Whether an error speaks of damage to what was stored.
pub fn speaks_of_damage(text: &str) -> bool {
    text.contains("damaged") || text.contains("Restore a backup")
}
