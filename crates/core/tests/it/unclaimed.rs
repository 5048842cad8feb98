//! Records of partitions that are to be dropped, and partitions that are adopted.

use std::collections::BTreeSet;

use windlass_core::id::PartitionId;
use windlass_core::limits::Invalid;
use windlass_core::refusal::{Limit, Refusal};
use windlass_core::route::Slot;
use windlass_core::row::{Change, Key, Queue, Row, StoreNames, Stored};
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{
    Adopt, CreateQueue, DeleteQueue, DropUnclaimed, ForgetDropped, ForgetPartition, Retire,
};

use crate::registry_script::{RegistryScript, queue_name};

fn stored(partition: u32, store: Option<&str>) -> Stored {
    Stored { partition: PartitionId(partition), store: store.map(Into::into) }
}

fn create_on(script: &mut RegistryScript, queue: &str, partitions: u32, stores: &[&str]) -> Queue {
    let stores = StoreNames(stores.iter().map(|store| (*store).into()).collect());
    let create = CreateQueue::new(queue_name(queue), Settings::default(), partitions);
    script.apply(CreateQueue { stores, ..create }).unwrap()
}

fn adopt(script: &mut RegistryScript, queue: &str, stored: Stored) -> Result<Queue, Refusal> {
    script.apply(Adopt { queue: queue_name(queue), stored })
}

fn dropped(script: &RegistryScript) -> Vec<Stored> {
    script.registry.dropped().cloned().collect()
}

#[test]
fn a_deleted_queue_leaves_a_drop_record_of_each_partition_in_the_same_commit() {
    let mut script = RegistryScript::new();
    create_on(&mut script, "q", 3, &["default", "second", ""]);
    script.apply(DeleteQueue(queue_name("q"))).unwrap();
    let records = [stored(1, None), stored(2, Some("second")), stored(3, None)];
    let recorded =
        script.changes.iter().filter(|change| matches!(change, Change::Put(Row::Dropped(_)))).count();
    assert_eq!((recorded, dropped(&script)), (3, records.to_vec()));
    assert!(script.changes.contains(&Change::Remove(Key::Queue(queue_name("q")))));

    script.apply(ForgetDropped(vec![records[1].clone(), stored(9, None)])).unwrap();
    assert_eq!(script.changes, [Change::Remove(Key::Dropped(records[1].clone()))]);
    assert_eq!(dropped(&script), [records[0].clone(), records[2].clone()]);
    script.apply(ForgetDropped(vec![records[1].clone()])).unwrap();
    assert_eq!(script.changes, []);
}

#[test]
fn a_retired_partition_that_is_forgotten_or_goes_with_its_queue_leaves_a_drop_record() {
    let mut script = RegistryScript::new();
    create_on(&mut script, "q", 3, &["default", "second", "third"]);
    script.rebalance("q", 1).unwrap();
    for partition in [2, 3] {
        script.apply(Retire { queue: queue_name("q"), partition: PartitionId(partition) }).unwrap();
    }
    assert_eq!(dropped(&script), []);
    for _ in 0..2 {
        script.apply(ForgetPartition { queue: queue_name("q"), partition: PartitionId(2) }).unwrap();
        assert_eq!(dropped(&script), [stored(2, Some("second"))]);
    }
    script.apply(DeleteQueue(queue_name("q"))).unwrap();
    assert_eq!(dropped(&script), [stored(1, None), stored(2, Some("second")), stored(3, Some("third"))]);
}

#[test]
fn what_queues_and_drop_records_name_is_claimed_by_store_and_number() {
    let mut script = RegistryScript::new();
    create_on(&mut script, "gone", 1, &["second"]);
    create_on(&mut script, "q", 1, &["second"]);
    script.apply(DeleteQueue(queue_name("gone"))).unwrap();
    let expected = [stored(0, None), stored(1, Some("second")), stored(2, Some("second"))];
    assert_eq!(script.registry.claimed(), BTreeSet::from(expected));
    assert_eq!(script.apply(DropUnclaimed(stored(2, Some("second")))), Err(Refusal::NotUnclaimed));
    assert_eq!(script.apply(DropUnclaimed(stored(0, None))), Err(Refusal::NotUnclaimed));
    script.apply(DropUnclaimed(stored(2, None))).unwrap();
    assert_eq!(dropped(&script), [stored(1, Some("second")), stored(2, None)]);
}

#[test]
fn an_adopted_partition_is_a_member_and_a_former_home_of_every_other_slot() {
    let mut script = RegistryScript::new();
    let before = script.create("q", 2).unwrap();
    script.pass(Span::from_secs(1));
    let queue = adopt(&mut script, "q", stored(7, Some("second"))).unwrap();
    assert_eq!(queue.partitions, [PartitionId(1), PartitionId(2), PartitionId(7)]);
    assert_eq!(queue.stored().last(), Some(stored(7, Some("second"))));
    assert_eq!(queue.stored().take(2).collect::<Vec<_>>(), [stored(1, None), stored(2, None)]);
    assert!(queue.settings.version > before.settings.version && queue.route_version > before.route_version);
    let homes = Slot::all().filter(|slot| queue.home(*slot) == Some(2)).count();
    assert_eq!(homes, 341, "its even share");
    for slot in Slot::all() {
        let is_home = queue.home(slot) == Some(2);
        assert_eq!(queue.former_homes(slot).any(|id| id == PartitionId(7)), !is_home);
        let home = queue.partitions[queue.home(slot).unwrap()];
        assert!(queue.former_homes(slot).all(|former| former != home));
    }
    let next = script.create("next", 1).unwrap();
    assert_eq!(next.partitions, [PartitionId(8)], "the number is not given again");
}

#[test]
fn a_partition_that_is_claimed_or_the_registrys_is_not_adopted() {
    let mut script = RegistryScript::new();
    script.create("q", 2).unwrap();
    create_on(&mut script, "gone", 1, &["second"]);
    script.apply(DeleteQueue(queue_name("gone"))).unwrap();
    assert_eq!(adopt(&mut script, "q", stored(1, None)), Err(Refusal::NotUnclaimed));
    assert_eq!(adopt(&mut script, "q", stored(3, Some("second"))), Err(Refusal::NotUnclaimed));
    let named = Refusal::PartitionNamed { queue: "q".into() };
    assert_eq!(adopt(&mut script, "q", stored(1, Some("second"))), Err(named));
    let registry = adopt(&mut script, "q", stored(0, Some("second")));
    assert!(matches!(registry, Err(Refusal::Invalid(Invalid { field: "partition", .. }))), "{registry:?}");
    assert_eq!(
        adopt(&mut script, "none", stored(9, None)),
        Err(Refusal::NoSuchQueue { queue: "none".into() })
    );
    script.rebalance("q", 1).unwrap();
    assert_eq!(adopt(&mut script, "q", stored(9, None)), Err(Refusal::Draining));
    assert_eq!(script.changes, []);
}

#[test]
fn a_queue_with_as_many_partitions_as_there_may_be_adopts_none() {
    let mut script = RegistryScript::new();
    script.create("q", 1024).unwrap();
    let refused = adopt(&mut script, "q", stored(2000, None));
    assert!(
        matches!(refused, Err(Refusal::AtLimit { limit: Limit::PartitionsPerQueue, max: 1024 })),
        "{refused:?}"
    );
}

#[test]
fn a_partition_is_told_the_queue_it_is_of() {
    let mut script = RegistryScript::new();
    let queue = script.create("mail", 1).unwrap();
    assert_eq!(queue.intake(PartitionId(1)).queue, Some(queue_name("mail")));
    assert!(queue.route_version > 0, "else nobody would be told");
}
