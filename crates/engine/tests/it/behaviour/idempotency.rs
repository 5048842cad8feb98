//! Calls that are carried out once, however often they are sent.

use std::time::Duration;

use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::NewItem;
use windlass_engine::env::Env;
use windlass_engine::{EngineError, ProducedItem};

use super::addresses::at;
use super::is_refused;
use crate::world::{World, item, items, queue_name};

on_every_store!(
    the_same_call_again_is_told_the_same,
    other_items_under_the_same_key_are_refused,
    other_items_are_refused_also_where_they_belong_elsewhere,
    keys_count_per_queue,
    errors_of_single_items_are_told_again_too,
    items_without_a_key_of_their_own_go_together,
    of_many_at_once_one_is_carried_out,
    a_key_is_forgotten_after_a_day,
    keys_outlive_a_restart,
    a_full_queue_still_answers_what_was_asked_before,
);

fn mixed(count: usize) -> Vec<NewItem> {
    let new = |number: usize| if number.is_multiple_of(2) { at(&format!("a{number}")) } else { item("free") };
    (0..count).map(new).collect()
}

type Told = Vec<Result<ProducedItem, EngineError>>;

async fn once(world: &World, queue: &QueueName, key: &str, items: Vec<NewItem>) -> Result<Told, EngineError> {
    Ok(world.engine().produce_once(queue, key.into(), items).await?.results)
}

fn made(told: Result<Told, EngineError>) -> Vec<(ItemId, Phase)> {
    let made = |made: Result<ProducedItem, EngineError>| made.map(|made| (made.id, made.phase));
    told.expect("judged").into_iter().map(|item| made(item).expect("produced")).collect()
}

async fn the_same_call_again_is_told_the_same(world: &World) {
    for partitions in [1, 4] {
        let queue = world.queue(&format!("q{partitions}"), partitions, Settings::default()).await;
        let later = Some(world.env.wall() + Span::from_secs(60));
        let items = || {
            let mut items = mixed(40);
            items.push(NewItem { enqueue_at: later, ..item("later") });
            items
        };
        let first = made(once(world, &queue, "call", items()).await);
        assert_eq!(world.live(&queue).await, 41);
        for leased in world.lease(&queue, 1000).await {
            world.complete(&queue, &leased).await;
        }
        assert_eq!(made(once(world, &queue, "call", items()).await), first, "as it was then");
        assert_eq!(world.live(&queue).await, 1);
        world.env.advance(Duration::from_secs(61));
        assert_eq!(made(once(world, &queue, "call", items()).await), first);
    }
}

async fn other_items_under_the_same_key_are_refused(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    once(world, &queue, "call", items(3)).await.expect("produced");
    for other in [items(2), items(4), vec![item("x"), item("item 1"), item("item 2")]] {
        let refused = once(world, &queue, "call", other).await;
        assert!(is_refused(&refused, &Refusal::KeyTaken), "{refused:?}");
    }
    once(world, &queue, "another call", items(2)).await.expect("produced");
    assert_eq!(world.live(&queue).await, 5);
}

async fn other_items_are_refused_also_where_they_belong_elsewhere(world: &World) {
    let queue = world.queue("q", 8, Settings::default()).await;
    once(world, &queue, "call", vec![at("first")]).await.expect("produced");
    for number in 0..50 {
        let refused = once(world, &queue, "call", vec![at(&format!("other {number}"))]).await;
        assert!(is_refused(&refused, &Refusal::KeyTaken), "{refused:?}");
    }
    assert_eq!(world.live(&queue).await, 1);
}

