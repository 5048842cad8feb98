//! Commands that are too large for the store by themselves, or together with others: the same on every store.

use std::time::Duration;

use tokio::task::JoinHandle;
use windlass_core::cron::CatchUp;
use windlass_core::item::ItemError;
use windlass_core::limits::ERROR_BYTES_MAX;
use windlass_core::row::QueueName;
use windlass_core::rule::Stop;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateGroup, NewCron, NewEnd, NewItem, RetryItem};
use windlass_engine::{EngineError, Judged, PartitionState, ProducedItem};

use crate::behaviour::crons::cron;
use crate::behaviour::groups::group;
use crate::behaviour::rules::{lift, set};
use crate::behaviour::{retry_item, waiting_lease};
use crate::overload::first_poll;
use crate::world::{Medium, SMALL_BATCH_BYTES, World, completion, item, items, lease};

macro_rules! on_every_small_store {
    ($($scenario:ident),* $(,)?) => {
        on_every_small_store!(memory: small_memory: $($scenario),*);
        on_every_small_store!(spread: small_spread: $($scenario),*);
        on_every_small_store!(log: small_log: $($scenario),*);
    };
    ($store:ident: $medium:ident: $($scenario:ident),*) => {
        mod $store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let world = super::World::new(super::Medium::$medium()).await;
                super::$scenario(&world).await;
                world.close().await;
            })*
        }
    };
}

on_every_small_store!(
    a_command_that_is_too_large_is_refused_to_its_caller_alone,
    commands_that_are_too_large_only_together_are_all_carried_out,
    a_lease_that_is_too_large_is_refused_and_a_smaller_one_granted,
    a_waiting_lease_that_is_too_large_is_told_so,
    missed_times_of_a_cron_come_in_batches_that_fit_the_store,
    ends_of_many_groups_come_in_batches_that_fit_the_store,
    items_with_long_errors_are_swept_in_batches_that_fit_the_store,
    grants_with_long_errors_are_given_back_in_batches_that_fit_the_store,
);

/// Items whose rows are much larger than their bodies: about 600 bytes each.
fn with_long_kinds(count: usize) -> Vec<NewItem> {
    let kind = "\u{1F4E6}".repeat(128);
    items(count).into_iter().map(|item| NewItem { kind: kind.as_str().into(), ..item }).collect()
}

type Produced = Result<Judged<ProducedItem>, EngineError>;

fn spawn_produce(world: &World, queue: &QueueName, items: Vec<NewItem>) -> JoinHandle<Produced> {
    let (engine, queue) = (world.engine(), queue.clone());
    tokio::spawn(async move { engine.produce(&queue, items).await })
}

/// Has the writer gather all calls into one batch, as far as they fit, and returns their answers.
async fn at_once(world: &World, queue: &QueueName, calls: Vec<Vec<NewItem>>) -> Vec<Produced> {
    // Nobody reads the clock any more once this is answered: there is nothing to wait for.
    world.stats(queue).await;
    let reading = world.env.hold_next_reading();
    let first = spawn_produce(world, queue, items(1));
    reading.begun().await;
    let engine = world.engine();
    let mut waiting: Vec<_> = calls.into_iter().map(|items| Box::pin(engine.produce(queue, items))).collect();
    for call in &mut waiting {
        assert!(first_poll(call.as_mut()).await.is_none(), "the call waits for the writer");
    }
    reading.let_go();
    first.await.expect("the task ran").expect("produced");
    let mut answers = Vec::new();
    for call in waiting {
        answers.push(call.await);
    }
    answers
}

async fn waiting_while_available(world: &World, queue: &QueueName) -> u64 {
    let stats = world.stats(queue).await;
    assert_eq!(stats.partitions[0].state, PartitionState::Available);
    stats.counts.waiting
}

async fn a_command_that_is_too_large_is_refused_to_its_caller_alone(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let calls = vec![items(2), with_long_kinds(400), items(3)];
    let answers = at_once(world, &queue, calls).await;
    assert!(answers[0].is_ok(), "{:?}", answers[0]);
    assert!(matches!(answers[1], Err(EngineError::TooLarge(_))), "{:?}", answers[1]);
    assert!(answers[2].is_ok(), "{:?}", answers[2]);
    assert_eq!(waiting_while_available(world, &queue).await, 6);
    world.restart().await;
    assert_eq!(waiting_while_available(world, &queue).await, 6);
}

