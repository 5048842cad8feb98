//! What is counted: items, deeds, commits.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::id::{ItemId, ItemNumber, PartitionId, Permit};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, Completion, Held, NewItem, RetryItem};
use windlass_engine::env::Env;
use windlass_engine::{Granted, Histogram, PartitionState, QueueOverview, QueueStats, Totals};

use super::{is_refused, retry_item, waiting_lease};
use crate::world::{Medium, World, completion, held, item, items, lease};

on_every_store!(
    items_spread_over_partitions_by_their_load,
    counts_are_exact,
    a_batch_is_one_commit,
    nothing_is_committed_for_a_refusal_or_an_empty_lease,
    the_overview_says_what_the_stats_say,
    the_overview_is_by_name_and_asks_nobody,
    totals_count_what_was_done,
    commits_are_counted_and_measured,
);

async fn items_spread_over_partitions_by_their_load(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    for _ in 0..20 {
        world.produce(&queue, items(5)).await;
    }
    let stats = world.stats(&queue).await;
    assert!(stats.partitions.iter().all(|partition| partition.counts.waiting == 25), "{stats:?}");
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
        let stats = world.stats(&queue).await;
        assert_eq!((stats.counts.waiting, stats.counts.leased, stats.counts.scheduled), (5, 2, 1));
        assert_eq!(stats.kinds["mail"].waiting, 1);
        assert_eq!(stats.kinds["default"].waiting, 4);
        assert_eq!(stats.priorities.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>(), [(0, 4), (9, 1)]);
        world.restart().await;
    }
}

async fn a_batch_is_one_commit(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let before = world.engine().store_stats();
    world.produce(&queue, items(1000)).await;
    let leased = world.lease(&queue, 1000).await;
    let done = leased.iter().map(|item| completion(item.held())).collect();
    assert!(world.engine().complete(&queue, done).await.expect("judged").results.iter().all(Result::is_ok));
    let after = world.engine().store_stats();
    assert_eq!(after.commits - before.commits, 3);
    // A store that syncs at all syncs once for each.
    assert!(after.syncs == 0 || after.syncs - before.syncs == 3, "{before:?} {after:?}");
}

