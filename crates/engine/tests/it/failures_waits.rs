//! What those are told who wait for an item while the store fails.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::item::Phase;
use windlass_core::time::Span;
use windlass_core::verbs::{Completion, Held};
use windlass_engine::{EngineError, Outcome, PartitionState};

use crate::behaviour::waiting_for;
use crate::failures::{Broken, world};
use crate::faulty::Fault;
use crate::world::{completion, items, lease};

/// An item that is leased.
async fn leased(world: &Broken) -> Held {
    world.engine.produce(&world.queue, items(1)).await.expect("produced");
    let leased = world.engine.lease(&world.queue, lease(1), Span::ZERO).await.expect("leased").accept();
    leased[0].held()
}

async fn try_complete(world: &Broken, held: Held) -> Result<(), EngineError> {
    world.engine.complete(&world.queue, vec![completion(held)]).await.expect("judged").results.remove(0)
}

#[tokio::test]
async fn an_end_whose_commit_looked_failed_and_made_it_is_told() {
    let world = world(1).await;
    let held = leased(&world).await;
    let waiting = waiting_for(&world.engine, held.id).await;
    world.store.fail_next(Fault::UnknownDone);
    try_complete(&world, held).await.expect("it made it");
    let view = waiting.await.expect("the task ran").expect("told");
    assert_eq!(view.item.state.phase(), Phase::Completed);
}

#[tokio::test]
async fn an_end_whose_commit_was_lost_is_not_told_and_the_next_one_is() {
    for fault in [Fault::UnknownLost, Fault::NotApplied] {
        let world = world(1).await;
        let held = leased(&world).await;
        let waiting = waiting_for(&world.engine, held.id).await;
        world.store.fail_next(fault);
        try_complete(&world, held).await.expect_err("it was lost");
        world.waiting().await;
        assert!(!waiting.is_finished());
        assert_eq!(world.engine.overview()[0].item_waiters, 1);
        let result = Some(Bytes::from_static(b"done"));
        let done = vec![Completion { held, result: result.clone() }];
        world.engine.complete(&world.queue, done).await.expect("judged").results[0]
            .clone()
            .expect("completed");
        let view = waiting.await.expect("the task ran").expect("told");
        assert_eq!((view.item.state.phase(), view.result), (Phase::Completed, result));
    }
}

#[tokio::test]
async fn an_end_that_nobody_knew_of_for_a_while_is_told_once_it_is_known() {
    let world = world(1).await;
    let held = leased(&world).await;
    let waiting = waiting_for(&world.engine, held.id).await;
    world.store.fail_next(Fault::UnknownDone);
    *world.store.down.lock().expect("not poisoned") = true;
    let error = try_complete(&world, held).await.expect_err("nobody knows");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::Unknown, .. }), "{error}");
    assert!(!waiting.is_finished());
    *world.store.down.lock().expect("not poisoned") = false;
    world.waiting().await;
    let view = waiting.await.expect("the task ran").expect("told");
    assert_eq!(view.item.state.phase(), Phase::Completed);
}

#[tokio::test]
async fn nobody_is_told_an_end_before_it_is_durable() {
    let world = world(1).await;
    let held = leased(&world).await;
    let waiting = waiting_for(&world.engine, held.id).await;
    world.store.held.send_replace(true);
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let completing = tokio::spawn(async move { engine.complete(&queue, vec![completion(held)]).await });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished() && !completing.is_finished());
    world.store.held.send_replace(false);
    waiting.await.expect("the task ran").expect("told");
    completing.await.expect("the task ran").expect("judged");
}

#[tokio::test]
async fn an_item_that_ended_elsewhere_while_somebody_waited_is_looked_at_again() {
    let world = world(1).await;
    let held = leased(&world).await;
    let gone = leased(&world).await;
    let waiting = waiting_for(&world.engine, held.id).await;
    let waiting_for_gone = waiting_for(&world.engine, gone.id).await;
    // Another engine takes the partitions over, and ends the items: one leaves a result, of the other nothing is kept.
    let store = std::sync::Arc::new(world.store.next_process());
    let other = windlass_engine::Engine::open(world.env.clone(), store).await.expect("the engine opens");
    let result = Some(Bytes::from_static(b"done"));
    let done = vec![Completion { held, result: result.clone() }, completion(gone)];
    assert!(other.complete(&world.queue, done).await.expect("judged").results.iter().all(Result::is_ok));
    world.engine.reload(&world.queue).await.expect("acquired anew");
    let view = waiting.await.expect("the task ran").expect("told");
    assert_eq!((view.item.state.phase(), view.result), (Phase::Completed, result));
    let error = waiting_for_gone.await.expect("the task ran").expect_err("nothing is known of it");
    assert!(crate::behaviour::is_refused::<()>(&Err(error), &windlass_core::refusal::Refusal::NotFound));
}

#[tokio::test]
async fn a_wait_that_ends_while_the_partition_is_faulty_is_told_so() {
    let world = world(1).await;
    let held = leased(&world).await;
    let waiting = waiting_for(&world.engine, held.id).await;
    world.store.fail_next(Fault::NotApplied);
    *world.store.down.lock().expect("not poisoned") = true;
    try_complete(&world, held).await.expect_err("it failed");
    while !matches!(world.engine.overview()[0].partitions[0].1, PartitionState::Faulty { .. }) {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    world.env.advance(Duration::from_secs(3600));
    let error = waiting.await.expect("the task ran").expect_err("it cannot be seen now");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error}");
}