async fn commands_that_are_too_large_only_together_are_all_carried_out(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let calls = vec![with_long_kinds(10), with_long_kinds(92), with_long_kinds(80)];
    for answer in at_once(world, &queue, calls).await {
        answer.expect("produced");
    }
    assert_eq!(waiting_while_available(world, &queue).await, 183);
    world.restart().await;
    assert_eq!(waiting_while_available(world, &queue).await, 183);
}

async fn long_kinds_waiting(world: &World) -> QueueName {
    let queue = world.queue("q", 1, Settings::default()).await;
    for _ in 0..5 {
        world.produce(&queue, with_long_kinds(60)).await;
    }
    queue
}

async fn a_lease_that_is_too_large_is_refused_and_a_smaller_one_granted(world: &World) {
    let queue = long_kinds_waiting(world).await;
    let error = world.engine().lease(&queue, lease(300), Span::ZERO).await.expect_err("too much at once");
    assert!(matches!(error, EngineError::TooLarge(_)), "{error}");
    assert_eq!(waiting_while_available(world, &queue).await, 300);
    assert_eq!(world.lease(&queue, 20).await.len(), 20);
}

async fn a_waiting_lease_that_is_too_large_is_told_so(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.engine().set_rule(set(&queue, None, Stop::Pause)).await.expect("paused");
    for _ in 0..5 {
        world.produce(&queue, with_long_kinds(60)).await;
    }
    let task = waiting_lease(world, &queue, lease(300)).await;
    world.engine().lift_rule(lift(&queue, None, Stop::Pause)).await.expect("resumed");
    let error = task.await.expect("the task ran").expect_err("too much at once");
    assert!(matches!(error, EngineError::TooLarge(_)), "{error}");
    assert_eq!(waiting_while_available(world, &queue).await, 300);
}

/// A payload of which one batch takes a few, and not many.
fn large_payload() -> NewItem {
    NewItem { body: vec![b'x'; SMALL_BATCH_BYTES / 4].into(), ..item("") }
}

/// Returns once `count` items wait.
async fn wait_for(world: &World, queue: &QueueName, count: u64) {
    for _ in 0..10_000 {
        if waiting_while_available(world, queue).await == count {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} items wait, not {count}", waiting_while_available(world, queue).await);
}

async fn missed_times_of_a_cron_come_in_batches_that_fit_the_store(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let ticks = NewCron { item: large_payload(), catch_up: CatchUp::All, ..cron("ticks", "@every 1s") };
    world.engine().create_cron(&queue, ticks).await.expect("created");
    world.env.advance(Duration::from_secs(50));
    wait_for(world, &queue, 50).await;
}

async fn ends_of_many_groups_come_in_batches_that_fit_the_store(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    for number in 0..20 {
        let end = Some(NewEnd { queue: None, item: large_payload() });
        let create = CreateGroup { end, items: items(1), start: true, ..group(&format!("group-{number}")) };
        world.engine().create_group(&queue, create).await.expect("created");
    }
    let members = world.lease(&queue, 20).await.into_iter().map(|item| completion(item.held()));
    let judged = world.engine().complete(&queue, members.collect()).await.expect("judged");
    assert!(judged.results.iter().all(Result::is_ok), "{:?}", judged.results);
    wait_for(world, &queue, 20).await;
}

/// A queue of `count` items that have failed once, with the longest error there can be, and wait again.
async fn failed_once(world: &World, count: usize) -> QueueName {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(count)).await;
    for item in world.lease(&queue, count).await {
        let error = ItemError { code: None, message: "x".repeat(ERROR_BYTES_MAX).into() };
        let delay = Some(Span::from_secs(10));
        let retry = RetryItem { delay, error: Some(error), ..retry_item(&item) };
        let judged = world.engine().retry(&queue, vec![retry]).await.expect("judged");
        judged.results[0].as_ref().expect("retried");
    }
    world.env.advance(Duration::from_secs(10));
    wait_for(world, &queue, count as u64).await;
    queue
}

async fn items_with_long_errors_are_swept_in_batches_that_fit_the_store(world: &World) {
    failed_once(world, 40).await;
}

async fn grants_with_long_errors_are_given_back_in_batches_that_fit_the_store(world: &World) {
    let queue = failed_once(world, 40).await;
    let mut grants = Vec::new();
    for _ in 0..40 {
        grants.push(world.engine().lease(&queue, lease(1), Span::ZERO).await.expect("leased"));
    }
    world.stats(&queue).await;
    let reading = world.env.hold_next_reading();
    let first = spawn_produce(world, &queue, items(1));
    reading.begun().await;
    drop(grants);
    reading.let_go();
    first.await.expect("the task ran").expect("produced");
    wait_for(world, &queue, 41).await;
}
