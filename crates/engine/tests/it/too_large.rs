//! Commands that are too large for the store by themselves, or together with others: the same on every store.

use tokio::task::JoinHandle;
use windlass_core::command::NewItem;
use windlass_core::row::QueueName;
use windlass_core::rule::Stop;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_engine::{EngineError, Judged, PartitionState, ProducedItem};

use crate::behaviour::rules::{lift, set};
use crate::behaviour::waiting_lease;
use crate::overload::first_poll;
use crate::world::{Medium, World, items, lease};

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
);

/// Items whose rows are much larger than their bodies: about 600 bytes each.
fn with_long_kinds(count: usize) -> Vec<NewItem> {
    let kind = "\u{1F4E6}".repeat(128);
    items(count).into_iter().map(|item| NewItem { kind: kind.as_str().into(), ..item }).collect()
}

type Produced = Result<Judged<ProducedItem>, EngineError>;

fn produce(world: &World, queue: &QueueName, items: Vec<NewItem>) -> JoinHandle<Produced> {
    let (engine, queue) = (world.engine(), queue.clone());
    tokio::spawn(async move { engine.produce(&queue, items).await })
}

/// Has the writer gather all calls into one batch, as far as they fit, and returns their answers.
async fn at_once(world: &World, queue: &QueueName, calls: Vec<Vec<NewItem>>) -> Vec<Produced> {
    // Nobody reads the clock any more once this is answered: there is nothing to wait for.
    world.engine().stats(queue).await.expect("stats");
    let reading = world.env.hold_next_reading();
    let first = produce(world, queue, items(1));
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

async fn waiting(world: &World, queue: &QueueName) -> u64 {
    let stats = world.engine().stats(queue).await.expect("stats");
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
    assert_eq!(waiting(world, &queue).await, 6);
    world.restart().await;
    assert_eq!(waiting(world, &queue).await, 6);
}

async fn commands_that_are_too_large_only_together_are_all_carried_out(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let calls = vec![with_long_kinds(10), with_long_kinds(92), with_long_kinds(80)];
    for answer in at_once(world, &queue, calls).await {
        answer.expect("produced");
    }
    assert_eq!(waiting(world, &queue).await, 183);
    world.restart().await;
    assert_eq!(waiting(world, &queue).await, 183);
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
    assert_eq!(waiting(world, &queue).await, 300);
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
    assert_eq!(waiting(world, &queue).await, 300);
}
