//! Items by address, over one partition and several.

use std::collections::BTreeSet;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::verbs::{Clear, NewItem, UpdateQueue};
use windlass_engine::EngineError;

use super::dead_queues::{all_moved, arrived, fail_all, to_dead};
use super::{is_refused, phase};
use crate::world::{World, bodies, item};

on_every_store!(
    an_address_is_taken_until_its_item_is_final,
    whoever_is_first_of_many_at_once_gets_the_address,
    an_item_is_found_and_cancelled_by_its_address,
    an_address_speaks_of_the_latest_item_kept,
    addresses_outlive_a_restart,
    addresses_are_at_home_in_every_partition_of_a_queue,
    items_of_one_call_stand_in_the_order_given_in_each_partition,
    items_without_a_key_stay_together,
    max_items_bounds_the_whole_call,
    a_call_that_is_refused_item_by_item_gives_its_places_back,
    a_moved_item_tells_its_old_address_and_has_none,
    what_a_list_shows_of_an_address_an_import_takes,
    an_address_is_free_after_a_clear,
);

pub(crate) fn at(address: &str) -> NewItem {
    NewItem { address: Some(address.into()), ..item(address) }
}

/// Items at `order-0`, `order-1` and so on.
pub(crate) fn orders(count: usize) -> Vec<NewItem> {
    (0..count).map(|number| at(&format!("order-{number}"))).collect()
}

fn is_taken_by<T>(result: &Result<T, EngineError>, id: ItemId) -> bool {
    matches!(result, Err(EngineError::DuplicateAddress { id: taker }) if *taker == id)
}

async fn found(world: &World, queue: &QueueName, address: &str) -> ItemId {
    world.engine().item_at(queue, address).await.expect("it is known")
}

async fn an_address_is_taken_until_its_item_is_final(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let results = world.judged(&queue, vec![item("free"), at("a"), at("a"), at("b")]).await;
    let first = results[1].as_ref().expect("produced").id;
    assert!(is_taken_by(&results[2], first), "{results:?}");
    assert!(results[0].is_ok() && results[3].is_ok());
    let leased = world.lease(&queue, 3).await;
    assert_eq!(leased[1].leased.address.as_deref(), Some("a"));
    assert!(is_taken_by(&world.judged(&queue, vec![at("a")]).await[0], first));
    world.complete(&queue, &leased[1]).await;
    let second = world.judged(&queue, vec![at("a")]).await.remove(0).expect("it is free").id;
    assert_eq!(found(world, &queue, "a").await, second);
    // In another queue it is another address.
    let other = world.queue("other", 1, Settings::default()).await;
    assert!(world.judged(&other, vec![at("a")]).await[0].is_ok());
}

