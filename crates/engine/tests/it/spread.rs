//! Several stores as one: where partitions go, and that each store fails by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_core::command::CreateQueue;
use windlass_core::id::PartitionId;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Opening, Spread};
use windlass_engine::store::{Store, StoreError};
use windlass_engine::{Engine, PartitionState, PartitionStats, RetryItem};

use crate::behaviour::crons::cron;
use crate::behaviour::retry_item;
use crate::faulty::{Fault, FaultyStore};
use crate::log_disk::MemDisk;
use crate::world::{ManualEnv, items, lease, queue_name};

struct Stores {
    env: Arc<ManualEnv>,
    first: Arc<FaultyStore>,
    second: Arc<FaultyStore>,
}

impl Stores {
    fn new() -> Self {
        let (first, second) = (Arc::default(), Arc::default());
        Self { env: Arc::new(ManualEnv::new()), first, second }
    }

    async fn open(&self, others: Vec<Member>) -> Engine {
        let spread = Spread::open(self.first.clone(), others).await;
        Engine::open(self.env.clone(), Arc::new(spread)).await.expect("the engine opens")
    }

    async fn open_both(&self) -> Engine {
        self.open(vec![Member::opened("second", self.second.clone())]).await
    }

    /// Lets backoffs pass until the partitions are as expected.
    async fn until(
        &self,
        engine: &Engine,
        queue: &QueueName,
        expected: impl Fn(&[PartitionStats]) -> bool,
    ) -> Vec<PartitionStats> {
        loop {
            let stats = engine.stats(queue).await.expect("stats").partitions;
            if expected(&stats) {
                return stats;
            }
            self.env.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) async fn create(engine: &Engine, name: &str, partitions: u32) -> QueueName {
    let name = queue_name(name);
    let create = CreateQueue { name: name.clone(), settings: Settings::default(), partitions };
    engine.create_queue(create).await.expect("the queue is made");
    name
}

pub(crate) async fn homes(engine: &Engine, queue: &QueueName) -> Vec<String> {
    let partitions = engine.stats(queue).await.expect("stats").partitions;
    partitions.iter().map(|partition| partition.store.to_string()).collect()
}

fn is_faulty(partition: &PartitionStats) -> bool {
    matches!(partition.state, PartitionState::Faulty { .. })
}

fn all_available(partitions: &[PartitionStats]) -> bool {
    partitions.iter().all(|partition| partition.state == PartitionState::Available)
}

#[tokio::test]
async fn partitions_go_to_the_store_with_the_fewest_and_stay_there() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let (first, second) = (create(&engine, "first", 3).await, create(&engine, "second", 2).await);
    assert_eq!(homes(&engine, &first).await, ["default", "second", "default"]);
    assert_eq!(homes(&engine, &second).await, ["second", "default"]);
    let held = stores.second.partitions().await.expect("read");
    assert_eq!(held, [PartitionId(2), PartitionId(4)]);
    engine.produce(&first, items(5)).await.expect("produced");
    engine.close().await;

    let engine = stores.open_both().await;
    assert_eq!(homes(&engine, &first).await, ["default", "second", "default"]);
    assert_eq!(engine.stats(&first).await.expect("stats").counts.waiting, 5);
}

#[tokio::test]
async fn while_one_store_fails_its_commits_the_other_goes_on_and_it_returns_by_itself() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let queue = create(&engine, "q", 2).await;
    stores.second.fail_all(Some(Fault::NotApplied));
    let mut produced = 0;
    for _ in 0..20 {
        engine.produce(&queue, items(2)).await.expect("the other one takes it");
        produced += 2;
        let leased = engine.lease(&queue, lease(1), Span::ZERO).await.expect("leased").accept();
        assert_eq!(leased.len(), 1);
        stores.env.advance(Duration::from_millis(100));
    }
    let partitions = stores.until(&engine, &queue, |partitions| is_faulty(&partitions[1])).await;
    let PartitionState::Faulty { error } = &partitions[1].state else { unreachable!("waited for it") };
    assert!(error.contains("broken on purpose"), "{error}");
    assert_eq!(partitions[0].state, PartitionState::Available);
    assert_eq!(partitions[0].counts.live(), produced);
    stores.second.fail_all(None);
    stores.until(&engine, &queue, all_available).await;
    for _ in 0..40 {
        engine.produce(&queue, items(2)).await.expect("produced");
    }
    let stats = engine.stats(&queue).await.expect("stats");
    assert!(stats.partitions[1].counts.waiting > 0, "it takes its share again");
}

