use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_core::containers::SortedMap;

#[derive(Clone, Debug)]
enum Step {
    Insert(u16),
    Remove(u16),
    PopFirst,
    /// Many in order, so that histories reach several chunks.
    Fill(u16, u16),
    /// Many at once, so that chunks run sparse.
    Drain(u16, u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u16>().prop_map(|key| Step::Insert(key % 4096)),
        4 => any::<u16>().prop_map(|key| Step::Remove(key % 4096)),
        2 => Just(Step::PopFirst),
        2 => (any::<u16>(), 1..400u16).prop_map(|(from, len)| Step::Fill(from % 4096, len)),
        2 => (any::<u16>(), 1..400u16).prop_map(|(from, len)| Step::Drain(from % 4096, len)),
    ]
}

proptest! {
    #[test]
    fn it_behaves_as_a_btree_map(steps in prop::collection::vec(step(), 1..80), probe in any::<u16>()) {
        let mut map = SortedMap::new();
        let mut model = BTreeMap::new();
        for (value, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert(key) => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                Step::Remove(key) => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                Step::PopFirst => prop_assert_eq!(map.pop_first(), model.pop_first()),
                Step::Fill(from, len) => for key in from..from + len {
                    prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                },
                Step::Drain(from, len) => for key in (from..from + len).filter(|key| key % 7 != 0) {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                },
            }
            prop_assert_eq!(map.len(), model.len());
            // A chunk in progress at each end, two halves of one that was split just now, and chunks that are full by half.
            prop_assert!(map.capacity() <= 2 * map.len() + 4 * 128, "{} for {}", map.capacity(), map.len());
            prop_assert_eq!(map.first(), model.first_key_value().map(|(key, value)| (*key, value)));
            prop_assert_eq!(map.last(), model.last_key_value().map(|(key, value)| (*key, value)));
        }
        let probe = probe % 5000;
        prop_assert_eq!(map.get(&probe), model.get(&probe));
        let mut chunks_left = usize::MAX;
        prop_assert_eq!(map.count_below(&probe, &mut chunks_left), model.range(..probe).count());
        prop_assert!(map.iter().eq(model.iter().map(|(key, value)| (*key, value))));
        prop_assert!(map.range_back(..=probe).eq(model.range(..=probe).rev().map(|(key, value)| (*key, value))));
        prop_assert!(map.range(probe..).eq(model.range(probe..).map(|(key, value)| (*key, value))));
    }
}

#[test]
fn two_maps_are_equal_by_what_they_hold_not_by_how_they_came_to_hold_it() {
    let rising: SortedMap<u32, u32> = filled(0..1000);
    let mut falling: SortedMap<u32, u32> = filled((0..1200).rev());
    assert_ne!(rising, falling);
    for key in 1000..1200 {
        falling.remove(&key);
    }
    assert_eq!(rising, falling);
    *falling.get_mut(&500).unwrap() = 0;
    assert_ne!(rising, falling);
}

fn filled(keys: impl Iterator<Item = u32>) -> SortedMap<u32, u32> {
    let mut map = SortedMap::new();
    for key in keys {
        map.insert(key, key);
    }
    map
}

#[test]
fn what_is_left_of_many_costs_little_more_than_if_it_had_come_alone() {
    for keep in [2, 3, 10, 100, 1000] {
        let mut map: SortedMap<u32, u32> = filled(0..200_000);
        // In an order that leaves holes everywhere at first.
        for key in (0..200_000).map(|key| key * 7919 % 200_000).filter(|key| key % keep != 0) {
            map.remove(&key);
        }
        let alone: SortedMap<u32, u32> = filled((0..200_000).filter(|key| key % keep == 0));
        assert_eq!(map, alone);
        let (left, least) = (map.capacity(), alone.capacity());
        assert!(left * 3 <= least * 4 + 3 * 128, "one of {keep}: {left} against {least}");
    }
}
