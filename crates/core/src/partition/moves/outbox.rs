//! Items on their way to other queues, and crons on their way to other partitions. Items whose taker is not chosen yet are
//! here by queue; what has a taker is here by taker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cron::Leaves;
use crate::effort::{self, Looked};
use crate::id::{ItemNumber, PartitionId};
use crate::item::{Assigned, MoveNumber, Outcome, PayloadSize};
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
    /// Items that are to have an address where they go: only the home of that address takes them.
    addressed: BTreeSet<Key>,
    /// What the items that may fall back come to: see [`crate::verbs::FallBack`].
    bytes: u64,
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
    which: Whither,
    /// 0 for an item that cannot fall back.
    bytes: u64,
    key: Key,
}

/// Which list of unassigned departures the item is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whither {
    Died,
    Others,
    Addressed,
}

impl Leaving {
    pub(in crate::partition) fn of(
        number: ItemNumber,
        outcome: &Outcome,
        payload: PayloadSize,
    ) -> Option<Self> {
        let outgoing = outcome.outgoing.as_ref()?;
        let key = (outcome.finished_at.0, number);
        let which = match outgoing.reason.is_death() {
            true => Whither::Died,
            false if outgoing.address.is_some() => Whither::Addressed,
            false => Whither::Others,
        };
        let bytes = if outgoing.reason.is_of_group() { 0 } else { outcome.kept_bytes + payload.bytes() };
        Some(Self { to: outgoing.to.clone(), assigned: outgoing.assigned, which, bytes, key })
    }
}

impl Unassigned {
    fn keys(&mut self, which: Whither) -> &mut BTreeSet<Key> {
        match which {
            Whither::Died => &mut self.died,
            Whither::Others => &mut self.others,
            Whither::Addressed => &mut self.addressed,
        }
    }

    fn is_empty(&self) -> bool {
        self.died.is_empty() && self.others.is_empty() && self.addressed.is_empty()
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
        let Leaving { to, assigned, which, bytes, key } = leaving;
        match assigned {
            None => {
                let unassigned = self.unassigned.entry(to).or_default();
                unassigned.bytes += bytes;
                unassigned.keys(which).insert(key);
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
                unassigned.bytes -= leaving.bytes;
                unassigned.keys(leaving.which).remove(&leaving.key);
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

    pub(in crate::partition) fn first_addressed(&self, to: &str, limit: usize) -> Vec<ItemNumber> {
        let addressed = self.unassigned.get(to).into_iter().flat_map(|unassigned| &unassigned.addressed);
        addressed.take(limit).map(|(_, number)| *number).collect()
    }

    /// Those of some items that are on their way to a queue, are to have an address there, and have no taker.
    pub(in crate::partition) fn unassigned_of(&self, to: &str, items: BTreeSet<Key>) -> Vec<ItemNumber> {
        let Some(unassigned) = self.unassigned.get(to) else { return Vec::new() };
        let is_there = |key: &Key| {
            effort::look(Looked::Indexed);
            unassigned.addressed.contains(key)
        };
        items.into_iter().filter(is_there).map(|(_, number)| number).collect()
    }

    /// What the items come to that have no taker in a queue and may fall back.
    pub(in crate::partition) fn bytes_to(&self, queue: &str) -> u64 {
        self.unassigned.get(queue).map_or(0, |unassigned| unassigned.bytes)
    }

    /// The first items without a taker in a queue that are wanted, in the order in which they left.
    pub(in crate::partition) fn first_unassigned_that(
        &self,
        to: &str,
        limit: usize,
        is_wanted: impl Fn(ItemNumber) -> bool,
    ) -> Vec<ItemNumber> {
        let Some(unassigned) = self.unassigned.get(to) else { return Vec::new() };
        let sets = [&unassigned.died, &unassigned.others, &unassigned.addressed];
        let first = |set: &'_ BTreeSet<Key>| -> Vec<Key> {
            set.iter().filter(|(_, number)| is_wanted(*number)).take(limit).copied().collect()
        };
        let mut keys: Vec<Key> = sets.into_iter().flat_map(first).collect();
        keys.sort_unstable();
        keys.into_iter().take(limit).map(|(_, number)| number).collect()
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
    pub(in crate::partition) fn assigned_up_to(
        &self,
        to: PartitionId,
        last: MoveNumber,
    ) -> Vec<(MoveNumber, Leaver)> {
        let Some(assignments) = self.assigned.get(&to) else { return Vec::new() };
        assignments.moves.range(..=last).map(|(number, leaver)| (*number, leaver.clone())).collect()
    }
}
