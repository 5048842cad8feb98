//! Several stores as one: where partitions go, and that each store fails by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_core::limits::Invalid;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Key, Numbers, QueueName, Row, Stored};
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, RetryItem, UpdateQueue};
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Opening, Spread};
use windlass_engine::store::{Batch, Store, StoreError};
use windlass_engine::{Engine, EngineError, PartitionState, PartitionStats};

use crate::behaviour::crons::{cron, namespace};
use crate::behaviour::{is_refused, retry_item};
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
    let create = CreateQueue::new(name.clone(), Settings::default(), partitions);
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
    Member::new("second", "log", opening)
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

/// Puts something under a number into a store, as a server with another registry did.
async fn hold(store: &FaultyStore, partition: u32) {
    let partition = PartitionId(partition);
    let acquired = store.acquire(partition).await.expect("acquired");
    let changes = vec![Change::Put(Row::Numbers(Numbers { item: 7, ..Numbers::default() }))];
    let sequence = acquired.sequence + 1;
    let batch =
        Batch { partition, epoch: acquired.epoch, sequence, now: acquired.now, changes, may_block: true };
    store.commit(batch).await.expect("committed");
}

/// As a salvage that could not read the row leaves it.
async fn forget_last_number(store: &FaultyStore) {
    let partition = PartitionId::REGISTRY;
    let acquired = store.acquire(partition).await.expect("acquired");
    let changes = vec![Change::Remove(Key::Partitions)];
    let sequence = acquired.sequence + 1;
    let batch =
        Batch { partition, epoch: acquired.epoch, sequence, now: acquired.now, changes, may_block: true };
    store.commit(batch).await.expect("committed");
}

#[tokio::test]
async fn numbers_that_queues_have_are_not_given_again_although_the_registry_forgot_the_last() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    create(&engine, "q", 3).await;
    engine.close().await;
    forget_last_number(&stores.first).await;
    let engine = stores.open_both().await;
    let made = create(&engine, "made", 1).await;
    assert_eq!(engine.queue_info(&made).expect("it is there").partitions, [PartitionId(4)]);
}

fn stored(partition: u32, store: &str) -> Stored {
    Stored::new(PartitionId(partition), &store.into())
}

#[tokio::test]
async fn the_same_number_in_another_store_is_neither_served_nor_dropped_as_the_named_one() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let queue = create(&engine, "q", 2).await;
    assert_eq!(homes(&engine, &queue).await, ["default", "second"]);
    let other = create(&engine, "other", 1).await;
    engine.close().await;
    hold(&stores.first, 2).await;
    hold(&stores.second, 0).await;
    let engine = stores.open_both().await;
    assert_eq!(engine.unclaimed(), [stored(0, "second"), stored(2, "default")]);
    let named = Refusal::PartitionNamed { queue: "q".into() };
    assert!(is_refused(&engine.adopt(&other, PartitionId(2), None).await, &named));
    engine.delete_queue(&queue, true).await.expect("deleted");
    assert_eq!(stores.first.partitions().await.expect("read"), [0, 2, 3].map(PartitionId));
    assert_eq!(stores.second.partitions().await.expect("read"), [PartitionId(0)]);
    let refused = engine.adopt(&other, PartitionId(2), Some("second".into())).await;
    assert!(is_refused(&refused, &Refusal::NotUnclaimed));
    engine.adopt(&other, PartitionId(2), Some("default".into())).await.expect("adopted");
    let refused = engine.adopt(&other, PartitionId(0), None).await;
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::Invalid(_)))), "{refused:?}");
    engine.drop_unclaimed(PartitionId(0), None, false).await.expect("dropped");
    assert_eq!(engine.unclaimed(), []);
    assert_eq!(stores.first.partitions().await.expect("read"), [0, 2, 3].map(PartitionId));
    assert_eq!(stores.second.partitions().await.expect("read"), []);
}

#[tokio::test]
async fn an_unclaimed_number_in_two_stores_is_named_with_its_store() {
    let stores = Stores::new();
    for store in [&stores.first, &stores.second] {
        hold(store, 5).await;
    }
    let engine = stores.open_both().await;
    let queue = create(&engine, "q", 1).await;
    let refused = engine.adopt(&queue, PartitionId(5), None).await;
    assert!(
        matches!(&refused, Err(EngineError::Refused(Refusal::Invalid(Invalid { field: "store", .. })))),
        "{refused:?}"
    );
    assert_eq!(
        engine.describe_unclaimed(None, 1).await.expect("listed").len(),
        2,
        "a number is not cut in two"
    );
    engine.drop_unclaimed(PartitionId(5), Some("second".into()), false).await.expect("dropped");
    assert_eq!(stores.first.partitions().await.expect("read"), [0, 5, 6].map(PartitionId));
    engine.adopt(&queue, PartitionId(5), None).await.expect("the only one left");
    assert_eq!(homes(&engine, &queue).await, ["default", "default"]);
}

#[tokio::test]
async fn a_store_that_opens_late_is_looked_at_before_numbers_and_stores_are_given_out() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let queue = create(&engine, "q", 2).await;
    engine.close().await;
    hold(&stores.second, 9).await;
    let willing = Arc::new(AtomicBool::new(false));
    let engine = stores.open(vec![reluctant(&stores.second, &willing)]).await;
    assert_eq!(engine.unclaimed(), []);
    willing.store(true, Ordering::SeqCst);
    stores.until(&engine, &queue, all_available).await;
    let made = create(&engine, "made", 2).await;
    let numbers = engine.queue_info(&made).expect("it is there").partitions;
    assert_eq!(numbers, [10, 11].map(PartitionId));
    assert_eq!(engine.unclaimed(), [stored(9, "second")]);
}

