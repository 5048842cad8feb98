//! Partitions that no queue names: kept, listed, and adopted or dropped by their numbers.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::rule::Stop;
use windlass_core::settings::Settings;
use windlass_core::verbs::{CreateGroup, NewItem};
use windlass_engine::EngineError;

use super::addresses::at;
use super::crons::{cron, named, namespace};
use super::groups::group;
use super::is_refused;
use super::rules::set;
use crate::world::{World, bodies, item, items};

on_every_store!(
    partitions_that_a_lost_registry_named_are_kept_and_listed,
    adopted_partitions_bring_all_items_back,
    keys_of_an_adopted_partition_are_found_and_stay_taken,
    a_new_queue_gets_no_number_of_an_unclaimed_partition,
    an_unclaimed_partition_is_dropped_by_its_number_alone,
    an_adopted_partition_obeys_the_settings_and_rules_of_its_queue,
    crons_of_an_adopted_partition_are_found_by_name_and_run_once,
    a_cron_whose_name_is_taken_keeps_its_partition_from_being_adopted,
    an_unclaimed_partition_with_crons_is_dropped_only_by_force,
    a_deleted_queue_leaves_nothing_unclaimed,
);

fn numbers(world: &World) -> Vec<u32> {
    world.engine().unclaimed().iter().map(|stored| stored.partition.0).collect()
}

async fn adopt(world: &World, queue: &QueueName, partition: u32) -> Result<(), EngineError> {
    world.engine().adopt(queue, PartitionId(partition), None).await.map(|_adopted| ())
}

/// A queue of two partitions with so many items in each, whose registry is then lost.
async fn lost_queue(world: &World, each: usize) {
    let queue = world.queue("mail", 2, Settings::default()).await;
    for _ in 0..2 {
        world.produce(&queue, items(each)).await;
    }
    world.lose_registry().await;
}

async fn partitions_that_a_lost_registry_named_are_kept_and_listed(world: &World) {
    lost_queue(world, 5).await;
    assert_eq!((world.engine().queues().len(), numbers(world)), (0, vec![1, 2]));
    let listed = world.engine().describe_unclaimed(None, 10).await.expect("listed");
    for (unclaimed, number) in listed.iter().zip([1, 2]) {
        assert_eq!(unclaimed.stored.partition.0, number);
        assert_eq!(unclaimed.queue.as_ref().map(|queue| &*queue.name), Some("mail"));
        assert_eq!((unclaimed.items, unclaimed.retained), (Some(5), Some(0)));
    }
    let page = world.engine().describe_unclaimed(Some(PartitionId(1)), 10).await.expect("listed");
    assert_eq!((listed.len(), page.len()), (2, 1));
    assert_eq!(world.engine().describe_unclaimed(None, 1).await.expect("listed").len(), 1);
    world.restart().await;
    assert_eq!(numbers(world), [1, 2]);
    let held = world.stop_and_list().await;
    assert!(held.iter().map(|id| id.0).filter(|id| *id > 0).eq([1, 2]), "{held:?}");
}

async fn adopted_partitions_bring_all_items_back(world: &World) {
    let queue = world.queue("mail", 2, Settings::default()).await;
    let mut made = BTreeSet::new();
    for number in 0..10 {
        made.extend(world.produce(&queue, vec![item(&format!("item {number}"))]).await);
    }
    world.lose_registry().await;
    let queue = world.queue("mail", 1, Settings::default()).await;
    adopt(world, &queue, 1).await.expect("adopted");
    assert_eq!(numbers(world), [2]);
    adopt(world, &queue, 2).await.expect("adopted");
    let stats = world.stats(&queue).await;
    assert_eq!((stats.counts.waiting, stats.partitions.len(), numbers(world)), (10, 3, vec![]));
    for restart in [false, true] {
        if restart {
            world.restart().await;
        }
        for id in &made {
            world.engine().get(*id).await.expect("found by the id it always had");
        }
    }
    let leased = world.lease(&queue, 100).await;
    assert_eq!(leased.iter().map(|item| item.leased.id).collect::<BTreeSet<_>>(), made);
    let texts: BTreeSet<String> = bodies(&leased).into_iter().collect();
    assert_eq!(texts, (0..10).map(|number| format!("item {number}")).collect());
    for item in &leased {
        world.complete(&queue, item).await;
    }
    assert!(is_refused(&adopt(world, &queue, 2).await, &Refusal::NotUnclaimed));
    // A full member: it goes as any other does once the queue shrinks.
    world.engine().rebalance(&queue, 1).await.expect("shrinking");
    while world.stats(&queue).await.partitions.len() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(numbers(world), Vec::<u32>::new());
}

