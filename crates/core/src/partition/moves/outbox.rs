//! Items on their way to other queues, and crons on their way to other partitions. Items whose taker is not chosen yet are
//! here by queue; what has a taker is here by taker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cron::Leaves;
use crate::id::{ItemNumber, PartitionId};
use crate::item::{Assigned, MoveNumber, Outcome};
use crate::partition::index::lanes::Key;

#[derive(Debug, Default, PartialEq)]
pub(in crate::partition) struct Outbox {
    /// By queue. A queue is removed with its last item.
    unassigned: BTreeMap<Arc<str>, Unassigned>,
    /// By taker. A taker is removed with its last move.
    assigned: BTreeMap<PartitionId, Assignments>,
    /// How many items `unassigned` and `assigned` hold.
    items: u64,
}

/// Items without a taker, in the order in which they left. Those that died are apart: they alone may go to another queue
/// than the one they were to go to.
#[derive(Debug, Default, PartialEq)]
struct Unassigned {
    died: BTreeSet<Key>,
    others: BTreeSet<Key>,
}

/// Which items without a taker are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::partition) enum Which {
    All,
    Died,
}

#[derive(Debug, PartialEq)]
pub(in crate::partition) struct Assignments {
    /// The queue that the partition was of when it was chosen.
    pub(in crate::partition) queue: Arc<str>,
    /// In the order of their numbers, which is the one they must be taken in.
    pub(in crate::partition) moves: BTreeMap<MoveNumber, Leaver>,
}

/// An item that has a taker, or a cron by its name.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::partition) enum Leaver {
    Item(ItemNumber),
    Cron(Arc<str>),
}

/// An item as the outbox holds it.
pub(in crate::partition) struct Leaving {
    to: Arc<str>,
    assigned: Option<Assigned>,
    died: bool,
    key: Key,
}

impl Leaving {
    pub(in crate::partition) fn of(number: ItemNumber, outcome: &Outcome) -> Option<Self> {
        let outgoing = outcome.outgoing.as_ref()?;
        let key = (outcome.finished_at.0, number);
        let died = outgoing.reason.is_death();
        Some(Self { to: outgoing.to.clone(), assigned: outgoing.assigned, died, key })
    }
}

impl Unassigned {
    fn keys(&mut self, died: bool) -> &mut BTreeSet<Key> {
        if died { &mut self.died } else { &mut self.others }
    }

    fn is_empty(&self) -> bool {
        self.died.is_empty() && self.others.is_empty()
    }

    fn first(&self, which: Which, limit: usize) -> Vec<ItemNumber> {
        let others = match which {
            Which::All => self.others.iter().take(limit),
            Which::Died => self.others.iter().take(0),
        };
        let mut keys: Vec<Key> = self.died.iter().take(limit).chain(others).copied().collect();
        keys.sort_unstable();
        keys.into_iter().take(limit).map(|(_, number)| number).collect()
    }
}

impl Outbox {
    /// How many items are on their way.
    pub(in crate::partition) fn items(&self) -> u64 {
        self.items
    }

    pub(in crate::partition) fn is_empty(&self) -> bool {
        self.unassigned.is_empty() && self.assigned.is_empty()
    }

    pub(in crate::partition) fn insert(&mut self, leaving: Leaving) {
        self.items += 1;
        let Leaving { to, assigned, died, key } = leaving;
        match assigned {
            None => {
                self.unassigned.entry(to).or_default().keys(died).insert(key);
            }
            Some(assigned) => self.insert_assigned(to, assigned, Leaver::Item(key.1)),
        }
    }

    pub(in crate::partition) fn insert_cron(&mut self, name: &Arc<str>, leaves: &Leaves) {
        self.insert_assigned(Arc::clone(&leaves.queue), leaves.assigned, Leaver::Cron(Arc::clone(name)));
    }

    fn insert_assigned(&mut self, queue: Arc<str>, assigned: Assigned, leaver: Leaver) {
        let Assigned { partition, number } = assigned;
        let empty = || Assignments { queue, moves: BTreeMap::new() };
        self.assigned.entry(partition).or_insert_with(empty).moves.insert(number, leaver);
    }

    pub(in crate::partition) fn remove(&mut self, leaving: &Leaving) {
        self.items -= 1;
        match leaving.assigned {
            None => {
                let Some(unassigned) = self.unassigned.get_mut(&leaving.to) else { return };
                unassigned.keys(leaving.died).remove(&leaving.key);
                if unassigned.is_empty() {
                    self.unassigned.remove(&leaving.to);
                }
            }
            Some(assigned) => self.remove_assigned(assigned),
        }
    }

    pub(in crate::partition) fn remove_cron(&mut self, leaves: &Leaves) {
        self.remove_assigned(leaves.assigned);
    }

    fn remove_assigned(&mut self, Assigned { partition, number }: Assigned) {
        let Some(assignments) = self.assigned.get_mut(&partition) else { return };
        assignments.moves.remove(&number);
        if assignments.moves.is_empty() {
            self.assigned.remove(&partition);
        }
    }

    pub(in crate::partition) fn unassigned(&self) -> impl Iterator<Item = &Arc<str>> {
        self.unassigned.keys()
    }

    pub(in crate::partition) fn assigned(&self) -> impl Iterator<Item = (PartitionId, &Assignments)> {
        self.assigned.iter().map(|(partition, assignments)| (*partition, assignments))
    }

    /// The first items on their way to a queue that have no taker.
    pub(in crate::partition) fn first_unassigned(
        &self,
        to: &str,
        which: Which,
        limit: usize,
    ) -> Vec<ItemNumber> {
        self.unassigned.get(to).map_or_else(Vec::new, |unassigned| unassigned.first(which, limit))
    }

    /// The first moves that a partition is to take.
    pub(in crate::partition) fn first_assigned(
        &self,
        to: PartitionId,
        limit: usize,
    ) -> Vec<(MoveNumber, Leaver)> {
        let moves = self.assigned.get(&to).into_iter().flat_map(|assignments| &assignments.moves);
        moves.take(limit).map(|(number, leaver)| (*number, leaver.clone())).collect()
    }

    /// The moves up to a number that a partition is to take.
    pub(in crate::partition) fn assigned_up_to(&self, to: PartitionId, last: MoveNumber) -> Vec<Leaver> {
        let Some(assignments) = self.assigned.get(&to) else { return Vec::new() };
        assignments.moves.range(..=last).map(|(_, leaver)| leaver.clone()).collect()
    }
}
