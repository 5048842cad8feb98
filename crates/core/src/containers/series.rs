//! [`Series`]: numbered entries of items, one or two for most items, thousands for some. Nearly all entries come in at the end
//! and leave from the front, or all at once. There may be millions, so each costs little more than itself.

use std::collections::vec_deque::VecDeque;
use std::fmt;

use super::SortedMap;
use crate::id::ItemNumber;

#[derive(Clone)]
pub struct Series<V> {
    /// By number. None is empty.
    items: SortedMap<ItemNumber, VecDeque<(u64, V)>>,
    len: usize,
}

impl<V> Series<V> {
    pub const fn new() -> Self {
        Self { items: SortedMap::new(), len: 0 }
    }

    /// Of all items together.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get(&self, item: ItemNumber, number: u64) -> Option<&V> {
        let one = self.items.get(&item)?;
        let at = find(one, number).ok()?;
        Some(&one[at].1)
    }

    /// Everything that an item has, in order.
    pub fn of(&self, item: ItemNumber) -> Option<&VecDeque<(u64, V)>> {
        self.items.get(&item)
    }

    /// The value that was there before.
    pub fn insert(&mut self, item: ItemNumber, number: u64, value: V) -> Option<V> {
        let Some(one) = self.items.get_mut(&item) else {
            let mut one = VecDeque::with_capacity(1);
            one.push_back((number, value));
            self.items.insert(item, one);
            self.len += 1;
            return None;
        };
        match find(one, number) {
            Ok(at) => return Some(std::mem::replace(&mut one[at].1, value)),
            Err(at) => {
                if one.len() == one.capacity() {
                    // By a quarter, for a doubled one would be empty by a third most of the time.
                    one.reserve_exact(one.len() / 4 + 1);
                }
                one.insert(at, (number, value));
            }
        }
        self.len += 1;
        None
    }

    pub fn remove(&mut self, item: ItemNumber, number: u64) -> Option<V> {
        let one = self.items.get_mut(&item)?;
        let at = find(one, number).ok()?;
        let (_, value) = one.remove(at).expect("`find` gives places within");
        self.len -= 1;
        if one.is_empty() {
            self.items.remove(&item);
        } else if one.capacity() > 4 * one.len() {
            one.shrink_to(2 * one.len());
        }
        Some(value)
    }

    /// Takes out all that an item has from a number on, in one step.
    pub fn remove_from(&mut self, item: ItemNumber, number: u64) -> VecDeque<(u64, V)> {
        let Some(one) = self.items.get_mut(&item) else { return VecDeque::new() };
        let at = find(one, number).unwrap_or_else(|at| at);
        let removed = if at == 0 { self.items.remove(&item).unwrap_or_default() } else { one.split_off(at) };
        self.len -= removed.len();
        removed
    }

    pub fn iter(&self) -> impl Iterator<Item = (ItemNumber, u64, &V)> {
        self.range(ItemNumber(0), 0)
    }

    /// From a number of an item on, whether or not it is there.
    pub fn range(&self, item: ItemNumber, number: u64) -> impl Iterator<Item = (ItemNumber, u64, &V)> {
        self.items.range(item..).flat_map(move |(of, one)| {
            let from = if of == item { find(one, number).unwrap_or_else(|at| at) } else { 0 };
            one.range(from..).map(move |(number, value)| (of, *number, value))
        })
    }
}

fn find<V>(one: &VecDeque<(u64, V)>, number: u64) -> Result<usize, usize> {
    // Both ends first: there nearly all come in and leave.
    match (one.front(), one.back()) {
        (_, Some((last, _))) if *last < number => Err(one.len()),
        (Some((first, _)), _) if *first == number => Ok(0),
        (Some(_) | None, Some(_) | None) => one.binary_search_by_key(&number, |(number, _)| *number),
    }
}

impl<V> Default for Series<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: PartialEq> PartialEq for Series<V> {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl<V: fmt::Debug> fmt::Debug for Series<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(item, number, value)| ((item.0, number), value))).finish()
    }
}
