//! Deletes, places and what is published, when the store fails in the middle.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::refusal::Refusal;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::CreateQueue;
use windlass_engine::env::Env;
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::{Engine, EngineError, Judged, Outcome, PartitionState, ProducedItem, Totals};

use crate::failures::{Broken, world, world_of};
use crate::faulty::Fault;
use crate::log_disk::MemDisk;
use crate::log_failure::ready_with;
use crate::world::{ManualEnv, completion, items, lease, queue_name};

type Produce = tokio::task::JoinHandle<Result<Judged<ProducedItem>, EngineError>>;

fn at_most(max_items: u64) -> Settings {
    Settings { max_items, ..Settings::default() }
}

impl Broken {
    fn set_down(&self, down: bool) {
        *self.store.down.lock().expect("not poisoned") = down;
    }

    /// Starts to produce and gives it every chance to come to an end, on this runtime's one thread.
    async fn producing(&self) -> Produce {
        let (engine, queue) = (self.engine.clone(), self.queue.clone());
        let task = tokio::spawn(async move { engine.produce(&queue, items(1)).await });
        turns().await;
        task
    }

    /// Lets time pass until the task is done.
    async fn outcome(&self, task: Produce) -> Result<Judged<ProducedItem>, EngineError> {
        while !task.is_finished() {
            self.env.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        task.await.expect("the task ran")
    }

    async fn produces(&self, count: usize) -> bool {
        match self.engine.produce(&self.queue, items(count)).await {
            Ok(_) => true,
            Err(EngineError::Overloaded { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn turns() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

fn is_not_applied<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::Unavailable { outcome: Outcome::NotApplied, .. }))
}

fn is_unknown<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::Unavailable { outcome: Outcome::Unknown, .. }))
}

#[tokio::test]
async fn a_queue_of_which_a_part_cannot_be_seen_is_not_deleted_without_force() {
    let world = world(2).await;
    world.store.fail_next(Fault::NotApplied);
    world.set_down(true);
    world.engine.produce(&world.queue, items(1)).await.expect("the other one takes it");
    let deleted = world.engine.delete_queue(&world.queue, false).await;
    assert!(is_not_applied(&deleted), "{deleted:?}");
    world.engine.produce(&world.queue, items(1)).await.expect("the queue is open again");
    world.set_down(false);
    assert_eq!(world.waiting().await, 2);
    let deleted = world.engine.delete_queue(&world.queue, false).await;
    assert!(matches!(deleted, Err(EngineError::Refused(Refusal::NotEmpty { live: 2 }))), "{deleted:?}");
}

#[tokio::test]
async fn who_comes_while_a_delete_is_under_way_waits_for_what_becomes_of_it() {
    let world = world(2).await;
    world.store.held.send_replace(true);
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let deleting = tokio::spawn(async move { engine.delete_queue(&queue, false).await });
    turns().await;
    let producing = world.producing().await;
    assert!(!producing.is_finished());
    world.store.held.send_replace(false);
    deleting.await.expect("the task ran").expect("deleted");
    let produced = producing.await.expect("the task ran");
    assert!(matches!(produced, Err(EngineError::Refused(Refusal::NoSuchQueue { .. }))), "{produced:?}");
}

#[tokio::test]
async fn a_delete_whose_caller_is_gone_goes_on_all_the_same() {
    let world = world(1).await;
    world.store.held.send_replace(true);
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let deleting = tokio::spawn(async move { engine.delete_queue(&queue, false).await });
    turns().await;
    deleting.abort();
    let producing = world.producing().await;
    world.store.held.send_replace(false);
    let produced = producing.await.expect("the task ran");
    assert!(matches!(produced, Err(EngineError::Refused(Refusal::NoSuchQueue { .. }))), "{produced:?}");
}

