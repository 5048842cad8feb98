//! What becomes of an item.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::item::{End, ItemError, LeaseEnd, Phase, State};
use windlass_core::refusal::Refusal;
use windlass_core::settings::{RetryPolicy, RetryStrategy, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, NewItem, Retried, RetryItem};
use windlass_engine::env::Env;
use windlass_engine::{Commit, EngineError};

use super::{is_refused, phase, retry_item, waiting_lease};
use crate::world::{World, bodies, completion, completion_with, held, item, items, lease};

on_every_store!(
    a_payload_comes_back_as_it_was_sent,
    an_expired_lease_cannot_complete_the_next_attempt,
    an_item_out_of_attempts_fails_and_is_kept_with_its_error,
    a_scheduled_item_is_not_leased_before_its_time,
    a_retried_item_waits_by_the_policy,
    a_released_item_keeps_its_place_and_its_attempts,
    an_extended_lease_lives_on,
    a_waiting_item_is_cancelled_at_once_and_a_leased_one_when_it_is_given_up,
    a_clear_takes_everything_of_its_kind_at_once,
    a_result_is_kept_until_its_retention_ends,
    a_cancel_answers_with_the_item,
    a_view_tells_queue_and_attempts,
    facts_are_seen_as_long_as_the_item,
    what_was_cleared_with_an_error_is_kept_as_cancelled,
);

async fn a_payload_comes_back_as_it_was_sent(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let large = Bytes::from((0..300_000_u32).map(|n| (n * 7 % 251) as u8).collect::<Vec<u8>>());
    let ids = world.produce(&queue, vec![item(""), NewItem { body: large.clone(), ..item("") }]).await;
    let leased = world.lease(&queue, 2).await;
    assert_eq!((leased[0].body.len(), &leased[1].body), (0, &large));
    assert_eq!(world.engine().get(ids[1]).await.expect("it is there").payload, Some(large));
}

async fn an_expired_lease_cannot_complete_the_next_attempt(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let late = world.lease(&queue, 1).await;
    world.env.advance(Duration::from_secs(61));
    let next = world.engine().lease(&queue, lease(1), Span::from_secs(3600)).await.expect("leased").accept();
    assert_eq!((next[0].leased.id, next[0].leased.attempts), (late[0].leased.id, 2));
    let judged = world.engine().complete(&queue, vec![completion(late[0].held())]).await.expect("judged");
    let refusal = judged.results.into_iter().next().expect("one result");
    assert!(is_refused(&refusal, &Refusal::LeaseLost { reason: Some(LeaseEnd::Expired) }), "{refusal:?}");
    world.complete(&queue, &next[0]).await;
}