async fn whoever_is_first_of_many_at_once_gets_the_address(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let producers: Vec<_> = (0..20)
        .map(|_| {
            let (engine, queue) = (world.engine(), queue.clone());
            tokio::spawn(async move { engine.produce(&queue, vec![at("the one")]).await })
        })
        .collect();
    let (mut made, mut taken_by) = (Vec::new(), BTreeSet::new());
    for producer in producers {
        match producer.await.expect("the task ran").expect("judged").results.remove(0) {
            Ok(produced) => made.push(produced.id),
            Err(EngineError::DuplicateAddress { id }) => {
                taken_by.insert(id);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((made.len(), taken_by), (1, BTreeSet::from([made[0]])));
}

async fn an_item_is_found_and_cancelled_by_its_address(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    let ids = world.produce(&queue, vec![at("a"), at("b"), at("c")]).await;
    for (address, id) in ["a", "b", "c"].into_iter().zip(&ids) {
        assert_eq!(found(world, &queue, address).await, *id);
    }
    let unknown = world.engine().item_at(&queue, "d").await;
    assert!(is_refused(&unknown, &Refusal::NotFound), "{unknown:?}");
    let cancelled = world.engine().cancel(found(world, &queue, "b").await).await.expect("cancelled");
    assert_eq!((cancelled.value.id, phase(&cancelled)), (ids[1], Phase::Cancelled));
    let shown = world.engine().get(found(world, &queue, "b").await).await.expect("kept");
    assert_eq!((shown.item.state.phase(), shown.payload.as_deref()), (Phase::Cancelled, Some(&b"b"[..])));
    let nowhere = world.engine().item_at(&crate::world::queue_name("nowhere"), "a").await;
    assert!(is_refused(&nowhere, &Refusal::NoSuchQueue { queue: "nowhere".into() }), "{nowhere:?}");
}

async fn an_address_speaks_of_the_latest_item_kept(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let mut last = None;
    for _ in 0..3 {
        let id = world.produce(&queue, vec![at("a")]).await[0];
        let leased = world.lease(&queue, 1).await;
        world.complete(&queue, &leased[0]).await;
        assert_eq!(found(world, &queue, "a").await, id);
        last = Some(id);
    }
    let live = world.produce(&queue, vec![at("a")]).await[0];
    assert_eq!(found(world, &queue, "a").await, live);
    world.engine().delete_items(&queue, vec![live]).await.expect("judged");
    assert_eq!(Some(found(world, &queue, "a").await), last);
    let change = SettingsChange { retention_max_items: Some(0), ..SettingsChange::default() };
    world.engine().update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
    let forgotten = world.engine().item_at(&queue, "a").await;
    assert!(is_refused(&forgotten, &Refusal::NotFound), "{forgotten:?}");
}

async fn addresses_outlive_a_restart(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let addresses: Vec<String> = (0..30).map(|number| format!("order {number}")).collect();
    let ids = world.produce(&queue, addresses.iter().map(|address| at(address)).collect()).await;
    world.engine().cancel(ids[7]).await.expect("cancelled");
    world.restart().await;
    for (address, id) in addresses.iter().zip(&ids) {
        assert_eq!(found(world, &queue, address).await, *id);
    }
    let results = world.judged(&queue, addresses.iter().map(|address| at(address)).collect()).await;
    let free: Vec<usize> = (0..30).filter(|index| results[*index].is_ok()).collect();
    assert_eq!(free, [7]);
}

async fn addresses_are_at_home_in_every_partition_of_a_queue(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    let items: Vec<NewItem> = (0..200).map(|number| at(&format!("order-{number}"))).collect();
    let results = world.engine().produce(&queue, items.clone()).await.expect("judged");
    let homes: BTreeSet<PartitionId> =
        results.results.iter().map(|made| made.as_ref().expect("produced").id.partition).collect();
    assert_eq!(homes.len(), 4);
    assert_eq!(results.commits.len(), 4, "one commit for each");
    let again = world.judged(&queue, items).await;
    for (again, first) in again.iter().zip(&results.results) {
        assert!(is_taken_by(again, first.as_ref().expect("produced").id));
    }
}

async fn items_of_one_call_stand_in_the_order_given_in_each_partition(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let new = |number: usize| match number % 3 {
        0 => item(&format!("{number:03}")),
        _ => NewItem { address: Some(format!("a{number}").into()), ..item(&format!("{number:03}")) },
    };
    world.produce(&queue, (0..300).map(new).collect()).await;
    let leased = world.lease(&queue, 1000).await;
    assert_eq!(leased.len(), 300);
    for partition in &world.engine().queue_info(&queue).expect("it is there").partitions {
        let mut here: Vec<_> =
            leased.iter().filter(|item| item.leased.id.partition == *partition).cloned().collect();
        here.sort_by_key(|item| item.leased.id);
        assert!(bodies(&here).is_sorted(), "{:?}", bodies(&here));
    }
}

async fn items_without_a_key_stay_together(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    for round in 0..10 {
        let mut items: Vec<NewItem> =
            (0..20).map(|number| at(&format!("round {round} order {number}"))).collect();
        items.extend((0..5).map(|_| item("free")));
        let ids = world.produce(&queue, items).await;
        let homes: BTreeSet<PartitionId> = ids[20..].iter().map(|id| id.partition).collect();
        assert_eq!(homes.len(), 1);
    }
}

async fn max_items_bounds_the_whole_call(world: &World) {
    let queue = world.queue("q", 4, Settings { max_items: 10, ..Settings::default() }).await;
    let items = |from: usize, to: usize| (from..to).map(|number| at(&number.to_string())).collect::<Vec<_>>();
    world.produce(&queue, items(0, 6)).await;
    let refused = world.engine().produce(&queue, items(6, 11)).await;
    assert!(matches!(refused, Err(EngineError::Overloaded { .. })), "{refused:?}");
    assert_eq!(world.live(&queue).await, 6);
    world.produce(&queue, items(6, 10)).await;
}

async fn a_call_that_is_refused_item_by_item_gives_its_places_back(world: &World) {
    let queue = world.queue("q", 2, Settings { max_items: 4, ..Settings::default() }).await;
    world.produce(&queue, vec![at("a"), at("b")]).await;
    for _ in 0..10 {
        let results = world.judged(&queue, vec![at("a"), at("b")]).await;
        assert!(results.iter().all(Result::is_err));
        let results = world.judged(&queue, vec![at("a"), at("c")]).await;
        let made = results[1].as_ref().expect("there is room").id;
        world.engine().cancel(made).await.expect("cancelled");
    }
    world.produce(&queue, vec![item("x"), item("y")]).await;
}

async fn a_moved_item_tells_its_old_address_and_has_none(world: &World) {
    let queue = world.queue("q", 2, to_dead()).await;
    let dead = world.queue("dead", 2, Settings::default()).await;
    let id = world.produce(&queue, vec![at("a")]).await[0];
    fail_all(world, &queue).await;
    let moved = arrived(world, &dead, 1).await.remove(0);
    assert_eq!(moved.leased.address, None);
    let origin = moved.leased.origin.as_deref().expect("it was moved");
    assert_eq!((origin.id, origin.address.as_deref()), (Some(id), Some("a")));
    all_moved(world, &queue).await;
    let kept = world.engine().get(found(world, &queue, "a").await).await.expect("kept");
    assert_eq!((kept.id, kept.item.state.phase()), (id, Phase::Failed));
    assert!(is_refused(&world.engine().item_at(&dead, "a").await, &Refusal::NotFound));
}

async fn what_a_list_shows_of_an_address_an_import_takes(world: &World) {
    let queue = world.queue("from", 1, Settings::default()).await;
    let target = world.queue("to", 3, Settings::default()).await;
    world.produce(&queue, (0..20).map(|number| at(&number.to_string())).collect()).await;
    let taken = world.produce(&target, vec![at("7")]).await[0];
    let imports = super::storage::exported(world, &queue).await;
    let results = world.engine().import(&target, imports).await.expect("judged").results;
    for (number, result) in results.iter().enumerate() {
        match result {
            Ok(made) => assert_eq!(found(world, &target, &number.to_string()).await, made.id),
            Err(_) => assert!(number == 7 && is_taken_by(result, taken), "{number}: {result:?}"),
        }
    }
    assert_eq!(world.waiting(&target).await, 20);
}

async fn an_address_is_free_after_a_clear(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let first = world.produce(&queue, vec![at("a"), at("b")]).await;
    let all = Clear { waiting: true, scheduled: true, leased: true, suspended: false };
    assert_eq!(world.engine().clear(&queue, all).await.expect("cleared").value, 2);
    assert_eq!(found(world, &queue, "a").await, first[0]);
    let shown = world.engine().get(first[0]).await.expect("kept");
    assert_eq!(shown.item.state.phase(), Phase::Cancelled);
    let second = world.produce(&queue, vec![at("a")]).await[0];
    assert_eq!(found(world, &queue, "a").await, second);
    world.restart().await;
    assert_eq!((found(world, &queue, "a").await, found(world, &queue, "b").await), (second, first[1]));
}