#[tokio::test]
async fn a_store_that_opens_late_is_searched_and_its_drops_are_carried_out_without_a_call() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let (gone, queue) = (create(&engine, "gone", 2).await, create(&engine, "q", 2).await);
    engine.close().await;
    hold(&stores.second, 9).await;
    let willing = Arc::new(AtomicBool::new(false));
    let engine = stores.open(vec![reluctant(&stores.second, &willing)]).await;
    engine.delete_queue(&gone, true).await.expect("deleted");
    assert_eq!(stores.second.partitions().await.expect("read"), [2, 4, 9].map(PartitionId));
    willing.store(true, Ordering::SeqCst);
    stores.until(&engine, &queue, all_available).await;
    while engine.unclaimed().is_empty() || stores.second.partitions().await.expect("read").len() > 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.unclaimed(), [stored(9, "second")]);
    assert_eq!(stores.second.partitions().await.expect("read"), [4, 9].map(PartitionId));
}

#[tokio::test]
async fn a_drop_that_fails_is_tried_again_and_leaves_others_alone() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let queue = create(&engine, "q", 2).await;
    stores.second.drops_fail.store(true, Ordering::SeqCst);
    engine.delete_queue(&queue, true).await.expect("deleted");
    assert_eq!(stores.first.partitions().await.expect("read"), [PartitionId(0)]);
    assert_eq!(stores.second.partitions().await.expect("read"), [PartitionId(2)]);
    assert_eq!(engine.unclaimed(), []);
    let other = create(&engine, "other", 1).await;
    engine.rebalance(&other, 3).await.expect("other queues do not wait for that disk");
    engine.delete_queue(&other, true).await.expect("deleted");
    stores.second.drops_fail.store(false, Ordering::SeqCst);
    while !stores.second.partitions().await.expect("read").is_empty() {
        stores.env.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(stores.first.partitions().await.expect("read"), [PartitionId(0)]);
}

#[tokio::test]
async fn creating_a_queue_does_not_list_the_partitions_of_stores() {
    let stores = Stores::new();
    let engine = stores.open_both().await;
    let before = stores.first.listings.load(Ordering::SeqCst);
    for number in 0..5 {
        let queue = create(&engine, &format!("q{number}"), 2).await;
        engine.delete_queue(&queue, true).await.expect("deleted");
    }
    assert_eq!(stores.first.listings.load(Ordering::SeqCst), before);
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
        let create = CreateQueue::new(name.clone(), settings, 1);
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

/// The first store comes from an older backup than the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_newer_than_a_restored_first_store_are_kept_and_can_be_adopted() {
    let stores = Relaxed::default();
    let engine = stores.open().await;
    let old = create(&engine, "old", 3).await;
    for _ in 0..30 {
        engine.produce(&old, items(1)).await.expect("produced");
    }
    engine.close().await;
    let backup = stores.disks[0].after_power_loss();
    let engine = stores.open().await;
    let new = create(&engine, "new", 3).await;
    assert_eq!(homes(&engine, &new).await, ["default", "second", "third"]);
    for _ in 0..30 {
        engine.produce(&new, items(1)).await.expect("produced");
    }
    engine.close().await;

    let [_, second, third] = stores.after_power_loss().disks;
    let restored = Relaxed { disks: [backup, second, third] };
    let engine = restored.open().await;
    assert_eq!(engine.stats(&old).await.expect("stats").counts.waiting, 30);
    assert_eq!(engine.unclaimed(), [stored(5, "second"), stored(6, "third")]);
    let new = create(&engine, "new", 1).await;
    assert_eq!(engine.queue_info(&new).expect("it is there").partitions, [PartitionId(7)]);
    for partition in [5, 6] {
        engine.adopt(&new, PartitionId(partition), None).await.expect("adopted");
    }
    // The ten that were in the first store are older than its backup.
    let leased = engine.lease(&new, lease(100), Span::ZERO).await.expect("leased").accept();
    assert_eq!(leased.len(), 20);
    assert_eq!(homes(&engine, &new).await, ["default", "second", "third"]);
}

/// A registry that is older than its partitions counts all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_newer_than_a_restored_registry_take_over_its_settings() {
    let stores = Relaxed::default();
    let engine = stores.open().await;
    let queue = create(&engine, "q", 2).await;
    assert_eq!(homes(&engine, &queue).await, ["default", "second"]);
    engine.close().await;
    let backup = stores.disks[0].after_power_loss();
    let engine = stores.open().await;
    let change = SettingsChange { lease_timeout: Some(Span::from_secs(900)), ..SettingsChange::default() };
    engine.update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
    for _ in 0..10 {
        engine.produce(&queue, items(1)).await.expect("produced");
    }
    engine.close().await;
    let [_, second, third] = stores.after_power_loss().disks;
    let engine = Relaxed { disks: [backup, second, third] }.open().await;
    let settings = engine.queue_info(&queue).expect("it is there").settings;
    let leased = engine.lease(&queue, lease(100), Span::ZERO).await.expect("leased").accept();
    assert_eq!(leased.len(), 5);
    for item in leased {
        assert_eq!(item.leased.deadline, engine.now() + settings.lease_timeout);
    }
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
    assert_eq!(engine.crons(&namespace(), None, 100).await.expect("listed").len(), CRONS);
}
