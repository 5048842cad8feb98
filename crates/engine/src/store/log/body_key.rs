//! The names of bodies, and where they are.

use windlass_core::id::ItemNumber;
use windlass_core::row::Part;
use windlass_core::series::Series;
use windlass_core::sorted::SortedMap;

use super::entry::{Cursor, put_varint};
use super::tables::Place;

/// A body's name within its partition. What every item has comes first, in the order of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BodyKey {
    /// Item number and part in one word, for there are millions.
    Plain(u64),
    /// What few items have: the answer to a suspended one (0), or a batch of events (the number of its first).
    More(u64, u64),
}

// Part of the disk format: never give one another meaning.
const PAYLOAD: u64 = 0;
const RESULT: u64 = 1;
const FACTS: u64 = 2;
/// Another number follows.
const MORE: u64 = 3;

impl BodyKey {
    pub(super) const FIRST: Self = Self::Plain(0);

    pub(super) fn new(number: ItemNumber, part: Part) -> Self {
        match part {
            Part::Payload => Self::Plain(number.0 << 2 | PAYLOAD),
            Part::Result => Self::Plain(number.0 << 2 | RESULT),
            Part::Facts => Self::Plain(number.0 << 2 | FACTS),
            Part::Input => Self::More(number.0, 0),
            Part::Events(first_seq) => Self::More(number.0, first_seq),
        }
    }

    pub(super) fn number(self) -> ItemNumber {
        match self {
            Self::Plain(word) => ItemNumber(word >> 2),
            Self::More(number, _) => ItemNumber(number),
        }
    }

    pub(super) fn part(self) -> Part {
        match self {
            Self::Plain(word) => match word & 3 {
                PAYLOAD => Part::Payload,
                RESULT => Part::Result,
                _ => Part::Facts,
            },
            Self::More(_, 0) => Part::Input,
            Self::More(_, first_seq) => Part::Events(first_seq),
        }
    }

    /// All that an item can have, but for events.
    pub(super) fn all_of(number: ItemNumber) -> [Self; 4] {
        Part::ALL.map(|part| Self::new(number, part))
    }

    /// The one after it in the order.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Plain(word) => Self::Plain(word + 1),
            Self::More(number, more) => Self::More(number, more + 1),
        }
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Plain(word) => put_varint(out, word),
            Self::More(number, more) => {
                put_varint(out, number << 2 | MORE);
                put_varint(out, more);
            }
        }
    }

    pub(super) fn take(cursor: &mut Cursor<'_>) -> Option<Self> {
        let word = cursor.take_varint()?;
        if word & 3 == MORE {
            Some(Self::More(word >> 2, cursor.take_varint()?))
        } else {
            Some(Self::Plain(word))
        }
    }
}

/// Where the bodies of a partition are.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    plain: SortedMap<u64, Place>,
    more: Series<Place>,
}

impl Bodies {
    pub(super) fn len(&self) -> usize {
        self.plain.len() + self.more.len()
    }

    pub(super) fn get(&self, key: BodyKey) -> Option<&Place> {
        match key {
            BodyKey::Plain(word) => self.plain.get(&word),
            BodyKey::More(number, more) => self.more.get(ItemNumber(number), more),
        }
    }

    /// The place it had before.
    pub(super) fn insert(&mut self, key: BodyKey, place: Place) -> Option<Place> {
        match key {
            BodyKey::Plain(word) => self.plain.insert(word, place),
            BodyKey::More(number, more) => self.more.insert(ItemNumber(number), more, place),
        }
    }

    pub(super) fn remove(&mut self, key: BodyKey) -> Option<Place> {
        match key {
            BodyKey::Plain(word) => self.plain.remove(&word),
            BodyKey::More(number, more) => self.more.remove(ItemNumber(number), more),
        }
    }

    /// Takes out all batches of an item's events, and tells where they were.
    pub(super) fn remove_events(&mut self, number: ItemNumber) -> impl Iterator<Item = Place> + use<> {
        self.more.remove_from(number, 1).into_iter().map(|(_, place)| place)
    }

    /// From a key on, whether or not it is there.
    pub(super) fn range(&self, from: BodyKey) -> impl Iterator<Item = (BodyKey, &Place)> {
        let (plain, (number, more)) = match from {
            BodyKey::Plain(word) => (word, (0, 0)),
            BodyKey::More(number, more) => (u64::MAX, (number, more)),
        };
        let plain = self.plain.range(plain..).map(|(word, place)| (BodyKey::Plain(word), place));
        let more = self.more.range(ItemNumber(number), more);
        plain.chain(more.map(|(number, more, place)| (BodyKey::More(number.0, more), place)))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (BodyKey, &Place)> {
        self.range(BodyKey::FIRST)
    }

    /// The batches of an item's events, from the one that holds an event on.
    pub(super) fn events(&self, number: ItemNumber, from: u64) -> impl Iterator<Item = (u64, &Place)> {
        let all = self.more.of(number).into_iter();
        let found = all.flat_map(move |all| {
            let after = all.partition_point(|(first_seq, _)| *first_seq <= from);
            all.range(after.saturating_sub(1)..)
        });
        found.filter(|(more, _)| *more > 0).map(|(first_seq, place)| (*first_seq, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_key_comes_back_as_it_went_and_stands_in_its_order() {
        let number = ItemNumber(7);
        let parts = Part::ALL.into_iter().chain([Part::Events(1), Part::Events(u64::MAX >> 1)]);
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
    fn the_batches_of_an_items_events_are_found_from_any_event_on() {
        let mut bodies = Bodies::default();
        let place = Place { segment: 1, offset: 0, length: 1, crc: 0 };
        for (number, part) in
            [(6, Part::Events(1)), (7, Part::Input), (8, Part::Events(1)), (7, Part::Payload)]
        {
            bodies.insert(BodyKey::new(ItemNumber(number), part), place);
        }
        for first_seq in [3, 5, 9] {
            bodies.insert(BodyKey::new(ItemNumber(7), Part::Events(first_seq)), place);
        }
        let found =
            |from| bodies.events(ItemNumber(7), from).map(|(first_seq, _)| first_seq).collect::<Vec<_>>();
        assert_eq!(found(1), [3, 5, 9]);
        assert_eq!(found(4), [3, 5, 9]);
        assert_eq!(found(5), [5, 9]);
        assert_eq!(found(100), [9]);
        assert_eq!(bodies.iter().count(), bodies.len());
        assert_eq!(bodies.remove_events(ItemNumber(7)).count(), 3);
        let left: Vec<_> = bodies.iter().map(|(key, _)| (key.number().0, key.part())).collect();
        let input = (7, Part::Input);
        assert_eq!(left, [(7, Part::Payload), (6, Part::Events(1)), input, (8, Part::Events(1))]);
        assert_eq!(bodies.len(), left.len());
    }
}
