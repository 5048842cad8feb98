//! A wall clock that is set: nothing runs twice, nothing starts early, nothing waits longer than it should.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinHandle;
use windlass_core::item::Phase;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::NewItem;
use windlass_engine::env::Env;

use super::expiry::lives;
use super::waiting_lease;
use crate::world::{HeldReading, World, bodies, item, items, lease};

const HOUR: i64 = 3600;

on_every_store!(
    a_clock_set_back_delays_nothing_and_repeats_nothing,
    a_clock_forward_for_a_moment_ends_and_starts_nothing,
    a_clock_that_stays_ahead_is_believed,
    a_new_partition_believes_a_clock_no_sooner_than_the_others,
    a_new_partition_goes_on_from_the_time_of_the_others_when_the_clock_is_set_back,
    partitions_believe_a_clock_that_stayed_ahead_while_they_were_idle,
    nobody_is_judged_by_a_time_before_they_asked,
    a_lease_that_waits_is_not_given_what_was_overdue_when_it_came,
);

fn settings() -> Settings {
    Settings { lease_timeout: Span::from_secs(30), ..Settings::default() }
}

async fn a_clock_set_back_delays_nothing_and_repeats_nothing(world: &World) {
    let queue = world.queue("q", 1, settings()).await;
    let due = world.env.wall() + Span::from_secs(30);
    let later = NewItem { enqueue_at: Some(due), priority: 9, ..item("due later") };
    let ids = world.produce(&queue, vec![item("leased"), later]).await;
    let much_later = Some(due + Span::from_secs(7200));
    let old = NewItem { dead_timeout: lives(30), enqueue_at: much_later, ..item("old") };
    let old = world.produce(&queue, vec![old]).await;
    let first = world.lease(&queue, 1).await;
    world.env.set_wall(-HOUR);
    assert!(world.engine().get(ids[1]).await.expect("shown").item.state.phase() == Phase::Scheduled);
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    world.env.advance(Duration::from_secs(30));
    let granted = waiting.await.expect("the task ran").expect("leased").accept();
    assert_eq!((bodies(&granted), granted[0].leased.attempts), (vec!["leased".to_owned()], 2));
    assert!(granted[0].leased.permit > first[0].leased.permit);
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["due later"], "an hour later it is not");
    assert_eq!(world.engine().get(old[0]).await.expect("kept").item.state.phase(), Phase::Expired);
    world.restart().await;
    let next = world.produce(&queue, items(1)).await[0];
    assert!(next > old[0], "numbers go on");
}

async fn a_clock_forward_for_a_moment_ends_and_starts_nothing(world: &World) {
    let queue = world.queue("q", 1, settings()).await;
    let later = NewItem { enqueue_at: Some(world.env.wall() + Span::from_secs(60)), ..item("due later") };
    let mortal = NewItem { dead_timeout: lives(60), ..item("mortal") };
    world.produce(&queue, vec![item("leased")]).await;
    let leased = world.lease(&queue, 1).await;
    world.produce(&queue, vec![later, mortal]).await;
    world.env.set_wall(HOUR);
    world.env.advance(Duration::from_secs(10));
    let stats = world.stats(&queue).await;
    assert_eq!((stats.counts.leased, stats.counts.scheduled, stats.counts.waiting), (1, 1, 1));
    world.env.set_wall(0);
    world.env.advance(Duration::from_secs(19));
    world.complete(&queue, &leased[0]).await;
    world.env.advance(Duration::from_secs(31));
    let stats = world.stats(&queue).await;
    assert_eq!((stats.counts.scheduled, stats.counts.waiting, stats.retained), (0, 1, 1), "each at its time");
}

async fn a_clock_that_stays_ahead_is_believed(world: &World) {
    let queue = world.queue("q", 1, settings()).await;
    let later = NewItem { enqueue_at: Some(world.env.wall() + Span::from_secs(3600)), ..item("due") };
    world.produce(&queue, vec![later]).await;
    world.env.set_wall(HOUR);
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    world.stats(&queue).await;
    world.env.advance(Duration::from_secs(61));
    assert_eq!(bodies(&waiting.await.expect("the task ran").expect("leased").accept()), ["due"]);
}

const YEARS: i64 = 5 * 365 * 24 * HOUR;

