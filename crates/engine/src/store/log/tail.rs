//! What the commits since the last snapshot left of each row: only where the last word on it is, so that a long log
//! takes little memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::codec;
use windlass_core::id::ItemNumber;
use windlass_core::row::Key;
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

/// Item rows are by far the most, and have numbers.
#[derive(Debug, Default)]
pub(super) struct Tail {
    others: BTreeMap<Vec<u8>, LastWord>,
    items: SortedMap<ItemNumber, LastWord>,
}

impl Tail {
    pub(super) async fn read(mut frames: FrameSource) -> Result<Self, StoreError> {
        let mut tail = Self::default();
        loop {
            let slice = frames.next().await?;
            if slice.is_empty() {
                return Ok(tail);
            }
            for frame in slice {
                tail.take(&frame)?;
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
        if let Ok(Key::Item(number)) = codec::decode_key(key) {
            self.items.insert(number, word);
            return;
        }
        if matches!(word, LastWord::Removed) && takes_many(key) {
            let with_it = self.others.range(key.to_vec()..).take_while(|(row, _)| row.starts_with(key));
            let with_it: Vec<Vec<u8>> = with_it.map(|(row, _)| row.clone()).collect();
            for row in &with_it {
                self.others.remove(row);
            }
        }
        self.others.insert(key.to_vec(), word);
    }

    /// In the order of keys as bytes, which is the snapshot's: keys of a later version may sort anywhere.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Vec<u8>, LastWord)> {
        let mut others = self.others.iter().map(|(key, word)| (key.clone(), *word)).peekable();
        let mut items = self.items.iter().map(|(number, word)| (item_key(number), *word)).peekable();
        std::iter::from_fn(move || match (others.peek(), items.peek()) {
            (Some((other, _)), Some((item, _))) if item < other => items.next(),
            (Some(_), _) => others.next(),
            (None, _) => items.next(),
        })
    }
}

/// Whether removing this takes all rows whose keys begin with it.
pub(super) fn takes_many(key: &[u8]) -> bool {
    matches!(codec::decode_key(key), Ok(Key::Events(_, None)))
}

fn item_key(number: ItemNumber) -> Vec<u8> {
    let mut key = Vec::with_capacity(16);
    codec::encode_key(&Key::Item(number), &mut key);
    key
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
        let mut keys = vec![vec![0], item_key(ItemNumber(1)), item_key(ItemNumber(2)), vec![200, 1]];
        // Between the items, although it is none that this version can read.
        keys.insert(2, [item_key(ItemNumber(1)), vec![0]].concat());
        for key in keys.iter().rev() {
            tail.put(key, LastWord::Removed);
        }
        let found: Vec<Vec<u8>> = tail.iter().map(|(key, _)| key).collect();
        assert_eq!(found, keys);
    }
}
