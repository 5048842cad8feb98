//! The life of items as callers see it, the same on every store.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::command::{
    Clear, CreateQueue, Filter, LeaseItems, NewItem, Refusal, Retried, UpdateQueue,
};
use windlass_core::id::{ItemId, ItemNumber, PartitionId, Permit};
use windlass_core::item::{LeaseEnd, Phase};
use windlass_core::row::QueueName;
use windlass_core::settings::{RetryPolicy, RetryStrategy, Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_engine::env::Env;
use windlass_engine::{Committed, EngineError, Grant, Granted, ItemView, RetryItem};

use crate::world::{Medium, World, bodies, held, item, items, lease, queue_name};

macro_rules! on_every_store {
    ($($scenario:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                super::$scenario(&super::World::new(super::Medium::memory()).await).await;
            })*
        }
        mod log {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let world = super::World::new(super::Medium::log()).await;
                super::$scenario(&world).await;
                world.close().await;
            })*

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn callers_at_once_share_syncs() {
                super::callers_at_once_share_syncs(&super::World::new(super::Medium::log()).await).await;
            }
        }
    };
}

on_every_store!(
    items_are_leased_in_the_order_produced,
    a_payload_comes_back_as_it_was_sent,
    kinds_and_priorities_choose_what_is_leased,
    an_item_produced_while_a_lease_waits_is_handed_over,
    a_waiting_lease_ends_empty_at_its_timeout,
    waiting_leases_are_served_in_the_order_they_came,
    an_abandoned_waiting_lease_takes_nothing,
    a_grant_that_is_dropped_is_given_back_uncharged,
    a_lease_fills_its_batch_from_several_partitions,
    items_spread_over_partitions_by_their_load,
    an_expired_lease_cannot_complete_the_next_attempt,
    an_item_out_of_attempts_fails_and_is_kept_with_its_error,
    a_scheduled_item_is_not_leased_before_its_time,
    a_retried_item_waits_by_the_policy,
    a_released_item_keeps_its_place_and_its_attempts,
    an_extended_lease_lives_on,
    a_waiting_item_is_cancelled_at_once_and_a_leased_one_when_it_is_given_up,
    a_clear_takes_everything_of_its_kind_at_once,
    a_result_is_kept_until_its_retention_ends,
    leases_survive_a_restart_with_the_same_permits,
    downtime_does_not_end_a_lease,
    a_queue_made_again_under_the_name_is_empty,
    new_settings_count_for_the_next_lease,
    counts_are_exact,
    an_unknown_queue_is_refused,
    a_batch_is_one_commit,
    nothing_is_committed_for_a_refusal_or_an_empty_lease,
    a_closing_engine_sends_waiting_leases_home,
    a_lease_under_way_at_the_close_is_delivered_or_given_back_uncharged,
);

async fn items_are_leased_in_the_order_produced(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let mut ids = world.produce(&queue, items(3)).await;
    ids.extend(world.produce(&queue, items(2)).await);
    let leased = world.lease(&queue, 10).await;
    assert_eq!(leased.iter().map(|item| item.id).collect::<Vec<_>>(), ids);
    assert!(leased.windows(2).all(|pair| pair[0].permit < pair[1].permit && pair[0].id < pair[1].id));
    for item in &leased {
        world.complete(&queue, item).await;
    }
    assert!(world.lease(&queue, 10).await.is_empty());
}

async fn a_payload_comes_back_as_it_was_sent(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let large = Bytes::from((0..300_000_u32).map(|n| (n * 7 % 251) as u8).collect::<Vec<u8>>());
    let ids = world.produce(&queue, vec![item(""), NewItem { body: large.clone(), ..item("") }]).await;
    let leased = world.lease(&queue, 2).await;
    assert_eq!((leased[0].body.len(), &leased[1].body), (0, &large));
    assert_eq!(world.engine().get(ids[1]).await.expect("it is there").payload, Some(large));
}

async fn kinds_and_priorities_choose_what_is_leased(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let make = |kind: &str, priority, name: &str| NewItem { kind: kind.into(), priority, ..item(name) };
    let batch = vec![make("a", 5, "a5"), make("b", 1, "b1"), make("c", 0, "c0"), make("a", 1, "a1")];
    world.produce(&queue, batch).await;
    let filtered = |kinds: Option<Vec<&str>>, max| LeaseItems {
        filter: Filter::new(kinds.map(|kinds| kinds.into_iter().map(Into::into).collect()), max),
        ..lease(10)
    };
    let engine = world.engine();
    let none = engine
        .lease(&queue, filtered(Some(vec![]), 255), Span::from_secs(3600))
        .await
        .expect("empty at once");
    assert!(none.accept().is_empty());
    let some = engine.lease(&queue, filtered(Some(vec!["a", "b"]), 1), Span::ZERO).await.expect("leased");
    assert_eq!(bodies(&some.accept()), ["b1", "a1"]);
    let rest = engine.lease(&queue, filtered(None, 255), Span::ZERO).await.expect("leased");
    assert_eq!(bodies(&rest.accept()), ["c0", "a5"]);
}

