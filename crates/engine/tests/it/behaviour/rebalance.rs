//! More partitions for a queue and fewer, with everything in use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::NewItem;
use windlass_engine::{Commit, EngineError, PartitionState, ProducedItem, Remaining};

use super::addresses::at;
use super::dead_queues::{all_moved, arrived, fail_all, to_dead};
use super::{is_refused, waiting_for, waiting_lease};
use crate::world::{World, bodies, completion, item, items, lease};

on_every_store!(
    a_queue_grows_at_once,
    as_many_as_there_are_is_no_change_and_a_wrong_number_is_refused,
    an_address_stays_taken_while_its_home_changes,
    a_call_made_before_is_not_carried_out_again_by_its_new_homes,
    an_address_held_in_a_former_home_is_told_again_too,
    a_draining_partition_takes_nothing_new_and_is_leased_empty,
    no_second_rebalance_while_one_drains,
    what_a_partition_kept_is_found_until_its_time,
    a_partition_that_keeps_nothing_is_dropped,
    what_was_done_in_a_partition_counts_when_it_is_gone,
    a_call_answered_by_a_former_home_tells_how_far_that_was,
    who_waits_for_an_item_or_for_work_does_not_notice,
    what_is_on_its_way_arrives_once_though_its_taker_goes,
    a_rebalance_outlives_a_restart,
    no_address_is_live_twice_and_no_item_lost_under_load,
);

pub(super) async fn rebalance(world: &World, queue: &QueueName, partitions: u32) {
    let made = world.engine().rebalance(queue, partitions).await.expect("rebalanced").value;
    assert_eq!(made.width(), partitions as usize);
}

fn addresses(count: usize) -> Vec<NewItem> {
    (0..count).map(|number| at(&format!("a{number}"))).collect()
}

fn is_taken_by(result: &Result<ProducedItem, EngineError>, id: ItemId) -> bool {
    matches!(result, Err(EngineError::DuplicateAddress { id: taker }) if *taker == id)
}

async fn partitions(world: &World, queue: &QueueName) -> Vec<PartitionId> {
    world.stats(queue).await.partitions.iter().map(|seen| seen.partition).collect()
}

/// Until so many are listed.
pub(super) async fn drained_to(world: &World, queue: &QueueName, count: usize) {
    while partitions(world, queue).await.len() != count {
        tokio::task::yield_now().await;
    }
}

pub(super) async fn complete_all(world: &World, queue: &QueueName) -> Vec<ItemId> {
    let mut done = Vec::new();
    loop {
        let leased = world.lease(queue, 1000).await;
        if leased.is_empty() {
            return done;
        }
        for item in &leased {
            world.complete(queue, item).await;
        }
        done.extend(leased.iter().map(|item| item.leased.id));
    }
}

async fn a_queue_grows_at_once(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(10)).await;
    rebalance(world, &queue, 5).await;
    let stats = world.stats(&queue).await;
    assert_eq!(stats.partitions.len(), 5);
    let is_open = |state: &PartitionState| *state == PartitionState::Available;
    assert!(stats.partitions.iter().all(|seen| is_open(&seen.state) && seen.remaining.is_none()));
    let mut used = BTreeSet::new();
    for _ in 0..12 {
        used.extend(world.produce(&queue, items(1)).await.iter().map(|id| id.partition));
    }
    assert!(used.iter().any(|id| stats.partitions[2..].iter().any(|seen| seen.partition == *id)));
    let at_home: BTreeSet<_> =
        world.produce(&queue, addresses(200)).await.iter().map(|id| id.partition).collect();
    assert_eq!(at_home.len(), 5, "keys are spread over all of them");
    assert_eq!(world.lease(&queue, 1000).await.len(), 222);
}

async fn as_many_as_there_are_is_no_change_and_a_wrong_number_is_refused(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let before = world.engine().queue_info(&queue);
    rebalance(world, &queue, 3).await;
    assert_eq!(world.engine().queue_info(&queue), before);
    for partitions in [0, 1025] {
        let refused = world.engine().rebalance(&queue, partitions).await;
        assert!(matches!(refused, Err(EngineError::Refused(Refusal::Invalid(_)))), "{refused:?}");
    }
    let nowhere = world.engine().rebalance(&crate::world::queue_name("nowhere"), 2).await;
    assert!(is_refused(&nowhere, &Refusal::NoSuchQueue { queue: "nowhere".into() }), "{nowhere:?}");
}

