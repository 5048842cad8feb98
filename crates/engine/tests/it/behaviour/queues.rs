//! Queues come, change and go.

use windlass_core::id::PartitionId;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{RetryChange, Settings, SettingsChange};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{CreateQueue, NewItem, UpdateQueue};
use windlass_engine::env::Env;
use windlass_engine::{Commit, Engine, EngineError};

use super::is_refused;
use crate::world::{World, completion_with, item, items, lease, queue_name};

on_every_store!(
    a_queue_made_again_under_the_name_is_empty,
    new_settings_count_for_the_next_lease,
    an_unknown_queue_is_refused,
    updates_at_once_of_different_settings_all_stick,
    a_change_of_queues_tells_its_commit,
    a_queue_with_something_to_do_is_not_deleted_without_force,
    what_is_final_does_not_keep_a_queue,
    a_produce_that_was_acknowledged_outlives_a_delete_without_force,
    a_delete_that_is_refused_costs_no_produce,
);

async fn a_queue_made_again_under_the_name_is_empty(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let old = world.produce(&queue, items(5)).await;
    world.engine().delete_queue(&queue, true).await.expect("deleted");
    assert!(matches!(
        world.engine().produce(&queue, items(1)).await,
        Err(EngineError::Refused(Refusal::NoSuchQueue { .. }))
    ));
    let queue = world.queue("q", 2, Settings::default()).await;
    assert!(world.lease(&queue, 10).await.is_empty());
    world.restart().await;
    assert!(world.lease(&queue, 10).await.is_empty());
    assert!(world.engine().get(old[0]).await.is_err());
}

async fn new_settings_count_for_the_next_lease(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let change = SettingsChange { lease_timeout: Some(Span::from_secs(7)), ..SettingsChange::default() };
    world.engine().update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
    let leased = world.lease(&queue, 1).await;
    assert_eq!(leased[0].leased.deadline, world.env.wall() + Span::from_secs(7));
    world.restart().await;
    assert_eq!(world.engine().queues()[0].settings.lease_timeout, Span::from_secs(7));
}

async fn an_unknown_queue_is_refused(world: &World) {
    let nowhere = queue_name("nowhere");
    let refused = |error: EngineError| matches!(error, EngineError::Refused(Refusal::NoSuchQueue { .. }));
    assert!(refused(world.engine().produce(&nowhere, items(1)).await.expect_err("refused")));
    assert!(refused(world.engine().lease(&nowhere, lease(1), Span::ZERO).await.expect_err("refused")));
    assert!(refused(world.engine().delete_queue(&nowhere, false).await.expect_err("refused")));
    let queue = world.queue("q", 1, Settings::default()).await;
    let create = CreateQueue::new(queue, Settings::default(), 1);
    let error = world.engine().create_queue(create).await.expect_err("refused");
    assert!(matches!(error, EngineError::Refused(Refusal::QueueExists)));
}

async fn updates_at_once_of_different_settings_all_stick(world: &World) {
    const ROUNDS: u32 = 50;
    let queue = world.queue("q", 2, Settings::default()).await;
    let changes: [fn(u32) -> SettingsChange; 3] = [
        |n| SettingsChange { max_attempts: Some(n), ..SettingsChange::default() },
        |n| SettingsChange { max_items: Some(1000 + u64::from(n)), ..SettingsChange::default() },
        |n| {
            let retry = RetryChange { max: Some(Span::from_secs(n.into())), ..RetryChange::default() };
            SettingsChange { retry, ..SettingsChange::default() }
        },
    ];
    let updating = changes.map(|change| {
        let (engine, name) = (world.engine(), queue.clone());
        tokio::spawn(async move {
            let mut version = 0;
            for round in 1..=ROUNDS {
                let update = UpdateQueue::new(name.clone(), change(round));
                let settings = engine.update_queue(update).await.expect("updated").value.settings;
                assert!(settings.version > version, "versions grow");
                version = settings.version;
            }
        })
    });
    for task in updating {
        task.await.expect("the task ran");
    }
    for _ in 0..2 {
        let settings = world.engine().queue_info(&queue).expect("it is there").settings;
        assert_eq!((settings.max_attempts, settings.max_items), (ROUNDS, 1000 + u64::from(ROUNDS)));
        assert_eq!((settings.retry.max, settings.retry.factor), (Span::from_secs(ROUNDS.into()), 2.0));
        world.restart().await;
    }
}

