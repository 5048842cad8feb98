//! Counts are what a full listing finds, at every step.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::item::Phase;
use windlass_core::partition::Counts;
use windlass_core::row::QueueName;
use windlass_core::rule::Stop;
use windlass_core::settings::Settings;
use windlass_core::verbs::{CreateGroup, List};
use windlass_engine::{Granted, ItemView, Page, QueueStats};

use super::counts::{Dice, some_deed};
use super::rules::{lift, set};
use crate::world::{World, item};

on_every_store!(counts_equal_a_full_listing_at_every_step);

const STEPS: u32 = 10_000;

async fn counts_equal_a_full_listing_at_every_step(world: &World) {
    let settings = Settings { retention_max_items: 20, ..Settings::default() };
    let queue = world.queue("q", 2, settings).await;
    let mut dice = Dice(11);
    let mut hands: Vec<Granted> = Vec::new();
    for step in 0..STEPS {
        match dice.below(12) {
            0 => some_rule(world, &queue, &mut dice).await,
            1 => some_group(world, &queue, &mut dice).await,
            _ => some_deed(world, &queue, &mut hands, &mut dice).await,
        }
        if dice.below(8) == 0 {
            world.env.advance(Duration::from_secs(dice.below(40)));
        }
        if dice.below(500) == 0 {
            world.restart().await;
        }
        check(world, &queue, step).await;
    }
}

async fn some_rule(world: &World, queue: &QueueName, dice: &mut Dice) {
    let kind = (dice.below(3) > 0).then(|| format!("kind {}", dice.below(4)));
    let stop = Stop::ALL[dice.below(2) as usize];
    let engine = world.engine();
    if dice.below(2) == 0 {
        engine.set_rule(set(queue, kind.as_deref(), stop)).await.expect("set");
    } else {
        engine.lift_rule(lift(queue, kind.as_deref(), stop)).await.expect("lifted");
    }
}

/// One of three groups: made, started, cancelled or deleted, as far as it can be.
async fn some_group(world: &World, queue: &QueueName, dice: &mut Dice) {
    let name: Arc<str> = format!("group {}", dice.below(3)).into();
    let engine = world.engine();
    let members = |dice: &mut Dice| (0..dice.below(4)).map(|_| item("a member")).collect();
    let _refused_perhaps = match dice.below(4) {
        0 => {
            let items = members(dice);
            let create = CreateGroup { name, end: None, abort: None, items, start: dice.below(2) == 0 };
            engine.create_group(queue, create).await.map(|_| ())
        }
        1 => engine.start_group(queue, &name).await.map(|_| ()),
        2 => engine.cancel_group(queue, &name).await.map(|_| ()),
        _ => engine.delete_group(queue, &name).await.map(|_| ()),
    };
}

async fn check(world: &World, queue: &QueueName, step: u32) {
    // Twice: the first question may join a batch that began before the clock was moved, and what time has brought is seen to
    // with the next.
    world.stats(queue).await;
    let stats = world.stats(queue).await;
    let told = world.engine().overview().remove(0);
    let mut found = QueueStats::default();
    let rules = world.engine().rules(Some(queue)).await.expect("rules");
    for partition in &stats.partitions {
        for list in [List::Queue, List::Scheduled] {
            let page = Page { partition: partition.partition, list, after: None, limit: 1000 };
            let items = world.engine().list(queue, page).await.expect("listed");
            for view in items {
                let on =
                    |stopped: &Option<Arc<str>>| stopped.as_ref().is_none_or(|kind| *kind == view.item.kind);
                let stopped = rules.iter().any(|rule| on(&rule.key.kind));
                count(&view, stopped, &mut found);
            }
        }
    }
    assert_eq!(stats.counts, found.counts, "step {step}");
    assert_eq!((stats.kinds, stats.priorities), (found.kinds, found.priorities), "step {step}");
    assert_eq!((stats.stopped, told.stopped), (found.stopped, found.stopped), "step {step}: {rules:?}");
    assert_eq!(told.counts, found.counts, "step {step}");
}

fn count(view: &ItemView, stopped: bool, found: &mut QueueStats) {
    let mut one = Counts::default();
    match view.phase() {
        Phase::Held => one.held = 1,
        Phase::Scheduled => one.scheduled = 1,
        Phase::Waiting => one.waiting = 1,
        Phase::Leased => one.leased = 1,
        Phase::Suspended => one.suspended = 1,
        Phase::Completed | Phase::Failed | Phase::Cancelled | Phase::Expired => panic!("{view:?} has ended"),
    }
    found.counts += one;
    *found.kinds.entry(view.item.kind.clone()).or_default() += one;
    if one.waiting == 1 {
        *found.priorities.entry(view.item.priority).or_default() += 1;
        found.stopped += u64::from(stopped);
    }
}