async fn an_item_out_of_attempts_fails_and_is_kept_with_its_error(world: &World) {
    let settings = Settings { max_attempts: 2, ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    let ids = world.produce(&queue, items(1)).await;
    for _ in 0..2 {
        let leased =
            world.engine().lease(&queue, lease(1), Span::from_secs(3600)).await.expect("leased").accept();
        assert_eq!(leased.len(), 1);
        world.env.advance(Duration::from_secs(61));
    }
    let view = world.engine().get(ids[0]).await.expect("kept");
    assert_eq!(view.item.state.phase(), Phase::Failed);
    assert!(view.item.extras.expect("it has an error").error.is_some());
}

async fn a_scheduled_item_is_not_leased_before_its_time(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let due = world.env.wall() + Span::from_secs(100);
    world.produce(&queue, vec![NewItem { enqueue_at: Some(due), ..item("later") }]).await;
    world.env.advance(Duration::from_micros(99_999_999));
    assert!(world.lease(&queue, 1).await.is_empty());
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    world.env.advance(Duration::from_micros(1));
    assert_eq!(bodies(&waiting.await.expect("the task ran").expect("leased").accept()), ["later"]);
}

async fn a_retried_item_waits_by_the_policy(world: &World) {
    let retry = RetryPolicy {
        strategy: RetryStrategy::Fixed,
        initial: Span::from_secs(300),
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let queue = world.queue("q", 1, Settings { retry, ..Settings::default() }).await;
    world.produce(&queue, items(1)).await;
    let leased = world.lease(&queue, 1).await;
    let judged = world.engine().retry(&queue, vec![retry_item(&leased[0])]).await.expect("judged");
    let now = world.env.wall();
    assert!(
        matches!(judged.results[0], Ok(Retried::Again { due_at }) if due_at == now + Span::from_secs(300))
    );
    assert_eq!(world.stats(&queue).await.counts.scheduled, 1);
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    world.env.advance(Duration::from_secs(300));
    assert_eq!(waiting.await.expect("the task ran").expect("leased").accept()[0].leased.attempts, 2);
}

async fn a_released_item_keeps_its_place_and_its_attempts(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(3)).await;
    let leased = world.lease(&queue, 2).await;
    let released = world.engine().release(&queue, held(&leased)).await.expect("judged");
    assert!(released.results.iter().all(Result::is_ok));
    let again = world.lease(&queue, 3).await;
    assert_eq!(bodies(&again), ["item 0", "item 1", "item 2"]);
    assert!(again.iter().all(|item| item.leased.attempts == 1));
    let late = world.engine().release(&queue, held(&leased)).await.expect("judged");
    assert!(
        late.results
            .iter()
            .all(|result| is_refused(result, &Refusal::LeaseLost { reason: Some(LeaseEnd::Released) }))
    );
}

async fn an_extended_lease_lives_on(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let leased = world.lease(&queue, 1).await;
    for _ in 0..5 {
        world.env.advance(Duration::from_secs(50));
        let extended = world.engine().extend(&queue, None, held(&leased)).await.expect("judged");
        let extended = extended.results[0].as_ref().expect("extended");
        assert_eq!(extended.deadline, world.env.wall() + Span::from_secs(60));
    }
    world.complete(&queue, &leased[0]).await;
}

async fn a_waiting_item_is_cancelled_at_once_and_a_leased_one_when_it_is_given_up(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let ids = world.produce(&queue, items(2)).await;
    let leased = world.lease(&queue, 1).await;
    assert_eq!(phase(&world.engine().cancel(ids[1]).await.expect("cancelled")), Phase::Cancelled);
    assert_eq!(phase(&world.engine().cancel(ids[0]).await.expect("noted")), Phase::Leased);
    let extended = world.engine().extend(&queue, None, held(&leased)).await.expect("judged");
    assert!(extended.results[0].as_ref().expect("extended").cancel_requested);
    world.engine().release(&queue, held(&leased)).await.expect("judged");
    assert!(world.lease(&queue, 2).await.is_empty());
    assert_eq!(world.stats(&queue).await.counts, Default::default());
}

async fn a_clear_takes_everything_of_its_kind_at_once(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    for _ in 0..6 {
        world.produce(&queue, items(1000)).await;
    }
    let leased = world.lease(&queue, 10).await;
    let waiting = Clear { waiting: true, scheduled: false, leased: false, suspended: false };
    assert_eq!(world.engine().clear(&queue, waiting).await.expect("cleared").value, 5990);
    let counts = world.stats(&queue).await.counts;
    assert_eq!((counts.waiting, counts.leased), (0, 10));
    assert!(world.lease(&queue, 10).await.is_empty());
    world.produce(&queue, vec![item("after")]).await;
    world.restart().await;
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["after"]);
    world.complete(&queue, &leased[0]).await;
    let taken = Clear { leased: true, ..waiting };
    assert_eq!(world.engine().clear(&queue, taken).await.expect("cleared").value, 10);
    let judged = world.engine().extend(&queue, None, held(&leased[1..2])).await.expect("judged");
    assert!(judged.results[0].is_err());
}

