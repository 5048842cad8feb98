//! A queue holds no more than it may.

use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::time::Timestamp;
use windlass_core::verbs::{Clear, NewItem, UpdateQueue};
use windlass_engine::{Engine, EngineError, Judged, ProducedItem};

use super::addresses::at;
use super::is_refused;
use crate::world::{World, completion_with, item, items};

on_every_store!(
    a_batch_that_would_pass_max_items_is_refused_whole,
    every_end_of_an_item_frees_its_place_at_once,
    producers_at_once_reach_max_items_and_never_pass_it,
    producers_and_workers_at_once_never_pass_max_items,
    a_new_max_items_counts_for_the_next_produce,
    max_items_counts_what_was_there_before_a_restart,
    what_would_be_refused_anyway_needs_no_place,
    what_would_be_refused_anyway_needs_no_place_in_a_call_with_a_key_either,
);

fn at_most(max_items: u64) -> Settings {
    Settings { max_items, ..Settings::default() }
}

/// Whether the queue takes `count` more items.
async fn takes(engine: &Engine, queue: &QueueName, count: usize) -> bool {
    match engine.produce(queue, items(count)).await {
        Ok(_) => true,
        Err(error @ EngineError::Overloaded { .. }) => {
            assert!(error.to_string().contains("max_items"), "{error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

async fn a_batch_that_would_pass_max_items_is_refused_whole(world: &World) {
    let queue = world.queue("q", 3, at_most(10)).await;
    let engine = world.engine();
    let later = NewItem { enqueue_at: Some(Timestamp(u64::MAX)), ..item("later") };
    world.produce(&queue, vec![later; 2]).await;
    assert!(takes(&engine, &queue, 5).await);
    assert_eq!(world.lease(&queue, 3).await.len(), 3);
    assert!(!takes(&engine, &queue, 4).await);
    assert_eq!(engine.stats(&queue).await.expect("stats").counts.live(), 7);
    assert!(takes(&engine, &queue, 3).await);
    assert!(!takes(&engine, &queue, 1).await);
    // More than there may ever be.
    let small = world.queue("small", 1, at_most(2)).await;
    assert!(!takes(&engine, &small, 3).await);
    assert!(takes(&engine, &small, 2).await);
}

async fn every_end_of_an_item_frees_its_place_at_once(world: &World) {
    let queue = world.queue("q", 2, at_most(4)).await;
    let engine = world.engine();
    for _ in 0..20 {
        assert!(takes(&engine, &queue, 2).await && takes(&engine, &queue, 2).await);
        assert!(!takes(&engine, &queue, 1).await);
        let leased = world.lease(&queue, 3).await;
        world.complete(&queue, &leased[0]).await;
        assert!(takes(&engine, &queue, 1).await);
        let result = vec![completion_with(leased[1].held(), "kept")];
        engine.complete(&queue, result).await.expect("judged");
        assert!(takes(&engine, &queue, 1).await);
        engine.release(&queue, vec![leased[2].held()]).await.expect("judged");
        assert!(!takes(&engine, &queue, 1).await);
        engine.cancel(leased[2].leased.id).await.expect("cancelled");
        assert!(takes(&engine, &queue, 1).await);
        let all = Clear { waiting: true, scheduled: true, leased: true, suspended: false };
        assert_eq!(engine.clear(&queue, all).await.expect("cleared").value, 4);
    }
}

async fn producers_at_once_reach_max_items_and_never_pass_it(world: &World) {
    const MAX: u64 = 40;
    for round in 0..20 {
        let queue = world.queue(&format!("q{round}"), 3, at_most(MAX)).await;
        let producers: Vec<_> = (0..16)
            .map(|_| {
                let (engine, name) = (world.engine(), queue.clone());
                tokio::spawn(async move {
                    let mut produced = 0;
                    while takes(&engine, &name, 1).await {
                        produced += 1;
                    }
                    produced
                })
            })
            .collect();
        let mut produced = 0;
        for producer in producers {
            produced += producer.await.expect("the task ran");
        }
        // Nothing ends here, so none is refused before the last place is taken.
        assert_eq!(produced, MAX);
        assert_eq!(world.live(&queue).await, MAX);
    }
}

async fn producers_and_workers_at_once_never_pass_max_items(world: &World) {
    const MAX: u64 = 8;
    // One partition: stats of several are of several moments.
    let queue = world.queue("q", 1, at_most(MAX)).await;
    let producers: Vec<_> = (0..16)
        .map(|_| {
            let (engine, name) = (world.engine(), queue.clone());
            tokio::spawn(async move {
                let mut produced = 0;
                while produced < 20 {
                    produced += u32::from(takes(&engine, &name, 2).await);
                    let live = engine.stats(&name).await.expect("stats").counts.live();
                    assert!(live <= MAX, "{live}");
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    while producers.iter().any(|producer| !producer.is_finished()) {
        for item in world.lease(&queue, 3).await {
            world.complete(&queue, &item).await;
        }
    }
    for producer in producers {
        producer.await.expect("the task ran");
    }
    let live = world.live(&queue).await;
    for _ in live..MAX {
        assert!(takes(&world.engine(), &queue, 1).await, "every place was given back");
    }
    assert!(!takes(&world.engine(), &queue, 1).await);
}

async fn a_new_max_items_counts_for_the_next_produce(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let engine = world.engine();
    assert!(takes(&engine, &queue, 5).await);
    for (max_items, fits) in [(3, 0), (5, 0), (7, 2), (0, 100)] {
        let change = SettingsChange { max_items: Some(max_items), ..SettingsChange::default() };
        engine.update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
        assert!(fits == 0 || takes(&engine, &queue, fits).await);
        assert_eq!(takes(&engine, &queue, 1).await, max_items == 0);
    }
}

async fn max_items_counts_what_was_there_before_a_restart(world: &World) {
    let queue = world.queue("q", 2, at_most(5)).await;
    assert!(takes(&world.engine(), &queue, 4).await);
    world.restart().await;
    assert!(!takes(&world.engine(), &queue, 2).await);
    assert!(takes(&world.engine(), &queue, 1).await);
}

/// What each item of a call was told: its own id, or who has its address.
fn told(judged: &Judged<ProducedItem>) -> Vec<Result<ItemId, ItemId>> {
    let told = |result: &Result<ProducedItem, EngineError>| match result {
        Ok(made) => Ok(made.id),
        Err(EngineError::DuplicateAddress { id }) => Err(*id),
        Err(error) => panic!("{error}"),
    };
    judged.results.iter().map(told).collect()
}

async fn what_would_be_refused_anyway_needs_no_place(world: &World) {
    let queue = world.queue("q", 3, at_most(2)).await;
    let engine = world.engine();
    let ids = world.produce(&queue, vec![at("a"), at("b")]).await;
    let again = engine.produce(&queue, vec![at("b"), at("a"), at("b")]).await.expect("judged");
    assert_eq!(told(&again), [Err(ids[1]), Err(ids[0]), Err(ids[1])]);
    let member = NewItem { group: Some("nowhere".into()), ..item("member") };
    let judged = engine.produce(&queue, vec![at("a"), member.clone()]).await.expect("judged");
    assert!(is_refused(&judged.results[1], &Refusal::NoSuchGroup), "{judged:?}");
    for more in [at("c"), item("c")] {
        let refused = engine.produce(&queue, vec![at("a"), member.clone(), more]).await;
        assert!(matches!(refused, Err(EngineError::Overloaded { .. })), "{refused:?}");
    }
    // One place is free, and of one address there can be one.
    engine.cancel(ids[0]).await.expect("cancelled");
    let judged = engine.produce(&queue, vec![at("c"), at("b"), at("c")]).await.expect("judged");
    let told = told(&judged);
    assert_eq!(told[1..], [Err(ids[1]), Err(told[0].expect("made"))]);
    assert!(!takes(&engine, &queue, 1).await, "all places are taken again");
    engine
        .clear(&queue, Clear { waiting: true, scheduled: false, leased: false, suspended: false })
        .await
        .expect("cleared");
    assert!(takes(&engine, &queue, 2).await, "and all come back");
}

async fn what_would_be_refused_anyway_needs_no_place_in_a_call_with_a_key_either(world: &World) {
    let queue = world.queue("q", 3, at_most(1)).await;
    let engine = world.engine();
    let id = world.produce(&queue, vec![at("a")]).await[0];
    let call = || engine.produce_once(&queue, "call".into(), vec![at("a"), at("a")]);
    assert_eq!(told(&call().await.expect("judged")), [Err(id), Err(id)]);
    engine.cancel(id).await.expect("cancelled");
    assert_eq!(told(&call().await.expect("judged")), [Err(id), Err(id)], "as it was told before");
    assert!(takes(&engine, &queue, 1).await);
    let more = engine.produce_once(&queue, "another".into(), vec![at("a")]).await;
    assert!(matches!(more, Err(EngineError::Overloaded { .. })), "{more:?}");
}
