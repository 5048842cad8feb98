//! Partitions acquired anew, by themselves and because somebody asks.

use windlass_core::refusal::Refusal;
use windlass_core::time::Span;
use windlass_engine::{EngineError, Outcome, PartitionState};

use crate::behaviour::is_refused;
use crate::failures::{Broken, world};
use crate::faulty::Fault;
use crate::overload::first_poll;
use crate::world::{items, lease};

#[tokio::test]
async fn requests_that_come_during_a_reload_wait_for_it() {
    let world = world(1).await;
    world.engine.produce(&world.queue, items(3)).await.expect("produced");
    world.store.slow.send_replace(true);
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let reload = tokio::spawn(async move { engine.reload(&queue).await });
    world.store.acquiring.subscribe().wait_for(|waiting| *waiting > 0).await.expect("the store is there");
    let stats = world.engine.overview();
    assert_eq!(stats[0].partitions[0].1, PartitionState::Loading);
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let produce = tokio::spawn(async move { engine.produce(&queue, items(1)).await });
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let take = tokio::spawn(async move { engine.lease(&queue, lease(3), Span::ZERO).await });
    tokio::task::yield_now().await;
    world.store.slow.send_replace(false);
    reload.await.expect("the task ran").expect("acquired anew");
    produce.await.expect("the task ran").expect("produced");
    assert_eq!(take.await.expect("the task ran").expect("leased").accept().len(), 3);
}

#[tokio::test]
async fn a_faulty_partition_is_tried_at_once_whatever_its_backoff() {
    let world = world(1).await;
    *world.store.down.lock().expect("not poisoned") = true;
    let error = world.engine.reload(&world.queue).await.expect_err("it cannot be had");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error}");
    let stats = world.engine.stats(&world.queue).await.expect("stats");
    assert!(
        matches!(&stats.partitions[0].state, PartitionState::Faulty { error } if error.contains("broken"))
    );
    // No time passes in this world, so that no backoff ever ends.
    *world.store.down.lock().expect("not poisoned") = false;
    world.engine.reload(&world.queue).await.expect("acquired anew");
    let stats = world.engine.stats(&world.queue).await.expect("stats");
    assert_eq!(stats.partitions[0].state, PartitionState::Available);
}

#[tokio::test]
async fn a_reload_tries_every_partition_and_tells_of_those_that_failed() {
    let world = world(2).await;
    *world.store.down.lock().expect("not poisoned") = true;
    let error = world.engine.reload(&world.queue).await.expect_err("none can be had").to_string();
    assert!(error.contains("partition 1") && error.contains("partition 2"), "{error}");
}

#[tokio::test]
async fn a_reload_ends_when_the_engine_closes() {
    let world = world(1).await;
    *world.store.down.lock().expect("not poisoned") = true;
    world.engine.reload(&world.queue).await.expect_err("it cannot be had");
    world.engine.close().await;
    let error = world.engine.reload(&world.queue).await.expect_err("it is closed").to_string();
    assert!(error.contains("shutting down"), "{error}");
}

#[tokio::test]
async fn a_reload_passes_over_partitions_that_go_meanwhile() {
    let world = world(3).await;
    let (engine, queue) = (&world.engine, &world.queue);
    let mut reload = Box::pin(engine.reload(queue));
    assert!(first_poll(reload.as_mut()).await.is_none(), "the first partition is being acquired anew");
    engine.rebalance(queue, 1).await.expect("rebalanced");
    let left = || engine.queue_info(queue).expect("the queue is there").homes().count();
    while left() > 1 {
        tokio::task::yield_now().await;
    }
    reload.await.expect("the partition that is left was acquired anew");
}

#[tokio::test]
async fn a_reload_of_a_queue_that_is_deleted_meanwhile_is_told_so() {
    let world = world(2).await;
    let mut reload = Box::pin(world.engine.reload(&world.queue));
    assert!(first_poll(reload.as_mut()).await.is_none(), "the first partition is being acquired anew");
    world.engine.delete_queue(&world.queue, true).await.expect("deleted");
    assert!(is_refused(&reload.await, &Refusal::no_such_queue(&world.queue)));
}

#[tokio::test]
async fn a_reload_that_fails_for_some_partitions_tells_that_nothing_was_changed() {
    let world = world(2).await;
    let broken = world.engine.queue_info(&world.queue).expect("the queue is there").partitions[1];
    *world.store.broken_partition.lock().expect("not poisoned") = Some(broken);
    let error = world.engine.reload(&world.queue).await.expect_err("one cannot be had");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error}");
    assert!(error.to_string().contains("partition 2: ") && !error.to_string().contains("partition 1: "));
}

/// Starts a reload whose partition the store does not hand out, and whose caller has left.
async fn stuck_in_a_reload(world: &Broken) {
    world.store.slow.send_replace(true);
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let reload = tokio::spawn(async move { engine.reload(&queue).await });
    world.store.acquiring.subscribe().wait_for(|waiting| *waiting > 0).await.expect("the store is there");
    reload.abort();
    let _aborted = reload.await;
}

#[tokio::test]
async fn closing_the_engine_ends_a_partition_that_is_being_acquired() {
    let world = world(1).await;
    stuck_in_a_reload(&world).await;
    world.engine.close().await;
}

#[tokio::test]
async fn deleting_a_queue_ends_a_partition_that_is_being_acquired() {
    let world = world(1).await;
    stuck_in_a_reload(&world).await;
    world.engine.delete_queue(&world.queue, true).await.expect("deleted");
    assert!(world.engine.queue_info(&world.queue).is_none());
}

#[tokio::test]
async fn stopping_a_partition_that_is_being_acquired_answers_the_requests_that_wait_for_it() {
    let world = world(1).await;
    stuck_in_a_reload(&world).await;
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let mut produce = Box::pin(engine.produce(&queue, items(1)));
    assert!(first_poll(produce.as_mut()).await.is_none(), "the produce waits for the partition");
    world.engine.delete_queue(&world.queue, true).await.expect("deleted");
    assert!(is_refused(&produce.await, &Refusal::no_such_queue(&world.queue)));
}

#[tokio::test]
async fn a_store_that_takes_no_commits_keeps_its_partition_faulty_until_it_does() {
    let world = world(1).await;
    world.store.fail_all(Some(Fault::NotApplied));
    world.engine.produce(&world.queue, items(1)).await.expect_err("it failed");
    for _ in 0..3 {
        // Every try begins with a commit that fails.
        world.engine.reload(&world.queue).await.expect_err("it takes no commits");
        let stats = world.engine.stats(&world.queue).await.expect("stats");
        assert!(matches!(stats.partitions[0].state, PartitionState::Faulty { .. }));
    }
    world.store.fail_all(None);
    assert_eq!(world.waiting().await, 0);
    world.engine.produce(&world.queue, items(1)).await.expect("produced");
}