async fn a_result_is_kept_until_its_retention_ends(world: &World) {
    let queue = world.queue("q", 1, Settings { retention: Span::from_secs(10), ..Settings::default() }).await;
    let ids = world.produce(&queue, items(1)).await;
    let leased = world.lease(&queue, 1).await;
    let done = vec![completion_with(leased[0].held(), Bytes::from_static(b"42"))];
    assert!(world.engine().complete(&queue, done).await.expect("judged").results[0].is_ok());
    world.restart().await;
    let view = world.engine().get(ids[0]).await.expect("kept");
    assert_eq!(view.item.state.phase(), Phase::Completed);
    assert_eq!((view.payload, view.result), (None, Some(Bytes::from_static(b"42"))));
    assert_eq!(world.stats(&queue).await.retained, 1);
    world.env.advance(Duration::from_secs(10));
    let error = world.engine().get(ids[0]).await.expect_err("its time is over");
    assert!(matches!(error, EngineError::Refused(Refusal::NotFound)));
}

async fn a_cancel_answers_with_the_item(world: &World) {
    let queue = world.queue("q", 1, Settings { max_attempts: 5, ..Settings::default() }).await;
    let ids = world.produce(&queue, vec![item("leased"), item("waiting")]).await;
    let leased = world.lease(&queue, 1).await;
    // Nothing of it is kept, and its payload is gone.
    let gone = world.engine().cancel(ids[1]).await.expect("cancelled");
    assert_eq!((phase(&gone), &gone.value.payload, gone.value.id), (Phase::Cancelled, &None, ids[1]));
    assert_eq!((gone.value.queue, gone.value.max_attempts), (queue.clone(), 5));
    assert!(world.engine().get(ids[1]).await.is_err());
    // The commit is the one after that of the lease, and asking again makes none.
    let asked = world.engine().cancel(ids[0]).await.expect("noted");
    let again = world.engine().cancel(ids[0]).await.expect("noted");
    let [Commit { partition, sequence }] = gone.commits[..] else { panic!("{:?}", gone.commits) };
    assert_eq!(asked.commits, [Commit { partition, sequence: sequence + 1 }]);
    assert_eq!((&again.commits, &again.value.item), (&asked.commits, &asked.value.item));
    assert_eq!(again.value.payload, Some(Bytes::from_static(b"leased")));
    assert!(matches!(&again.value.item.state, State::Leased(lease) if lease.cancel_requested));
    // Final, with a result.
    let done = vec![completion_with(leased[0].held(), Bytes::from_static(b"42"))];
    assert!(world.engine().complete(&queue, done).await.expect("judged").results[0].is_ok());
    let ended = world.engine().cancel(ids[0]).await.expect("shown").value;
    assert_eq!(ended.item.state.phase(), Phase::Completed);
    assert_eq!((ended.payload, ended.result), (None, Some(Bytes::from_static(b"42"))));
}

async fn a_view_tells_queue_and_attempts(world: &World) {
    let queue = world.queue("q", 2, Settings { max_attempts: 5, ..Settings::default() }).await;
    let other = world.queue("other", 2, Settings { max_attempts: 6, ..Settings::default() }).await;
    let own = NewItem { max_attempts: Some(7), ..item("own") };
    let ids = [
        world.produce(&queue, vec![item("a")]).await[0],
        world.produce(&other, vec![item("b")]).await[0],
        world.produce(&other, vec![own]).await[0],
    ];
    world.restart().await;
    for (id, queue, max_attempts) in [(ids[0], &queue, 5), (ids[1], &other, 6), (ids[2], &other, 7)] {
        let view = world.engine().get(id).await.expect("it is there");
        assert_eq!((view.id, &view.queue, view.max_attempts), (id, queue, max_attempts));
    }
}

