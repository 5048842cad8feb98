//! Crons of a queue whose partitions come and go: they go where their keys go, and each time runs once.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::cron::{CatchUp, Overlap};
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{NewCron, NewItem};
use windlass_engine::EngineError;

use super::crons::{cron, named, namespace};
use super::dead_queues::{fill_with_kinds, while_time_passes};
use super::rebalance::{drained_to, rebalance};
use crate::world::{World, bodies, item};

on_every_store!(
    every_time_runs_once_while_partitions_come_and_go,
    a_cron_does_not_run_elsewhere_while_its_address_is_taken_here,
    a_cron_that_is_made_while_its_address_is_taken_elsewhere_waits_there,
    a_partition_is_removed_once_the_last_item_of_its_cron_has_ended,
    a_cron_that_is_refused_where_it_goes_holds_up_no_other,
);

const CRONS: usize = 8;

fn name(index: usize) -> String {
    format!("c{index}")
}

/// Half of them make items with an address.
fn new(index: usize) -> NewCron {
    let address = index.is_multiple_of(2).then(|| format!("a{index}").into());
    let item = NewItem { address, ..item(&name(index)) };
    NewCron { item, catch_up: CatchUp::All, ..cron(&name(index), "@every 10s") }
}

fn held(index: usize) -> NewItem {
    NewItem { address: Some(format!("a{index}").into()), ..item("held") }
}

/// Completes what comes, until so much has come in all.
async fn complete_until(world: &World, queue: &QueueName, made: &mut BTreeMap<String, usize>, until: usize) {
    while made.values().sum::<usize>() < until {
        let leased = world.lease(queue, 100).await;
        for item in &leased {
            world.complete(queue, item).await;
        }
        bodies(&leased).into_iter().for_each(|body| *made.entry(body).or_default() += 1);
        tokio::task::yield_now().await;
    }
}

async fn every_time_runs_once_while_partitions_come_and_go(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    for index in 0..CRONS {
        world.engine().create_cron(&queue, new(index)).await.expect("the cron is made");
    }
    let mut made = BTreeMap::new();
    let mut times = 0;
    for partitions in [5, 1, 3] {
        rebalance(world, &queue, partitions).await;
        for _ in 0..3 {
            times += 1;
            world.env.advance(Duration::from_secs(10));
            complete_until(world, &queue, &mut made, times * CRONS).await;
        }
        drained_to(world, &queue, partitions as usize).await;
    }
    for index in 0..CRONS {
        let cron = world.engine().cron(&named(&name(index))).await.expect("it is there").view.cron;
        let run = cron.last_at.expect("it has run").0 - cron.created_at.0;
        assert_eq!(run, Span::from_secs(10 * times as u64).0, "{}", cron.name);
        assert_eq!(made.get(&name(index)), Some(&times), "{}", cron.name);
    }
}

async fn a_cron_does_not_run_elsewhere_while_its_address_is_taken_here(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, (0..CRONS).map(held).collect()).await;
    for index in 0..CRONS {
        let item = NewItem { address: held(index).address, ..item("by cron") };
        let new = NewCron { item, ..new(index) };
        world.engine().create_cron(&queue, new).await.expect("the cron is made");
    }
    rebalance(world, &queue, 4).await;
    run_once_the_addresses_are_free(world, &queue).await;
}

async fn a_cron_that_is_made_while_its_address_is_taken_elsewhere_waits_there(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, (0..CRONS).map(held).collect()).await;
    rebalance(world, &queue, 4).await;
    for index in 0..CRONS {
        let item = NewItem { address: held(index).address, ..item("by cron") };
        let new = NewCron { item, ..new(index) };
        world.engine().create_cron(&queue, new).await.expect("the cron is made");
    }
    run_once_the_addresses_are_free(world, &queue).await;
}

/// Nothing is due for a year: the end of the item is all there is to go by.
async fn a_partition_is_removed_once_the_last_item_of_its_cron_has_ended(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    for index in 0..CRONS {
        let new = NewCron { schedule: "@yearly".into(), overlap: Overlap::Skip, ..new(index) };
        world.engine().create_cron(&queue, new).await.expect("the cron is made");
        world.engine().trigger_cron(&named(&name(index))).await.expect("made");
    }
    rebalance(world, &queue, 1).await;
    complete_until(world, &queue, &mut BTreeMap::new(), CRONS).await;
    drained_to(world, &queue, 1).await;
    assert_eq!(world.engine().crons(&namespace(), None, 100).await.expect("listed").len(), CRONS);
}

/// The partition that stays knows as many kinds as it can.
async fn a_cron_that_is_refused_where_it_goes_holds_up_no_other(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    fill_with_kinds(world, &queue).await;
    let stays = world.engine().queue_info(&queue).expect("it is there").partitions[0];
    rebalance(world, &queue, 2).await;
    let mut leaving = Vec::new();
    for index in 0..CRONS {
        let of_kind = |kind: &str| NewItem { kind: kind.into(), ..item(&name(index)) };
        let yearly = |name: &str, kind: &str| NewCron { item: of_kind(kind), ..cron(name, "@yearly") };
        let (odd, known) = (format!("odd-{index}"), format!("known-{index}"));
        // Refused where the kind is one too many.
        let _made_elsewhere = world.engine().create_cron(&queue, yearly(&odd, &odd)).await;
        let made = world.engine().create_cron(&queue, yearly(&known, "kind-0")).await.expect("made");
        leaving.extend((made.commits[1].partition != stays).then(|| named(&known)));
    }
    assert!(!leaving.is_empty());
    rebalance(world, &queue, 1).await;
    for cron in leaving {
        let runs_where_it_stays = async {
            while world
                .engine()
                .trigger_cron(&cron)
                .await
                .map_or(true, |made| made.value.id.partition != stays)
            {
                tokio::task::yield_now().await;
            }
        };
        while_time_passes(world, runs_where_it_stays).await;
    }
}

/// All addresses are taken, in the one partition that there was.
async fn run_once_the_addresses_are_free(world: &World, queue: &QueueName) {
    for _ in 0..3 {
        world.env.advance(Duration::from_secs(10));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let stats = world.stats(queue).await;
        assert_eq!(stats.counts.waiting, CRONS as u64);
    }
    let mut made = BTreeMap::new();
    complete_until(world, queue, &mut made, CRONS).await;
    world.env.advance(Duration::from_secs(10));
    complete_until(world, queue, &mut made, 2 * CRONS).await;
    assert_eq!(made, BTreeMap::from([("by cron".to_owned(), CRONS), ("held".to_owned(), CRONS)]));
    // Where they run now, a trigger is told whoever has the address.
    for index in 0..CRONS {
        let name = named(&name(index));
        let first = world.engine().trigger_cron(&name).await.expect("made").value.id;
        let again = world.engine().trigger_cron(&name).await.expect_err("taken");
        assert!(matches!(again, EngineError::DuplicateAddress { id } if id == first), "{again:?}");
    }
}
