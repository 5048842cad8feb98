//! The last word of the batches since the last snapshot on each row: only where it is, so that a long log takes little
//! memory.

use std::collections::BTreeMap;

use windlass_core::codec;
use windlass_core::containers::{Series, SortedMap};
use windlass_core::id::ItemNumber;
use windlass_core::row::Key;

use crate::store::entries::{Entries, Entry, UnknownEntry};

/// Where a row's last value is, or that it was removed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LastWord<P> {
    Value(P),
    Removed,
}

impl<P> LastWord<P> {
    pub(crate) fn place(self) -> Option<P> {
        match self {
            Self::Value(place) => Some(place),
            Self::Removed => None,
        }
    }
}

/// Rows of items and of their events are by far the most, and have numbers.
#[derive(Debug)]
pub(crate) struct Tail<P> {
    others: BTreeMap<Vec<u8>, LastWord<P>>,
    items: SortedMap<ItemNumber, LastWord<P>>,
    /// By the number of the first event; under 0 that all before went at once.
    events: Series<LastWord<P>>,
}

impl<P> Default for Tail<P> {
    fn default() -> Self {
        Self { others: BTreeMap::new(), items: SortedMap::default(), events: Series::default() }
    }
}

impl<P: Copy> Tail<P> {
    /// Takes in the entries of the next batch. `place_of` tells the place of a value that begins at an offset, as
    /// [`Entry::PutRow`] has it.
    pub(crate) fn take(
        &mut self,
        entries: Entries<'_>,
        place_of: impl Fn(usize, &[u8]) -> P,
    ) -> Result<(), UnknownEntry> {
        for entry in entries {
            match entry? {
                Entry::PutRow { key, value, at } => self.put(key, LastWord::Value(place_of(at, value))),
                Entry::RemoveRow { key } => self.put(key, LastWord::Removed),
                Entry::PutBody { .. } | Entry::RemoveBody { .. } => {}
            }
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], word: LastWord<P>) {
        match codec::decode_key(key) {
            Ok(Key::Item(number)) => {
                self.items.insert(number, word);
            }
            Ok(Key::Events(number, None)) => {
                self.events.remove_from(number, 0);
                self.events.insert(number, 0, word);
                self.remove_others_under(key);
            }
            Ok(Key::Events(number, Some(first_seq))) if first_seq > 0 => {
                self.events.insert(number, first_seq, word);
            }
            Ok(_) | Err(_) => {
                self.others.insert(key.to_vec(), word);
            }
        }
    }

    /// A row that only a later version can read goes with the rows that its key begins with.
    fn remove_others_under(&mut self, key: &[u8]) {
        let with_it = self.others.range(key.to_vec()..).take_while(|(row, _)| row.starts_with(key));
        let with_it: Vec<Vec<u8>> = with_it.map(|(row, _)| row.clone()).collect();
        for row in &with_it {
            self.others.remove(row);
        }
    }

    /// In the order of keys as bytes, which is the snapshot's: keys of a later version may sort anywhere.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Vec<u8>, LastWord<P>)> {
        let others = self.others.iter().map(|(key, word)| (key.clone(), *word));
        let items = self.items.iter().map(|(number, word)| (encoded(&Key::Item(number)), *word));
        let events = self.events.iter().map(|(number, first_seq, word)| {
            let first_seq = (first_seq > 0).then_some(first_seq);
            (encoded(&Key::Events(number, first_seq)), *word)
        });
        merged(others, merged(items, events))
    }
}

/// Two ordered lists as one.
fn merged<P>(
    one: impl Iterator<Item = (Vec<u8>, LastWord<P>)>,
    other: impl Iterator<Item = (Vec<u8>, LastWord<P>)>,
) -> impl Iterator<Item = (Vec<u8>, LastWord<P>)> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some((this, _)), Some((that, _))) if that < this => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

/// Whether removing this takes all rows whose keys begin with it.
pub(crate) fn takes_many(key: &[u8]) -> bool {
    matches!(codec::decode_key(key), Ok(Key::Events(_, None)))
}

fn encoded(key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24);
    codec::encode_key(key, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_later_version_stand_where_their_bytes_do() {
        let mut tail = Tail::<u64>::default();
        let item = |number| encoded(&Key::Item(ItemNumber(number)));
        let batch = |number, first_seq| encoded(&Key::Events(ItemNumber(number), first_seq));
        let mut keys = vec![vec![0], item(1)];
        // Between the items, although it is none that this version can read; and the next one between events.
        keys.extend([[item(1), vec![0]].concat(), item(2), batch(1, Some(1)), batch(1, Some(7))]);
        keys.extend([[batch(1, Some(7)), vec![0]].concat(), batch(2, None), batch(3, Some(0)), vec![200, 1]]);
        for key in keys.iter().rev() {
            tail.put(key, LastWord::Removed);
        }
        let found: Vec<Vec<u8>> = tail.iter().map(|(key, _)| key).collect();
        assert_eq!(found, keys);
    }

    #[test]
    fn events_that_went_at_once_are_one_word_and_what_comes_after_is_told_besides() {
        let mut tail = Tail::<u64>::default();
        let batch = |number, first_seq| encoded(&Key::Events(ItemNumber(number), first_seq));
        let unknown = [batch(2, Some(5)), vec![0]].concat();
        for key in [batch(1, Some(1)), batch(2, Some(1)), batch(2, Some(5)), unknown, batch(3, Some(1))] {
            tail.put(&key, LastWord::Value(1));
        }
        tail.put(&batch(2, None), LastWord::Removed);
        tail.put(&batch(2, Some(9)), LastWord::Removed);
        let found: Vec<Vec<u8>> = tail.iter().map(|(key, _)| key).collect();
        assert_eq!(found, [batch(1, Some(1)), batch(2, None), batch(2, Some(9)), batch(3, Some(1))]);
    }
}
