//! The names of bodies.

use windlass_core::id::ItemNumber;
use windlass_core::row::Part;

use crate::store::cursor::{Cursor, put_varint};

/// A body's name within its partition. Bodies that every item has come first, in the order of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BodyKey {
    /// Item number and part in one word, for there are millions.
    Plain(u64),
    /// Bodies that few items have: the answer to a suspended one (0), a batch of events (the number of its first), or an attempt
    /// (from [`ATTEMPTS`] on).
    More(u64, u64),
}

// Part of the disk format: a code never gets another meaning.
const PAYLOAD: u64 = 0;
const RESULT: u64 = 1;
const FACTS: u64 = 2;
/// Another number follows.
const MORE: u64 = 3;
/// Attempts come after all events: no event has so large a number.
pub(super) const ATTEMPTS: u64 = 1 << 62;

impl BodyKey {
    pub(crate) const FIRST: Self = Self::Plain(0);
    /// No batch of events begins with a larger number.
    pub(crate) const FIRST_SEQ_MAX: u64 = ATTEMPTS - 1;

    pub(crate) fn new(number: ItemNumber, part: Part) -> Self {
        match part {
            Part::Payload => Self::Plain(number.0 << 2 | PAYLOAD),
            Part::Result => Self::Plain(number.0 << 2 | RESULT),
            Part::Facts => Self::Plain(number.0 << 2 | FACTS),
            Part::Input => Self::More(number.0, 0),
            Part::Attempt(slot) => Self::More(number.0, ATTEMPTS + u64::from(slot)),
            Part::Events(first_seq) => Self::More(number.0, first_seq),
        }
    }

    pub(crate) fn number(self) -> ItemNumber {
        match self {
            Self::Plain(word) => ItemNumber(word >> 2),
            Self::More(number, _) => ItemNumber(number),
        }
    }

    pub(crate) fn part(self) -> Part {
        match self {
            Self::Plain(word) => match word & 3 {
                PAYLOAD => Part::Payload,
                RESULT => Part::Result,
                _ => Part::Facts,
            },
            Self::More(_, 0) => Part::Input,
            Self::More(_, more @ ATTEMPTS..) => Part::Attempt(slot_of(more).unwrap_or(u8::MAX)),
            Self::More(_, first_seq) => Part::Events(first_seq),
        }
    }

    /// Keys of the bodies that go with an item: all that it can have but attempts and events.
    pub(crate) fn all_of(number: ItemNumber) -> [Self; 4] {
        Part::ALL.map(|part| Self::new(number, part))
    }

    /// The next key in the order.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Plain(word) => Self::Plain(word + 1),
            Self::More(number, more) => Self::More(number, more + 1),
        }
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Plain(word) => put_varint(out, word),
            Self::More(number, more) => {
                put_varint(out, number << 2 | MORE);
                put_varint(out, more);
            }
        }
    }

    pub(crate) fn take(cursor: &mut Cursor<'_>) -> Option<Self> {
        let word = cursor.take_varint()?;
        if word & 3 == MORE {
            let more = cursor.take_varint()?;
            (more < ATTEMPTS || slot_of(more).is_some()).then_some(Self::More(word >> 2, more))
        } else {
            Some(Self::Plain(word))
        }
    }
}

/// Which attempt a key names, if any has so large a number.
fn slot_of(more: u64) -> Option<u8> {
    (more - ATTEMPTS).try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_key_comes_back_as_it_went_and_stands_in_its_order() {
        let number = ItemNumber(7);
        let parts = Part::ALL.into_iter().chain([Part::Events(1), Part::Events(ATTEMPTS - 1)]);
        let parts = parts.chain([0, 9, u8::MAX].map(Part::Attempt));
        let keys: Vec<BodyKey> = parts.map(|part| BodyKey::new(number, part)).collect();
        assert!(keys.is_sorted());
        for key in keys {
            let mut bytes = Vec::new();
            key.put(&mut bytes);
            assert_eq!(BodyKey::take(&mut Cursor { bytes: &bytes, at: 0 }), Some(key));
            assert_eq!(BodyKey::new(key.number(), key.part()), key);
            assert!(key < key.next());
        }
    }

    #[test]
    fn a_key_with_a_number_that_no_attempt_has_is_refused() {
        let mut bytes = Vec::new();
        BodyKey::More(7, ATTEMPTS + 256).put(&mut bytes);
        assert_eq!(BodyKey::take(&mut Cursor { bytes: &bytes, at: 0 }), None);
    }
}
