//! Items that grow too old, and attempts that run out.

use std::time::Duration;

use windlass_core::id::ItemId;
use windlass_core::item::{ItemError, Phase};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{NewItem, Retried, RetryItem};
use windlass_engine::env::Env;
use windlass_engine::{Granted, ItemView};

use super::retry_item;
use crate::world::{World, bodies, held, item, items};

const MINUTE: Duration = Duration::from_secs(60);

on_every_store!(
    scheduled_and_waiting_items_expire_by_their_own_timeout_or_the_queues,
    a_queues_new_dead_timeout_counts_for_new_items_only,
    a_leased_item_expires_when_its_lease_ends,
    a_completion_after_the_dead_deadline_still_counts,
    a_lease_never_hands_out_what_is_overdue,
    an_item_is_leased_as_often_as_it_has_attempts_however_they_end,
    the_workers_last_word_is_the_error,
);

pub(crate) fn lives(secs: u64) -> Option<Span> {
    Some(Span::from_secs(secs))
}

pub(crate) fn error_code(view: &ItemView) -> Option<String> {
    let error = view.item.extras.as_ref()?.error.as_ref()?;
    assert!(!error.message.is_empty(), "an error says something");
    error.code.as_ref().map(ToString::to_string)
}

async fn phase_of(world: &World, id: ItemId) -> Phase {
    world.engine().get(id).await.expect("it is kept").item.state.phase()
}

fn settings() -> Settings {
    Settings { dead_timeout: Span::from_secs(60), ..Settings::default() }
}

async fn scheduled_and_waiting_items_expire_by_their_own_timeout_or_the_queues(world: &World) {
    let queue = world.queue("q", 2, settings()).await;
    let later = Some(world.env.wall() + Span::from_secs(3600));
    let ids = world
        .produce(
            &queue,
            vec![
                item("the queue's"),
                NewItem { dead_timeout: lives(30), ..item("its own") },
                NewItem { dead_timeout: lives(0), ..item("any age") },
                NewItem { enqueue_at: later, ..item("scheduled") },
            ],
        )
        .await;
    let shown = world.engine().get(ids[0]).await.expect("shown");
    assert_eq!(shown.item.extras.expect("extras").dead_timeout, lives(60));
    world.restart().await;
    world.env.advance(Duration::from_secs(30));
    let view = world.engine().get(ids[1]).await.expect("kept");
    assert_eq!(
        (view.item.state.phase(), error_code(&view).as_deref()),
        (Phase::Expired, Some("dead_timeout"))
    );
    assert_eq!(phase_of(world, ids[0]).await, Phase::Waiting);
    world.env.advance(Duration::from_secs(30));
    for id in [ids[0], ids[3]] {
        let view = world.engine().get(id).await.expect("kept");
        assert_eq!(
            (view.item.state.phase(), error_code(&view).as_deref()),
            (Phase::Expired, Some("dead_timeout"))
        );
    }
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["any age"]);
    let stats = world.stats(&queue).await;
    assert_eq!((stats.counts.live(), stats.retained, stats.moving), (1, 3, 0));
}

async fn a_queues_new_dead_timeout_counts_for_new_items_only(world: &World) {
    use windlass_core::settings::SettingsChange;
    use windlass_core::verbs::UpdateQueue;
    let queue = world.queue("q", 1, Settings::default()).await;
    let old = world.produce(&queue, items(1)).await[0];
    let change = SettingsChange { dead_timeout: lives(10), ..SettingsChange::default() };
    world.engine().update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
    let new = world.produce(&queue, items(1)).await[0];
    world.env.advance(MINUTE);
    assert_eq!(phase_of(world, old).await, Phase::Waiting);
    assert_eq!(phase_of(world, new).await, Phase::Expired);
}

async fn a_leased_item_expires_when_its_lease_ends(world: &World) {
    let settings = Settings { lease_timeout: Span::from_secs(90), max_attempts: 0, ..settings() };
    let queue = world.queue("q", 1, settings).await;
    let ids = world.produce(&queue, items(4)).await;
    let leased = world.lease(&queue, 4).await;
    assert_eq!(leased[0].leased.dead_timeout, lives(60));
    world.env.advance(MINUTE);
    for id in &ids {
        assert_eq!(phase_of(world, *id).await, Phase::Leased, "its time is over, its lease is not");
    }
    world.engine().release(&queue, held(&leased[..1])).await.expect("judged");
    let retried = world.engine().retry(&queue, vec![retry_item(&leased[1])]).await.expect("judged");
    assert!(matches!(retried.results[0], Ok(Retried::Ended(Phase::Expired))));
    world.engine().cancel(ids[2]).await.expect("cancelled");
    world.env.advance(Duration::from_secs(30));
    for (id, attempts) in [(ids[0], 0), (ids[1], 1), (ids[3], 1)] {
        let view = world.engine().get(id).await.expect("kept");
        assert_eq!(view.item.state.phase(), Phase::Expired);
        assert_eq!((view.item.attempts, error_code(&view).as_deref()), (attempts, Some("dead_timeout")));
    }
    assert!(world.engine().get(ids[2]).await.is_err(), "cancelled, with nothing to show");
}