async fn keys_of_an_adopted_partition_are_found_and_stay_taken(world: &World) {
    const KEYS: usize = 20;
    let queue = world.queue("mail", 2, Settings::default()).await;
    let addressed = || (0..KEYS).map(|number| at(&format!("a{number}"))).collect::<Vec<NewItem>>();
    let ids = world.produce(&queue, addressed()).await;
    for number in 0..KEYS {
        let create = CreateGroup { items: items(1), ..group(&format!("g{number}")) };
        world.engine().create_group(&queue, create).await.expect("made");
    }
    world.lose_registry().await;
    let queue = world.queue("post", 2, Settings::default()).await;
    for partition in [1, 2] {
        adopt(world, &queue, partition).await.expect("adopted");
    }
    for (number, id) in ids.iter().enumerate() {
        let found = world.engine().item_at(&queue, &format!("a{number}")).await.expect("found");
        assert_eq!(found, *id);
    }
    let again = world.engine().produce(&queue, addressed()).await.expect("judged").results;
    for (result, id) in again.iter().zip(&ids) {
        let is_taken = matches!(result, Err(EngineError::DuplicateAddress { id: taker }) if taker == id);
        assert!(is_taken, "{result:?}");
    }
    for number in 0..KEYS {
        let name = format!("g{number}").into();
        world.engine().start_group(&queue, &name).await.expect("the group is found");
    }
    assert_eq!(world.lease(&queue, 100).await.len(), 2 * KEYS);
}

async fn a_new_queue_gets_no_number_of_an_unclaimed_partition(world: &World) {
    lost_queue(world, 1).await;
    let queue = world.queue("mail", 2, Settings::default()).await;
    let made = world.engine().queue_info(&queue).expect("it is there").partitions;
    assert_eq!(made, [PartitionId(3), PartitionId(4)]);
    assert_eq!(world.waiting(&queue).await, 0);
    assert_eq!(numbers(world), [1, 2]);
}

async fn an_unclaimed_partition_is_dropped_by_its_number_alone(world: &World) {
    lost_queue(world, 3).await;
    let queue = world.queue("mail", 1, Settings::default()).await;
    let drop = async |partition| world.engine().drop_unclaimed(PartitionId(partition), None, true).await;
    let unforced = world.engine().drop_unclaimed(PartitionId(1), None, false).await;
    assert!(is_refused(&unforced, &Refusal::UnclaimedNotEmpty { live: 3, crons: 0 }));
    drop(1).await.expect("dropped");
    assert_eq!(numbers(world), [2]);
    for claimed in [0, 1, 3, 99] {
        assert!(is_refused(&drop(claimed).await, &Refusal::NotUnclaimed), "{claimed}");
    }
    assert!(is_refused(&adopt(world, &queue, 1).await, &Refusal::NotUnclaimed));
    adopt(world, &queue, 2).await.expect("adopted");
    assert_eq!(world.waiting(&queue).await, 3);
    let held = world.stop_and_list().await;
    assert_eq!(held, [PartitionId(0), PartitionId(2), PartitionId(3)]);
}

