//! Deletes, adoptions and drops of partitions, with everything that can go wrong at every step of them.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::CreateQueue;
use windlass_engine::store::Store;
use windlass_engine::{Engine, EngineError, PartitionState};

use crate::failures::world;
use crate::failures_moves::{FAULTS, Moving};
use crate::faulty::{Fault, FaultyStore};
use crate::world::{ManualEnv, items, lease, queue_name};

/// More commits than a delete, an adoption or a drop takes.
const COMMITS_MAX: usize = 8;

/// The engine of the next process, once all of its partitions serve and it has nothing more to do on its own.
async fn next(store: &FaultyStore) -> (Engine, Arc<FaultyStore>, Arc<ManualEnv>) {
    let (env, store) = (Arc::new(ManualEnv::new()), Arc::new(store.next_process()));
    env.advance(Duration::from_secs(3600));
    let engine = Engine::open(env.clone(), store.clone()).await.expect("it opens again");
    (engine, store, env)
}

async fn until_served(engine: &Engine, env: &ManualEnv, queue: &QueueName) -> u64 {
    loop {
        let stats = engine.stats(queue).await.expect("stats");
        if stats.partitions.iter().all(|partition| partition.state == PartitionState::Available) {
            return stats.counts.live();
        }
        env.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
}

/// Carries a call out until it is answered, or the process ends.
async fn unless_it_crashes<T>(store: &FaultyStore, call: impl Future<Output = T>) {
    let mut crashed = store.crashed.subscribe();
    tokio::select! {
        _answer = call => {}
        _crash = crashed.wait_for(|crashed| *crashed) => {}
    }
    store.disarm();
}

#[tokio::test]
async fn a_fault_at_any_step_of_a_delete_leaves_the_whole_queue_or_nothing() {
    let (mut kept, mut gone) = (0, 0);
    for fault in FAULTS {
        for commits in 0..COMMITS_MAX {
            let world = world(3).await;
            world.engine.produce(&world.queue, items(5)).await.expect("produced");
            world.store.fail_after(commits, fault);
            unless_it_crashes(&world.store, world.engine.delete_queue(&world.queue, true)).await;
            let (engine, store, env) = next(&world.store).await;
            let context = format!("{fault:?} after {commits}");
            assert_eq!(engine.unclaimed(), [], "{context}");
            if engine.queue_info(&world.queue).is_some() {
                kept += 1;
                assert_eq!(until_served(&engine, &env, &world.queue).await, 5, "{context}");
            } else {
                gone += 1;
                assert_eq!(store.partitions().await.expect("listed"), [PartitionId(0)], "{context}");
            }
        }
    }
    assert!(kept > 0 && gone > 0, "{kept} kept, {gone} gone");
}

/// Partition 1 with 5 items, which no queue names, and the queue `post`.
async fn with_unclaimed() -> (Arc<FaultyStore>, Engine, QueueName) {
    let world = world(1).await;
    world.engine.produce(&world.queue, items(5)).await.expect("produced");
    world.engine.close().await;
    world.store.drop_partition(PartitionId::REGISTRY).await.expect("the registry is lost");
    let (engine, store, _) = next(&world.store).await;
    let queue = queue_name("post");
    let create = CreateQueue::new(queue.clone(), Settings::default(), 1);
    engine.create_queue(create).await.expect("the queue is made");
    (store, engine, queue)
}

#[tokio::test]
async fn a_fault_at_any_step_of_an_adoption_loses_no_item() {
    for fault in FAULTS {
        for commits in 0..COMMITS_MAX {
            let (store, engine, queue) = with_unclaimed().await;
            store.fail_after(commits, fault);
            unless_it_crashes(&store, engine.adopt(&queue, PartitionId(1), None)).await;
            let (engine, _, env) = next(&store).await;
            let context = format!("{fault:?} after {commits}");
            match engine.adopt(&queue, PartitionId(1), None).await {
                Ok(_) => {}
                Err(EngineError::Refused(Refusal::NotUnclaimed)) => {}
                Err(error) => panic!("{context}: {error}"),
            }
            assert_eq!(until_served(&engine, &env, &queue).await, 5, "{context}");
            let leased = engine.lease(&queue, lease(10), Span::ZERO).await.expect("leased").accept();
            assert_eq!((leased.len(), engine.unclaimed().len()), (5, 0), "{context}");
        }
    }
}

#[tokio::test]
async fn a_fault_at_any_step_of_a_drop_leaves_the_partition_unclaimed_or_gone() {
    let (mut kept, mut gone) = (0, 0);
    for fault in FAULTS {
        for commits in 0..COMMITS_MAX {
            let (store, engine, queue) = with_unclaimed().await;
            store.fail_after(commits, fault);
            unless_it_crashes(&store, engine.drop_unclaimed(PartitionId(1), None, true)).await;
            let (engine, store, env) = next(&store).await;
            let context = format!("{fault:?} after {commits}");
            let held = store.partitions().await.expect("listed").contains(&PartitionId(1));
            assert_eq!(engine.unclaimed().len(), usize::from(held), "{context}");
            if held {
                kept += 1;
                engine.adopt(&queue, PartitionId(1), None).await.expect("adopted");
                assert_eq!(until_served(&engine, &env, &queue).await, 5, "{context}");
            } else {
                gone += 1;
            }
        }
    }
    assert!(kept > 0 && gone > 0, "{kept} kept, {gone} gone");
}

/// An item dies in `q` and goes to `dead`. The process ends in the middle, the registry is lost, and both partitions are
/// adopted one after the other.
async fn crash_and_adopt(commits: usize, fault: Fault, first: u32) {
    let context = format!("{fault:?} after {commits}, partition {first} first");
    let moving = Moving::new().await;
    moving.create(&moving.dead, Settings::default()).await;
    moving.engine.produce(&moving.queue, items(1)).await.expect("produced");
    let leased = moving.lease(&moving.queue).await;
    moving.store.fail_after(commits, fault);
    let arrive = async {
        moving.fail(&leased).await;
        while moving.engine.stats(&moving.dead).await.expect("stats").counts.waiting == 0
            || moving.engine.stats(&moving.queue).await.expect("stats").moving > 0
        {
            moving.env.advance(Duration::from_millis(10));
            tokio::task::yield_now().await;
        }
    };
    unless_it_crashes(&moving.store, arrive).await;
    let next_process = moving.store.next_process();
    next_process.drop_partition(PartitionId::REGISTRY).await.expect("the registry is lost");
    let (engine, store, env) = next(&next_process).await;
    let settings = Settings { max_attempts: 1, dead_queue: Some("dead".into()), ..Settings::default() };
    for (name, settings) in [(&moving.queue, settings), (&moving.dead, Settings::default())] {
        let create = CreateQueue::new(name.clone(), settings, 1);
        engine.create_queue(create).await.expect("the queue is made");
    }
    // Partition 1 is of `q`, partition 2 of `dead`.
    for partition in [first, 3 - first] {
        let queue = if partition == 1 { &moving.queue } else { &moving.dead };
        // While the partition is loaded, everybody else goes on.
        store.slow.send_replace(true);
        let adopted = async {
            engine.adopt(queue, PartitionId(partition), None).await.expect("adopted");
        };
        let meanwhile = async {
            turns(&env).await;
            store.slow.send_replace(false);
        };
        tokio::join!(adopted, meanwhile);
        turns(&env).await;
    }
    // A lease that nobody extends ends, and its item dies then.
    env.advance(Duration::from_secs(3600));
    turns(&env).await;
    while engine.stats(&moving.queue).await.expect("stats").moving > 0 {
        turns(&env).await;
    }
    let (here, there) =
        (until_served(&engine, &env, &moving.queue).await, until_served(&engine, &env, &moving.dead).await);
    assert_eq!((here, there), (0, 1), "{context}");
}

/// Lets everything that is under way come to an end.
async fn turns(env: &ManualEnv) {
    for _ in 0..200 {
        env.advance(Duration::from_millis(10));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_item_on_its_way_between_two_unclaimed_partitions_arrives_once() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for commits in 0..6 {
            for first in [1, 2] {
                crash_and_adopt(commits, fault, first).await;
            }
        }
    }
}