async fn a_new_partition_believes_a_clock_no_sooner_than_the_others(world: &World) {
    let later = || NewItem { enqueue_at: Some(world.env.wall() + Span::from_secs(3600)), ..item("later") };
    let (first, second) = (later(), later());
    let grown = world.queue("grown", 1, settings()).await;
    world.env.set_wall(YEARS);
    let new = world.queue("new", 1, settings()).await;
    world.engine().rebalance(&grown, 2).await.expect("rebalanced");
    let ids = world.produce(&new, vec![first]).await;
    // Two items, so that one of them goes to the partition that is new.
    world.produce(&grown, vec![second.clone()]).await;
    world.produce(&grown, vec![second]).await;
    let of_grown = world.stats(&grown).await;
    let scheduled: Vec<u64> = of_grown.partitions.iter().map(|seen| seen.counts.scheduled).collect();
    assert_eq!(scheduled, [1, 1]);
    assert_eq!(world.engine().get(ids[0]).await.expect("shown").item.state.phase(), Phase::Scheduled);
    // A jump that was seen before the partition came stands for the new one as long as for the others.
    world.env.advance(Duration::from_secs(61));
    assert_eq!(bodies(&world.lease(&new, 1).await), ["later"], "the clock stayed ahead");
}

async fn a_new_partition_goes_on_from_the_time_of_the_others_when_the_clock_is_set_back(world: &World) {
    let now = world.env.wall();
    world.env.advance(Duration::from_secs(100));
    world.env.set_wall(-HOUR);
    let new = world.queue("new", 1, settings()).await;
    let due = NewItem { enqueue_at: Some(now + Span::from_secs(90)), ..item("due") };
    world.produce(&new, vec![due]).await;
    assert_eq!(bodies(&world.lease(&new, 1).await), ["due"], "100 seconds have passed since the start");
}

async fn partitions_believe_a_clock_that_stayed_ahead_while_they_were_idle(world: &World) {
    let (idle, busy) = (world.queue("idle", 1, settings()).await, world.queue("busy", 1, settings()).await);
    let due = world.env.wall() + Span::from_secs(3600);
    world.env.set_wall(HOUR);
    world.produce(&busy, items(1)).await;
    world.env.advance(Duration::from_secs(61));
    world.produce(&busy, items(1)).await;
    world.produce(&idle, vec![NewItem { enqueue_at: Some(due), ..item("due") }]).await;
    assert_eq!(bodies(&world.lease(&idle, 1).await), ["due"], "the server believes the clock by now");
}

/// A writer that has an item in hand, read the clock for it, and is held there while the item's time runs out.
async fn held_over_an_end(world: &World, queue: &QueueName) -> (Arc<HeldReading>, JoinHandle<()>) {
    // Nobody reads the clock any more once this is answered: there is nothing to wait for.
    world.stats(queue).await;
    let reading = world.env.hold_next_reading();
    let (engine, name) = (world.engine(), queue.clone());
    let mortal = NewItem { dead_timeout: lives(5), ..item("mortal") };
    let produce = tokio::spawn(async move {
        engine.produce(&name, vec![mortal]).await.expect("produced");
    });
    reading.begun().await;
    world.env.advance(Duration::from_secs(5));
    (reading, produce)
}

async fn first_poll<T>(call: Pin<&mut impl Future<Output = T>>) {
    let mut call = Some(call);
    let polled = poll_fn(|cx| Poll::Ready(call.take().expect("polled once").poll(cx))).await;
    assert!(polled.is_pending(), "it stands in line");
}

/// Although it goes into the same batch.
async fn nobody_is_judged_by_a_time_before_they_asked(world: &World) {
    let queue = world.queue("q", 1, settings()).await;
    let (reading, produce) = held_over_an_end(world, &queue).await;
    let engine = world.engine();
    let mut stats = pin!(engine.stats(&queue));
    first_poll(stats.as_mut()).await;
    reading.let_go();
    assert_eq!(stats.await.expect("stats").counts.waiting, 0);
    produce.await.expect("the task ran");
}

async fn a_lease_that_waits_is_not_given_what_was_overdue_when_it_came(world: &World) {
    let queue = world.queue("q", 1, settings()).await;
    let (reading, produce) = held_over_an_end(world, &queue).await;
    let engine = world.engine();
    let mut lease = pin!(engine.lease(&queue, lease(1), Span::from_secs(3600)));
    first_poll(lease.as_mut()).await;
    reading.let_go();
    produce.await.expect("the task ran");
    world.produce(&queue, vec![item("fresh")]).await;
    assert_eq!(bodies(&lease.await.expect("leased").accept()), ["fresh"]);
}
