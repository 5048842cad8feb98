use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_core::containers::Series;
use windlass_core::id::ItemNumber;

#[derive(Clone, Debug)]
enum Step {
    /// What comes after all that the item has.
    Append(u64, u64),
    Insert(u64, u64),
    Remove(u64, u64),
    RemoveFirst(u64),
    RemoveFrom(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let item = 0..5u64;
    prop_oneof![
        4 => (item.clone(), 1..100u64).prop_map(|(item, count)| Step::Append(item, count)),
        2 => (item.clone(), 0..100u64).prop_map(|(item, number)| Step::Insert(item, number)),
        2 => (item.clone(), 0..100u64).prop_map(|(item, number)| Step::Remove(item, number)),
        4 => item.clone().prop_map(Step::RemoveFirst),
        1 => (item, 0..100u64).prop_map(|(item, number)| Step::RemoveFrom(item, number)),
    ]
}

proptest! {
    #[test]
    fn it_behaves_as_a_map_of_two_numbers(
        steps in prop::collection::vec(step(), 1..60),
        probe in (0..6u64, 0..200u64),
    ) {
        let mut series = Series::new();
        let mut model = BTreeMap::new();
        for (value, step) in steps.into_iter().enumerate() {
            match step {
                Step::Append(item, count) => for _ in 0..count {
                    let last = model.range((item, 0)..=(item, u64::MAX)).next_back();
                    let next = last.map_or(1, |((_, last), _)| last + 1);
                    prop_assert_eq!(series.insert(ItemNumber(item), next, value), None);
                    model.insert((item, next), value);
                },
                Step::Insert(item, number) => {
                    let before = series.insert(ItemNumber(item), number, value);
                    prop_assert_eq!(before, model.insert((item, number), value));
                }
                Step::Remove(item, number) => {
                    let gone = series.remove(ItemNumber(item), number);
                    prop_assert_eq!(gone, model.remove(&(item, number)));
                }
                Step::RemoveFirst(item) => {
                    let first = model.range((item, 0)..=(item, u64::MAX)).next().map(|(key, _)| *key);
                    let number = first.map_or(1, |(_, number)| number);
                    let gone = series.remove(ItemNumber(item), number);
                    prop_assert_eq!(gone, first.and_then(|key| model.remove(&key)));
                }
                Step::RemoveFrom(item, number) => {
                    let gone: Vec<_> = series.remove_from(ItemNumber(item), number).into();
                    let keys: Vec<_> = model.range((item, number)..=(item, u64::MAX)).map(|(key, _)| *key).collect();
                    let expected: Vec<_> =
                        keys.iter().map(|key| (key.1, model.remove(key).unwrap())).collect();
                    prop_assert_eq!(gone, expected);
                }
            }
            prop_assert_eq!(series.len(), model.len());
            prop_assert_eq!(series.is_empty(), model.is_empty());
        }
        let (item, number) = probe;
        prop_assert_eq!(series.get(ItemNumber(item), number), model.get(&probe));
        let shown = |(item, number, value): (ItemNumber, u64, &usize)| ((item.0, number), *value);
        let owned = |(key, value): (&(u64, u64), &usize)| (*key, *value);
        prop_assert!(series.iter().map(shown).eq(model.iter().map(owned)));
        prop_assert!(series.range(ItemNumber(item), number).map(shown).eq(model.range(probe..).map(owned)));
        let of: Vec<_> = series.of(ItemNumber(item)).into_iter().flatten().copied().collect();
        let expected: Vec<_> =
            model.range((item, 0)..=(item, u64::MAX)).map(|((_, number), value)| (*number, *value)).collect();
        prop_assert_eq!(of, expected);
    }
}
