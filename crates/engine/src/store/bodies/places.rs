//! Where the bodies of a partition are.

use windlass_core::containers::{Series, SortedMap};
use windlass_core::id::ItemNumber;

use super::BodyKey;
use super::key::ATTEMPTS;

/// The places of a partition's bodies. `P` is what the store calls a place.
#[derive(Debug)]
pub(crate) struct Bodies<P> {
    plain: SortedMap<u64, P>,
    more: Series<P>,
}

impl<P> Default for Bodies<P> {
    fn default() -> Self {
        Self { plain: SortedMap::default(), more: Series::default() }
    }
}

impl<P> Bodies<P> {
    pub(crate) fn len(&self) -> usize {
        self.plain.len() + self.more.len()
    }

    pub(crate) fn get(&self, key: BodyKey) -> Option<&P> {
        match key {
            BodyKey::Plain(word) => self.plain.get(&word),
            BodyKey::More(number, more) => self.more.get(ItemNumber(number), more),
        }
    }

    /// Tells the place that the body had before.
    pub(crate) fn insert(&mut self, key: BodyKey, place: P) -> Option<P> {
        match key {
            BodyKey::Plain(word) => self.plain.insert(word, place),
            BodyKey::More(number, more) => self.more.insert(ItemNumber(number), more, place),
        }
    }

    pub(crate) fn remove(&mut self, key: BodyKey) -> Option<P> {
        match key {
            BodyKey::Plain(word) => self.plain.remove(&word),
            BodyKey::More(number, more) => self.more.remove(ItemNumber(number), more),
        }
    }

    /// Takes out all batches of an item's events, and tells where they were.
    pub(crate) fn remove_events(&mut self, number: ItemNumber) -> impl Iterator<Item = P> + use<P> {
        let mut events = self.more.remove_from(number, 1);
        let attempts = events.split_off(events.partition_point(|(more, _)| *more < ATTEMPTS));
        for (more, place) in attempts {
            self.more.insert(number, more, place);
        }
        events.into_iter().map(|(_, place)| place)
    }

    /// Keys and places from a key on, whether or not there is a body of that key.
    pub(crate) fn range(&self, from: BodyKey) -> impl Iterator<Item = (BodyKey, &P)> {
        let (plain, (number, more)) = match from {
            BodyKey::Plain(word) => (word, (0, 0)),
            BodyKey::More(number, more) => (u64::MAX, (number, more)),
        };
        let plain = self.plain.range(plain..).map(|(word, place)| (BodyKey::Plain(word), place));
        let more = self.more.range(ItemNumber(number), more);
        plain.chain(more.map(|(number, more, place)| (BodyKey::More(number.0, more), place)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (BodyKey, &P)> {
        self.range(BodyKey::FIRST)
    }

    /// The batches of an item's events, from the one that holds an event on.
    pub(crate) fn events(&self, number: ItemNumber, from: u64) -> impl Iterator<Item = (u64, &P)> {
        let all = self.more.of(number).into_iter();
        let found = all.flat_map(move |all| {
            let after = all.partition_point(|(first_seq, _)| *first_seq <= from);
            all.range(after.saturating_sub(1)..)
        });
        found.filter(|(more, _)| (1..ATTEMPTS).contains(more)).map(|(first_seq, place)| (*first_seq, place))
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::row::Part;

    use super::*;

    #[test]
    fn the_batches_of_an_items_events_are_found_from_any_event_on() {
        let mut bodies = Bodies::default();
        let place = 1;
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
