use proptest::prelude::*;
use windlass_core::codec::{decode_row, encode_key, encode_value};
use windlass_core::id::PartitionId;
use windlass_core::partition::Partition;
use windlass_core::row::{Change, Row};

use crate::history::{History, Step, settings, steps};
use crate::script::{START, assert_same, rebuilt, replay};

fn fresh() -> Partition {
    Partition::new(PartitionId(7), START)
}

fn played(history: &mut History, steps: &[Step]) {
    steps.iter().for_each(|step| history.step(step));
}

fn through_bytes(change: &Change) -> Change {
    let Change::Put(row) = change else { return change.clone() };
    let (mut key, mut value) = (Vec::new(), Vec::new());
    encode_key(&row.key(), &mut key);
    encode_value(row, &mut value);
    Change::Put(decode_row(&key, &value).expect("what was encoded can be read"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_step_of_a_history_keeps_the_promises(settings in settings(), steps in steps(150)) {
        let mut history = History::new(settings);
        played(&mut history, &steps);
    }

    #[test]
    fn rows_in_the_order_of_keys_rebuild_the_very_same_partition(settings in settings(), steps in steps(80)) {
        let mut history = History::new(settings);
        for step in &steps {
            history.step(step);
            assert_same(&rebuilt(&history.partition, START), &history.partition);
        }
    }

    #[test]
    fn a_full_replay_through_bytes_rebuilds_the_very_same_partition(settings in settings(), steps in steps(80)) {
        let mut history = History::new(settings);
        played(&mut history, &steps);
        let changes: Vec<_> = history.changes.iter().map(through_bytes).collect();
        let mut copy = fresh();
        replay(&mut copy, &changes);
        assert_same(&copy, &history.partition);
        copy.audit().unwrap();
        prop_assert_eq!(copy.next_oldest_waiting(), history.partition.oldest_waiting());
    }

    #[test]
    fn a_snapshot_copied_in_slices_and_a_replay_from_before_it_rebuild_the_very_same_partition(
        settings in settings(), old in steps(50), begun in steps(20), copied in steps(20), later in steps(30),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut history = History::new(settings);
        played(&mut history, &old);
        let replay_from = history.changes.len();
        played(&mut history, &begun);
        let first: Vec<Row> = history.partition.rows().collect();
        let cut = first.get(cut.index(first.len().max(1))).map(Row::key);
        let mut copy = fresh();
        first.into_iter().filter(|row| Some(row.key()) < cut).for_each(|row| copy.put(row));
        played(&mut history, &copied);
        let second = history.partition.rows().filter(|row| Some(row.key()) >= cut);
        second.for_each(|row| copy.put(row));
        played(&mut history, &later);
        replay(&mut copy, &history.changes[replay_from..]);
        assert_same(&copy, &history.partition);
        copy.audit().unwrap();
    }

    #[test]
    fn rows_in_any_order_rebuild_the_very_same_partition(
        settings in settings(), steps in steps(80), seed in any::<u64>(),
    ) {
        let mut history = History::new(settings);
        played(&mut history, &steps);
        let mut rows: Vec<_> = history.partition.rows().collect();
        let mut state = seed;
        rows.sort_by_cached_key(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        });
        let mut copy = fresh();
        rows.into_iter().for_each(|row| copy.put(row));
        assert_same(&copy, &history.partition);
    }

    #[test]
    fn the_same_history_gives_the_same_changes(settings in settings(), steps in steps(60)) {
        let run = || {
            let mut history = History::new(settings.clone());
            played(&mut history, &steps);
            history.changes
        };
        prop_assert_eq!(run(), run());
    }
}