async fn an_address_stays_taken_while_its_home_changes(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let ids = world.produce(&queue, addresses(100)).await;
    for partitions in [5, 1] {
        rebalance(world, &queue, partitions).await;
        let refused = world.judged(&queue, addresses(100)).await;
        assert!(refused.iter().zip(&ids).all(|(result, id)| is_taken_by(result, *id)), "{refused:?}");
        for (number, id) in ids.iter().enumerate() {
            let found = world.engine().item_at(&queue, &format!("a{number}")).await.expect("it is known");
            assert_eq!(found, *id);
        }
    }
    world.engine().cancel(ids[7]).await.expect("cancelled");
    let again = world.judged(&queue, addresses(8)).await.pop().expect("one for each").expect("it is free");
    let found = world.engine().item_at(&queue, "a7").await.expect("it is known");
    assert_eq!(found, again.id, "the one that holds it, not the one that did");
}

async fn a_call_made_before_is_not_carried_out_again_by_its_new_homes(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let mixed = || addresses(30).into_iter().chain(items(5)).collect::<Vec<_>>();
    let mut first = Vec::new();
    for number in 0..6 {
        let (engine, key) = (world.engine(), format!("call {number}"));
        let call = if number == 0 { mixed() } else { items(3) };
        first.push(engine.produce_once(&queue, key.into(), call).await.expect("judged").results);
    }
    complete_all(world, &queue).await;
    for partitions in [5, 1, 3] {
        rebalance(world, &queue, partitions).await;
        for (number, first) in first.iter().enumerate() {
            let (engine, key) = (world.engine(), format!("call {number}"));
            let call = if number == 0 { mixed() } else { items(3) };
            let again = engine.produce_once(&queue, key.clone().into(), call).await.expect("judged").results;
            let ids = |told: &[Result<ProducedItem, EngineError>]| -> Vec<ItemId> {
                told.iter().map(|made| made.as_ref().expect("produced").id).collect()
            };
            assert_eq!(ids(&again), ids(first), "{key} over {partitions}");
            let other = engine.produce_once(&queue, key.into(), items(4)).await;
            assert!(is_refused(&other, &Refusal::KeyTaken), "{other:?}");
        }
        assert_eq!(world.live(&queue).await, 0);
        drained_to(world, &queue, partitions as usize).await;
    }
}

async fn an_address_held_in_a_former_home_is_told_again_too(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let ids = world.produce(&queue, addresses(40)).await;
    rebalance(world, &queue, 4).await;
    let engine = world.engine();
    let call = || engine.produce_once(&queue, "call".into(), addresses(40));
    let told = call().await.expect("judged").results;
    assert!(told.iter().zip(&ids).all(|(result, id)| is_taken_by(result, *id)), "{told:?}");
    complete_all(world, &queue).await;
    let told = call().await.expect("judged").results;
    assert!(told.iter().zip(&ids).all(|(result, id)| is_taken_by(result, *id)), "as it was then");
}

async fn a_draining_partition_takes_nothing_new_and_is_leased_empty(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    for _ in 0..9 {
        world.produce(&queue, items(1)).await;
    }
    let before = partitions(world, &queue).await;
    rebalance(world, &queue, 1).await;
    let stats = world.stats(&queue).await;
    let remaining: Vec<_> = stats.partitions.iter().map(|seen| seen.remaining).collect();
    let left = Some(Remaining { items: 3, groups: 0 });
    assert_eq!(remaining, [None, left, left]);
    let made = world.produce(&queue, addresses(20).into_iter().chain(items(20)).collect()).await;
    assert!(made.iter().all(|id| id.partition == before[0]));
    assert_eq!(complete_all(world, &queue).await.len(), 49);
    drained_to(world, &queue, 1).await;
    assert_eq!(partitions(world, &queue).await, [before[0]]);
    world.produce(&queue, items(1)).await;
}

async fn no_second_rebalance_while_one_drains(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    world.produce(&queue, items(1)).await;
    rebalance(world, &queue, 1).await;
    for partitions in [1, 2, 3] {
        let refused = world.engine().rebalance(&queue, partitions).await;
        assert!(is_refused(&refused, &Refusal::Draining), "{refused:?}");
    }
    complete_all(world, &queue).await;
    drained_to(world, &queue, 1).await;
    rebalance(world, &queue, 2).await;
}

