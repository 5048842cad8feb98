//! What the commits since the last snapshot left of each row: only where the last word on it is, so that a long log
//! takes little memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::codec;
use windlass_core::id::ItemNumber;
use windlass_core::row::Key;
use windlass_core::series::Series;
use windlass_core::sorted::SortedMap;

use super::entry::{Entries, Entry};
use super::fetch::Piece;
use super::rows::{CommitFrame, FrameSource};
use super::segment::Pin;
use super::tables::Place;
use crate::store::StoreError;

/// Where a row's last value is, or that it was removed.
#[derive(Clone, Copy, Debug)]
pub(super) enum LastWord {
    Value(Place),
    Removed,
}

impl LastWord {
    pub(super) fn place(self) -> Option<Place> {
        match self {
            Self::Value(place) => Some(place),
            Self::Removed => None,
        }
    }
}

/// Rows of items and of their events are by far the most, and have numbers.
#[derive(Debug, Default)]
pub(super) struct Tail {
    others: BTreeMap<Vec<u8>, LastWord>,
    items: SortedMap<ItemNumber, LastWord>,
    /// By the number of the first event; under 0 that all before went at once.
    events: Series<LastWord>,
}

impl Tail {
    /// Of all frames that can be read. Tells what is wrong with the first that cannot; an error of the disk is no damage,
    /// because it may pass.
    pub(super) async fn read(mut frames: FrameSource) -> Result<(Self, Option<StoreError>), StoreError> {
        let (mut tail, mut damage) = (Self::default(), None);
        loop {
            let slice = frames.next_of_some().await;
            if slice.is_empty() {
                return Ok((tail, damage));
            }
            for frame in slice {
                match frame.and_then(|frame| tail.take(&frame)) {
                    Err(error) if error.is_damage() => damage = damage.or(Some(error)),
                    taken => taken?,
                }
            }
        }
    }

    fn take(&mut self, frame: &CommitFrame) -> Result<(), StoreError> {
        for entry in Entries::of(&frame.bytes) {
            match entry.map_err(|_| frame.damaged("a frame holds entries of an unknown kind"))? {
                Entry::PutRow { key, value, at } => {
                    let place = Place {
                        segment: frame.segment.number,
                        offset: frame.place.offset + at as u32,
                        length: value.len() as u32,
                        crc: crc32c::crc32c(value),
                    };
                    self.put(key, LastWord::Value(place));
                }
                Entry::RemoveRow { key } => self.put(key, LastWord::Removed),
                Entry::PutBody { .. } | Entry::RemoveBody { .. } => {}
            }
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], word: LastWord) {
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

    /// Also what only a later version can read goes with what its key begins with.
    fn remove_others_under(&mut self, key: &[u8]) {
        let with_it = self.others.range(key.to_vec()..).take_while(|(row, _)| row.starts_with(key));
        let with_it: Vec<Vec<u8>> = with_it.map(|(row, _)| row.clone()).collect();
        for row in &with_it {
            self.others.remove(row);
        }
    }

    /// In the order of keys as bytes, which is the snapshot's: keys of a later version may sort anywhere.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Vec<u8>, LastWord)> {
        let others = self.others.iter().map(|(key, word)| (key.clone(), *word));
        let items = self.items.iter().map(|(number, word)| (encoded(&Key::Item(number)), *word));
        let events = self.events.iter().map(|(number, first_seq, word)| {
            let first_seq = (first_seq > 0).then_some(first_seq);
            (encoded(&Key::Events(number, first_seq)), *word)
        });
        merged(others, merged(items, events))
    }
}

/// What two have in order, in order.
fn merged(
    one: impl Iterator<Item = (Vec<u8>, LastWord)>,
    other: impl Iterator<Item = (Vec<u8>, LastWord)>,
) -> impl Iterator<Item = (Vec<u8>, LastWord)> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some((this, _)), Some((that, _))) if that < this => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

/// Whether removing this takes all rows whose keys begin with it.
pub(super) fn takes_many(key: &[u8]) -> bool {
    matches!(codec::decode_key(key), Ok(Key::Events(_, None)))
}

fn encoded(key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24);
    codec::encode_key(key, &mut bytes);
    bytes
}

pub(super) fn piece(pins: &BTreeMap<u32, Pin>, place: &Place) -> Piece {
    let segment = Arc::clone(&pins[&place.segment].segment);
    Piece { segment, offset: place.offset, length: place.length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_later_version_stand_where_their_bytes_do() {
        let mut tail = Tail::default();
        let item = |number| encoded(&Key::Item(ItemNumber(number)));
        let batch = |number, first_seq| encoded(&Key::Events(ItemNumber(number), first_seq));
        let mut keys = vec![vec![0], item(1)];
        // Between the items, although it is none that this version can read; and likewise between events.
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
        let mut tail = Tail::default();
        let batch = |number, first_seq| encoded(&Key::Events(ItemNumber(number), first_seq));
        let unknown = [batch(2, Some(5)), vec![0]].concat();
        for key in [batch(1, Some(1)), batch(2, Some(1)), batch(2, Some(5)), unknown, batch(3, Some(1))] {
            tail.put(&key, LastWord::Value(Place { segment: 1, offset: 0, length: 1, crc: 0 }));
        }
        tail.put(&batch(2, None), LastWord::Removed);
        tail.put(&batch(2, Some(9)), LastWord::Removed);
        let found: Vec<Vec<u8>> = tail.iter().map(|(key, _)| key).collect();
        assert_eq!(found, [batch(1, Some(1)), batch(2, None), batch(2, Some(9)), batch(3, Some(1))]);
    }
}
