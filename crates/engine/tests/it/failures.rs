//! What callers are told when the store fails, and that it goes on afterwards.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, UpdateQueue};
use windlass_engine::env::Env;
use windlass_engine::{Engine, EngineError, Outcome, PartitionState};

use crate::faulty::{Fault, FaultyStore};
use crate::overload::first_poll;
use crate::world::{ManualEnv, completion, items, lease, queue_name};

pub(crate) struct Broken {
    pub(crate) env: Arc<ManualEnv>,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) engine: Engine,
    pub(crate) queue: QueueName,
}

pub(crate) async fn world(partitions: u32) -> Broken {
    world_of(partitions, Settings::default()).await
}

pub(crate) async fn world_of(partitions: u32, settings: Settings) -> Broken {
    let env = Arc::new(ManualEnv::new());
    let store = Arc::new(FaultyStore::default());
    let engine = Engine::open(env.clone(), store.clone()).await.expect("the engine opens");
    let queue = queue_name("q");
    let create = CreateQueue::new(queue.clone(), settings, partitions);
    engine.create_queue(create).await.expect("the queue is made");
    Broken { env, store, engine, queue }
}

impl Broken {
    /// How many wait, once every partition serves again.
    pub(crate) async fn waiting(&self) -> u64 {
        loop {
            let stats = self.engine.stats(&self.queue).await.expect("stats");
            if stats.partitions.iter().all(|partition| partition.state == PartitionState::Available) {
                return stats.counts.waiting;
            }
            self.env.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_commit_refused_by_the_store_is_told_as_not_applied_and_leaves_nothing() {
    let world = world(1).await;
    world.store.fail_next(Fault::NotApplied);
    let error = world.engine.produce(&world.queue, items(3)).await.expect_err("it failed");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error}");
    assert_eq!(world.waiting().await, 0);
}

#[tokio::test]
async fn a_lost_commit_is_told_as_not_applied_once_the_truth_is_read_back() {
    let world = world(1).await;
    world.store.fail_next(Fault::UnknownLost);
    let error = world.engine.produce(&world.queue, items(3)).await.expect_err("it failed");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error}");
    assert_eq!(world.waiting().await, 0);
}

#[tokio::test]
async fn a_commit_that_made_it_is_told_as_done_although_it_looked_failed() {
    let world = world(1).await;
    world.store.fail_next(Fault::UnknownDone);
    let produced = world.engine.produce(&world.queue, items(3)).await.expect("it made it");
    assert_eq!(produced.results.len(), 3);
    assert_eq!(world.waiting().await, 3);
}

#[tokio::test]
async fn while_the_truth_cannot_be_read_back_the_outcome_is_unknown() {
    let world = world(1).await;
    world.store.fail_next(Fault::UnknownDone);
    *world.store.down.lock().expect("not poisoned") = true;
    let error = world.engine.produce(&world.queue, items(3)).await.expect_err("nobody knows");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::Unknown, .. }), "{error}");
    let error = world.engine.produce(&world.queue, items(1)).await.expect_err("faulty");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error}");
    *world.store.down.lock().expect("not poisoned") = false;
    assert_eq!(world.waiting().await, 3);
}

#[tokio::test]
async fn the_router_goes_around_a_partition_that_fails() {
    let world = world(2).await;
    world.store.fail_next(Fault::NotApplied);
    let produced = world.engine.produce(&world.queue, items(3)).await.expect("the other one takes it");
    assert_eq!(produced.results.len(), 3);
    assert_eq!(world.waiting().await, 3);
}

#[tokio::test]
async fn a_waiting_lease_outlives_the_commit_that_should_have_granted_it() {
    let world = world(1).await;
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let waiting = tokio::spawn(async move { engine.lease(&queue, lease(5), Span::from_secs(3600)).await });
    while world.engine.stats(&world.queue).await.expect("stats").lease_waiters == 0 {
        tokio::task::yield_now().await;
    }
    world.store.fail_next(Fault::UnknownLost);
    assert!(world.engine.produce(&world.queue, items(1)).await.is_err());
    world.waiting().await;
    world.engine.produce(&world.queue, items(2)).await.expect("produced");
    let granted = waiting.await.expect("the task ran").expect("leased").accept();
    assert_eq!(granted.iter().map(|item| item.leased.attempts).collect::<Vec<_>>(), [1, 1]);
}

/// A partition that is slow to answer would otherwise delay the question to the next one.
#[tokio::test]
async fn stats_ask_every_partition_before_the_first_has_answered() {
    let world = world(2).await;
    let count = |stats: &windlass_engine::QueueStats| -> Vec<u64> {
        stats.partitions.iter().map(|partition| partition.counts.waiting).collect()
    };
    let begun = *world.store.committing.borrow();
    world.store.held.send_replace(true);
    let mut produces = Vec::new();
    let mut asked = Vec::new();
    for number in 1..=2 {
        let (engine, queue) = (world.engine.clone(), world.queue.clone());
        produces.push(tokio::spawn(async move { engine.produce(&queue, items(1)).await }));
        let mut commits = world.store.committing.subscribe();
        commits.wait_for(|now| *now == begun + number).await.expect("the store is there");
        let mut stats = Box::pin(world.engine.stats(&world.queue));
        assert!(first_poll(stats.as_mut()).await.is_none(), "a commit is under way");
        asked.push(stats);
    }
    world.store.held.send_replace(false);
    let mut seen = Vec::new();
    for stats in asked {
        seen.push(count(&stats.await.expect("stats")));
    }
    for produce in produces {
        produce.await.expect("the task ran").expect("produced");
    }
    assert_eq!(seen, [[1, 0], [1, 1]], "the second partition was asked before its item came");
}