async fn an_item_produced_while_a_lease_waits_is_handed_over(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let waiting = waiting_lease(world, &queue, lease(10)).await;
    let ids = world.produce(&queue, items(2)).await;
    let granted = waiting.await.expect("the task ran").expect("leased").accept();
    assert_eq!(granted.iter().map(|item| item.id).collect::<Vec<_>>(), ids);
}

async fn a_waiting_lease_ends_empty_at_its_timeout(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let waiting = waiting_lease(world, &queue, lease(10)).await;
    world.env.advance(Duration::from_secs(3600));
    assert!(waiting.await.expect("the task ran").expect("empty").accept().is_empty());
    assert_eq!(world.engine().stats(&queue).await.expect("stats").lease_waiters, 0);
}

async fn waiting_leases_are_served_in_the_order_they_came(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let first = waiting_lease(world, &queue, lease(1)).await;
    let second = waiting_lease(world, &queue, lease(1)).await;
    world.produce(&queue, vec![item("one")]).await;
    assert_eq!(bodies(&first.await.expect("the task ran").expect("leased").accept()), ["one"]);
    world.produce(&queue, vec![item("two")]).await;
    assert_eq!(bodies(&second.await.expect("the task ran").expect("leased").accept()), ["two"]);
}

async fn an_abandoned_waiting_lease_takes_nothing(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let waiting = waiting_lease(world, &queue, lease(10)).await;
    waiting.abort();
    assert!(waiting.await.expect_err("aborted").is_cancelled());
    world.produce(&queue, items(1)).await;
    assert_eq!(world.lease(&queue, 1).await[0].attempts, 1);
}

async fn a_grant_that_is_dropped_is_given_back_uncharged(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(3)).await;
    drop(world.engine().lease(&queue, lease(2), Span::ZERO).await.expect("leased"));
    // The wait is for the item to come back, which the dropped grant sees to.
    let mut all =
        world.engine().lease(&queue, lease(3), Span::from_secs(3600)).await.expect("leased").accept();
    while all.len() < 3 {
        all.extend(
            world.engine().lease(&queue, lease(3), Span::from_secs(3600)).await.expect("leased").accept(),
        );
    }
    assert!(all.iter().all(|item| item.attempts == 1));
}

async fn a_lease_fills_its_batch_from_several_partitions(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    for _ in 0..3 {
        world.produce(&queue, items(4)).await;
    }
    let leased = world.lease(&queue, 10).await;
    assert_eq!(leased.len(), 10);
    assert_eq!(world.lease(&queue, 10).await.len(), 2);
}

async fn items_spread_over_partitions_by_their_load(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    for _ in 0..20 {
        world.produce(&queue, items(5)).await;
    }
    let stats = world.engine().stats(&queue).await.expect("stats");
    assert!(stats.partitions.iter().all(|partition| partition.counts.waiting == 25), "{stats:?}");
}

async fn an_expired_lease_cannot_complete_the_next_attempt(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let late = world.lease(&queue, 1).await;
    world.env.advance(Duration::from_secs(61));
    let next = world.engine().lease(&queue, lease(1), Span::from_secs(3600)).await.expect("leased").accept();
    assert_eq!((next[0].id, next[0].attempts), (late[0].id, 2));
    let judged =
        world.engine().complete(&queue, vec![(late[0].id, late[0].permit, None)]).await.expect("judged");
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
    assert_eq!(world.engine().stats(&queue).await.expect("stats").counts.scheduled, 1);
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    world.env.advance(Duration::from_secs(300));
    assert_eq!(waiting.await.expect("the task ran").expect("leased").accept()[0].attempts, 2);
}

async fn a_released_item_keeps_its_place_and_its_attempts(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(3)).await;
    let leased = world.lease(&queue, 2).await;
    let released = world.engine().release(&queue, held(&leased)).await.expect("judged");
    assert!(released.results.iter().all(Result::is_ok));
    let again = world.lease(&queue, 3).await;
    assert_eq!(bodies(&again), ["item 0", "item 1", "item 2"]);
    assert!(again.iter().all(|item| item.attempts == 1));
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
    assert_eq!(world.engine().stats(&queue).await.expect("stats").counts, Default::default());
}

