//! Items in their order, page by page. A page costs as much as there are kinds and items in it, whatever the backlog and however
//! many groups.

use std::collections::BTreeSet;

use crate::containers::SortedMap;
use crate::id::ItemNumber;
use crate::item::{Item, State};
use crate::partition::Partition;
use crate::partition::index::lanes::{Index, Key};
use crate::partition::rows::{due_key, rank};
use crate::refusal::Refusal;

/// Which items to show, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Waiting, held, leased and suspended ones as they are leased: by priority, then by place.
    Queue,
    /// Items due later: by their time, then as they were produced.
    Scheduled,
}

impl Partition {
    /// What follows the pivot in a list, or its beginning. A pivot that is not in that list (any more) is refused: its
    /// place is not known.
    pub fn list(&self, list: List, pivot: Option<ItemNumber>, limit: usize) -> Result<Vec<Item>, Refusal> {
        let after = pivot.map(|number| self.place_in(list, number)).transpose()?;
        let from =
            after.map_or((0, ItemNumber(0)), |(order, ItemNumber(number))| (order, ItemNumber(number + 1)));
        let orders: Vec<Order<'_>> = match list {
            List::Queue => {
                let leased = self.leased_places.visible().map(|keys| keys_from(keys, from));
                orders(&self.lanes, from).chain(orders(&self.suspended, from)).chain(leased).collect()
            }
            List::Scheduled => orders(&self.schedule, from).collect(),
        };
        let numbers = merged(orders, limit);
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
            (List::Queue, State::Waiting { .. } | State::Leased(_) | State::Suspended(_)) => {
                Ok((rank(entry.priority, entry.place), number))
            }
            (List::Scheduled, State::Scheduled { due_at }) => Ok((due_key(*due_at), number)),
            (List::Queue, State::Scheduled { .. } | State::Final(_))
            | (
                List::Scheduled,
                State::Waiting { .. } | State::Leased(_) | State::Suspended(_) | State::Final(_),
            ) => Err(Refusal::NoSuchPivot),
        }
    }
}

/// Keys in their order.
type Order<'a> = Box<dyn Iterator<Item = Key> + 'a>;

/// Visible keys of an index from `from` on: one iterator per group lane, and one for the items without a group.
fn orders(index: &Index, from: Key) -> impl Iterator<Item = Order<'_>> {
    let members = index.members_from(from).map(|keys| -> Order<'_> { Box::new(keys) });
    members.chain(index.without_group().map(move |keys| keys_from(keys, from)))
}

fn keys_from(keys: &SortedMap<Key, ()>, from: Key) -> Order<'_> {
    Box::new(keys.range(from..).map(|(key, ())| key))
}

/// The first numbers of several orders as one.
fn merged(mut orders: Vec<Order<'_>>, limit: usize) -> Vec<ItemNumber> {
    let mut heads: BTreeSet<(Key, usize)> = BTreeSet::new();
    for (index, order) in orders.iter_mut().enumerate() {
        heads.extend(order.next().map(|key| (key, index)));
    }
    let mut numbers = Vec::new();
    while numbers.len() < limit {
        let Some(((_, number), index)) = heads.pop_first() else { break };
        numbers.push(number);
        heads.extend(orders[index].next().map(|key| (key, index)));
    }
    numbers
}