#[tokio::test]
async fn a_full_store_refuses_to_grow_and_still_ends_items() {
    let world = world(1).await;
    world.engine.produce(&world.queue, items(2)).await.expect("produced");
    *world.store.full.lock().expect("not poisoned") = true;
    let error = world.engine.produce(&world.queue, items(1)).await.expect_err("full");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error}");
    let leased = world.engine.lease(&world.queue, lease(2), Span::ZERO).await.expect("leased").accept();
    let done = leased.iter().map(|item| completion(item.held())).collect();
    assert!(
        world.engine.complete(&world.queue, done).await.expect("judged").results.iter().all(Result::is_ok)
    );
    *world.store.full.lock().expect("not poisoned") = false;
    world.engine.produce(&world.queue, items(1)).await.expect("there is room again");
}

#[tokio::test]
async fn a_queue_whose_creation_had_an_unknown_outcome_runs_once_the_registry_is_back() {
    let world = world(1).await;
    world.store.fail_next(Fault::UnknownDone);
    *world.store.down.lock().expect("not poisoned") = true;
    let name = queue_name("second");
    let create = CreateQueue::new(name.clone(), Settings::default(), 2);
    let error = world.engine.create_queue(create).await.expect_err("nobody knows");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::Unknown, .. }), "{error}");
    *world.store.down.lock().expect("not poisoned") = false;
    while world.engine.produce(&name, items(1)).await.is_err() {
        world.env.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn callers_who_come_while_a_commit_is_under_way_share_the_next_one() {
    let world = world(1).await;
    let before = world.engine.store_stats().commits;
    world.store.held.send_replace(true);
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let (engine, queue) = (world.engine.clone(), world.queue.clone());
            tokio::spawn(async move {
                engine.produce(&queue, items(1)).await.expect("produced").commits[0].sequence
            })
        })
        .collect();
    // On this runtime's one thread everybody has had a turn when we are back: the first in the commit that is held,
    // the others at the mailbox.
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    world.store.held.send_replace(false);
    let mut sequences = Vec::new();
    for caller in callers {
        sequences.push(caller.await.expect("the task ran"));
    }
    sequences.dedup();
    assert!(sequences.len() <= 2, "{sequences:?}");
    assert_eq!(world.engine.store_stats().commits - before, sequences.len() as u64);
}

#[tokio::test]
async fn a_grant_whose_outcome_was_unknown_and_that_made_it_is_given_back() {
    let world = world(1).await;
    world.engine.produce(&world.queue, items(2)).await.expect("produced");
    world.store.fail_next(Fault::UnknownDone);
    *world.store.down.lock().expect("not poisoned") = true;
    assert!(world.engine.lease(&world.queue, lease(2), Span::ZERO).await.is_err());
    *world.store.down.lock().expect("not poisoned") = false;
    while world.waiting().await < 2 {
        tokio::task::yield_now().await;
    }
    let leased = world.engine.lease(&world.queue, lease(2), Span::ZERO).await.expect("leased").accept();
    assert_eq!(leased.iter().map(|item| item.leased.attempts).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn a_dropped_grant_comes_back_also_when_the_commit_that_should_release_it_fails() {
    let world = world(1).await;
    world.engine.produce(&world.queue, items(2)).await.expect("produced");
    let grant = world.engine.lease(&world.queue, lease(2), Span::ZERO).await.expect("leased");
    world.store.fail_next(Fault::NotApplied);
    drop(grant);
    while world.waiting().await < 2 {
        tokio::task::yield_now().await;
    }
    let leased = world.engine.lease(&world.queue, lease(2), Span::ZERO).await.expect("leased").accept();
    assert_eq!(leased.iter().map(|item| item.leased.attempts).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn a_queue_runs_although_whoever_made_it_did_not_wait() {
    let world = world(1).await;
    world.store.held.send_replace(true);
    let name = queue_name("second");
    let create = CreateQueue::new(name.clone(), Settings::default(), 2);
    let engine = world.engine.clone();
    let making = tokio::spawn(async move { engine.create_queue(create).await });
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
    making.abort();
    assert!(making.await.expect_err("aborted").is_cancelled());
    world.store.held.send_replace(false);
    while world.engine.produce(&name, items(1)).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_lease_that_breaks_a_limit_is_refused() {
    let world = world(1).await;
    world.engine.produce(&world.queue, items(1)).await.expect("produced");
    for batch_size in [0, 1001] {
        let error = world.engine.lease(&world.queue, lease(batch_size), Span::from_secs(60)).await;
        assert!(matches!(error, Err(EngineError::Refused(Refusal::Invalid(_)))), "{error:?}");
    }
    assert_eq!(world.waiting().await, 1);
}

#[tokio::test]
async fn settings_that_no_partition_could_take_at_once_are_taken_later() {
    let world = world(1).await;
    world.engine.produce(&world.queue, items(1)).await.expect("produced");
    let change = SettingsChange { lease_timeout: Some(Span::from_secs(7)), ..SettingsChange::default() };
    *world.store.down.lock().expect("not poisoned") = true;
    world.store.fail_next(Fault::NotApplied);
    assert!(world.engine.produce(&world.queue, items(1)).await.is_err());
    let update = UpdateQueue::new(world.queue.clone(), change);
    world.engine.update_queue(update).await.expect("the registry has it");
    *world.store.down.lock().expect("not poisoned") = false;
    world.waiting().await;
    let leased = world.engine.lease(&world.queue, lease(1), Span::ZERO).await.expect("leased").accept();
    assert!(leased[0].leased.deadline <= world.env.wall() + Span::from_secs(7));
}