async fn a_change_of_queues_tells_its_commit(world: &World) {
    let name = queue_name("q");
    let create = CreateQueue::new(name.clone(), Settings::default(), 2);
    let created = world.engine().create_queue(create).await.expect("made");
    let [Commit { partition: PartitionId::REGISTRY, sequence }] = created.commits[..] else {
        panic!("{created:?}")
    };
    assert_eq!(world.engine().queue_info(&name), Some(created.value));
    let update = UpdateQueue::new(name.clone(), SettingsChange::default());
    let updated = world.engine().update_queue(update).await.expect("updated");
    let commit = |sequence| vec![Commit { partition: PartitionId::REGISTRY, sequence }];
    assert_eq!(updated.commits, commit(sequence + 1));
    let deleted = world.engine().delete_queue(&name, false).await.expect("deleted");
    assert_eq!(deleted.commits, commit(sequence + 2));
    assert_eq!(world.engine().queue_info(&name), None);
}

async fn a_queue_with_something_to_do_is_not_deleted_without_force(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let later = NewItem { enqueue_at: Some(Timestamp(u64::MAX)), ..item("later") };
    let scheduled = world.produce(&queue, vec![later]).await;
    world.produce(&queue, items(1)).await;
    world.produce(&queue, items(1)).await;
    let mut leased = world.lease(&queue, 1).await;
    let refused = |live| Refusal::NotEmpty { live };
    assert!(is_refused(&world.engine().delete_queue(&queue, false).await, &refused(3)));
    world.engine().cancel(scheduled[0]).await.expect("cancelled");
    assert!(is_refused(&world.engine().delete_queue(&queue, false).await, &refused(2)));
    leased.extend(world.lease(&queue, 1).await);
    for (item, left) in leased.iter().zip([1, 0]) {
        world.complete(&queue, item).await;
        let deleted = world.engine().delete_queue(&queue, false).await;
        assert!(left == 0 || is_refused(&deleted, &refused(left)), "{deleted:?}");
        assert_eq!(deleted.is_ok(), left == 0, "{deleted:?}");
    }
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    world.engine().delete_queue(&queue, true).await.expect("by force");
    assert!(world.engine().queues().is_empty());
}

async fn what_is_final_does_not_keep_a_queue(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let id = world.produce(&queue, items(1)).await[0];
    let leased = world.lease(&queue, 1).await;
    let done = vec![completion_with(leased[0].held(), "kept")];
    assert!(world.engine().complete(&queue, done).await.expect("judged").results[0].is_ok());
    world.engine().delete_queue(&queue, false).await.expect("deleted");
    assert!(is_refused(&world.engine().get(id).await, &Refusal::NotFound));
}

/// Either the delete sees the item or the produce finds no queue; never are both told that it is done.
async fn a_produce_that_was_acknowledged_outlives_a_delete_without_force(world: &World) {
    let (mut deletes, mut refusals) = (0, 0);
    for round in 0..200 {
        let queue = world.queue("q", 1 + round % 3, Settings::default()).await;
        let producing: Vec<_> =
            (0..3).map(|_| tokio::spawn(produce_one(world.engine(), queue.clone()))).collect();
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        let deleted = world.engine().delete_queue(&queue, false).await;
        let mut produced = 0;
        for task in producing {
            match task.await.expect("the task ran") {
                Ok(()) => produced += 1,
                Err(error) => {
                    assert!(matches!(error, EngineError::Refused(Refusal::NoSuchQueue { .. })), "{error}")
                }
            }
        }
        match deleted {
            Ok(_) => {
                assert_eq!(produced, 0, "round {round}: acknowledged, and gone");
                deletes += 1;
            }
            Err(EngineError::Refused(Refusal::NotEmpty { live })) => {
                assert!((1..=3).contains(&live) && produced == 3, "round {round}: {live} {produced}");
                let waiting = world.waiting(&queue).await;
                assert_eq!(waiting, 3, "round {round}");
                world.engine().delete_queue(&queue, true).await.expect("by force");
                refusals += 1;
            }
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    assert_eq!(deletes + refusals, 200);
}

async fn produce_one(engine: Engine, queue: QueueName) -> Result<(), EngineError> {
    engine.produce(&queue, items(1)).await.map(|_produced| ())
}

async fn a_delete_that_is_refused_costs_no_produce(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let (engine, name) = (world.engine(), queue.clone());
    let producing = tokio::spawn(async move {
        for _ in 0..100 {
            produce_one(engine.clone(), name.clone()).await.expect("carried out, if after a while");
        }
    });
    while !producing.is_finished() {
        let refused = world.engine().delete_queue(&queue, false).await;
        assert!(matches!(refused, Err(EngineError::Refused(Refusal::NotEmpty { .. }))), "{refused:?}");
    }
    producing.await.expect("the task ran");
    assert_eq!(world.waiting(&queue).await, 101);
}
