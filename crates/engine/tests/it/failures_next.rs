//! A worker's turn while a partition fails.

use windlass_core::time::Span;
use windlass_core::verbs::{ExtendItem, Settle};
use windlass_engine::{EngineError, Granted, Outcome, PartitionState, PartitionStats};

use crate::failures::{Broken, world};
use crate::faulty::Fault;
use crate::world::{completion, held, items, lease};

fn complete(item: &Granted) -> Settle {
    Settle::Complete(completion(item.held()))
}

/// A queue of two partitions with an item leased and an item waiting in each.
async fn two_partitions() -> (Broken, Vec<Granted>) {
    let world = world(2).await;
    world.engine.produce(&world.queue, items(2)).await.expect("produced");
    world.engine.produce(&world.queue, items(2)).await.expect("produced");
    let grant = world.engine.lease(&world.queue, lease(4), Span::ZERO).await;
    let mut leased = grant.expect("leased").accept();
    leased.sort_by_key(|item| (item.leased.id.partition, item.leased.id));
    let released = vec![leased.remove(3), leased.remove(1)];
    world.engine.release(&world.queue, held(&released)).await.expect("judged");
    (world, leased)
}

async fn break_partition(world: &Broken, item: &Granted) {
    let broken = item.leased.id.partition;
    *world.store.broken_partition.lock().expect("not poisoned") = Some(broken);
    // The first commit that fails makes the partition faulty.
    let _failed = world.engine.extend(&world.queue, None, vec![item.held()]).await;
    let is_faulty = |partition: &PartitionStats| {
        partition.partition == broken && matches!(partition.state, PartitionState::Faulty { .. })
    };
    while !world.engine.stats(&world.queue).await.expect("stats").partitions.iter().any(is_faulty) {
        tokio::task::yield_now().await;
    }
}

fn is_unavailable<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::Unavailable { outcome: Outcome::NotApplied, .. }))
}

#[tokio::test]
async fn the_items_of_a_partition_that_does_not_serve_fail_and_the_others_go_on() {
    let (world, held) = two_partitions().await;
    break_partition(&world, &held[0]).await;
    let items = vec![complete(&held[0]), complete(&held[1])];
    let turn = world.engine.next(&world.queue, items, Some(lease(10))).await.expect("a sound turn");
    assert!(is_unavailable(&turn.settled.results[0]), "{:?}", turn.settled);
    assert!(turn.settled.results[1].is_ok());
    let leased = turn.leased.expect("leased").accept();
    assert_eq!(leased.len(), 1);
    assert_eq!(leased[0].leased.id.partition, held[1].leased.id.partition);
}

#[tokio::test]
async fn a_turn_with_items_only_of_a_partition_that_does_not_serve_leases_from_the_other() {
    let (world, held) = two_partitions().await;
    break_partition(&world, &held[0]).await;
    let items = vec![complete(&held[0])];
    let turn = world.engine.next(&world.queue, items, Some(lease(10))).await.expect("a sound turn");
    assert!(is_unavailable(&turn.settled.results[0]));
    assert_eq!(turn.leased.expect("leased").accept().len(), 1);
}

#[tokio::test]
async fn neither_part_of_a_turn_is_done_if_its_commit_fails() {
    let world = world(1).await;
    world.engine.produce(&world.queue, items(2)).await.expect("produced");
    let grant = world.engine.lease(&world.queue, lease(1), Span::ZERO).await;
    let held = grant.expect("leased").accept();
    world.store.fail_next(Fault::NotApplied);
    let items = vec![complete(&held[0])];
    let turn = world.engine.next(&world.queue, items, Some(lease(1))).await.expect("a sound turn");
    assert!(is_unavailable(&turn.settled.results[0]));
    assert!(turn.leased.is_err() || turn.leased.is_ok_and(|grant| grant.items().is_empty()));
    assert_eq!(world.waiting().await, 1);
    let extend = Settle::Extend(ExtendItem { held: held[0].held(), lease_timeout: None });
    let turn = world.engine.next(&world.queue, vec![extend], None).await.expect("a sound turn");
    assert!(turn.settled.results[0].is_ok(), "the item is still leased: {:?}", turn.settled);
}

#[tokio::test]
async fn what_a_turn_leased_is_given_back_if_its_caller_was_told_that_the_outcome_is_unknown() {
    let world = world(1).await;
    world.engine.produce(&world.queue, items(2)).await.expect("produced");
    let grant = world.engine.lease(&world.queue, lease(1), Span::ZERO).await;
    let held = grant.expect("leased").accept();
    world.store.fail_next(Fault::UnknownDone);
    *world.store.down.lock().expect("not poisoned") = true;
    let items = vec![complete(&held[0])];
    let turn = world.engine.next(&world.queue, items, Some(lease(1))).await.expect("a sound turn");
    let unknown =
        matches!(turn.settled.results[0], Err(EngineError::Unavailable { outcome: Outcome::Unknown, .. }));
    assert!(unknown, "{:?}", turn.settled);
    drop(turn);
    *world.store.down.lock().expect("not poisoned") = false;
    // The completion was durable, and what was leased with it is there for others.
    while world.waiting().await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.engine.stats(&world.queue).await.expect("stats").counts.leased, 0);
}
