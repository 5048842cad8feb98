//! What time brings: without anybody asking, and never too much of it at once.

use std::time::Duration;

use windlass_core::id::ItemId;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::NewItem;
use windlass_engine::env::Env;
use windlass_engine::{Histogram, QueueStats};

use super::waiting_lease;
use crate::world::{World, item, lease};

on_every_store!(
    a_due_item_reaches_a_waiting_lease_in_the_commit_that_starts_it,
    a_lease_that_does_not_wait_gets_what_is_due,
    a_schedule_of_ten_years_costs_nothing_meanwhile,
    items_that_share_a_time_start_in_the_order_produced,
    what_falls_due_in_one_moment_is_started_in_slices,
    leases_that_end_in_one_moment_end_in_slices,
    what_expires_in_one_moment_expires_in_slices,
);

const MINUTE: Duration = Duration::from_secs(60);
const MANY: usize = 5000;
/// Every item that a slice starts, ends or expires is a row or two; what comes on top is the numbers.
const CHANGES_MAX: u64 = 2000;

fn due_at(world: &World, after: Duration) -> Option<Timestamp> {
    Some(world.env.wall() + Span::from(after))
}

async fn a_due_item_reaches_a_waiting_lease_in_the_commit_that_starts_it(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let enqueue_at = due_at(world, MINUTE);
    let ids = world.produce(&queue, vec![NewItem { enqueue_at, ..item("later") }]).await;
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    world.env.advance(MINUTE - Duration::from_micros(1));
    let before = world.engine().commit_stats().commits;
    assert_eq!(world.stats(&queue).await.counts.scheduled, 1, "never early");
    world.env.advance(Duration::from_micros(1));
    let leased = waiting.await.expect("the lease ran").expect("leased").accept();
    assert_eq!(leased.iter().map(|item| item.leased.id).collect::<Vec<_>>(), ids);
    assert_eq!(
        world.engine().commit_stats().commits - before,
        1,
        "started and leased at once, nothing before"
    );
}

async fn a_lease_that_does_not_wait_gets_what_is_due(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    for _ in 0..100 {
        let enqueue_at = due_at(world, MINUTE);
        world.produce(&queue, vec![NewItem { enqueue_at, ..item("later") }]).await;
        world.env.advance(MINUTE);
        let leased = world.lease(&queue, 1).await;
        assert_eq!(leased.len(), 1);
        world.complete(&queue, &leased[0]).await;
    }
}

async fn a_schedule_of_ten_years_costs_nothing_meanwhile(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let years = Duration::from_secs(10 * 365 * 24 * 3600);
    let enqueue_at = due_at(world, years);
    world.produce(&queue, vec![NewItem { enqueue_at, ..item("much later") }]).await;
    let before = world.engine().commit_stats().commits;
    world.env.advance(years - MINUTE);
    assert_eq!(world.stats(&queue).await.counts.scheduled, 1);
    assert_eq!(world.engine().commit_stats().commits, before);
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    world.env.advance(MINUTE);
    assert_eq!(waiting.await.expect("the lease ran").expect("leased").accept().len(), 1);
}

async fn items_that_share_a_time_start_in_the_order_produced(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let (soon, later) = (due_at(world, MINUTE), due_at(world, 2 * MINUTE));
    let mut due = [Vec::new(), Vec::new()];
    for index in 0..20 {
        let enqueue_at = if index % 3 == 0 { later } else { soon };
        let ids = world.produce(&queue, vec![NewItem { enqueue_at, ..item("due") }]).await;
        due[usize::from(index % 3 == 0)].extend(ids);
    }
    let there = world.produce(&queue, vec![item("there before any is due")]).await;
    world.env.advance(3 * MINUTE);
    let leased: Vec<ItemId> = world.lease(&queue, 100).await.iter().map(|item| item.leased.id).collect();
    assert_eq!(leased, [there, due[0].clone(), due[1].clone()].concat());
}

async fn what_falls_due_in_one_moment_is_started_in_slices(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let enqueue_at = due_at(world, MINUTE);
    fill(world, &queue, NewItem { enqueue_at, ..item("due") }).await;
    in_slices(world, &queue, |stats| stats.counts.waiting == MANY as u64).await;
}

async fn leases_that_end_in_one_moment_end_in_slices(world: &World) {
    let queue = world.queue("q", 1, Settings { lease_timeout: MINUTE.into(), ..Settings::default() }).await;
    fill(world, &queue, item("leased")).await;
    while !world.lease(&queue, 1000).await.is_empty() {}
    in_slices(world, &queue, |stats| stats.counts.waiting == MANY as u64).await;
}

async fn what_expires_in_one_moment_expires_in_slices(world: &World) {
    let dead_timeout = MINUTE.into();
    let queue = world.queue("q", 1, Settings { dead_timeout, ..Settings::default() }).await;
    fill(world, &queue, item("old")).await;
    in_slices(world, &queue, |stats| stats.retained == MANY as u64).await;
}

async fn fill(world: &World, queue: &QueueName, item: NewItem) {
    for _ in 0..MANY / 1000 {
        world.produce(queue, vec![item.clone(); 1000]).await;
    }
}

/// Lets the time come, and looks at every commit until all is done.
async fn in_slices(world: &World, queue: &QueueName, is_done: impl Fn(&QueueStats) -> bool) {
    let before = large_commits(world);
    world.env.advance(MINUTE);
    while !is_done(&world.stats(queue).await) {}
    assert_eq!(large_commits(world), before, "a commit held more than a slice");
}

fn large_commits(world: &World) -> u64 {
    let Histogram { bounds, buckets, .. } = world.engine().commit_stats().changes;
    let large = bounds.partition_point(|bound| *bound <= CHANGES_MAX);
    buckets[large..].iter().sum()
}
