//! Items in their order, page by page. A page costs as much as there are lanes and items in it, whatever the backlog.

use std::collections::BTreeSet;

use super::Partition;
use super::index::Key;
use super::rows::{due_key, rank};
use crate::command::{List, Refusal};
use crate::id::ItemNumber;
use crate::item::{Item, State};
use crate::sorted::{Iter, SortedMap};

impl Partition {
    /// What follows the pivot in a list, or its beginning. A pivot that is not in that list (any more) is refused: its
    /// place is not known.
    pub fn list(&self, list: List, pivot: Option<ItemNumber>, limit: usize) -> Result<Vec<Item>, Refusal> {
        let after = pivot.map(|number| self.place_in(list, number)).transpose()?;
        let numbers = match list {
            List::Queue => {
                let lanes = self.lanes.shown().map(|(_, keys)| keys);
                let suspended = self.suspended.shown().map(|(_, keys)| keys);
                first_after(lanes.chain(self.leased_places.visible()).chain(suspended), after, limit)
            }
            List::Scheduled => first_after(self.schedule.shown().map(|(_, keys)| keys), after, limit),
        };
        let item = |number| {
            let entry = self.items.get(&number).expect("items in an index are always in `items`");
            self.in_force(number, entry)
        };
        Ok(numbers.into_iter().map(item).collect())
    }

    /// Leased items in the order of their numbers, with their deadlines as in force.
    pub fn leased_from(&self, from: ItemNumber, limit: usize) -> Vec<Item> {
        let eras = self.leased.visible().flat_map(|numbers| numbers.range(from..).take(limit));
        let mut numbers: Vec<ItemNumber> = eras.map(|(number, ())| number).collect();
        numbers.sort_unstable();
        numbers.truncate(limit);
        let item = |number| {
            let entry = self.items.get(&number).expect("items in an index are always in `items`");
            self.in_force(number, entry)
        };
        numbers.into_iter().map(item).collect()
    }

    fn place_in(&self, list: List, number: ItemNumber) -> Result<Key, Refusal> {
        let entry = self.visible(number).ok_or(Refusal::NoSuchPivot)?;
        match (list, &entry.state) {
            (List::Queue, State::Waiting | State::Leased(_) | State::Suspended(_)) => {
                Ok((rank(entry.priority, entry.place), number))
            }
            (List::Scheduled, State::Scheduled { due_at }) => Ok((due_key(*due_at), number)),
            (List::Queue, State::Scheduled { .. } | State::Final(_))
            | (List::Scheduled, State::Waiting | State::Leased(_) | State::Suspended(_) | State::Final(_)) => {
                Err(Refusal::NoSuchPivot)
            }
        }
    }
}

/// The first numbers after a key, over several orders as one.
fn first_after<'a>(
    orders: impl Iterator<Item = &'a SortedMap<Key, ()>>,
    after: Option<Key>,
    limit: usize,
) -> Vec<ItemNumber> {
    let mut orders: Vec<Iter<'a, Key, ()>> = orders.map(|keys| keys_after(keys, after)).collect();
    let mut heads: BTreeSet<(Key, usize)> = BTreeSet::new();
    for (index, order) in orders.iter_mut().enumerate() {
        heads.extend(order.next().map(|(key, ())| (key, index)));
    }
    let mut numbers = Vec::new();
    while numbers.len() < limit {
        let Some(((_, number), index)) = heads.pop_first() else { break };
        numbers.push(number);
        heads.extend(orders[index].next().map(|(key, ())| (key, index)));
    }
    numbers
}

fn keys_after(keys: &SortedMap<Key, ()>, after: Option<Key>) -> Iter<'_, Key, ()> {
    match after {
        None => keys.iter(),
        Some((order, ItemNumber(number))) => keys.range((order, ItemNumber(number + 1))..),
    }
}
