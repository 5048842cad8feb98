//! Waiting for an item to end.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::item::{ItemError, Phase};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, Completion, NewItem, RetryItem};
use windlass_engine::{Engine, EngineError, ItemView, Outcome};

use super::addresses::at;
use super::{WaitTask, is_refused, retry_item, waiting_for};
use crate::world::{World, item, items};

const AN_HOUR: Span = Span::from_secs(3600);

on_every_store!(
    a_wait_is_answered_when_its_item_ends_although_nothing_of_it_is_kept,
    a_wait_is_told_the_result_although_it_may_not_be_kept,
    a_wait_is_told_a_failure_with_its_error_also_when_the_item_moves_on,
    a_wait_for_what_was_cleared_or_deleted_is_told_that_it_is_cancelled,
    a_wait_for_what_expires_or_fails_by_its_lease_is_told,
    a_wait_for_a_final_item_is_answered_at_once,
    a_wait_of_no_time_shows_the_item_as_it_is,
    a_wait_ends_at_its_timeout_with_the_state_the_item_has,
    everybody_who_waits_for_an_item_is_told,
    a_wait_for_an_unknown_item_or_in_a_deleted_queue_is_not_found,
    a_closing_engine_sends_home_who_waits_for_an_item,
    an_abandoned_wait_leaves_nothing_behind,
    a_reload_loses_nobody_who_waits,
    a_thousand_waits_for_a_thousand_addresses_are_each_answered_from_its_commit,
    what_a_thousand_want_of_one_address_is_done_once_and_told_to_all,
);

async fn told(task: WaitTask) -> ItemView {
    task.await.expect("the task ran").expect("told")
}

async fn a_wait_is_answered_when_its_item_ends_although_nothing_of_it_is_kept(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let with_facts = NewItem { facts: Some(Bytes::from_static(b"facts")), ..item("one") };
    let id = world.produce(&queue, vec![with_facts]).await[0];
    let waiting = waiting_for(&world.engine(), id).await;
    let leased = world.lease(&queue, 1).await;
    world.complete(&queue, &leased[0]).await;
    let view = told(waiting).await;
    assert_eq!((view.id, view.item.state.phase(), view.item.attempts), (id, Phase::Completed, 1));
    assert_eq!((view.payload, view.result), (None, None));
    assert_eq!(view.facts, Some(Bytes::from_static(b"facts")));
    assert!(is_refused(&world.engine().get(id).await, &Refusal::NotFound));
}

