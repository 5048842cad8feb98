//! What went on in queues lately.

use std::time::Duration;

use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_core::verbs::{RetryItem, UpdateQueue};
use windlass_engine::env::Env;
use windlass_engine::{Action, HistoryBucket, QueueHistory, Waited};

use super::find::{fail, in_phases, search};
use super::{is_refused, retry_item};
use crate::world::{World, held, items, queue_name};

on_every_store!(
    a_history_tells_what_was_done_in_each_minute_and_how_long_items_had_waited,
    a_history_of_a_day_adds_up_in_at_most_60_buckets,
    a_history_begins_with_the_server_and_is_not_kept,
    all_partitions_of_a_queue_count_in_one_history_and_stay_in_it,
    a_history_goes_by_the_time_of_the_server,
    the_queues_with_the_most_waiting_items_tell_their_history_first,
    a_history_is_gone_with_its_queue,
    the_failed_items_of_a_queue_count_for_as_long_as_they_are_kept,
);

const HOUR: Span = Span::from_secs(3600);

fn history(world: &World, queue: &QueueName, span: Span) -> Vec<HistoryBucket> {
    let asked = world.engine().history(Some(std::slice::from_ref(queue)), span).expect("the queue is there");
    let [QueueHistory { queue: name, buckets }] = <[_; 1]>::try_from(asked).expect("one was asked for");
    assert_eq!(name, *queue);
    buckets
}

fn deeds(bucket: &HistoryBucket) -> [u64; 4] {
    [bucket.produced, bucket.completed, bucket.failed, bucket.retried]
}

fn waited(p50: Span, p99: Span) -> Option<Waited> {
    Some(Waited { p50, p99 })
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

async fn a_history_tells_what_was_done_in_each_minute_and_how_long_items_had_waited(world: &World) {
    let begin = world.env.wall();
    let queue = world.queue("q", 1, Settings { lease_timeout: HOUR, ..Settings::default() }).await;
    world.produce(&queue, items(10)).await;
    let leased = world.lease(&queue, 1).await;
    world.env.advance(minutes(2));
    world.complete(&queue, &leased[0]).await;
    let leased = world.lease(&queue, 2).await;
    let dead = RetryItem { dead: true, ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![dead, retry_item(&leased[1])]).await.expect("judged");
    let buckets = history(world, &queue, HOUR);
    assert_eq!(buckets.iter().map(deeds).collect::<Vec<_>>(), [[10, 0, 0, 0], [0; 4], [0, 1, 1, 1]]);
    let told: Vec<_> = buckets.iter().map(|bucket| bucket.waited).collect();
    // In milliseconds 114,688 to 131,071 are one class.
    let about_two_minutes = Span::from_millis(131_071);
    assert_eq!(told, [waited(Span::ZERO, Span::ZERO), None, waited(about_two_minutes, about_two_minutes)]);
    assert_eq!(buckets[0].at, begin, "no bucket begins before the queue");
    assert!(buckets[1..].iter().all(|bucket| bucket.at.0.is_multiple_of(60_000_000)), "{buckets:?}");
    assert_eq!(history(world, &queue, Span::from_secs(60)), buckets[1..]);
}

async fn a_history_of_a_day_adds_up_in_at_most_60_buckets(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    for _ in 0..100 {
        world.produce(&queue, items(1)).await;
        world.env.advance(minutes(15));
    }
    let told = |hours: u64| {
        let buckets = history(world, &queue, Span::from_secs(hours * 3600));
        let lengths = buckets.windows(2).skip(1).map(|pair| (pair[1].at - pair[0].at).0 / 60_000_000);
        let lengths: Vec<_> = lengths.collect();
        assert!(buckets.len() <= 60 && lengths.iter().all(|length| *length == lengths[0]), "{buckets:?}");
        (buckets.iter().map(|bucket| bucket.produced).sum::<u64>(), lengths[0])
    };
    let (in_one, of_one) = told(1);
    let (in_ten, of_ten) = told(10);
    let (in_all, of_all) = told(24);
    assert_eq!([of_one, of_ten, of_all], [1, 10, 30]);
    assert!((3..=4).contains(&in_one) && (39..=40).contains(&in_ten) && (96..=98).contains(&in_all));
}

async fn a_history_begins_with_the_server_and_is_not_kept(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(3)).await;
    world.env.advance(minutes(30));
    assert_eq!(history(world, &queue, HOUR).len(), 31, "minutes in which nothing was done are told");
    world.restart().await;
    let buckets = history(world, &queue, HOUR);
    assert_eq!(
        buckets.iter().map(|bucket| (bucket.at, deeds(bucket))).collect::<Vec<_>>(),
        [(world.env.wall(), [0; 4])]
    );
    world.env.advance(minutes(1));
    world.lease(&queue, 1).await;
    let told = history(world, &queue, HOUR)[1].waited.expect("something was leased");
    assert!(told.p50 >= Span::from_secs(31 * 60), "items wait on while the server is down");
}

