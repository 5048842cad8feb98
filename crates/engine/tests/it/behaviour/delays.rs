//! Items that are due so long after they were asked for.

use std::time::Duration;

use windlass_core::id::ItemId;
use windlass_core::item::State;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{CreateGroup, NewItem, RetryItem};
use windlass_engine::env::Env;

use super::crons::{cron, named};
use super::groups::{end, group};
use super::retry_item;
use crate::world::{World, item, items};

on_every_store!(
    a_delay_counts_from_when_the_partition_is_asked,
    a_retry_with_a_delay_is_due_then,
    the_same_delay_under_the_same_key_is_the_same_call_however_late,
    the_delay_of_an_end_item_counts_from_the_end_of_its_group,
    the_delay_of_a_cron_outlives_a_restart_and_counts_from_each_run,
);

const MINUTE: Duration = Duration::from_secs(60);

fn delayed(payload: &str) -> NewItem {
    NewItem { delay: Some(MINUTE.into()), ..item(payload) }
}

async fn due(world: &World, id: ItemId) -> Option<Timestamp> {
    match world.engine().get(id).await.expect("shown").item.state {
        State::Scheduled { due_at } => Some(due_at),
        State::Waiting { .. } | State::Leased(_) | State::Suspended(_) | State::Final(_) => None,
    }
}

/// How many items are scheduled in the queue.
async fn scheduled(world: &World, queue: &QueueName) -> u64 {
    world.stats(queue).await.counts.scheduled
}

async fn a_delay_counts_from_when_the_partition_is_asked(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.env.advance(MINUTE);
    let addressed = NewItem { address: Some("a".into()), ..delayed("addressed") };
    let ids = world.produce(&queue, vec![delayed("plain"), addressed]).await;
    let then = Some(world.env.wall() + Span::from(MINUTE));
    world.restart().await;
    for id in ids {
        assert_eq!(due(world, id).await, then);
    }
    world.env.advance(MINUTE);
    assert_eq!(world.lease(&queue, 10).await.len(), 2);
}

async fn a_retry_with_a_delay_is_due_then(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let leased = world.lease(&queue, 1).await;
    let retry = RetryItem { delay: Some(MINUTE.into()), ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged").results[0].as_ref().expect("retried");
    assert_eq!(due(world, leased[0].leased.id).await, Some(world.env.wall() + Span::from(MINUTE)));
}

async fn the_same_delay_under_the_same_key_is_the_same_call_however_late(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let once = async |delay: Duration| {
        let addressed = NewItem { address: Some("a".into()), ..delayed("addressed") };
        let items = vec![NewItem { delay: Some(delay.into()), ..item("plain") }, addressed];
        let told = world.engine().produce_once(&queue, "call".into(), items).await?;
        Ok::<_, windlass_engine::EngineError>(
            told.results.into_iter().map(|made| made.expect("produced").id).collect::<Vec<_>>(),
        )
    };
    let first = once(MINUTE).await.expect("produced");
    let then = due(world, first[0]).await;
    world.env.advance(Duration::from_secs(5));
    assert_eq!(once(MINUTE).await.expect("told again"), first);
    assert_eq!(due(world, first[0]).await, then);
    assert_eq!(scheduled(world, &queue).await, 2);
    assert!(once(2 * MINUTE).await.is_err(), "another delay is another call");
}

async fn the_delay_of_an_end_item_counts_from_the_end_of_its_group(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let other = world.queue("other", 1, Settings::default()).await;
    for (name, to) in [("here", None), ("there", Some("other"))] {
        let mut last_word = end("the end", to).expect("an end item");
        last_word.item.delay = Some(MINUTE.into());
        let create = CreateGroup { end: Some(last_word), items: items(1), start: true, ..group(name) };
        world.engine().create_group(&queue, create).await.expect("the group is made");
    }
    world.restart().await;
    world.env.advance(MINUTE);
    let members = world.lease(&queue, 10).await;
    assert_eq!(members.len(), 2, "no end before the members");
    for member in &members {
        world.complete(&queue, member).await;
    }
    assert_eq!(scheduled(world, &queue).await, 1);
    while scheduled(world, &other).await == 0 {
        tokio::task::yield_now().await;
    }
    world.env.advance(MINUTE - Duration::from_micros(1));
    assert!(world.lease(&queue, 10).await.is_empty() && world.lease(&other, 10).await.is_empty());
    world.env.advance(Duration::from_micros(1));
    assert_eq!((world.lease(&queue, 10).await.len(), world.lease(&other, 10).await.len()), (1, 1));
}

async fn the_delay_of_a_cron_outlives_a_restart_and_counts_from_each_run(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let mut tick = cron("tick", "@every 1h");
    tick.item.delay = Some(MINUTE.into());
    world.engine().create_cron(&queue, tick).await.expect("the cron is made");
    world.restart().await;
    let triggered = world.engine().trigger_cron(&named("tick")).await.expect("triggered").value;
    assert_eq!(due(world, triggered.id).await, Some(world.env.wall() + Span::from(MINUTE)));
    world.env.advance(MINUTE);
    assert_eq!(world.lease(&queue, 10).await.len(), 1);
    let shown = world.engine().cron(&named("tick")).await.expect("shown");
    assert_eq!(shown.view.cron.template.delay, Some(MINUTE.into()));
}
