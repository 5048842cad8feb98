use windlass_core::id::PartitionId;
use windlass_core::limits::{Invalid, RegistryLimits};
use windlass_core::machine::Machine;
use windlass_core::refusal::{Limit, Refusal};
use windlass_core::row::{Partitions, Row};
use windlass_core::settings::{RetryChange, Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, DeleteQueue, ForgetPartition, Retire, SkipPartitions, UpdateQueue};

use crate::registry_script::{RegistryScript, queue_name};
use crate::script::START;

#[test]
fn partitions_are_numbered_from_one_on_and_never_again() {
    let mut script = RegistryScript::new();
    let first = script.create("first", 2).unwrap();
    assert_eq!(first.partitions, [PartitionId(1), PartitionId(2)]);
    assert_eq!(first.settings.version, START.0);
    assert_eq!(script.apply(DeleteQueue(queue_name("first"))), Ok(first.clone()));
    assert_eq!(script.create("first", 1).unwrap().partitions, [PartitionId(3)]);
    assert_eq!(script.registry.queues().count(), 1);
}

#[test]
fn numbers_that_were_given_out_by_a_registry_that_forgot_are_skipped() {
    let mut script = RegistryScript::new();
    script.apply(SkipPartitions(PartitionId(7))).unwrap();
    script.apply(SkipPartitions(PartitionId(3))).unwrap();
    assert_eq!(script.changes, []);
    assert_eq!(script.create("first", 2).unwrap().partitions, [PartitionId(8), PartitionId(9)]);
}

#[test]
fn a_name_is_taken_once() {
    let mut script = RegistryScript::new();
    script.create("first", 1).unwrap();
    assert_eq!(script.create("first", 1), Err(Refusal::QueueExists));
    assert!(script.create("First", 1).is_ok());
}

const AT_QUEUES: Refusal = Refusal::AtLimit { limit: Limit::Queues, max: 2 };
const AT_PARTITIONS: Refusal = Refusal::AtLimit { limit: Limit::Partitions, max: 4 };

#[test]
fn queues_and_partitions_are_bounded() {
    let mut script = RegistryScript::with_limits(RegistryLimits { queues: 2, partitions: 4 });
    script.create("first", 2).unwrap();
    assert_eq!(script.create("second", 3), Err(AT_PARTITIONS));
    script.create("second", 1).unwrap();
    assert_eq!(script.create("third", 1), Err(AT_QUEUES));
    assert_eq!(script.rebalance("first", 4), Err(AT_PARTITIONS));
    script.rebalance("first", 3).unwrap();
    script.apply(DeleteQueue(queue_name("second"))).unwrap();
    script.create("third", 1).unwrap();
}

#[test]
fn partitions_that_drain_and_retired_ones_count_until_they_are_forgotten() {
    let mut script = RegistryScript::with_limits(RegistryLimits { queues: 2, partitions: 4 });
    let gone = script.create("first", 4).unwrap().partitions[3];
    script.rebalance("first", 3).unwrap();
    assert_eq!(script.create("second", 1), Err(AT_PARTITIONS));
    script.apply(Retire { queue: queue_name("first"), partition: gone }).unwrap();
    assert_eq!(script.create("second", 1), Err(AT_PARTITIONS));
    script.apply(ForgetPartition { queue: queue_name("first"), partition: gone }).unwrap();
    script.create("second", 1).unwrap();
}

#[test]
fn queues_beyond_a_limit_that_was_lowered_stay_and_can_shrink() {
    let mut script = RegistryScript::new();
    script.create("first", 8).unwrap();
    script.registry = script.rebuilt(RegistryLimits { queues: 2, partitions: 4 });
    assert_eq!(script.rebalance("first", 9), Err(AT_PARTITIONS));
    script.rebalance("first", 6).unwrap();
}

#[test]
fn names_and_partition_counts_are_checked() {
    let mut script = RegistryScript::new();
    for (queue, partitions) in [("a b", 1), ("..", 1), ("fine", 0), ("fine", 1025)] {
        assert!(matches!(script.create(queue, partitions), Err(Refusal::Invalid(_))), "{queue} {partitions}");
    }
    assert_eq!(script.create("fine", 1024).unwrap().partitions.len(), 1024);
}

