use std::collections::BTreeMap;

use windlass_core::headers::Hashes;
use windlass_core::id::PartitionId;
use windlass_core::item::{MoveNumber, MoveReason, Origin};
use windlass_core::partition::{Lingering, Remaining};
use windlass_core::refusal::Refusal;
use windlass_core::route::{Slot, SlotSet};
use windlass_core::row::{Intake, Queue};
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{
    Arriving, ArrivingItem, CancelGroup, Claim, Clear, CreateGroup, DeleteGroup, ForgetFormerHome,
    ForgetPartition, Import, Move, NewEnd, NewItem, Produce, ProduceOnce, Retire, Route, StartGroup, Take,
};

use crate::registry_script::{RegistryScript, queue_name};
use crate::script::{START, Script, assert_same, item, items, member, open_group, rebuilt};

fn registry(partitions: u32) -> RegistryScript {
    let mut script = RegistryScript::new();
    script.create("q", partitions).unwrap();
    script
}

fn ids(numbers: impl IntoIterator<Item = u32>) -> Vec<PartitionId> {
    numbers.into_iter().map(PartitionId).collect()
}

/// Whoever is home to a slot is not a former home of it, and takes its keys; nobody else does.
fn assert_homes(queue: &Queue) {
    for slot in Slot::all() {
        let home = queue.partitions[queue.home(slot).unwrap()];
        assert!(!queue.former_homes(slot).any(|former| former == home));
        let takers = queue.partitions.iter().filter(|id| queue.intake(**id).at_home.unwrap().contains(slot));
        assert_eq!(takers.collect::<Vec<_>>(), [&home]);
    }
}

#[test]
fn a_queue_grows_at_once_and_remembers_who_was_home_to_what() {
    let mut script = registry(2);
    let queue = script.rebalance("q", 5).unwrap();
    assert_eq!(queue.partitions, ids(1..=5));
    assert_eq!((queue.width(), queue.draining.len()), (5, 0));
    assert_homes(&queue);
    assert_eq!(queue.former.keys().copied().collect::<Vec<_>>(), ids(1..=2));
    script.registry.audit().unwrap();
}

#[test]
fn a_queue_shrinks_by_draining_and_forgets_who_keeps_nothing() {
    let mut script = registry(2);
    script.rebalance("q", 5).unwrap();
    let queue = script.rebalance("q", 1).unwrap();
    assert_eq!((queue.width(), queue.partitions.len()), (1, 5));
    assert_eq!(queue.draining.iter().copied().collect::<Vec<_>>(), ids(2..=5));
    assert!(queue.intake(PartitionId(2)).closed && !queue.intake(PartitionId(1)).closed);
    assert_homes(&queue);
    assert_eq!(script.rebalance("q", 3), Err(Refusal::Draining));

    let mut version = queue.route_version;
    for (number, shares) in [(4, 4), (2, 3), (5, 2), (3, 1)] {
        let id = PartitionId(number);
        let queue = script.apply(Retire { queue: queue_name("q"), partition: id }).unwrap();
        assert!(queue.retired.contains_key(&id) && !queue.partitions.contains(&id));
        assert_eq!(queue.intake(PartitionId(1)).shares, shares);
        assert!(queue.route_version > version, "else the others would go on with a smaller share");
        version = queue.route_version;
        assert!(queue.intake(id).closed);
    }
    let grown = script.rebalance("q", 2).unwrap();
    assert_eq!(grown.partitions, ids([1, 6]), "numbers are not given again");
    for number in 2..=5 {
        script.apply(ForgetPartition { queue: queue_name("q"), partition: PartitionId(number) }).unwrap();
    }
    let queue = script.registry.queues().next().unwrap();
    assert!(queue.retired.is_empty());
    assert_eq!(queue.former.keys().copied().collect::<Vec<_>>(), ids([1]));
}

#[test]
fn a_former_home_is_forgotten_slot_by_slot_by_the_routes_it_was_judged_by() {
    let mut script = registry(1);
    let queue = script.rebalance("q", 2).unwrap();
    let (partition, lost) = (PartitionId(1), queue.former[&PartitionId(1)]);
    let forget = |slots: SlotSet, route_version: u64| ForgetFormerHome {
        queue: queue_name("q"),
        partition,
        slots,
        route_version,
    };
    let version = queue.route_version;
    let some: SlotSet = lost.iter().take(10).collect();
    assert_eq!(script.apply(forget(lost, version - 1)).unwrap(), queue, "other routes");
    let left = script.apply(forget(some, version)).unwrap();
    assert_eq!(left.former[&partition].len(), lost.len() - 10);
    assert_eq!(left.route_version, version, "no key has another home");
    assert!(some.iter().all(|slot| left.former_homes(slot).next().is_none()));
    let left = script.apply(forget(lost, version)).unwrap();
    assert!(left.former.is_empty());
    script.registry.audit().unwrap();
    script.apply(forget(lost, version)).unwrap();
    assert_eq!(script.changes.len(), 0, "there is nothing left to forget");
}