async fn keys_count_per_queue(world: &World) {
    let queues =
        [world.queue("q", 2, Settings::default()).await, world.queue("r", 2, Settings::default()).await];
    for (count, queue) in queues.iter().enumerate() {
        once(world, queue, "call", items(count + 1)).await.expect("produced");
        assert_eq!(world.live(queue).await, count as u64 + 1);
    }
    let nowhere = once(world, &queue_name("nowhere"), "call", items(1)).await;
    assert!(is_refused(&nowhere, &Refusal::NoSuchQueue { queue: "nowhere".into() }), "{nowhere:?}");
    for key in ["", &"x".repeat(129)] {
        let refused = once(world, &queues[0], key, items(1)).await;
        assert!(matches!(refused, Err(EngineError::Refused(Refusal::Invalid(_)))), "{refused:?}");
    }
}

async fn errors_of_single_items_are_told_again_too(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let taken = world.produce(&queue, vec![at("a")]).await[0];
    let call = || vec![at("a"), at("b"), item("free")];
    for _ in 0..2 {
        let told = once(world, &queue, "call", call()).await.expect("judged");
        assert!(matches!(&told[0], Err(EngineError::DuplicateAddress { id }) if *id == taken), "{told:?}");
        assert!(told[1].is_ok() && told[2].is_ok());
        // What was in the way is gone: the answer stays the first one.
        world.engine().cancel(taken).await.expect("cancelled");
    }
    assert_eq!(world.live(&queue).await, 2);
}

async fn items_without_a_key_of_their_own_go_together(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    for number in 0..8 {
        let key = format!("call {number}");
        let ids = made(once(world, &queue, &key, mixed(20)).await);
        let free: Vec<_> = ids.iter().skip(1).step_by(2).map(|(id, _)| id.partition).collect();
        assert!(free.windows(2).all(|pair| pair[0] == pair[1]), "{free:?}");
        let all =
            windlass_core::verbs::Clear { waiting: true, scheduled: true, leased: true, suspended: false };
        world.engine().clear(&queue, all).await.expect("cleared");
    }
}

async fn of_many_at_once_one_is_carried_out(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let callers: Vec<_> = (0..20)
        .map(|_| {
            let (engine, queue) = (world.engine(), queue.clone());
            tokio::spawn(async move { engine.produce_once(&queue, "call".into(), mixed(10)).await })
        })
        .collect();
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(made(caller.await.expect("the task ran").map(|judged| judged.results)));
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(world.live(&queue).await, 10);
}

async fn a_key_is_forgotten_after_a_day(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let first = made(once(world, &queue, "call", mixed(6)).await);
    world.env.advance(Duration::from_secs(24 * 3600 - 1));
    assert_eq!(made(once(world, &queue, "call", mixed(6)).await), first);
    world.env.advance(Duration::from_secs(1));
    once(world, &queue, "call", items(5)).await.expect("it is free again");
    assert_eq!(world.live(&queue).await, 11);
}

async fn keys_outlive_a_restart(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let first = made(once(world, &queue, "call", mixed(12)).await);
    world.restart().await;
    assert_eq!(made(once(world, &queue, "call", mixed(12)).await), first);
    assert!(is_refused(&once(world, &queue, "call", mixed(11)).await, &Refusal::KeyTaken));
    assert_eq!(world.live(&queue).await, 12);
}

async fn a_full_queue_still_answers_what_was_asked_before(world: &World) {
    let queue = world.queue("q", 3, Settings { max_items: 6, ..Settings::default() }).await;
    let first = made(once(world, &queue, "call", mixed(6)).await);
    for _ in 0..5 {
        assert_eq!(made(once(world, &queue, "call", mixed(6)).await), first);
        let refused = once(world, &queue, "another call", items(1)).await;
        assert!(matches!(refused, Err(EngineError::Overloaded { .. })), "{refused:?}");
    }
    let leased = world.lease(&queue, 1).await;
    world.complete(&queue, &leased[0]).await;
    once(world, &queue, "another call", items(1)).await.expect("a place is free, and only one");
    let refused = once(world, &queue, "a third", items(1)).await;
    assert!(matches!(refused, Err(EngineError::Overloaded { .. })), "{refused:?}");
}