/// A store that can be opened only when somebody says so.
fn reluctant(store: &Arc<FaultyStore>, willing: &Arc<AtomicBool>) -> Member {
    let (store, willing) = (Arc::clone(store), Arc::clone(willing));
    let opening: Opening = Box::new(move || {
        let opened: Result<Arc<dyn Store>, StoreError> = if willing.load(Ordering::SeqCst) {
            Ok(store.clone())
        } else {
            Err(StoreError::Unusable("not mounted".to_owned()))
        };
        Box::pin(std::future::ready(opened))
    });
    Member::new("second", opening)
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_makes_only_its_partitions_faulty_until_it_can() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let queue = create(&engine, "q", 2).await;
    for _ in 0..10 {
        engine.produce(&queue, items(1)).await.expect("produced");
    }
    engine.close().await;

    let willing = Arc::new(AtomicBool::new(false));
    let engine = stores.open(vec![reluctant(&stores.second, &willing)]).await;
    let stats = engine.stats(&queue).await.expect("stats");
    assert!(matches!(&stats.partitions[1].state, PartitionState::Faulty { error }
        if error.contains("`second`") && error.contains("not mounted")));
    assert_eq!((&*stats.partitions[1].store, stats.counts.waiting), ("second", 5));
    let open: BTreeMap<_, _> = engine.stores().into_iter().map(|store| (store.name, store.is_open)).collect();
    assert_eq!(open, BTreeMap::from([("default".into(), true), ("second".into(), false)]));
    // What is made meanwhile goes where it can be had.
    let made = create(&engine, "made", 3).await;
    assert_eq!(homes(&engine, &made).await, ["default"; 3]);

    willing.store(true, Ordering::SeqCst);
    stores.until(&engine, &queue, all_available).await;
    assert_eq!(engine.stats(&queue).await.expect("stats").counts.waiting, 10);
}

#[tokio::test]
async fn a_store_that_is_not_configured_any_more_keeps_what_it_has() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let queue = create(&engine, "q", 2).await;
    for _ in 0..10 {
        engine.produce(&queue, items(1)).await.expect("produced");
    }
    engine.close().await;

    let engine = stores.open(Vec::new()).await;
    let stats = engine.stats(&queue).await.expect("stats");
    assert!(matches!(&stats.partitions[1].state, PartitionState::Faulty { error }
        if error.contains("`second`") && error.contains("not configured")));
    engine.produce(&queue, items(1)).await.expect("the other one takes it");
    assert_eq!(stores.first.partitions().await.expect("read"), [PartitionId(0), PartitionId(1)]);
    engine.close().await;

    let engine = stores.open_both().await;
    assert_eq!(engine.stats(&queue).await.expect("stats").counts.waiting, 11);
}

#[tokio::test]
async fn what_is_left_of_a_deleted_queue_is_dropped_in_every_store() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let queue = create(&engine, "q", 4).await;
    let other = create(&engine, "other", 2).await;
    engine.delete_queue(&queue, true).await.expect("deleted");
    assert_eq!(stores.second.partitions().await.expect("read"), [PartitionId(6)]);
    assert_eq!(stores.first.partitions().await.expect("read"), [PartitionId(0), PartitionId(5)]);
    engine.produce(&other, items(3)).await.expect("produced");
    // And is not counted when the next ones are placed.
    let next = create(&engine, "next", 2).await;
    assert_eq!(homes(&engine, &next).await, ["default", "second"]);
}