async fn a_completion_after_the_dead_deadline_still_counts(world: &World) {
    let queue = world.queue("q", 1, Settings { lease_timeout: Span::from_secs(90), ..settings() }).await;
    world.produce(&queue, items(1)).await;
    let leased = world.lease(&queue, 1).await;
    world.env.advance(MINUTE);
    world.engine().extend(&queue, None, held(&leased)).await.expect("judged").results[0]
        .as_ref()
        .expect("extended");
    world.env.advance(MINUTE);
    world.complete(&queue, &leased[0]).await;
}

/// More of it than any sweep takes at once, and at the head of the queue.
async fn a_lease_never_hands_out_what_is_overdue(world: &World) {
    let queue = world.queue("q", 1, Settings { retention_max_items: 10, ..settings() }).await;
    for _ in 0..3 {
        world.produce(&queue, items(1000)).await;
    }
    let young = NewItem { dead_timeout: lives(3600), priority: 9, ..item("young") };
    world.produce(&queue, vec![young]).await;
    world.env.advance(MINUTE);
    let engine = world.engine();
    let leased = engine.lease(&queue, crate::world::lease(10), Span::from_secs(3600)).await.expect("leased");
    assert_eq!(bodies(&leased.accept()), ["young"]);
    let stats = engine.stats(&queue).await.expect("stats");
    assert_eq!(stats.counts.leased, 1);
}

async fn an_item_is_leased_as_often_as_it_has_attempts_however_they_end(world: &World) {
    let settings = Settings { lease_timeout: Span::from_secs(20), ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    // Each bit: whether an attempt ends by retry or by its deadline.
    for ends in 0..8_u32 {
        let id = world.produce(&queue, items(1)).await[0];
        for attempt in 1..=3 {
            let leased = world.lease(&queue, 10).await;
            assert_eq!(
                leased.iter().map(|item| (item.leased.id, item.leased.attempts)).collect::<Vec<_>>(),
                [(id, attempt)]
            );
            // Given back, it costs nothing.
            world.engine().release(&queue, held(&leased)).await.expect("judged");
            let leased = world.lease(&queue, 10).await;
            world.restart().await;
            end(world, &queue, &leased[0], ends >> (attempt - 1) & 1 == 1).await;
            world.restart().await;
        }
        assert!(world.lease(&queue, 10).await.is_empty(), "three times is all");
        let view = world.engine().get(id).await.expect("kept");
        assert_eq!((view.item.state.phase(), view.item.attempts), (Phase::Failed, 3));
        let by_retry = ends >> 2 == 1;
        assert_eq!(
            error_code(&view).as_deref(),
            Some(if by_retry { "max_attempts" } else { "lease_expired" })
        );
    }
}

async fn end(world: &World, queue: &windlass_core::row::QueueName, leased: &Granted, by_retry: bool) {
    if by_retry {
        let retry = RetryItem { retry_at: Some(Timestamp(0)), ..retry_item(leased) };
        let judged = world.engine().retry(queue, vec![retry]).await.expect("judged");
        judged.results[0].as_ref().expect("the permit holds");
    } else {
        world.env.advance(Duration::from_secs(20));
    }
}

async fn the_workers_last_word_is_the_error(world: &World) {
    let queue = world.queue("q", 1, Settings { max_attempts: 2, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    let leased = world.lease(&queue, 1).await;
    let error = ItemError { code: Some("no_paper".into()), message: "the printer is out of paper".into() };
    let retry = RetryItem { retry_at: Some(Timestamp(0)), error: Some(error), ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    world.lease(&queue, 1).await;
    world.env.advance(MINUTE);
    let view = world.engine().get(id).await.expect("kept");
    assert_eq!((view.item.state.phase(), error_code(&view).as_deref()), (Phase::Failed, Some("no_paper")));
}