async fn nothing_is_committed_for_a_refusal_or_an_empty_lease(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let before = world.engine().store_stats();
    assert!(world.lease(&queue, 1).await.is_empty());
    let nobody = ItemId { partition: PartitionId(1), number: ItemNumber(1) };
    let held = Held { id: nobody, permit: Permit(1) };
    let judged = world.engine().complete(&queue, vec![completion(held)]).await.expect("judged");
    assert!(is_refused(&judged.results[0], &Refusal::NotFound));
    assert_eq!(world.engine().store_stats().commits, before.commits);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_at_once_share_syncs() {
    let world = World::new(Medium::log()).await;
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
    assert_eq!(world.waiting(&queue).await, 1280);
    // Without sharing there would be 1280.
    assert!(after.syncs - before.syncs < 640, "{before:?} {after:?}");
}

/// Small, and the same each time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

async fn the_overview_says_what_the_stats_say(world: &World) {
    let settings = Settings { retention_max_items: 60, ..Settings::default() };
    let queue = world.queue("q", 3, settings).await;
    let mut dice = Dice(7);
    let mut hands: Vec<Granted> = Vec::new();
    for step in 0..400 {
        some_deed(world, &queue, &mut hands, &mut dice).await;
        // What time has brought is seen by whoever asks; everything else was told before it was answered.
        let told = overview(world, &queue);
        let stats = world.stats(&queue).await;
        assert_same(&told, &stats, step);
        let live = told.totals.produced - told.totals.completed - told.totals.failed - told.totals.cancelled;
        assert_eq!(told.counts.live(), live, "step {step}: {told:?}");
        if dice.below(8) == 0 {
            world.env.advance(Duration::from_secs(dice.below(40)));
            let stats = world.stats(&queue).await;
            assert_same(&overview(world, &queue), &stats, step);
        }
    }
    let totals = overview(world, &queue).totals;
    let all = [totals.completed, totals.retried, totals.released, totals.extended, totals.cancelled];
    assert!(
        all.into_iter().chain([totals.failed, totals.lease_expired]).all(|count| count > 0),
        "{totals:?}"
    );
}

fn overview(world: &World, queue: &QueueName) -> QueueOverview {
    let mut all = world.engine().overview();
    all.retain(|overview| overview.queue.name == *queue);
    all.pop().expect("the queue is there")
}

fn assert_same(told: &QueueOverview, stats: &QueueStats, step: u32) {
    assert_eq!(told.counts, stats.counts, "step {step}");
    assert_eq!((told.oldest_waiting, told.retained), (stats.oldest_waiting, stats.retained), "step {step}");
    let states: Vec<_> = stats.partitions.iter().map(|part| (part.partition, part.state.clone())).collect();
    assert_eq!((told.lease_waiters, &told.partitions), (stats.lease_waiters, &states), "step {step}");
}

pub(super) async fn some_deed(world: &World, queue: &QueueName, hands: &mut Vec<Granted>, dice: &mut Dice) {
    let engine = world.engine();
    let taken = (!hands.is_empty()).then(|| hands.swap_remove(dice.below(hands.len() as u64) as usize));
    match (dice.below(10), taken) {
        (0 | 1, _) => {
            let later = world.env.wall() + Span::from_secs(dice.below(60));
            let new = |dice: &mut Dice| NewItem {
                kind: format!("kind {}", dice.below(4)).into(),
                priority: dice.below(3) as u8,
                enqueue_at: (dice.below(3) == 0).then_some(later),
                max_attempts: Some(1 + dice.below(3) as u32),
                ..item("")
            };
            world.produce(queue, (0..1 + dice.below(5)).map(|_| new(dice)).collect()).await;
        }
        (2..=4, _) => hands.extend(world.lease(queue, 1 + dice.below(3) as usize).await),
        (5, Some(item)) => {
            let result = (dice.below(2) == 0).then(|| Bytes::from_static(b"done"));
            engine.complete(queue, vec![Completion { held: item.held(), result }]).await.expect("judged");
        }
        (6, Some(item)) => {
            let retry = RetryItem { dead: dice.below(3) == 0, ..retry_item(&item) };
            engine.retry(queue, vec![retry]).await.expect("judged");
        }
        (7, Some(item)) => {
            engine.release(queue, held(&[item])).await.expect("judged");
        }
        (8, Some(item)) => {
            engine.extend(queue, None, held(std::slice::from_ref(&item))).await.expect("judged");
            let _gone_perhaps = engine.cancel(item.leased.id).await;
        }
        (9, _) if dice.below(8) == 0 => {
            let clear = Clear {
                waiting: true,
                scheduled: dice.below(2) == 0,
                leased: dice.below(2) == 0,
                suspended: false,
            };
            engine.clear(queue, clear).await.expect("cleared");
        }
        (_, _) => {}
    }
}

async fn the_overview_is_by_name_and_asks_nobody(world: &World) {
    for name in ["b", "a", "c"] {
        world.queue(name, 2, Settings::default()).await;
    }
    let overview = world.engine().overview();
    assert_eq!(overview.iter().map(|one| &*one.queue.name.name).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(
        overview.iter().flat_map(|one| &one.partitions).all(|(_, state)| *state == PartitionState::Available)
    );
    let queue = overview[1].queue.name.clone();
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    assert_eq!(world.engine().overview()[1].lease_waiters, 1);
    waiting.abort();
    // Shown as it is after a restart too, before anything was committed.
    world.produce(&queue, items(3)).await;
    world.restart().await;
    let told = &world.engine().overview()[1];
    assert_eq!((told.counts.waiting, told.oldest_waiting), (3, Some(world.env.wall())));
    assert_eq!((told.totals, world.engine().now()), (Totals::default(), world.env.wall()));
}

async fn totals_count_what_was_done(world: &World) {
    let queue = world.queue("q", 2, Settings { max_attempts: 1, ..Settings::default() }).await;
    world.queue("other", 1, Settings::default()).await;
    world.produce(&queue, items(4)).await;
    world.produce(&queue, items(4)).await;
    let leased = world.lease(&queue, 7).await;
    world.engine().extend(&queue, None, held(&leased[..2])).await.expect("judged");
    world.complete(&queue, &leased[0]).await;
    world.engine().release(&queue, held(&leased[1..3])).await.expect("judged");
    world.engine().retry(&queue, vec![retry_item(&leased[3])]).await.expect("judged");
    world.engine().cancel(leased[1].leased.id).await.expect("cancelled");
    let late = world.engine().complete(&queue, vec![completion(leased[0].held())]).await;
    assert!(late.expect("judged").results[0].is_err());
    world.env.advance(Duration::from_secs(61));
    world.stats(&queue).await;
    let expected = Totals {
        produced: 8,
        leased: 7,
        completed: 1,
        retried: 0,
        released: 2,
        extended: 2,
        cancelled: 1,
        failed: 4,
        lease_expired: 3,
        ..Totals::default()
    };
    assert_eq!(overview(world, &queue).totals, expected);
    assert_eq!(overview(world, &queue).failed, 4, "failed items that are kept");
    let others = world.engine().overview().into_iter().find(|one| one.queue.name != queue);
    assert_eq!(others.expect("there is another").totals, Totals::default());
}

async fn commits_are_counted_and_measured(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    for _ in 0..10 {
        world.produce(&queue, items(30)).await;
    }
    let leased = world.lease(&queue, 1).await;
    world.complete(&queue, &leased[0]).await;
    let (stats, store) = (world.engine().commit_stats(), world.engine().store_stats());
    assert!(stats.commits >= 12 && stats.commits == store.commits, "{stats:?} {store:?}");
    for Histogram { bounds, buckets, count, .. } in [&stats.changes, &stats.latency_micros] {
        assert_eq!((buckets.len(), *count), (bounds.len() + 1, stats.commits));
        assert_eq!(buckets.iter().sum::<u64>(), stats.commits);
        assert!(bounds.is_sorted());
    }
    // The clock stands still, so no commit takes any time; a produce of thirty is a row and a body each, and the numbers.
    assert_eq!((stats.latency_micros.sum, stats.latency_micros.buckets[0]), (0, stats.commits));
    let of_thirty = stats.changes.bounds.partition_point(|bound| *bound < 61);
    assert_eq!(stats.changes.buckets[of_thirty], 10);
    assert!(stats.changes.sum >= 610, "{stats:?}");
}
