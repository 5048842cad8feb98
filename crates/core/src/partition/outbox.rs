//! Items on their way to other queues: those whose taker is not chosen yet by queue, the others by taker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::index::Key;
use crate::id::{ItemNumber, PartitionId};
use crate::item::{Assigned, MoveNumber, Outcome};

#[derive(Debug, Default, PartialEq)]
pub(super) struct Outbox {
    /// In the order in which they left. None is empty.
    unassigned: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// In the order of their numbers, which is the one they must be taken in. None is empty.
    assigned: BTreeMap<PartitionId, Assignments>,
    len: u64,
}

#[derive(Debug, PartialEq)]
pub(super) struct Assignments {
    /// The queue that the partition was of when it was chosen.
    pub(super) queue: Arc<str>,
    pub(super) moves: BTreeMap<MoveNumber, ItemNumber>,
}

/// An item as the outbox holds it.
pub(super) struct Leaving {
    to: Arc<str>,
    assigned: Option<Assigned>,
    key: Key,
}

impl Leaving {
    pub(super) fn of(number: ItemNumber, outcome: &Outcome) -> Option<Self> {
        let outgoing = outcome.outgoing.as_ref()?;
        let key = (outcome.finished_at.0, number);
        Some(Self { to: outgoing.to.clone(), assigned: outgoing.assigned, key })
    }
}

impl Outbox {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn insert(&mut self, leaving: Leaving) {
        self.len += 1;
        let Leaving { to, assigned, key } = leaving;
        match assigned {
            None => {
                self.unassigned.entry(to).or_default().insert(key);
            }
            Some(Assigned { partition, number }) => {
                let empty = || Assignments { queue: to, moves: BTreeMap::new() };
                self.assigned.entry(partition).or_insert_with(empty).moves.insert(number, key.1);
            }
        }
    }

    pub(super) fn remove(&mut self, leaving: &Leaving) {
        self.len -= 1;
        match leaving.assigned {
            None => {
                let Some(keys) = self.unassigned.get_mut(&leaving.to) else { return };
                keys.remove(&leaving.key);
                if keys.is_empty() {
                    self.unassigned.remove(&leaving.to);
                }
            }
            Some(Assigned { partition, number }) => {
                let Some(assignments) = self.assigned.get_mut(&partition) else { return };
                assignments.moves.remove(&number);
                if assignments.moves.is_empty() {
                    self.assigned.remove(&partition);
                }
            }
        }
    }

    pub(super) fn unassigned(&self) -> impl Iterator<Item = &Arc<str>> {
        self.unassigned.keys()
    }

    pub(super) fn assigned(&self) -> impl Iterator<Item = (PartitionId, &Assignments)> {
        self.assigned.iter().map(|(partition, assignments)| (*partition, assignments))
    }

    /// The first ones on their way to a queue that nobody was chosen for.
    pub(super) fn first_unassigned(&self, to: &str, limit: usize) -> Vec<ItemNumber> {
        let keys = self.unassigned.get(to).into_iter().flatten();
        keys.take(limit).map(|(_, number)| *number).collect()
    }

    /// The first ones that a partition is to take.
    pub(super) fn first_assigned(&self, to: PartitionId, limit: usize) -> Vec<(MoveNumber, ItemNumber)> {
        let moves = self.assigned.get(&to).into_iter().flat_map(|assignments| &assignments.moves);
        moves.take(limit).map(|(number, item)| (*number, *item)).collect()
    }

    /// Those up to a number that a partition is to take.
    pub(super) fn assigned_up_to(&self, to: PartitionId, last: MoveNumber) -> Vec<ItemNumber> {
        let Some(assignments) = self.assigned.get(&to) else { return Vec::new() };
        assignments.moves.range(..=last).map(|(_, item)| *item).collect()
    }
}
