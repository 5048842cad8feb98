//! Groups of a queue that gets other partitions: each stays where it is, and is found there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::verbs::{CreateGroup, NewItem, SetGroupEnd};
use windlass_engine::{EngineError, ProducedItem, Remaining};

use super::addresses::at;
use super::groups::{end, group};
use super::is_refused;
use super::rebalance::{complete_all, drained_to, rebalance};
use crate::world::{World, bodies, item, items};

on_every_store!(
    a_group_is_found_where_it_was_made,
    a_name_that_a_former_home_has_is_taken_until_it_is_deleted_there,
    members_go_to_their_group_wherever_its_name_is_at_home,
    members_produced_once_are_told_again_from_where_they_are,
    an_unfinished_group_keeps_a_partition_from_going,
    a_finished_group_is_found_until_its_time,
    an_item_with_two_keys_is_refused_while_partitions_drain,
    addresses_of_members_stay_taken,
    groups_outlive_a_restart_in_the_middle,
);

fn names(count: usize) -> Vec<Arc<str>> {
    (0..count).map(|number| format!("g{number}").into()).collect()
}

fn member(group: &Arc<str>) -> NewItem {
    NewItem { group: Some(Arc::clone(group)), ..item("member") }
}

/// Each with one member and an end item that tells its name. Tells where they are.
async fn make(world: &World, queue: &QueueName, names: &[Arc<str>]) -> Vec<ItemId> {
    let mut made = Vec::new();
    for name in names {
        let create = CreateGroup { end: end(name, None), items: items(1), ..group(name) };
        let created = world.engine().create_group(queue, create).await.expect("made").value;
        made.push(created.items[0].id);
    }
    made
}

async fn produce_members(
    world: &World,
    queue: &QueueName,
    names: &[Arc<str>],
) -> Vec<Result<ProducedItem, EngineError>> {
    world.engine().produce(queue, names.iter().map(member).collect()).await.expect("judged").results
}

async fn a_group_is_found_where_it_was_made(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let (names, engine) = (names(24), world.engine());
    make(world, &queue, &names).await;
    for partitions in [5, 1] {
        rebalance(world, &queue, partitions).await;
        let listed = engine.groups(&queue, None, 1000).await.expect("listed");
        let listed: BTreeSet<_> = listed.into_iter().map(|view| view.name).collect();
        assert_eq!(listed, names.iter().cloned().collect());
        for name in &names {
            let view = engine.group(&queue, name).await.expect("found");
            assert_eq!((view.state.name(), view.live.held), ("open", 1));
            let set = SetGroupEnd {
                name: Arc::clone(name),
                end: end(&format!("{name} over {partitions}"), None),
                abort: None,
            };
            engine.set_group_end(&queue, set).await.expect("set");
        }
    }
    let unknown = engine.group(&queue, &"unknown".into()).await;
    assert!(is_refused(&unknown, &Refusal::NoSuchGroup), "{unknown:?}");
    let (cancelled, started) = names.split_at(8);
    for name in cancelled {
        assert_eq!(engine.cancel_group(&queue, name).await.expect("cancelled").value.state.name(), "aborted");
    }
    for name in started {
        engine.start_group(&queue, name).await.expect("started");
    }
    let members = world.lease(&queue, 1000).await;
    assert_eq!(members.len(), 16);
    for member in &members {
        world.complete(&queue, member).await;
    }
    let mut ends = bodies(&world.lease(&queue, 1000).await);
    ends.sort_unstable();
    let mut expected: Vec<String> = started.iter().map(|name| format!("{name} over 1")).collect();
    expected.sort_unstable();
    assert_eq!(ends, expected, "each once, as it was set last");
    for name in &names {
        engine.delete_group(&queue, name).await.expect("deleted");
    }
    assert_eq!(engine.groups(&queue, None, 1000).await.expect("listed"), []);
}