#[test]
fn slots_at_home_elsewhere_linger_for_as_long_as_a_key_of_theirs_is_known() {
    let mut script = Script::new();
    let address = Some("address".into());
    let produce = Produce { items: vec![NewItem { address, ..item("default") }] };
    script.apply(produce).unwrap();
    let (digest, claim, indexes, held) = ([1; 16], Claim::First, Vec::new(), BTreeMap::new());
    let call = |key: &str, items| ProduceOnce {
        key: key.into(),
        digest,
        claim,
        indexes: indexes.clone(),
        held: held.clone(),
        items,
    };
    let elsewhere = Some("of-a-call".into());
    let keyed = vec![NewItem { address: elsewhere, ..item("default") }];
    script.apply(call("call", keyed)).unwrap();
    script.apply(open_group("group")).unwrap();
    assert_eq!(script.partition.lingering(), None, "every slot is at home");

    let slots = |keys: &[&str]| keys.iter().map(|key| Slot::of(key)).collect::<SlotSet>();
    route(&mut script, Intake { version: 5, at_home: Some(slots(&["call"])), ..Intake::default() });
    assert_eq!(script.partition.lingering_slots(), slots(&["address", "of-a-call", "group"]));
    route(&mut script, Intake { version: 6, at_home: Some(SlotSet::default()), ..Intake::default() });
    assert_eq!(script.partition.lingering_slots(), slots(&["address", "of-a-call", "call", "group"]));
    assert_eq!(script.partition.lingering(), Some(Lingering { route_version: 6, slots: 4 }));
    assert_same(&rebuilt(&script.partition, START), &script.partition);

    // An item that has ended bears its address for as long as it is kept, and the call is remembered.
    let every = Clear { waiting: true, scheduled: true, leased: true, suspended: true };
    script.apply(every).unwrap();
    script.apply(CancelGroup("group".into())).unwrap();
    script.apply(DeleteGroup("group".into())).unwrap();
    script.sweep();
    assert_eq!(script.partition.lingering_slots(), slots(&["address", "of-a-call", "call"]));
    script.pass(Span::from_secs(49 * 3600));
    script.sweep();
    assert_eq!(script.partition.lingering_slots(), SlotSet::default());
}

#[test]
fn as_many_as_there_are_is_no_change() {
    let mut script = registry(3);
    let queue = script.rebalance("q", 3).unwrap();
    assert_eq!((queue.width(), script.changes.len()), (3, 0));
    assert!(matches!(script.rebalance("q", 0), Err(Refusal::Invalid(_))));
    assert!(matches!(script.rebalance("q", 1025), Err(Refusal::Invalid(_))));
}

fn route(script: &mut Script, intake: Intake) {
    assert_eq!(script.apply(Route(intake)), Ok(()));
}

#[test]
fn a_key_that_is_at_home_elsewhere_is_not_taken() {
    let mut script = Script::new();
    let at = |address: &str| {
        let address = Some(address.into());
        Produce { items: vec![NewItem { address, ..item("default") }] }
    };
    let only_a: SlotSet = [Slot::of("a")].into_iter().collect();
    let intake = Intake { version: 5, at_home: Some(only_a), ..Intake::default() };
    route(&mut script, intake.clone());
    assert!(script.apply(at("a")).is_ok());
    assert_eq!(script.apply(at("b")), Err(Refusal::Moved));
    assert!(script.apply(Produce { items: items(1) }).is_ok());
    let call = |key: &str| {
        let (digest, claim, indexes, held) = ([1; 16], Claim::First, Vec::new(), BTreeMap::new());
        ProduceOnce { key: key.into(), digest, claim, indexes, held, items: items(1) }
    };
    assert!(script.apply(call("a")).is_ok());
    assert_eq!(script.apply(call("b")), Err(Refusal::Moved));
    // The same version is the same intake; another one counts, even if it is older.
    route(&mut script, Intake { version: 5, ..Intake::default() });
    assert_eq!(script.partition.intake(), &intake);
    let restored = Intake { version: 4, ..Intake::default() };
    route(&mut script, restored.clone());
    assert_eq!(script.partition.intake(), &restored);
    assert_same(&rebuilt(&script.partition, START), &script.partition);
}