async fn a_wait_is_told_the_result_although_it_may_not_be_kept(world: &World) {
    let queue = world.queue("q", 1, Settings { retention_max_items: 0, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    let waiting = waiting_for(&world.engine(), id).await;
    let leased = world.lease(&queue, 1).await;
    let result = Some(Bytes::from_static(b"done"));
    let done = vec![Completion { held: leased[0].held(), result: result.clone() }];
    world.engine().complete(&queue, done).await.expect("judged").results[0].clone().expect("completed");
    let view = told(waiting).await;
    assert_eq!((view.item.state.phase(), view.result), (Phase::Completed, result));
}

async fn a_wait_is_told_a_failure_with_its_error_also_when_the_item_moves_on(world: &World) {
    let dead = world.queue("dead", 1, Settings::default()).await;
    let settings = Settings { dead_queue: Some("dead".into()), ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    let id = world.produce(&queue, items(1)).await[0];
    let waiting = waiting_for(&world.engine(), id).await;
    let leased = world.lease(&queue, 1).await;
    let error = Some(ItemError { code: None, message: "broken".into() });
    let retry = RetryItem { dead: true, error: error.clone(), ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    let view = told(waiting).await;
    assert_eq!(view.item.state.phase(), Phase::Failed);
    assert_eq!(view.item.extras.expect("it has an error").error, error);
    let moved =
        world.engine().lease(&dead, crate::world::lease(1), AN_HOUR).await.expect("it arrives").accept();
    // In its new queue it is another item, which can be waited for anew: a redrive takes it away.
    world.engine().release(&dead, crate::world::held(&moved)).await.expect("judged");
    let waiting = waiting_for(&world.engine(), moved[0].leased.id).await;
    let redriven = world.engine().redrive(&dead, Default::default()).await.expect("redriven");
    assert_eq!((redriven.value.moved, told(waiting).await.item.state.phase()), (1, Phase::Cancelled));
}

async fn a_wait_for_what_was_cleared_or_deleted_is_told_that_it_is_cancelled(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let later = NewItem { enqueue_at: Some(world.engine().now() + AN_HOUR), ..item("later") };
    let ids = world.produce(&queue, vec![item("leased"), item("deleted"), item("waiting"), later]).await;
    world.lease(&queue, 1).await;
    let mut waiting = Vec::new();
    for id in &ids {
        waiting.push(waiting_for(&world.engine(), *id).await);
    }
    world.engine().delete_items(&queue, vec![ids[1]]).await.expect("judged");
    assert_eq!(told(waiting.remove(1)).await.item.state.phase(), Phase::Cancelled);
    let all = Clear { waiting: true, scheduled: true, leased: true, suspended: false };
    assert_eq!(world.engine().clear(&queue, all).await.expect("cleared").value, 3);
    for task in waiting {
        assert_eq!(told(task).await.item.state.phase(), Phase::Cancelled);
    }
}

async fn a_wait_for_what_expires_or_fails_by_its_lease_is_told(world: &World) {
    let queue = world.queue("q", 1, Settings { max_attempts: 1, ..Settings::default() }).await;
    let mortal = NewItem { dead_timeout: Some(Span::from_secs(5)), ..item("mortal") };
    let ids = world.produce(&queue, vec![item("fails"), mortal]).await;
    world.lease(&queue, 1).await;
    let fails = waiting_for(&world.engine(), ids[0]).await;
    let expires = waiting_for(&world.engine(), ids[1]).await;
    world.env.advance(Duration::from_secs(6));
    assert_eq!(told(expires).await.item.state.phase(), Phase::Expired);
    world.env.advance(Duration::from_secs(60));
    assert_eq!(told(fails).await.item.state.phase(), Phase::Failed);
}

async fn a_wait_for_a_final_item_is_answered_at_once(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let id = world.produce(&queue, items(1)).await[0];
    let leased = world.lease(&queue, 1).await;
    let result = Some(Bytes::from_static(b"done"));
    world
        .engine()
        .complete(&queue, vec![Completion { held: leased[0].held(), result: result.clone() }])
        .await
        .expect("judged");
    let view = world.engine().wait(id, AN_HOUR).await.expect("it is kept");
    assert_eq!((view.item.state.phase(), view.result), (Phase::Completed, result));
}

async fn a_wait_of_no_time_shows_the_item_as_it_is(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let id = world.produce(&queue, items(1)).await[0];
    let view = world.engine().wait(id, Span::ZERO).await.expect("it is there");
    assert_eq!(
        (view.item.state.phase(), view.payload),
        (Phase::Waiting, Some(Bytes::from_static(b"item 0")))
    );
}

async fn a_wait_ends_at_its_timeout_with_the_state_the_item_has(world: &World) {
    let queue =
        world.queue("q", 1, Settings { lease_timeout: Span::from_secs(7200), ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    let waiting = waiting_for(&world.engine(), id).await;
    let leased = world.lease(&queue, 1).await;
    world.env.advance(Duration::from_secs(3600));
    let view = told(waiting).await;
    assert_eq!((view.item.state.phase(), view.payload.is_some()), (Phase::Leased, true));
    assert_eq!(world.engine().overview()[0].item_waiters, 0);
    world.complete(&queue, &leased[0]).await;
}

async fn everybody_who_waits_for_an_item_is_told(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let ids = world.produce(&queue, items(2)).await;
    let first = waiting_for(&world.engine(), ids[0]).await;
    let second = waiting_for(&world.engine(), ids[0]).await;
    let other = waiting_for(&world.engine(), ids[1]).await;
    world.engine().cancel(ids[0]).await.expect("cancelled");
    assert_eq!(told(first).await.item.state.phase(), Phase::Cancelled);
    assert_eq!(told(second).await.item.state.phase(), Phase::Cancelled);
    assert_eq!(world.engine().overview()[0].item_waiters, 1);
    world.engine().cancel(ids[1]).await.expect("cancelled");
    told(other).await;
}

async fn a_wait_for_an_unknown_item_or_in_a_deleted_queue_is_not_found(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let ids = world.produce(&queue, items(2)).await;
    let waiting = waiting_for(&world.engine(), ids[0]).await;
    world.engine().cancel(ids[1]).await.expect("cancelled");
    assert!(is_refused(&world.engine().wait(ids[1], AN_HOUR).await, &Refusal::NotFound));
    world.engine().delete_queue(&queue, true).await.expect("deleted");
    assert!(is_refused(&waiting.await.expect("the task ran"), &Refusal::NotFound));
    assert!(is_refused(&world.engine().wait(ids[0], AN_HOUR).await, &Refusal::NotFound));
}

async fn a_closing_engine_sends_home_who_waits_for_an_item(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let id = world.produce(&queue, items(1)).await[0];
    let waiting = waiting_for(&world.engine(), id).await;
    world.engine().send_waiters_home();
    let over =
        |error: EngineError| matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. });
    assert!(over(waiting.await.expect("the task ran").expect_err("it is over")));
    assert!(over(world.engine().wait(id, AN_HOUR).await.expect_err("it is over")));
    assert_eq!(world.engine().wait(id, Span::ZERO).await.expect("shown").item.state.phase(), Phase::Waiting);
}

async fn an_abandoned_wait_leaves_nothing_behind(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let id = world.produce(&queue, items(1)).await[0];
    let abandoned = waiting_for(&world.engine(), id).await;
    abandoned.abort();
    assert!(abandoned.await.expect_err("aborted").is_cancelled());
    assert_eq!(world.engine().overview()[0].item_waiters, 0);
    // Somebody else who comes for the same is told.
    let waiting = waiting_for(&world.engine(), id).await;
    world.engine().cancel(id).await.expect("cancelled");
    told(waiting).await;
}

async fn a_reload_loses_nobody_who_waits(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let id = world.produce(&queue, items(1)).await[0];
    let waiting = waiting_for(&world.engine(), id).await;
    world.engine().reload(&queue).await.expect("acquired anew");
    let leased = world.lease(&queue, 1).await;
    world.complete(&queue, &leased[0]).await;
    assert_eq!(told(waiting).await.item.state.phase(), Phase::Completed);
}

/// Time stands still, so that nothing can have looked again after a while.
async fn a_thousand_waits_for_a_thousand_addresses_are_each_answered_from_its_commit(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let addresses: Vec<String> = (0..1000).map(|index| format!("address {index}")).collect();
    world.produce(&queue, addresses.iter().map(|address| at(address)).collect()).await;
    let mut waiting = Vec::new();
    for address in &addresses {
        let id = world.engine().item_at(&queue, address).await.expect("it is known");
        waiting.push(waiting_for(&world.engine(), id).await);
    }
    let leased = world.lease(&queue, 1000).await;
    let before = world.engine().commit_stats().commits;
    for (done, (item, task)) in leased.iter().zip(waiting).enumerate() {
        assert!(!task.is_finished());
        world.complete(&queue, item).await;
        let view = told(task).await;
        assert_eq!((view.id, view.item.state.phase()), (item.leased.id, Phase::Completed));
        assert_eq!(world.engine().overview()[0].item_waiters, 999 - done);
    }
    assert_eq!(
        world.engine().commit_stats().commits,
        before + 1000,
        "a commit for each completion and no other"
    );
}

async fn what_a_thousand_want_of_one_address_is_done_once_and_told_to_all(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let clients: Vec<_> = (0..1000).map(|_| tokio::spawn(compute(world.engine(), queue.clone()))).collect();
    while world.engine().overview()[0].item_waiters < 1000 {
        tokio::task::yield_now().await;
    }
    let leased = world.lease(&queue, 1000).await;
    assert_eq!(leased.len(), 1, "it is done once");
    let result = Some(Bytes::from_static(b"42"));
    let done = vec![Completion { held: leased[0].held(), result: result.clone() }];
    world.engine().complete(&queue, done).await.expect("judged").results[0].clone().expect("completed");
    for client in clients {
        let view = client.await.expect("the client ran");
        assert_eq!(
            (view.id, view.item.state.phase(), &view.result),
            (leased[0].leased.id, Phase::Completed, &result)
        );
    }
}

/// Asks for the answer to a question that others may have asked already.
async fn compute(engine: Engine, queue: QueueName) -> ItemView {
    let produced = engine.produce(&queue, vec![at("the question")]).await.expect("judged").results.remove(0);
    match produced {
        Ok(_) | Err(EngineError::DuplicateAddress { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let id = engine.item_at(&queue, "the question").await.expect("it is known");
    engine.wait(id, AN_HOUR).await.expect("told")
}