async fn all_partitions_of_a_queue_count_in_one_history_and_stay_in_it(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    for _ in 0..6 {
        world.produce(&queue, items(1)).await;
    }
    let leased = world.lease(&queue, 6).await;
    world.engine().release(&queue, held(&leased[..2])).await.expect("judged");
    for item in &leased[2..] {
        world.complete(&queue, item).await;
    }
    assert_eq!(history(world, &queue, HOUR).iter().map(deeds).collect::<Vec<_>>(), [[6, 4, 0, 0]]);
    world.engine().rebalance(&queue, 1).await.expect("rebalanced");
    world.produce(&queue, items(1)).await;
    assert_eq!(history(world, &queue, HOUR).iter().map(deeds).collect::<Vec<_>>(), [[7, 4, 0, 0]]);
}

/// A partition goes on from the time of its last commit, and is ahead of others where the clock was set back meanwhile.
async fn a_history_goes_by_the_time_of_the_server(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.env.advance(minutes(90));
    world.produce(&queue, items(1)).await;
    world.env.set_wall(-3600);
    world.restart().await;
    world.produce(&queue, items(1)).await;
    assert_eq!(history(world, &queue, HOUR).iter().map(deeds).collect::<Vec<_>>(), [[1, 0, 0, 0]]);
    assert!(history(world, &queue, HOUR)[0].at <= world.env.wall());
}

async fn the_queues_with_the_most_waiting_items_tell_their_history_first(world: &World) {
    for (name, count) in [("a", 0), ("b", 2), ("c", 5), ("d", 2)] {
        let queue = world.queue(name, 2, Settings::default()).await;
        if count > 0 {
            world.produce(&queue, items(count)).await;
        }
    }
    let names = |told: Vec<QueueHistory>| {
        told.iter().map(|history| history.queue.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(world.engine().history(None, HOUR).expect("told")), ["c", "b", "d", "a"]);
    let named = ["d", "a"].map(queue_name);
    assert_eq!(names(world.engine().history(Some(&named), HOUR).expect("told")), ["d", "a"]);
    let gone = queue_name("gone");
    let asked = world.engine().history(Some(&[named[0].clone(), gone.clone()]), HOUR);
    assert!(is_refused(&asked, &Refusal::no_such_queue(&gone)));
}

async fn a_history_is_gone_with_its_queue(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(3)).await;
    assert_eq!(history(world, &queue, HOUR).iter().map(deeds).collect::<Vec<_>>(), [[3, 0, 0, 0]]);
    world.engine().delete_queue(&queue, true).await.expect("deleted");
    let asked = world.engine().history(Some(std::slice::from_ref(&queue)), HOUR);
    assert!(is_refused(&asked, &Refusal::no_such_queue(&queue)));
    world.queue("q", 2, Settings::default()).await;
    assert_eq!(history(world, &queue, HOUR).iter().map(deeds).collect::<Vec<_>>(), [[0; 4]]);
}

async fn the_failed_items_of_a_queue_count_for_as_long_as_they_are_kept(world: &World) {
    let told = || world.engine().overview().remove(0).failed;
    let queue = world.queue("q", 2, Settings::default()).await;
    for count in 1..=3 {
        fail(world, &queue, Some("a"), "no").await;
        assert_eq!(told(), count);
    }
    let one = search(in_phases([Phase::Failed]), 1);
    world.engine().change_items(&queue, &one, None, Action::Delete, false).await.expect("deleted");
    assert_eq!(told(), 2);
    world.restart().await;
    while told() != 2 {
        tokio::task::yield_now().await;
    }
    let dead_queue = Some(Some("later".into()));
    let change = SettingsChange { dead_queue, ..SettingsChange::default() };
    world.engine().update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
    fail(world, &queue, Some("a"), "no").await;
    assert_eq!((told(), world.stats(&queue).await.moving), (3, 1), "one on its way has failed, too");
}