#[tokio::test]
async fn a_queue_deleted_while_its_store_is_away_is_dropped_when_that_is_back() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let queue = create(&engine, "q", 2).await;
    engine.close().await;
    let engine = stores.open(Vec::new()).await;
    engine.delete_queue(&queue, true).await.expect("deleted");
    engine.close().await;
    assert_eq!(stores.second.partitions().await.expect("read"), [PartitionId(2)]);
    let engine = stores.open_both().await;
    assert!(stores.second.partitions().await.expect("read").is_empty());
    assert!(engine.queues().is_empty());
}

#[tokio::test]
async fn a_full_store_refuses_only_what_would_go_there() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let queue = create(&engine, "q", 2).await;
    *stores.second.full.lock().expect("not poisoned") = true;
    for _ in 0..6 {
        engine.produce(&queue, items(1)).await.expect("the other one takes it");
    }
    let stats = engine.stats(&queue).await.expect("stats");
    assert_eq!((stats.partitions[0].counts.waiting, stats.partitions[1].counts.waiting), (6, 0));
}

/// Several logs that are synced once an hour.
#[derive(Clone, Default)]
struct Relaxed {
    disks: [Arc<MemDisk>; 3],
}

impl Relaxed {
    async fn open(&self) -> Engine {
        let env = Arc::new(ManualEnv::new());
        let durability = Durability::Interval(Span::from_secs(3600));
        let options = LogOptions { durability, segment_bytes: 1 << 20, ..LogOptions::default() };
        let [first, second, third] = self.disks.clone();
        let open = async |disk| {
            Arc::new(LogStore::open(env.clone(), disk, options.clone()).await.expect("the log opens"))
        };
        let others =
            vec![Member::opened("second", open(second).await), Member::opened("third", open(third).await)];
        let spread = Spread::open(open(first).await, others).await;
        Engine::open(env.clone(), Arc::new(spread)).await.expect("the engine opens")
    }

    fn after_power_loss(&self) -> Self {
        Self { disks: self.disks.each_ref().map(|disk| disk.after_power_loss()) }
    }
}

/// Each store may lose its newest commits. What is old must not be lost on its way from one to another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_moved_from_one_store_to_another_outlives_a_power_loss() {
    let stores = Relaxed::default();
    let engine = stores.open().await;
    let (queue, dead) = (queue_name("q"), queue_name("dead"));
    let settings = Settings { dead_queue: Some("dead".into()), ..Settings::default() };
    for (name, settings) in [(&queue, settings), (&dead, Settings::default())] {
        let create = CreateQueue { name: name.clone(), settings, partitions: 1 };
        engine.create_queue(create).await.expect("the queue is made");
    }
    assert_eq!(homes(&engine, &dead).await, ["second"]);
    engine.produce(&queue, items(1)).await.expect("produced");
    let leased = engine.lease(&queue, lease(1), Span::ZERO).await.expect("leased").accept();
    let failed = RetryItem { dead: true, ..retry_item(&leased[0]) };
    engine.retry(&queue, vec![failed]).await.expect("judged");
    while engine.stats(&queue).await.expect("stats").moving > 0 {
        tokio::task::yield_now().await;
    }
    // Which syncs the first store, and with it that the item has gone.
    create(&engine, "another", 1).await;
    let engine = stores.after_power_loss().open().await;
    assert_eq!(engine.stats(&dead).await.expect("stats").counts.waiting, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crons_that_moved_from_one_store_to_another_outlive_a_power_loss() {
    const CRONS: usize = 12;
    let stores = Relaxed::default();
    let engine = stores.open().await;
    let queue = create(&engine, "q", 3).await;
    assert_eq!(homes(&engine, &queue).await, ["default", "second", "third"]);
    for index in 0..CRONS {
        engine.create_cron(&queue, cron(&format!("c{index}"), "@every 1h")).await.expect("it is made");
    }
    // After which they are durable.
    engine.close().await;
    let engine = stores.open().await;
    engine.rebalance(&queue, 2).await.expect("the third goes");
    while engine.stats(&queue).await.expect("stats").partitions.len() > 2 {
        tokio::task::yield_now().await;
    }
    let engine = stores.after_power_loss().open().await;
    assert_eq!(engine.crons(None, 100).await.expect("listed").len(), CRONS);
}