async fn a_name_that_a_former_home_has_is_taken_until_it_is_deleted_there(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let (names, engine) = (names(24), world.engine());
    make(world, &queue, &names).await;
    rebalance(world, &queue, 4).await;
    for name in &names {
        let again = engine.create_group(&queue, group(name)).await;
        assert!(is_refused(&again, &Refusal::GroupExists), "{again:?}");
        engine.cancel_group(&queue, name).await.expect("cancelled");
        let again = engine.create_group(&queue, group(name)).await;
        assert!(is_refused(&again, &Refusal::GroupExists), "it is finished, and still there: {again:?}");
        engine.delete_group(&queue, name).await.expect("deleted");
    }
    let made = make(world, &queue, &names).await;
    let homes: BTreeSet<PartitionId> = made.iter().map(|id| id.partition).collect();
    assert_eq!(homes.len(), 4, "new ones are made where their names are at home now");
    for (name, id) in names.iter().zip(made) {
        let more = produce_members(world, &queue, std::slice::from_ref(name)).await.remove(0).expect("taken");
        assert_eq!(more.id.partition, id.partition);
    }
}

async fn members_go_to_their_group_wherever_its_name_is_at_home(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let names = names(24);
    let homes: Vec<PartitionId> = make(world, &queue, &names).await.iter().map(|id| id.partition).collect();
    for partitions in [5, 1] {
        rebalance(world, &queue, partitions).await;
        // One that is nowhere, and one that has no key, beside them.
        let call = names.iter().map(member).chain([member(&"unknown".into()), item("plain")]).collect();
        let mut told = world.engine().produce(&queue, call).await.expect("judged").results;
        assert!(told.pop().expect("the plain one").is_ok());
        assert!(is_refused(&told.pop().expect("the unknown one"), &Refusal::NoSuchGroup));
        for (told, home) in told.iter().zip(&homes) {
            let made = told.as_ref().expect("taken");
            assert_eq!((made.id.partition, made.phase), (*home, Phase::Held));
        }
    }
    for name in &names {
        let view = world.engine().group(&queue, name).await.expect("found");
        assert_eq!(view.live.held, 3);
    }
}

async fn members_produced_once_are_told_again_from_where_they_are(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let (names, engine) = (names(24), world.engine());
    make(world, &queue, &names).await;
    let call = |key: &'static str| {
        let (engine, queue) = (engine.clone(), queue.clone());
        let items = names.iter().map(member).chain([item("plain"), at(key)]).collect();
        async move { engine.produce_once(&queue, key.into(), items).await.expect("judged").results }
    };
    let ids = |told: &[Result<ProducedItem, EngineError>]| -> Vec<ItemId> {
        told.iter().map(|made| made.as_ref().expect("made").id).collect()
    };
    let mut first = vec![("two", ids(&call("two").await))];
    for (partitions, key) in [(5, "five"), (1, "one")] {
        rebalance(world, &queue, partitions).await;
        first.push((key, ids(&call(key).await)));
        for (key, first) in &first {
            assert_eq!(ids(&call(key).await), *first, "{key} over {partitions}");
        }
    }
    for name in &names {
        engine.start_group(&queue, name).await.expect("started");
    }
    complete_all(world, &queue).await;
    drained_to(world, &queue, 1).await;
    for (key, first) in &first {
        assert_eq!(ids(&call(key).await), *first, "{key} once all is done");
    }
    assert_eq!(engine.stats(&queue).await.expect("stats").counts.live(), 0);
}

async fn an_unfinished_group_keeps_a_partition_from_going(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let (names, engine) = (names(12), world.engine());
    let homes = make(world, &queue, &names).await;
    let second = engine.stats(&queue).await.expect("stats").partitions[1].partition;
    let there: Vec<&Arc<str>> =
        names.iter().zip(&homes).filter(|(_, id)| id.partition == second).map(|(name, _)| name).collect();
    let count = there.len() as u64;
    assert!(count > 0, "names are spread");
    rebalance(world, &queue, 1).await;
    let remaining = async |world: &World| {
        let stats = world.stats(&queue).await;
        stats.partitions.iter().find(|seen| seen.partition == second).and_then(|seen| seen.remaining)
    };
    assert_eq!(remaining(world).await, Some(Remaining { items: count, groups: count }));
    engine.delete_items(&queue, homes.clone()).await.expect("deleted");
    assert_eq!(remaining(world).await, Some(Remaining { items: 0, groups: count }));
    let refused = engine.rebalance(&queue, 2).await;
    assert!(is_refused(&refused, &Refusal::Draining), "{refused:?}");
    for (gone, name) in there.iter().enumerate() {
        // Empty, and done at once: its end item is the last of it.
        engine.start_group(&queue, name).await.expect("started");
        let left = count - gone as u64 - 1;
        assert_eq!(remaining(world).await, Some(Remaining { items: gone as u64 + 1, groups: left }));
    }
    assert_eq!(complete_all(world, &queue).await.len() as u64, count);
    drained_to(world, &queue, 1).await;
}