async fn what_a_partition_kept_is_found_until_its_time(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    let ids = world.produce(&queue, addresses(40)).await;
    let leased = world.lease(&queue, 1000).await;
    for held in &leased {
        world.complete(&queue, held).await;
    }
    rebalance(world, &queue, 1).await;
    drained_to(world, &queue, 1).await;
    let stats = world.stats(&queue).await;
    assert_eq!((stats.retained, stats.partitions.len()), (40, 1));
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(world.engine().item_at(&queue, &format!("a{number}")).await.expect("kept"), *id);
        let seen = world.engine().get(*id).await.expect("kept");
        assert_eq!(seen.item.state.phase(), Phase::Completed);
    }
    let late = world.engine().complete(&queue, vec![completion(leased[0].held())]).await;
    let late = late.expect("judged").results.remove(0);
    assert!(matches!(late, Err(EngineError::Refused(Refusal::LeaseLost { reason: Some(_) }))), "{late:?}");
    world.env.advance(Duration::from_secs(49 * 3600));
    for id in &ids {
        while world.engine().get(*id).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}

async fn a_partition_that_keeps_nothing_is_dropped(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    rebalance(world, &queue, 1).await;
    while world.engine().queue_info(&queue).is_some_and(|seen| seen.homes().count() > 1) {
        tokio::task::yield_now().await;
    }
    let seen = world.engine().queue_info(&queue).expect("it is there");
    assert!(seen.retired.is_empty() && seen.draining.is_empty());
    world.restart().await;
    rebalance(world, &queue, 2).await;
    let ids = world.produce(&queue, addresses(30)).await;
    assert!(ids.iter().all(|id| id.partition == seen.partitions[0] || id.partition > PartitionId(4)));
}

async fn what_was_done_in_a_partition_counts_when_it_is_gone(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    for _ in 0..12 {
        world.produce(&queue, items(1)).await;
    }
    complete_all(world, &queue).await;
    rebalance(world, &queue, 1).await;
    while world.engine().queue_info(&queue).is_some_and(|seen| seen.homes().count() > 1) {
        tokio::task::yield_now().await;
    }
    let totals = world.engine().overview().remove(0).totals;
    assert_eq!((totals.produced, totals.completed), (12, 12));
}

async fn a_call_answered_by_a_former_home_tells_how_far_that_was(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let engine = world.engine();
    let first = engine.produce_once(&queue, "call".into(), addresses(40)).await.expect("judged");
    rebalance(world, &queue, 4).await;
    let is_told =
        |commits: &[Commit]| matches!(commits, [one, ..] if one.sequence >= first.commits[0].sequence);
    let again = engine.produce_once(&queue, "call".into(), addresses(40)).await.expect("judged");
    assert!(is_told(&again.commits), "{:?}", again.commits);
    for item in addresses(40) {
        let refused = engine.produce(&queue, vec![item]).await.expect("judged");
        assert!(refused.results[0].is_err() && is_told(&refused.commits), "{:?}", refused.commits);
    }
}

async fn who_waits_for_an_item_or_for_work_does_not_notice(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let ids = world.produce(&queue, addresses(9)).await;
    let leased = world.lease(&queue, 1000).await;
    let waiting: Vec<_> = {
        let mut waiting = Vec::new();
        for id in &ids {
            waiting.push(waiting_for(&world.engine(), *id).await);
        }
        waiting
    };
    let lease = waiting_lease(world, &queue, lease(1)).await;
    rebalance(world, &queue, 1).await;
    for item in &leased {
        world.complete(&queue, item).await;
    }
    for wait in waiting {
        let ended = wait.await.expect("the task ran").expect("it ended");
        assert_eq!(ended.item.state.phase(), Phase::Completed);
    }
    drained_to(world, &queue, 1).await;
    rebalance(world, &queue, 4).await;
    world.produce(&queue, vec![item("work")]).await;
    assert_eq!(bodies(lease.await.expect("the task ran").expect("leased").items()), ["work"]);
}

