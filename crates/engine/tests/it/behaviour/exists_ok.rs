//! Queues and crons that may be there already, and what owners note down about queues.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::cron::CronRefusal;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Queue, QueueName};
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::verbs::{CreateQueue, CronChange, GivenQueue, NewCron, NewItem, UpdateQueue};
use windlass_engine::env::Env;
use windlass_engine::{Committed, CronInfo, Engine, EngineError, GivenCron};

use super::crons::{cron, named};
use super::is_refused;
use crate::world::{World, item, queue_name};

on_every_store!(
    of_many_creations_at_once_one_makes_the_queue_and_all_are_told_it,
    a_queue_that_differs_is_refused_over_a_restart_too,
    meta_and_times_of_a_queue_outlive_a_restart,
    of_many_creations_at_once_one_makes_the_cron_and_all_are_told_it,
    a_cron_that_differs_is_refused,
);

const SECOND: Duration = Duration::from_secs(1);

/// What twenty calls at once are told.
async fn at_once<T>(call: impl Fn() -> T) -> Vec<T::Output>
where
    T: Future<Output: Send> + Send + 'static,
{
    tokio::task::JoinSet::from_iter((0..20).map(|_| call())).join_all().await
}

fn attempts(max_attempts: u32) -> GivenQueue {
    let settings = SettingsChange { max_attempts: Some(max_attempts), ..SettingsChange::default() };
    GivenQueue { settings, partitions: Some(2), meta: Some(Some(r#"{"team":"a"}"#.into())) }
}

async fn ensure(engine: Engine, given: GivenQueue) -> Result<Committed<Queue>, EngineError> {
    let settings = Settings::default().changed(given.settings.clone());
    let partitions = given.partitions.unwrap_or(1);
    let create = CreateQueue {
        meta: given.meta.clone().flatten(),
        exists_ok: Some(Box::new(given)),
        ..CreateQueue::new(queue_name("q"), settings, partitions)
    };
    engine.create_queue(create).await
}

async fn of_many_creations_at_once_one_makes_the_queue_and_all_are_told_it(world: &World) {
    let told = at_once(|| ensure(world.engine(), attempts(7))).await;
    let queues: Vec<Queue> = told.into_iter().map(|told| told.expect("made or there").value).collect();
    assert!(queues.iter().all(|queue| *queue == queues[0]));
    assert_eq!((queues[0].partitions.len(), queues[0].settings.max_attempts), (2, 7));
    assert_eq!(world.engine().queues().len(), 1);
}

async fn a_queue_that_differs_is_refused_over_a_restart_too(world: &World) {
    let made = ensure(world.engine(), attempts(7)).await.expect("made").value;
    world.restart().await;
    assert_eq!(ensure(world.engine(), attempts(7)).await.expect("there").value, made);
    let refused = ensure(world.engine(), attempts(8)).await;
    assert!(is_refused(&refused, &Refusal::QueueDiffers { field: "max_attempts" }), "{refused:?}");
    let wider = GivenQueue { partitions: Some(3), ..attempts(8) };
    assert!(is_refused(&ensure(world.engine(), wider).await, &Refusal::QueueDiffers { field: "partitions" }));
    assert_eq!(world.engine().queues(), [made]);
}

/// The queue but for `former`, which empties in the background after a rebalance.
fn settled(queue: &Queue) -> Queue {
    Queue { former: BTreeMap::new(), ..queue.clone() }
}

async fn meta_and_times_of_a_queue_outlive_a_restart(world: &World) {
    let made_at = world.env.wall();
    let made = ensure(world.engine(), attempts(7)).await.expect("made").value;
    assert_eq!((made.created_at, made.updated_at), (made_at, made_at));
    world.env.advance(SECOND);
    world.engine().rebalance(&made.name, 3).await.expect("wider");
    assert_eq!(world.engine().queues()[0].updated_at, made_at, "a rebalance is no update");
    world.env.advance(SECOND);
    let meta = Some(Some(r#"{"team":"b"}"#.into()));
    let update = UpdateQueue { meta, ..UpdateQueue::new(made.name.clone(), SettingsChange::default()) };
    let updated = world.engine().update_queue(update).await.expect("updated").value;
    assert_eq!((updated.created_at, updated.updated_at), (made_at, world.env.wall()));
    assert_eq!(updated.meta.as_deref(), Some(r#"{"team":"b"}"#));
    assert_eq!(settled(&world.engine().queues()[0]), settled(&updated));
    world.restart().await;
    assert_eq!(settled(&world.engine().queues()[0]), settled(&updated));
}

/// Bodies of these tests are the same whatever the case of their letters.
fn is_same_body(one: &Bytes, other: &Bytes) -> bool {
    one.eq_ignore_ascii_case(other)
}

async fn ensure_cron(engine: Engine, queue: QueueName, new: NewCron) -> Result<CronInfo, EngineError> {
    let fields = CronChange {
        schedule: Some(new.schedule.clone()),
        item: Some(new.item.clone()),
        ..CronChange::default()
    };
    let given = GivenCron { fields, is_same_body };
    Ok(engine.ensure_cron(&queue, new, given).await?.value)
}

async fn of_many_creations_at_once_one_makes_the_cron_and_all_are_told_it(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let new = || cron("tick", "@hourly");
    let told = at_once(|| ensure_cron(world.engine(), queue.clone(), new())).await;
    let told: Vec<CronInfo> = told.into_iter().map(|told| told.expect("made or there")).collect();
    let numbers: BTreeSet<u64> = told.iter().map(|told| told.view.cron.number).collect();
    assert_eq!(numbers.len(), 1);
    world.restart().await;
    let shouted = NewCron { item: NewItem { facts: None, ..item("THE TIME HAS COME") }, ..new() };
    let there = ensure_cron(world.engine(), queue.clone(), shouted).await.expect("there");
    assert_eq!(numbers, BTreeSet::from([there.view.cron.number]));
    assert_eq!((there.view.next_times.len(), there.body.as_deref()), (10, Some(&b"the time has come"[..])));
}

async fn a_cron_that_differs_is_refused(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let other = world.queue("other", 1, Settings::default()).await;
    let new = || cron("tick", "@hourly");
    let made = ensure_cron(world.engine(), queue.clone(), new()).await.expect("made");
    let differs = |field| Refusal::Cron(CronRefusal::Differs { field });
    assert!(is_refused(&ensure_cron(world.engine(), other.clone(), new()).await, &differs("queue")));
    let daily = NewCron { schedule: "@daily".into(), ..new() };
    assert!(is_refused(&ensure_cron(world.engine(), queue.clone(), daily).await, &differs("schedule")));
    for item in [NewItem { priority: 3, ..new().item }, item("something else")] {
        let refused = ensure_cron(world.engine(), queue.clone(), NewCron { item, ..new() }).await;
        assert!(is_refused(&refused, &differs("item")), "{refused:?}");
    }
    let plain = world.engine().create_cron(&queue, new()).await;
    assert!(is_refused(&plain, &Refusal::Cron(CronRefusal::Exists)));
    assert_eq!(world.engine().cron(&named("tick")).await.expect("shown").view.cron, made.view.cron);
    world.engine().delete_cron(&named("tick")).await.expect("deleted");
    let again = ensure_cron(world.engine(), queue.clone(), new()).await.expect("made again");
    assert_ne!(again.view.cron.number, made.view.cron.number);
}