async fn a_finished_group_is_found_until_its_time(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    let (names, engine) = (names(16), world.engine());
    make(world, &queue, &names).await;
    rebalance(world, &queue, 1).await;
    for name in &names {
        engine.start_group(&queue, name).await.expect("started");
    }
    complete_all(world, &queue).await;
    drained_to(world, &queue, 1).await;
    for name in &names {
        let view = engine.group(&queue, name).await.expect("found");
        assert_eq!((view.state.name(), view.ended.completed), ("done", 1));
    }
    assert_eq!(engine.groups(&queue, Some("g1".into()), 3).await.expect("listed").len(), 3);
    for told in produce_members(world, &queue, &names).await {
        assert!(is_refused(&told, &Refusal::GroupFinished), "{told:?}");
    }
    // In a queue of one partition an item may have both keys.
    let both = NewItem { address: Some("a".into()), ..member(&names[0]) };
    let told = engine.produce(&queue, vec![both]).await.expect("judged").results.remove(0);
    assert!(is_refused(&told, &Refusal::GroupFinished), "{told:?}");
    world.env.advance(Duration::from_secs(49 * 3600));
    for name in &names {
        while engine.group(&queue, name).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
    while engine.queue_info(&queue).is_some_and(|seen| !seen.retired.is_empty()) {
        tokio::task::yield_now().await;
    }
    make(world, &queue, &names).await;
}

async fn an_item_with_two_keys_is_refused_while_partitions_drain(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let both = || vec![NewItem { address: Some("a".into()), ..member(&"g0".into()) }];
    make(world, &queue, &names(12)).await;
    rebalance(world, &queue, 2).await;
    make(world, &queue, &names(30)[12..]).await;
    rebalance(world, &queue, 1).await;
    let refused = world.engine().produce(&queue, both()).await;
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::Invalid(_)))), "{refused:?}");
    for name in &names(30) {
        world.engine().cancel_group(&queue, name).await.expect("cancelled");
    }
    drained_to(world, &queue, 1).await;
    world.engine().create_group(&queue, group("new")).await.expect("made");
    let item = NewItem { address: Some("a".into()), ..member(&"new".into()) };
    assert!(world.engine().produce(&queue, vec![item]).await.expect("judged").results[0].is_ok());
}

async fn addresses_of_members_stay_taken(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let addressed: Vec<NewItem> = (0..24).map(|number| at(&format!("a{number}"))).collect();
    let create = CreateGroup { items: addressed.clone(), ..group("g") };
    let made = world.engine().create_group(&queue, create).await.expect("made").value;
    rebalance(world, &queue, 5).await;
    let told = world.engine().produce(&queue, addressed).await.expect("judged").results;
    for (told, made) in told.iter().zip(&made.items) {
        assert!(matches!(told, Err(EngineError::DuplicateAddress { id }) if *id == made.id), "{told:?}");
    }
    assert_eq!(world.engine().item_at(&queue, "a7").await.expect("found"), made.items[7].id);
}

async fn groups_outlive_a_restart_in_the_middle(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let names = names(24);
    make(world, &queue, &names).await;
    for partitions in [5, 1] {
        rebalance(world, &queue, partitions).await;
        world.restart().await;
        for told in produce_members(world, &queue, &names).await {
            assert_eq!(told.expect("taken").phase, Phase::Held);
        }
    }
    for name in &names {
        world.engine().start_group(&queue, name).await.expect("started");
    }
    world.restart().await;
    // Three members of each, and its end item.
    assert_eq!(complete_all(world, &queue).await.len(), 4 * names.len());
    drained_to(world, &queue, 1).await;
    world.restart().await;
    for name in &names {
        let view = world.engine().group(&queue, name).await.expect("found");
        assert_eq!((view.state.name(), view.ended.completed), ("done", 3));
    }
}