#[test]
fn a_closed_partition_takes_nothing_and_tells_when_it_is_drained_and_bare() {
    let mut script = Script::with_settings(Settings { retention: Span::from_secs(9), ..Settings::default() });
    script.produce(items(1));
    route(&mut script, Intake { version: 1, closed: true, ..Intake::default() });
    assert_eq!(script.apply(Produce { items: items(1) }), Err(Refusal::Moved));
    assert!(script.apply(Import { items: Vec::new() }).is_err());
    let origin = Origin {
        queue: "other".into(),
        id: None,
        group: None,
        address: None,
        attempts: None,
        reason: MoveReason::Dead,
        error: None,
        moved_at: START,
        unknown: Vec::new(),
    };
    let (kind, body) = ("default".into(), bytes::Bytes::new());
    let moved = Move {
        number: MoveNumber(1),
        what: Arriving::Item(Box::new(ArrivingItem {
            kind,
            priority: 0,
            origin,
            cron: None,
            address: None,
            address_taken: false,
            enqueue_at: None,
            max_attempts: None,
            dead_timeout: None,
            hashes: Hashes::Unknown,
        })),
        body: Some(body),
        facts: None,
        attempts: Vec::new(),
    };
    let take = Take { source: PartitionId(9), moves: vec![moved] };
    assert_eq!(script.apply(take), Err(Refusal::Moved));
    assert_eq!((script.partition.remaining().items, script.partition.is_drained()), (1, false));
    let held = script.lease_one();
    script.complete(held, Some("kept")).unwrap();
    assert!(script.partition.is_drained() && !script.partition.is_bare());
    script.pass(Span::from_secs(10));
    script.sweep();
    assert!(script.partition.is_bare());
}

/// An open group with one member and an end item.
fn group(name: &str) -> CreateGroup {
    let end = Some(NewEnd { queue: None, item: item("end") });
    CreateGroup { end, items: items(1), ..open_group(name) }
}

/// What the partition, and if it takes the call the item, was answered.
fn judged(script: &mut Script, item: NewItem) -> Result<Result<(), Refusal>, Refusal> {
    let mut items = script.apply(Produce { items: vec![item] })?;
    Ok(items.remove(0).map(|_| ()))
}

fn closed() -> Intake {
    Intake { version: 1, closed: true, at_home: Some(SlotSet::default()), ..Intake::default() }
}

#[test]
fn a_group_stays_with_a_closed_partition_and_takes_members_until_it_is_finished() {
    let settings = Settings { retention: Span::from_secs(9), ..Settings::default() };
    let mut script = Script::with_settings(settings);
    script.apply(group("here")).unwrap();
    route(&mut script, closed());
    assert_eq!(script.partition.remaining(), Remaining { items: 1, groups: 1 });

    assert_eq!(script.apply(group("other")), Err(Refusal::Moved));
    assert_eq!(script.apply(group("here")), Err(Refusal::GroupExists));
    assert_eq!(judged(&mut script, member("other")), Err(Refusal::Moved));
    assert_eq!(judged(&mut script, item("default")), Err(Refusal::Moved));
    assert_eq!(judged(&mut script, member("here")), Ok(Ok(())));
    let with_address = NewItem { address: Some("a".into()), ..member("here") };
    assert_eq!(judged(&mut script, with_address.clone()), Err(Refusal::Moved));

    script.apply(StartGroup("here".into())).unwrap();
    for left in [2, 1, 1] {
        assert_eq!(script.partition.remaining().items, left);
        let held = script.lease_one();
        script.complete(held, None).unwrap();
    }
    // The end item was made here too, and was leased last.
    assert!(script.partition.is_drained() && !script.partition.is_bare());
    assert_eq!(judged(&mut script, with_address), Ok(Err(Refusal::GroupFinished)));
    script.pass(Span::from_secs(10));
    script.sweep();
    assert!(script.partition.is_bare());
    assert_eq!(judged(&mut script, member("here")), Err(Refusal::Moved));
}

#[test]
fn a_group_without_members_keeps_a_partition_from_being_drained() {
    let mut script = Script::new();
    script.apply(open_group("g")).unwrap();
    route(&mut script, closed());
    assert_eq!(script.partition.remaining(), Remaining { items: 0, groups: 1 });
    assert!(!script.partition.is_drained());
    script.apply(StartGroup("g".into())).unwrap();
    assert!(script.partition.is_drained() && !script.partition.is_bare());
    script.apply(DeleteGroup("g".into())).unwrap();
    assert!(script.partition.is_bare());
}