async fn facts_are_seen_as_long_as_the_item(world: &World) {
    let queue = world.queue("q", 1, Settings { retention: Span::from_secs(10), ..Settings::default() }).await;
    let facts = Some(Bytes::from_static(b"order 7"));
    let new = |payload| NewItem { facts: facts.clone(), ..item(payload) };
    let ids = world.produce(&queue, vec![new("done"), new("given up"), item("without")]).await;
    let leased = world.lease(&queue, 1).await;
    let done = vec![completion_with(leased[0].held(), Bytes::from_static(b"42"))];
    assert!(world.engine().complete(&queue, done).await.expect("judged").results[0].is_ok());
    world.restart().await;
    let view = world.engine().get(ids[0]).await.expect("kept");
    assert_eq!((view.payload, view.result, view.facts), (None, Some("42".into()), facts.clone()));
    let again = world.engine().cancel(ids[0]).await.expect("shown").value;
    assert_eq!((again.item.state.phase(), again.facts), (Phase::Completed, facts.clone()));
    // Nothing of these is kept, and yet the answer shows all there is to see.
    let gone = world.engine().cancel(ids[1]).await.expect("cancelled").value;
    assert_eq!((gone.item.state.phase(), gone.facts), (Phase::Cancelled, facts));
    assert_eq!(world.engine().cancel(ids[2]).await.expect("cancelled").value.facts, None);
    world.env.advance(Duration::from_secs(10));
    assert!(world.engine().get(ids[0]).await.is_err());
    assert_eq!(world.engine().store_stats().bytes_live, 0, "nothing of them is left");
}

async fn what_was_cleared_with_an_error_is_kept_as_cancelled(world: &World) {
    let settings = Settings { retention: Span::from_secs(3600), max_attempts: 5, ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    let facts = Some(Bytes::from_static(b"order 7"));
    let ids = world.produce(&queue, vec![NewItem { facts: facts.clone(), ..item("a") }, item("b")]).await;
    let leased = world.lease(&queue, 1).await;
    let error = Some(ItemError { code: None, message: "it broke".into() });
    let retry =
        RetryItem { error: error.clone(), retry_at: Some(world.env.wall()), ..retry_item(&leased[0]) };
    assert!(world.engine().retry(&queue, vec![retry]).await.expect("judged").results[0].is_ok());
    let leased = world.lease(&queue, 2).await;
    // So many that the sweep does not come by at once.
    for _ in 0..6 {
        world.produce(&queue, items(1000)).await;
    }
    let cleared_at = world.env.wall();
    let all = Clear { waiting: true, scheduled: true, leased: true, suspended: false };
    assert_eq!(world.engine().clear(&queue, all).await.expect("cleared").value, 6002);
    for _ in ["as it was cleared", "after a restart"] {
        let view = world.engine().get(ids[0]).await.expect("kept");
        let State::Final(outcome) = &view.item.state else { panic!("it has ended: {view:?}") };
        assert_eq!((outcome.end, outcome.finished_at), (End::Cancelled, cleared_at));
        assert_eq!((view.payload.as_deref(), &view.facts), (Some(&b"a"[..]), &facts));
        assert_eq!(view.item.extras.as_ref().expect("an error").error, error);
        assert_eq!(world.engine().cancel(ids[0]).await.expect("shown").value.item, view.item);
        assert!(world.engine().get(ids[1]).await.is_err(), "it had nothing to show");
        assert_eq!(world.stats(&queue).await.retained, 1);
        let judged = world.engine().extend(&queue, None, held(&leased)).await.expect("judged");
        let cancelled = Refusal::LeaseLost { reason: Some(LeaseEnd::Cancelled) };
        assert!(is_refused(&judged.results[0], &cancelled), "{judged:?}");
        assert!(is_refused(&judged.results[1], &Refusal::NotFound), "{judged:?}");
        world.env.advance(Duration::from_secs(1));
        world.restart().await;
    }
    world.env.advance(Duration::from_secs(3600));
    assert!(world.engine().get(ids[0]).await.is_err(), "its time is over");
}
