//! The cron that an item tells, wherever the item goes.

use std::time::Duration;

use windlass_core::cron::{CatchUp, Overlap};
use windlass_core::id::ItemId;
use windlass_core::item::CronRun;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{ImportItem, NewCron};
use windlass_engine::Redrive;
use windlass_engine::env::Env;

use super::afterwards::{moved_to, shown};
use super::crons::{cron, named};
use super::dead_queues::{all_moved, fail_all, to_dead};
use crate::world::{World, import_item};

on_every_store!(
    an_item_tells_its_cron_and_the_time_that_it_stands_for,
    moves_and_reruns_tell_the_cron_also_when_it_is_deleted,
    an_import_takes_the_cron_along,
    overlap_looks_at_the_item_that_the_cron_made_and_not_at_what_that_was_moved_to,
);

async fn told(world: &World, id: ItemId) -> Option<CronRun> {
    shown(world, id).await.item.extras.and_then(|extras| extras.cron).map(|cron| *cron)
}

fn run(name: &str, scheduled_at: Timestamp) -> Option<CronRun> {
    Some(CronRun { name: name.into(), scheduled_at })
}

async fn create(world: &World, queue: &QueueName, new: NewCron) {
    world.engine().create_cron(queue, new).await.expect("made");
}

async fn trigger(world: &World, name: &str) -> ItemId {
    world.engine().trigger_cron(&named(name)).await.expect("triggered").value.id
}

/// The ids of what waits, all leased.
async fn leased(world: &World, queue: &QueueName) -> Vec<ItemId> {
    world.lease(queue, 100).await.iter().map(|item| item.leased.id).collect()
}

async fn an_item_tells_its_cron_and_the_time_that_it_stands_for(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let created_at = world.env.wall();
    create(world, &queue, NewCron { catch_up: CatchUp::One, ..cron("tick", "@every 10s") }).await;
    world.env.advance(Duration::from_secs(12));
    let on_time = leased(world, &queue).await;
    assert_eq!(on_time.len(), 1);
    let triggered = trigger(world, "tick").await;
    let triggered_at = world.env.wall();
    assert_eq!(leased(world, &queue).await, [triggered]);
    // Down at 20, 30, 40 and 50 seconds, and up at 58: all of them are missed.
    world.close().await;
    world.env.advance(Duration::from_secs(46));
    world.restart().await;
    let caught_up = leased(world, &queue).await;
    assert_eq!(caught_up.len(), 1, "one for all that were missed");
    for _ in ["before", "after a restart"] {
        assert_eq!(told(world, on_time[0]).await, run("tick", created_at + Span::from_secs(10)));
        assert_eq!(told(world, triggered).await, run("tick", triggered_at));
        assert_eq!(told(world, caught_up[0]).await, run("tick", created_at + Span::from_secs(50)));
        world.restart().await;
    }
}

async fn moves_and_reruns_tell_the_cron_also_when_it_is_deleted(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    create(world, &queue, cron("nightly", "@yearly")).await;
    let first = trigger(world, "nightly").await;
    let scheduled_at = world.env.wall();
    world.env.advance(Duration::from_secs(5));
    fail_all(world, &queue).await;
    all_moved(world, &queue).await;
    world.engine().delete_cron(&named("nightly")).await.expect("deleted");
    let letter = moved_to(&shown(world, first).await).expect("it died");
    world.engine().redrive(&dead, Redrive::default()).await.expect("redriven");
    all_moved(world, &dead).await;
    let back = moved_to(&shown(world, letter).await).expect("it went back");
    let (rerun_at, rerun) = a_rerun(world).await;
    for _ in ["before", "after a restart"] {
        for id in [first, letter, back] {
            assert_eq!(told(world, id).await, run("nightly", scheduled_at), "{id}");
        }
        for id in rerun {
            assert_eq!(told(world, id).await, run("once", rerun_at), "{id}");
        }
        world.restart().await;
    }
}

/// An item of a cron that was deleted since, and what the item was rerun as.
async fn a_rerun(world: &World) -> (Timestamp, [ItemId; 2]) {
    let queue = world.queue("plain", 1, Settings::default()).await;
    create(world, &queue, cron("once", "@yearly")).await;
    let id = trigger(world, "once").await;
    let scheduled_at = world.env.wall();
    world.env.advance(Duration::from_secs(5));
    fail_all(world, &queue).await;
    world.engine().delete_cron(&named("once")).await.expect("deleted");
    let anew = world.engine().rerun(id, None).await.expect("rerun").value.id;
    (scheduled_at, [id, anew])
}

async fn an_import_takes_the_cron_along(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let scheduled_at = Timestamp(1_700_000_000_000_000);
    let item = ImportItem { cron: run("elsewhere", scheduled_at).map(Box::new), ..import_item("x") };
    let made = world.engine().import(&queue, vec![item]).await.expect("judged").results.remove(0);
    let id = made.expect("imported").id;
    for _ in ["before", "after a restart"] {
        assert_eq!(told(world, id).await, run("elsewhere", scheduled_at));
        world.restart().await;
    }
}

async fn overlap_looks_at_the_item_that_the_cron_made_and_not_at_what_that_was_moved_to(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    create(world, &queue, NewCron { overlap: Overlap::Skip, ..cron("tick", "@every 10s") }).await;
    world.env.advance(Duration::from_secs(10));
    assert_eq!(world.waiting(&queue).await, 1);
    world.env.advance(Duration::from_secs(10));
    assert_eq!(world.waiting(&queue).await, 1, "the one before is not final");
    fail_all(world, &queue).await;
    all_moved(world, &queue).await;
    assert_eq!((world.live(&queue).await, world.waiting(&dead).await), (0, 1));
    world.env.advance(Duration::from_secs(10));
    assert_eq!(world.waiting(&queue).await, 1, "the letter lives, and is not the cron's own item");
}