async fn what_is_on_its_way_arrives_once_though_its_taker_goes(world: &World) {
    let dead = world.queue("dead", 4, Settings::default()).await;
    let queue = world.queue("q", 3, to_dead()).await;
    for round in 0..4 {
        for _ in 0..6 {
            world.produce(&queue, items(5)).await;
        }
        assert_eq!(fail_all(world, &queue).await.len(), 30);
        // Dying partitions send, and partitions that go are chosen to take.
        rebalance(world, &queue, if round % 2 == 0 { 1 } else { 3 }).await;
        rebalance(world, &dead, if round % 2 == 0 { 1 } else { 4 }).await;
        let taken = arrived(world, &dead, 30).await;
        assert_eq!(taken.len(), 30);
        for item in &taken {
            world.complete(&dead, item).await;
        }
        all_moved(world, &queue).await;
        assert_eq!(world.live(&dead).await, 0);
        drained_to(world, &queue, if round % 2 == 0 { 1 } else { 3 }).await;
        drained_to(world, &dead, if round % 2 == 0 { 1 } else { 4 }).await;
    }
}

async fn a_rebalance_outlives_a_restart(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let ids = world.produce(&queue, addresses(60)).await;
    world.engine().produce_once(&queue, "call".into(), items(2)).await.expect("judged");
    for partitions in [5, 1] {
        rebalance(world, &queue, partitions).await;
        world.restart().await;
        let refused = world.judged(&queue, addresses(60)).await;
        assert!(refused.iter().zip(&ids).all(|(result, id)| is_taken_by(result, *id)), "{refused:?}");
        world.engine().produce_once(&queue, "call".into(), items(2)).await.expect("judged");
        assert_eq!(world.live(&queue).await, 62);
    }
    complete_all(world, &queue).await;
    drained_to(world, &queue, 1).await;
    world.restart().await;
    assert_eq!(world.engine().item_at(&queue, "a3").await.expect("kept"), ids[3]);
    assert_eq!(partitions(world, &queue).await.len(), 1);
}

/// Producers that share a few addresses, workers that complete what they get, and partitions that come and go.
async fn no_address_is_live_twice_and_no_item_lost_under_load(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let (engine, queue) = (world.engine(), queue.clone());
            tokio::spawn(async move {
                let mut made = Vec::new();
                for _ in 0..60 {
                    let call = addresses(8).into_iter().chain(items(2)).collect();
                    let results = engine.produce(&queue, call).await.expect("judged").results;
                    made.extend(results.into_iter().filter_map(|result| match result {
                        Ok(made) => Some(made.id),
                        Err(EngineError::DuplicateAddress { .. }) => None,
                        Err(error) => panic!("{error}"),
                    }));
                }
                made
            })
        })
        .collect();
    let (engine, name) = (world.engine(), queue.clone());
    let worker = tokio::spawn(async move {
        let (mut done, mut live) = (Vec::new(), BTreeMap::new());
        loop {
            let granted =
                engine.lease(&name, lease(7), Span::from_secs(3600)).await.expect("leased").accept();
            for item in &granted {
                if let Some(address) = &item.leased.address {
                    let other = live.insert(address.clone(), item.leased.id);
                    assert_eq!(other, None, "two items of one address are leased at once");
                }
            }
            let mut ends = false;
            for item in granted {
                // No longer ours to vouch for once it may be free again.
                item.leased.address.iter().for_each(|address| assert!(live.remove(address).is_some()));
                let judged = engine.complete(&name, vec![completion(item.held())]).await;
                assert!(judged.expect("judged").results[0].is_ok());
                done.push(item.leased.id);
                ends |= item.body == "the end";
            }
            if ends {
                return done;
            }
        }
    });
    for partitions in [5, 1] {
        rebalance(world, &queue, partitions).await;
    }
    let mut made = Vec::new();
    for producer in producers {
        made.extend(producer.await.expect("it ran"));
    }
    // Behind all others, of every partition.
    world.produce(&queue, vec![NewItem { priority: 255, ..item("the end") }]).await;
    let mut done = worker.await.expect("it ran");
    done.extend(complete_all(world, &queue).await);
    made.sort_unstable();
    done.sort_unstable();
    assert_eq!(made.len(), made.iter().collect::<BTreeSet<_>>().len());
    done.retain(|id| made.binary_search(id).is_ok());
    assert_eq!(done, made);
}