#[test]
fn an_update_counts_the_version_itself() {
    let mut script = RegistryScript::new();
    script.create("first", 1).unwrap();
    let change = SettingsChange { max_attempts: Some(9), ..SettingsChange::default() };
    let update = |name| UpdateQueue::new(name, change.clone());
    let queue = script.apply(update(queue_name("first"))).expect("the queue is there");
    assert_eq!((queue.settings.version, queue.settings.max_attempts), (START.0 + 1, 9));
    assert_eq!(
        script.apply(update(queue_name("second"))),
        Err(Refusal::NoSuchQueue { queue: "second".into() })
    );
    assert_eq!(
        script.apply(DeleteQueue(queue_name("second"))),
        Err(Refusal::NoSuchQueue { queue: "second".into() })
    );
}

fn update(script: &mut RegistryScript, change: SettingsChange) -> Result<Settings, Refusal> {
    let update = UpdateQueue::new(queue_name("first"), change);
    script.apply(update).map(|queue| queue.settings)
}

#[test]
fn an_update_changes_what_it_names_and_nothing_else() {
    let mut script = RegistryScript::new();
    let mut expected = script.create("first", 1).unwrap().settings;
    type Changed = fn(&mut Settings);
    let changes: [(SettingsChange, Changed); 4] = [
        (SettingsChange { max_items: Some(7), ..SettingsChange::default() }, |now| now.max_items = 7),
        (SettingsChange { reference: Some(Some("mine".into())), ..SettingsChange::default() }, |now| {
            now.reference = Some("mine".into())
        }),
        (
            SettingsChange {
                retry: RetryChange { factor: Some(3.0), ..RetryChange::default() },
                lease_timeout: Some(Span::from_secs(5)),
                ..SettingsChange::default()
            },
            |now| (now.retry.factor, now.lease_timeout) = (3.0, Span::from_secs(5)),
        ),
        (SettingsChange { reference: Some(None), ..SettingsChange::default() }, |now| now.reference = None),
    ];
    for (change, changed) in changes {
        changed(&mut expected);
        expected.version += 1;
        assert_eq!(update(&mut script, change), Ok(expected.clone()));
    }
}

#[test]
fn versions_follow_the_clock_so_that_a_registry_that_forgot_some_does_not_repeat_them() {
    let mut script = RegistryScript::new();
    script.create("first", 1).unwrap();
    let before = script.rebuilt(RegistryLimits::default());
    script.pass(Span::from_secs(1));
    let lost = update(&mut script, SettingsChange::default()).unwrap();
    assert_eq!(lost.version, script.now.0);
    script.registry = before;
    script.pass(Span::from_micros(1));
    assert!(update(&mut script, SettingsChange::default()).unwrap().version > lost.version);
}

#[test]
fn settings_that_make_no_sense_are_refused_at_creation_and_update() {
    let mut script = RegistryScript::new();
    let settings = Settings { lease_timeout: Span::ZERO, ..Settings::default() };
    let bad = CreateQueue::new(queue_name("first"), settings, 1);
    let refused = script.apply(bad);
    assert!(matches!(refused, Err(Refusal::Invalid(Invalid { field: "lease_timeout", .. }))), "{refused:?}");
    script.create("first", 1).unwrap();
    let retry = RetryChange { factor: Some(f64::NAN), ..RetryChange::default() };
    let refused = update(&mut script, SettingsChange { retry, ..SettingsChange::default() });
    assert!(matches!(refused, Err(Refusal::Invalid(Invalid { field: "retry.factor", .. }))), "{refused:?}");
    assert_eq!(script.changes, []);
}

#[test]
fn what_a_newer_version_wrote_of_queues_outlives_their_change() {
    let mut script = RegistryScript::new();
    let mut queue = script.create("first", 1).unwrap();
    (queue.unknown, queue.settings.unknown) = (vec![80, 1], vec![82, 2]);
    script.registry.put(Row::Queue(Box::new(queue)));
    script.registry.put(Row::Partitions(Partitions { last: 1, unknown: vec![84, 3] }));
    let update = UpdateQueue::new(queue_name("first"), SettingsChange::default());
    let queue = script.apply(update).expect("the queue is there");
    assert_eq!((queue.unknown, queue.settings.unknown), (vec![80, 1], vec![82, 2]));
    script.create("second", 1).unwrap();
    let partitions = Row::Partitions(Partitions { last: 2, unknown: vec![84, 3] });
    assert!(script.registry.rows().any(|row| row == partitions));
}
