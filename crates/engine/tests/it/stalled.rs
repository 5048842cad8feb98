//! A partition whose commits do not come to an end holds up changes of its own queue, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use windlass_core::row::QueueName;
use windlass_core::rule::Stop;
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, SetRule, UpdateQueue};
use windlass_engine::{Engine, EngineError, Outcome};

use crate::behaviour::crons::{cron, named};
use crate::faulty::{Fault, FaultyStore};
use crate::world::{ManualEnv, items, lease, queue_name};

struct Bed {
    env: Arc<ManualEnv>,
    store: Arc<FaultyStore>,
    engine: Engine,
}

fn pause(queue: &QueueName) -> SetRule {
    SetRule { queue: queue.clone(), kind: None, stop: Stop::Pause, reason: None, until: None }
}

pub(crate) async fn turns() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

impl Bed {
    async fn new() -> Self {
        let (env, store) = (Arc::new(ManualEnv::new()), Arc::new(FaultyStore::default()));
        let engine = Engine::open(env.clone(), store.clone()).await.expect("the engine opens");
        Self { env, store, engine }
    }

    async fn queue(&self, name: &str) -> QueueName {
        let create = CreateQueue::new(queue_name(name), Settings::default(), 1);
        self.engine.create_queue(create).await.expect("the queue is made");
        queue_name(name)
    }

    /// Stalls the only partition of a queue, and a pause of the queue with it.
    async fn stall(&self, queue: &QueueName) -> JoinHandle<Result<(), EngineError>> {
        let partition = self.engine.queue_info(queue).expect("it is there").partitions[0];
        self.store.stalled.send_replace(Some(partition));
        let pausing = self.spawn_pause(queue);
        turns().await;
        assert!(!pausing.is_finished(), "the partition has not taken the rule over");
        pausing
    }

    fn spawn_pause(&self, queue: &QueueName) -> JoinHandle<Result<(), EngineError>> {
        let (engine, set) = (self.engine.clone(), pause(queue));
        tokio::spawn(async move { engine.set_rule(set).await.map(|_rule| ()) })
    }
}

#[tokio::test]
async fn everything_else_goes_on_while_one_partition_stalls() {
    let bed = Bed::new().await;
    let (stalled, other) = (bed.queue("stalled").await, bed.queue("other").await);
    let pausing = bed.stall(&stalled).await;
    let engine = &bed.engine;
    engine.set_rule(pause(&other)).await.expect("the other queue is paused");
    let third = bed.queue("third").await;
    engine.create_cron(&third, cron("tick", "@every 10s")).await.expect("a cron is made");
    engine.delete_cron(&named("tick")).await.expect("a cron is deleted");
    let change = SettingsChange { max_attempts: Some(7), ..SettingsChange::default() };
    engine.update_queue(UpdateQueue::new(third.clone(), change)).await.expect("a queue is changed");
    engine.rebalance(&third, 3).await.expect("a queue is rebalanced");
    engine.produce(&third, items(1)).await.expect("produced");
    assert_eq!(engine.lease(&third, lease(1), Span::ZERO).await.expect("leased").accept().len(), 1);
    engine.delete_queue(&third, true).await.expect("a queue is deleted");
    engine.delete_queue(&other, false).await.expect("an empty queue is deleted");
    assert!(!pausing.is_finished());
    bed.store.stalled.send_replace(None);
    pausing.await.expect("the task ran").expect("paused");
    engine.close().await;
}

#[tokio::test]
async fn a_change_whose_caller_left_before_it_began_is_not_made() {
    let bed = Bed::new().await;
    let queue = bed.queue("q").await;
    let partition = bed.engine.queue_info(&queue).expect("it is there").partitions[0];
    bed.store.stalled.send_replace(Some(partition));
    let (engine, name) = (bed.engine.clone(), queue.clone());
    let change = SettingsChange { max_attempts: Some(7), ..SettingsChange::default() };
    let first = tokio::spawn(async move { engine.update_queue(UpdateQueue::new(name, change)).await });
    turns().await;
    let second = bed.spawn_pause(&queue);
    turns().await;
    second.abort();
    bed.store.stalled.send_replace(None);
    first.await.expect("the task ran").expect("changed");
    turns().await;
    assert_eq!(bed.engine.rules(None).await.expect("told").len(), 0, "nobody waits for the pause");
}

#[tokio::test]
async fn a_server_that_shuts_down_makes_no_change_that_waits_for_its_turn() {
    let bed = Bed::new().await;
    let queue = bed.queue("q").await;
    let first = bed.stall(&queue).await;
    let second = bed.spawn_pause(&queue);
    turns().await;
    let engine = bed.engine.clone();
    let closing = tokio::spawn(async move { engine.close().await });
    let second = second.await.expect("the task ran");
    let not_applied = matches!(second, Err(EngineError::Unavailable { outcome: Outcome::NotApplied, .. }));
    assert!(not_applied, "{second:?}");
    bed.store.stalled.send_replace(None);
    first.await.expect("the task ran").expect("what was begun is finished");
    closing.await.expect("the engine closes");
}

#[tokio::test]
async fn a_delete_of_unknown_outcome_holds_up_no_other_delete() {
    for fault in [Fault::UnknownDone, Fault::UnknownLost] {
        let bed = Bed::new().await;
        let dead = bed.queue("dead").await;
        let to_dead = Settings { max_attempts: 1, dead_queue: Some("dead".into()), ..Settings::default() };
        let create = CreateQueue::new(queue_name("q"), to_dead, 1);
        bed.engine.create_queue(create).await.expect("the queue is made");
        // The delete is committed after `dead` was closed, or not: nobody knows while the registry is down.
        bed.store.fail_after(1, fault);
        *bed.store.down.lock().expect("not poisoned") = true;
        assert!(bed.engine.delete_queue(&dead, false).await.is_err());
        // Something is on its way to the queue of which nobody knows whether it is there.
        let queue = queue_name("q");
        bed.engine.produce(&queue, items(1)).await.expect("produced");
        bed.env.advance(Duration::from_secs(1));
        let leased = bed.engine.lease(&queue, lease(1), Span::ZERO).await.expect("leased").accept();
        bed.env.advance(Duration::from_secs(61));
        assert_eq!(leased.len(), 1);
        *bed.store.down.lock().expect("not poisoned") = false;
        let (engine, name) = (bed.engine.clone(), queue.clone());
        let deleting = tokio::spawn(async move {
            while engine.delete_queue(&name, true).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
        while !deleting.is_finished() {
            bed.env.advance(Duration::from_millis(100));
            tokio::task::yield_now().await;
        }
        bed.engine.close().await;
    }
}