async fn an_adopted_partition_obeys_the_settings_and_rules_of_its_queue(world: &World) {
    let queue = world.queue("mail", 1, Settings { max_attempts: 9, ..Settings::default() }).await;
    world.produce(&queue, items(2)).await;
    world.engine().set_rule(set(&queue, None, Stop::Pause)).await.expect("paused");
    assert_eq!(world.lease(&queue, 10).await.len(), 0);
    world.lose_registry().await;
    let settings =
        Settings { lease_timeout: windlass_core::time::Span::from_secs(77), ..Settings::default() };
    let queue = world.queue("post", 1, settings).await;
    adopt(world, &queue, 1).await.expect("adopted");
    let leased = world.lease(&queue, 10).await;
    assert_eq!(leased.len(), 2, "the rule went with the queue it was set on");
    let now = world.engine().now();
    assert!(leased.iter().all(|item| item.leased.deadline == now + windlass_core::time::Span::from_secs(77)));
}

async fn crons_of_an_adopted_partition_are_found_by_name_and_run_once(world: &World) {
    let queue = world.queue("mail", 1, Settings::default()).await;
    world.engine().create_cron(&queue, cron("hourly", "@every 1h")).await.expect("made");
    world.lose_registry().await;
    let queue = world.queue("post", 2, Settings::default()).await;
    adopt(world, &queue, 1).await.expect("adopted");
    let found = world.engine().crons(&namespace(), None, 10).await.expect("listed");
    assert_eq!(found.len(), 1);
    world.env.advance(Duration::from_secs(3601));
    let mut waiting = 0;
    while waiting == 0 {
        waiting = world.waiting(&queue).await;
    }
    assert_eq!(waiting, 1);
    world.engine().delete_cron(&named("hourly")).await.expect("found by its name");
}

async fn a_cron_whose_name_is_taken_keeps_its_partition_from_being_adopted(world: &World) {
    let queue = world.queue("mail", 1, Settings::default()).await;
    world.engine().create_cron(&queue, cron("hourly", "@every 1h")).await.expect("made");
    world.lose_registry().await;
    let queue = world.queue("post", 1, Settings::default()).await;
    world.engine().create_cron(&queue, cron("hourly", "@every 1h")).await.expect("made anew");
    let taken = Refusal::CronNamed { cron: "hourly".into() };
    assert!(is_refused(&adopt(world, &queue, 1).await, &taken));
    assert_eq!(numbers(world), [1]);
    world.engine().delete_cron(&named("hourly")).await.expect("deleted");
    adopt(world, &queue, 1).await.expect("adopted");
    assert_eq!(world.engine().crons(&namespace(), None, 10).await.expect("listed").len(), 1);
}

async fn an_unclaimed_partition_with_crons_is_dropped_only_by_force(world: &World) {
    let queue = world.queue("mail", 1, Settings::default()).await;
    world.engine().create_cron(&queue, cron("hourly", "@every 1h")).await.expect("made");
    world.lose_registry().await;
    let listed = world.engine().describe_unclaimed(None, 10).await.expect("listed");
    assert_eq!((listed[0].items, listed[0].crons), (Some(0), Some(1)));
    let unforced = world.engine().drop_unclaimed(PartitionId(1), None, false).await;
    assert!(is_refused(&unforced, &Refusal::UnclaimedNotEmpty { live: 0, crons: 1 }));
    assert_eq!(numbers(world), [1]);
    world.engine().drop_unclaimed(PartitionId(1), None, true).await.expect("dropped");
    assert_eq!(numbers(world), Vec::<u32>::new());
}

async fn a_deleted_queue_leaves_nothing_unclaimed(world: &World) {
    let queue = world.queue("mail", 4, Settings::default()).await;
    world.produce(&queue, items(3)).await;
    world.engine().delete_queue(&queue, true).await.expect("deleted");
    world.restart().await;
    assert_eq!(numbers(world), Vec::<u32>::new());
    assert_eq!(world.stop_and_list().await, [PartitionId(0)]);
}