#[tokio::test]
async fn after_a_delete_of_unknown_outcome_nobody_produces_before_it_is_known() {
    for (fault, deleted) in [(Fault::UnknownDone, true), (Fault::UnknownLost, false)] {
        let world = world(2).await;
        // Both partitions are closed before.
        world.store.fail_after(2, fault);
        world.set_down(true);
        let answer = world.engine.delete_queue(&world.queue, false).await;
        assert!(is_unknown(&answer), "{answer:?}");
        let producing = world.producing().await;
        assert!(!producing.is_finished());
        world.set_down(false);
        let produced = world.outcome(producing).await;
        match produced {
            Ok(_) => assert!(!deleted),
            Err(EngineError::Refused(Refusal::NoSuchQueue { .. })) => assert!(deleted),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn who_waits_for_a_delete_does_not_hold_up_the_close() {
    let world = world(1).await;
    world.store.fail_after(1, Fault::UnknownDone);
    world.set_down(true);
    assert!(is_unknown(&world.engine.delete_queue(&world.queue, false).await));
    let producing = world.producing().await;
    world.engine.close().await;
    let produced = producing.await.expect("the task ran");
    assert!(is_not_applied(&produced), "{produced:?}");
}

#[tokio::test]
async fn a_produce_that_failed_has_given_its_place_back_when_it_is_answered() {
    for fault in [Fault::NotApplied, Fault::UnknownLost] {
        let world = world_of(1, at_most(3)).await;
        assert!(world.produces(2).await);
        world.store.fail_next(fault);
        assert!(is_not_applied(&world.engine.produce(&world.queue, items(1)).await));
        assert_eq!(world.waiting().await, 2);
        assert!(world.produces(1).await);
        assert!(!world.produces(1).await);
    }
}

#[tokio::test]
async fn a_produce_of_unknown_outcome_that_made_it_has_its_place() {
    let world = world_of(2, at_most(3)).await;
    world.store.fail_next(Fault::UnknownDone);
    world.set_down(true);
    assert!(is_unknown(&world.engine.produce(&world.queue, items(2)).await));
    // The other partition serves; what the first one may hold is not known, and counts.
    assert!(!world.produces(2).await);
    world.set_down(false);
    assert_eq!(world.waiting().await, 2);
    assert!(!world.produces(2).await);
    assert!(world.produces(1).await);
}

#[tokio::test]
async fn what_a_faulty_partition_holds_counts_against_max_items() {
    let world = world_of(2, at_most(4)).await;
    assert!(world.produces(3).await);
    let leased = world.engine.lease(&world.queue, lease(3), Span::ZERO).await.expect("leased").accept();
    world.store.fail_next(Fault::NotApplied);
    world.set_down(true);
    let done = leased.iter().map(|item| completion(item.held())).collect();
    assert!(world.engine.complete(&world.queue, done).await.expect("judged").results[0].is_err());
    assert!(!world.produces(2).await);
    assert!(world.produces(1).await);
}

#[tokio::test]
async fn an_abandoned_produce_keeps_its_place_until_it_is_known_what_became_of_it() {
    let world = world_of(1, at_most(2)).await;
    world.store.held.send_replace(true);
    // The first is in a commit that does not end, the second in the mailbox.
    let (first, second) = (world.producing().await, world.producing().await);
    for task in [first, second] {
        task.abort();
        assert!(task.await.expect_err("aborted").is_cancelled());
    }
    assert!(!world.produces(1).await);
    world.store.held.send_replace(false);
    // The first was done; for the second, whose caller was gone before its turn came, nothing was.
    assert_eq!(world.waiting().await, 1);
    assert!(world.produces(1).await);
    assert!(!world.produces(1).await);
}

#[tokio::test]
async fn totals_count_what_is_durable_and_outlive_the_writer() {
    let world = world(1).await;
    let produced = |count| Totals { produced: count, ..Totals::default() };
    world.engine.produce(&world.queue, items(3)).await.expect("produced");
    for (fault, total) in [(Fault::NotApplied, 3), (Fault::UnknownLost, 3), (Fault::UnknownDone, 4)] {
        world.store.fail_next(fault);
        let producing = world.producing().await;
        assert_eq!(world.outcome(producing).await.is_ok(), fault == Fault::UnknownDone);
        world.waiting().await;
        assert_eq!(world.engine.overview()[0].totals, produced(total), "{fault:?}");
    }
    // Nobody could be told, and it was done all the same.
    world.store.fail_next(Fault::UnknownDone);
    world.set_down(true);
    let producing = world.producing().await;
    assert!(is_unknown(&world.outcome(producing).await));
    assert_eq!(world.engine.overview()[0].totals, produced(4));
    world.set_down(false);
    assert_eq!(world.waiting().await, 5);
    assert_eq!(world.engine.overview()[0].totals, produced(5));
}

#[tokio::test]
async fn a_faulty_partition_tells_nothing_of_its_items() {
    let world = world(2).await;
    for _ in 0..2 {
        world.engine.produce(&world.queue, items(3)).await.expect("produced");
    }
    world.store.fail_next(Fault::NotApplied);
    world.set_down(true);
    world.engine.produce(&world.queue, items(1)).await.expect("the other one takes it");
    let told = &world.engine.overview()[0];
    assert_eq!((told.counts.waiting, told.totals.produced), (4, 7));
    let faulty = |state: &PartitionState| matches!(state, PartitionState::Faulty { .. });
    assert_eq!(told.partitions.iter().filter(|(_, state)| faulty(state)).count(), 1);
    world.set_down(false);
    assert_eq!(world.waiting().await, 7);
    assert_eq!(world.engine.overview()[0].counts.waiting, 7);
}

#[tokio::test]
async fn a_commit_that_failed_is_not_measured() {
    let world = world(1).await;
    let before = world.engine.commit_stats().commits;
    world.store.fail_next(Fault::NotApplied);
    assert!(is_not_applied(&world.engine.produce(&world.queue, items(1)).await));
    assert_eq!(world.engine.commit_stats().commits, before);
}

/// With relaxed durability a failed write takes back what was not synced yet. What there is in queues would go with
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_went_back_has_the_queues_it_answered_for() {
    const SEGMENT: u32 = 1 << 20;
    const ENOUGH: Duration = Duration::from_secs(24 * 3600);
    let env = Arc::new(ManualEnv::new());
    let disk: Arc<MemDisk> = Arc::default();
    let durability = Durability::Interval(Span::from_secs(3600));
    let options = LogOptions { durability, segment_bytes: SEGMENT, ..LogOptions::default() };
    let open = async |disk: Arc<MemDisk>| {
        let store = LogStore::open(env.clone(), disk, options.clone()).await.expect("the log opens");
        Engine::open(env.clone(), Arc::new(store)).await.expect("the engine opens")
    };
    let engine = open(disk.clone()).await;
    let queue = queue_name("q");
    let create = CreateQueue::new(queue.clone(), Settings::default(), 1);
    engine.create_queue(create).await.expect("the queue is made");
    engine.rebalance(&queue, 2).await.expect("it has two partitions");
    // Segments are made ready ahead: the fault is to strike a commit.
    ready_with(&disk, SEGMENT, || engine.store_stats().bytes_stored).await;
    disk.faults().writes.store(1, Ordering::SeqCst);
    engine.produce(&queue, items(1)).await.expect_err("the write failed");
    let (producer, name, clock) = (engine.clone(), queue.clone(), env.clone());
    let produced = tokio::spawn(async move {
        while clock.boot() < ENOUGH {
            if let Ok(produced) = producer.produce(&name, items(1)).await {
                return produced.results[0].as_ref().expect("produced").id;
            }
        }
        panic!("nothing can be produced any more");
    });
    while !produced.is_finished() {
        env.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    engine.close().await;
    let engine = open(disk.after_power_loss()).await;
    engine.get(produced.await.expect("the task ran")).await.expect("it is there");
    assert_eq!(engine.queue_info(&queue).expect("it is there").width(), 2);
}