async fn a_clear_takes_everything_of_its_kind_at_once(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    for _ in 0..6 {
        world.produce(&queue, items(1000)).await;
    }
    let leased = world.lease(&queue, 10).await;
    let waiting = Clear { waiting: true, scheduled: false, leased: false };
    assert_eq!(world.engine().clear(&queue, waiting).await.expect("cleared").value, 5990);
    let counts = world.engine().stats(&queue).await.expect("stats").counts;
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
    let done = vec![(leased[0].id, leased[0].permit, Some(Bytes::from_static(b"42")))];
    assert!(world.engine().complete(&queue, done).await.expect("judged").results[0].is_ok());
    world.restart().await;
    let view = world.engine().get(ids[0]).await.expect("kept");
    assert_eq!(view.item.state.phase(), Phase::Completed);
    assert_eq!((view.payload, view.result), (None, Some(Bytes::from_static(b"42"))));
    assert_eq!(world.engine().stats(&queue).await.expect("stats").retained, 1);
    world.env.advance(Duration::from_secs(10));
    let error = world.engine().get(ids[0]).await.expect_err("its time is over");
    assert!(matches!(error, EngineError::Refused(Refusal::NotFound)));
}

async fn leases_survive_a_restart_with_the_same_permits(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    for _ in 0..4 {
        world.produce(&queue, items(5)).await;
    }
    let leased = world.lease(&queue, 8).await;
    world.restart().await;
    let rest = world.lease(&queue, 100).await;
    assert_eq!(rest.len(), 12);
    for item in leased.iter().chain(&rest) {
        world.complete(&queue, item).await;
    }
    let newer = world.produce(&queue, items(1)).await[0];
    assert!(leased.iter().chain(&rest).all(|old| old.id != newer));
}

async fn downtime_does_not_end_a_lease(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let leased = world.lease(&queue, 1).await;
    world.env.advance(Duration::from_secs(30));
    world.engine().close().await;
    world.env.advance(Duration::from_secs(300));
    world.restart().await;
    world.env.advance(Duration::from_secs(9));
    assert!(world.lease(&queue, 1).await.is_empty());
    world.complete(&queue, &leased[0]).await;
}

