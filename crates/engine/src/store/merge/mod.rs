//! A new snapshot made of the last one and of the batches since, the last write of a row winning (ADR 1).
//!
//! [`Tail`] takes in the entries of the batches and keeps where the last word on each row is. [`Merge`] then goes through
//! the rows of the last snapshot and those words side by side, in the order of keys, and hands out the rows of the new
//! snapshot. [`rows`] is how the rows of a snapshot are written. Where a value is ([`LastWord::Value`]), how it is read and
//! where the new snapshot goes, the store says.
//!
//! Used by the durable stores, of which [`super::log`] is the only one so far (`log/snapshot`). Nothing here reads or
//! writes.

pub(crate) mod rows;
mod tail;

use std::iter::Peekable;
use std::ops::Range;

use windlass_core::mutant::{Mutant, active};

pub(crate) use tail::{LastWord, Tail};

/// The rows of the last snapshot, taken in one after another, merged with the words of a [`Tail`].
pub(crate) struct Merge<P, W: Iterator> {
    words: Peekable<W>,
    /// How the keys of rows begin that went all at once; empty if none did.
    cut: Vec<u8>,
    merged: Merged<P>,
}

impl<P: Copy, W: Iterator<Item = (Vec<u8>, LastWord<P>)>> Merge<P, W> {
    /// `words` in the order of keys.
    pub(crate) fn new(words: W) -> Self {
        Self { words: words.peekable(), cut: Vec::new(), merged: Merged::default() }
    }

    /// Takes in the next word, if it is on a row before `key`. Tells whether it is: then there may be another.
    pub(crate) fn take_word_before(&mut self, key: &[u8]) -> bool {
        let word = self.words.next_if(|(new, _)| new.as_slice() < key);
        self.take(word)
    }

    /// Takes in the next word. `false` after the last.
    pub(crate) fn take_word(&mut self) -> bool {
        let word = self.words.next();
        self.take(word)
    }

    /// Takes in a row of the last snapshot, once all words before it are in.
    pub(crate) fn take_row(&mut self, key: &[u8], value: &[u8]) {
        let word = self.words.next_if(|(new, _)| new.as_slice() == key);
        if !self.take(word) && !self.is_cut(key) {
            self.merged.push_row(key, value);
        }
    }

    fn take(&mut self, word: Option<(Vec<u8>, LastWord<P>)>) -> bool {
        let Some((key, word)) = word else { return false };
        match word {
            LastWord::Removed if tail::takes_many(&key) => self.cut = key,
            LastWord::Removed => {}
            LastWord::Value(place) => self.merged.push_place(&key, place),
        }
        true
    }

    /// Whether a row went together with others: their common beginning comes before them in the order of keys.
    fn is_cut(&self, key: &[u8]) -> bool {
        !self.cut.is_empty() && key.starts_with(&self.cut) && !active(Mutant::KeepCutEvents)
    }

    /// How many rows are merged and not taken out yet.
    pub(crate) fn len(&self) -> usize {
        self.merged.rows.len()
    }

    pub(crate) fn take_merged(&mut self) -> Merged<P> {
        std::mem::take(&mut self.merged)
    }
}

/// Rows of the new snapshot in the order of keys: whole ones of the last snapshot, and those whose value is elsewhere.
#[derive(Debug)]
pub(crate) struct Merged<P> {
    bytes: Vec<u8>,
    rows: Vec<MergedRow<P>>,
}

#[derive(Debug)]
struct MergedRow<P> {
    /// A whole row, or only the key if there is a place.
    bytes: Range<usize>,
    place: Option<P>,
}

/// One row of [`Merged`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum NextRow<'a, P> {
    /// A row as [`rows::put_row`] has written it.
    Whole(&'a [u8]),
    /// A row whose value is to be read from a place.
    At { key: &'a [u8], place: P },
}

impl<P> Default for Merged<P> {
    fn default() -> Self {
        Self { bytes: Vec::new(), rows: Vec::new() }
    }
}

impl<P: Copy> Merged<P> {
    fn push_row(&mut self, key: &[u8], value: &[u8]) {
        let from = self.bytes.len();
        rows::put_row(&mut self.bytes, key, value);
        self.rows.push(MergedRow { bytes: from..self.bytes.len(), place: None });
    }

    fn push_place(&mut self, key: &[u8], place: P) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.rows.push(MergedRow { bytes: from..self.bytes.len(), place: Some(place) });
    }

    /// The places of all values that are to be read.
    pub(crate) fn places(&self) -> impl Iterator<Item = P> {
        self.rows.iter().filter_map(|row| row.place)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = NextRow<'_, P>> {
        self.rows.iter().map(|row| {
            let bytes = &self.bytes[row.bytes.clone()];
            row.place.map_or(NextRow::Whole(bytes), |place| NextRow::At { key: bytes, place })
        })
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::codec;
    use windlass_core::id::ItemNumber;
    use windlass_core::row::Key;

    use super::*;

    fn key_of(key: &Key) -> Vec<u8> {
        let mut bytes = Vec::new();
        codec::encode_key(key, &mut bytes);
        bytes
    }

    /// Merges rows with the value `old`, and tells each key with the place of its value, if that is elsewhere.
    fn merged(old: &[Vec<u8>], words: Vec<(Vec<u8>, LastWord<u64>)>) -> Vec<(Vec<u8>, Option<u64>)> {
        let mut merge = Merge::new(words.into_iter());
        for key in old {
            while merge.take_word_before(key) {}
            merge.take_row(key, b"old");
        }
        while merge.take_word() {}
        let merged = merge.take_merged();
        assert_eq!(merge.len(), 0);
        let told = |row| match row {
            NextRow::Whole(row) => {
                let rows = rows::rows_of(row).expect("a row");
                assert_eq!((rows.len(), rows[0].1), (1, &b"old"[..]));
                (rows[0].0.to_vec(), None)
            }
            NextRow::At { key, place } => (key.to_vec(), Some(place)),
        };
        merged.rows().map(told).collect()
    }

    #[test]
    fn the_last_word_on_a_row_wins_and_the_order_of_keys_stays() {
        let item = |number| key_of(&Key::Item(ItemNumber(number)));
        let words = vec![
            (item(1), LastWord::Value(10)),
            (item(3), LastWord::Removed),
            (item(4), LastWord::Value(40)),
            (item(6), LastWord::Removed),
            (item(7), LastWord::Value(70)),
        ];
        let found = merged(&[item(2), item(3), item(4), item(5)], words);
        let expected = [(item(1), Some(10)), (item(2), None), (item(4), Some(40)), (item(5), None)];
        assert_eq!(found[..4], expected);
        assert_eq!(found[4..], [(item(7), Some(70))]);
    }

    #[test]
    fn events_that_went_at_once_are_left_out_and_later_ones_of_their_item_are_not() {
        let batch = |number, first_seq| key_of(&Key::Events(ItemNumber(number), first_seq));
        let words = vec![(batch(2, None), LastWord::Removed), (batch(2, Some(9)), LastWord::Value(29))];
        let old = [batch(1, Some(1)), batch(2, Some(1)), batch(2, Some(5)), batch(3, Some(1))];
        let expected = [(batch(1, Some(1)), None), (batch(2, Some(9)), Some(29)), (batch(3, Some(1)), None)];
        assert_eq!(merged(&old, words), expected);
    }
}
