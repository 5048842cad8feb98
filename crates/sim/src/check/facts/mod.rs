//! The history, told item by item.

mod changes;
mod gather;
mod item;
mod leases;
mod queues;

use std::collections::BTreeMap;

use windlass_core::id::ItemId;

use super::groups::GroupFacts;
use crate::history::{Call, History, Moment, Violation};

pub use self::item::{Granting, ItemFacts, Judgement, Maker, Verb};

/// A history, with each call at the items, groups and queues that it concerns.
#[derive(Debug)]
pub struct Facts<'a> {
    pub history: &'a History,
    pub items: Vec<ItemFacts<'a>>,
    pub groups: Vec<GroupFacts<'a>>,
    /// The place in `items` of each id that anybody was told.
    pub by_id: BTreeMap<ItemId, usize>,
    /// All lease calls.
    pub leases: Vec<&'a Call>,
    /// Leases that may have been granted any item without anybody being told, whatever became of the item.
    haunted: Vec<&'a Call>,
    /// The other leases by their beginning, each with the latest end of all up to it.
    calm: Vec<(&'a Call, Moment)>,
    /// Clears and deletes that may have done something.
    sweeps: Vec<&'a Call>,
    /// Redrives that may have done something.
    redrives: Vec<&'a Call>,
    /// Updates that may have changed something, by the serial of the item.
    changes: BTreeMap<u64, Vec<&'a Call>>,
    /// Those of items of which nobody was told.
    stray_changes: Vec<&'a Call>,
}

pub(super) fn violation(rule: &'static str, text: String) -> Violation {
    Violation { rule, text }
}

impl<'a> Facts<'a> {
    pub(super) fn groups_where(&self, holds: impl Fn(&GroupFacts<'a>) -> bool) -> Vec<usize> {
        (0..self.groups.len()).filter(|index| holds(&self.groups[*index])).collect()
    }

    /// The groups that the item may be a member of.
    pub fn groups_of(&self, item: &ItemFacts<'_>) -> impl Iterator<Item = &GroupFacts<'a>> {
        item.groups.iter().map(|group| &self.groups[*group])
    }

    /// Calls that may have taken the item away together with its group's other members.
    pub fn group_cancels(&self, item: &ItemFacts<'_>) -> impl Iterator<Item = &'a Call> {
        self.groups_of(item).flat_map(|group| group.cancels().map(|asked| asked.call))
    }
}