async fn a_queue_made_again_under_the_name_is_empty(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let old = world.produce(&queue, items(5)).await;
    world.engine().delete_queue(&queue, true).await.expect("deleted");
    assert!(matches!(
        world.engine().produce(&queue, items(1)).await,
        Err(EngineError::Refused(Refusal::NoSuchQueue))
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
    world.engine().update_queue(UpdateQueue { name: queue.clone(), change }).await.expect("updated");
    let leased = world.lease(&queue, 1).await;
    assert_eq!(leased[0].deadline, world.env.wall() + Span::from_secs(7));
    world.restart().await;
    assert_eq!(world.engine().queues()[0].settings.lease_timeout, Span::from_secs(7));
}

async fn counts_are_exact(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let due = world.env.wall() + Span::from_secs(1000);
    let mut batch = items(7);
    batch.push(NewItem { kind: "mail".into(), priority: 9, ..item("mail") });
    world.produce(&queue, batch).await;
    world.produce(&queue, vec![NewItem { enqueue_at: Some(due), ..item("later") }]).await;
    let leased = world.lease(&queue, 3).await;
    world.complete(&queue, &leased[0]).await;
    for _ in 0..2 {
        let stats = world.engine().stats(&queue).await.expect("stats");
        assert_eq!((stats.counts.waiting, stats.counts.leased, stats.counts.scheduled), (5, 2, 1));
        assert_eq!(stats.kinds["mail"].waiting, 1);
        assert_eq!(stats.kinds["default"].waiting, 4);
        assert_eq!(stats.priorities.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>(), [(0, 4), (9, 1)]);
        world.restart().await;
    }
}

async fn an_unknown_queue_is_refused(world: &World) {
    let nowhere = queue_name("nowhere");
    let refused = |error: EngineError| matches!(error, EngineError::Refused(Refusal::NoSuchQueue));
    assert!(refused(world.engine().produce(&nowhere, items(1)).await.expect_err("refused")));
    assert!(refused(world.engine().lease(&nowhere, lease(1), Span::ZERO).await.expect_err("refused")));
    assert!(refused(world.engine().delete_queue(&nowhere, true).await.expect_err("refused")));
    let queue = world.queue("q", 1, Settings::default()).await;
    let create = CreateQueue { name: queue, settings: Settings::default(), partitions: 1 };
    let error = world.engine().create_queue(create).await.expect_err("refused");
    assert!(matches!(error, EngineError::Refused(Refusal::QueueExists)));
}

async fn a_batch_is_one_commit(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let before = world.engine().store_stats();
    world.produce(&queue, items(1000)).await;
    let leased = world.lease(&queue, 1000).await;
    let done = leased.iter().map(|item| (item.id, item.permit, None)).collect();
    assert!(world.engine().complete(&queue, done).await.expect("judged").results.iter().all(Result::is_ok));
    let after = world.engine().store_stats();
    assert_eq!(after.commits - before.commits, 3);
    // A store that syncs at all syncs once for each.
    assert!(after.syncs == 0 || after.syncs - before.syncs == 3, "{before:?} {after:?}");
}

async fn callers_at_once_share_syncs(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let before = world.engine().store_stats();
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let (engine, queue) = (world.engine(), queue.clone());
            tokio::spawn(async move {
                for _ in 0..20 {
                    engine.produce(&queue, items(1)).await.expect("produced");
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("the task ran");
    }
    let after = world.engine().store_stats();
    assert_eq!(world.engine().stats(&queue).await.expect("stats").counts.waiting, 1280);
    // Without sharing there would be 1280.
    assert!(after.syncs - before.syncs < 640, "{before:?} {after:?}");
}

async fn nothing_is_committed_for_a_refusal_or_an_empty_lease(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let before = world.engine().store_stats();
    assert!(world.lease(&queue, 1).await.is_empty());
    let nobody = ItemId { partition: PartitionId(1), number: ItemNumber(1) };
    let permit = Permit(1);
    let judged = world.engine().complete(&queue, vec![(nobody, permit, None)]).await.expect("judged");
    assert!(is_refused(&judged.results[0], &Refusal::NotFound));
    assert_eq!(world.engine().store_stats().commits, before.commits);
}

async fn a_closing_engine_sends_waiting_leases_home(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    world.engine().close().await;
    assert!(waiting.await.expect("the task ran").expect("empty").accept().is_empty());
    assert!(matches!(world.engine().produce(&queue, items(1)).await, Err(EngineError::Unavailable { .. })));
}

async fn a_lease_under_way_at_the_close_is_delivered_or_given_back_uncharged(world: &World) {
    let queue = world.queue("q", 2, Settings { max_attempts: 0, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    for _ in 0..20 {
        let (engine, name) = (world.engine(), queue.clone());
        let leasing = tokio::spawn(async move { engine.lease(&name, lease(1), Span::from_secs(3600)).await });
        tokio::task::yield_now().await;
        let engine = world.engine();
        let closing = tokio::spawn(async move { engine.close().await });
        let leased = leasing.await.expect("the task ran").map(Grant::accept).unwrap_or_default();
        closing.await.expect("the task ran");
        world.restart().await;
        let view = world.engine().get(id).await.expect("it is there");
        let charged = leased.first().map_or(0, |item| item.attempts);
        assert_eq!((view.item.attempts, view.item.state.phase() == Phase::Leased), (charged, charged == 1));
        world.engine().release(&queue, held(&leased)).await.expect("judged");
    }
}

type LeaseTask = tokio::task::JoinHandle<Result<Grant, EngineError>>;

/// Starts a lease that waits an hour, and returns once it stands in line.
async fn waiting_lease(world: &World, queue: &QueueName, lease: LeaseItems) -> LeaseTask {
    let before = world.engine().stats(queue).await.expect("stats").lease_waiters;
    let (engine, name) = (world.engine(), queue.clone());
    let task = tokio::spawn(async move { engine.lease(&name, lease, Span::from_secs(3600)).await });
    while world.engine().stats(queue).await.expect("stats").lease_waiters == before {
        tokio::task::yield_now().await;
    }
    task
}

fn phase(cancelled: &Committed<ItemView>) -> Phase {
    cancelled.value.item.state.phase()
}

fn retry_item(item: &Granted) -> RetryItem {
    RetryItem { id: item.id, permit: item.permit, retry_at: None, dead: false, error: None }
}

fn is_refused<T>(result: &Result<T, EngineError>, expected: &Refusal) -> bool {
    matches!(result, Err(EngineError::Refused(refusal)) if refusal == expected)
}
