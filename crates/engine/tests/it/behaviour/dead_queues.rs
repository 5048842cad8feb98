//! Items on their way to other queues.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::ItemId;
use windlass_core::item::{ItemError, MoveReason, Phase};
use windlass_core::limits::KINDS_MAX;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{CreateGroup, NewEnd, NewItem, RetryItem, UpdateQueue};
use windlass_engine::{EngineError, Granted};

use super::expiry::{error_code, lives};
use super::{is_refused, retry_item, waiting_lease};
use crate::world::{World, bodies, item, items, lease, queue_name};

on_every_store!(
    a_failed_item_goes_on_in_the_dead_queue_as_a_new_one,
    the_origin_says_why,
    a_lease_that_waits_at_the_dead_queue_gets_it_at_once,
    what_has_no_dead_queue_to_go_to_yet_is_moving_until_there_is_one,
    what_could_not_go_to_one_dead_queue_goes_to_the_next,
    the_payload_outlives_the_item_that_was_forgotten,
    dead_queues_have_dead_queues,
    the_targets_own_settings_apply_and_max_items_refuses_no_move,
    many_items_arrive_in_the_order_they_died_over_several_partitions,
    a_dead_queue_is_another_queue,
    nothing_is_moved_once_the_dead_queue_was_taken_away,
    what_was_to_go_to_a_queue_deleted_since_goes_to_the_next_dead_queue,
    what_can_go_nowhere_does_not_hold_up_what_can,
    what_a_dead_queue_refuses_does_not_hold_up_the_rest,
);

pub(crate) fn to_dead() -> Settings {
    Settings { max_attempts: 1, dead_queue: Some("dead".into()), ..Settings::default() }
}

/// Fails everything that waits.
pub(crate) async fn fail_all(world: &World, queue: &QueueName) -> Vec<Granted> {
    let leased = world.lease(queue, 1000).await;
    let dead = |item: &Granted| RetryItem { dead: true, ..retry_item(item) };
    world.engine().retry(queue, leased.iter().map(dead).collect()).await.expect("judged");
    leased
}

/// Takes what arrives, waiting for it.
pub(crate) async fn arrived(world: &World, queue: &QueueName, count: usize) -> Vec<Granted> {
    let mut arrived = Vec::new();
    while arrived.len() < count {
        let granted = world.engine().lease(queue, lease(1000), Span::from_secs(3600)).await;
        arrived.extend(granted.expect("leased").accept());
    }
    arrived
}

/// Until nothing is on its way out of the queue any more.
pub(crate) async fn all_moved(world: &World, queue: &QueueName) {
    while world.stats(queue).await.moving > 0 {
        tokio::task::yield_now().await;
    }
}

async fn a_failed_item_goes_on_in_the_dead_queue_as_a_new_one(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let new = NewItem { kind: "mail".into(), priority: 7, ..item("the very payload") };
    let id = world.produce(&queue, vec![new]).await[0];
    let leased = world.lease(&queue, 1).await;
    world.env.advance(Duration::from_secs(61));
    let moved = arrived(world, &dead, 1).await.pop().expect("it arrived");
    assert_eq!((&*moved.leased.kind, moved.leased.priority, moved.leased.attempts), ("mail", 7, 1));
    assert_eq!(bodies(std::slice::from_ref(&moved)), ["the very payload"]);
    assert!(moved.leased.id != id && moved.leased.created_at > leased[0].leased.created_at);
    let origin = moved.leased.origin.as_deref().expect("it was moved");
    assert_eq!((&*origin.queue, origin.id, origin.attempts), ("q", Some(id), Some(1)));
    assert_eq!(origin.reason, MoveReason::Attempts);
    assert_eq!(origin.error.as_ref().and_then(|error| error.code.as_deref()), Some("lease_expired"));
    let shown = world.engine().get(moved.leased.id).await.expect("shown");
    assert_eq!(shown.item.extras.expect("extras").origin.as_deref(), Some(origin));
    all_moved(world, &queue).await;
    let original = world.engine().get(id).await.expect("kept");
    assert_eq!((original.item.state.phase(), original.payload.is_none()), (Phase::Failed, true));
    assert_eq!(error_code(&original).as_deref(), Some("lease_expired"));
    world.restart().await;
    let stats = world.stats(&queue).await;
    assert_eq!((stats.counts.live(), stats.retained, stats.moving), (0, 1, 0));
    let stats = world.stats(&dead).await;
    assert_eq!((stats.counts.live(), stats.counts.leased), (1, 1));
    let totals = |name: &QueueName| {
        let overviews = world.engine().overview();
        overviews.into_iter().find(|one| one.queue.name == *name).expect("there").moving
    };
    assert_eq!((totals(&queue), totals(&dead)), (0, 0));
}

async fn the_origin_says_why(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let old = NewItem { dead_timeout: lives(10), ..item("too old") };
    world.produce(&queue, vec![item("given up"), item("used up"), old]).await;
    let leased = world.lease(&queue, 2).await;
    let error = Some(ItemError { code: None, message: "no hope".into() });
    let given_up = RetryItem { dead: true, error, ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![given_up, retry_item(&leased[1])]).await.expect("judged");
    world.env.advance(Duration::from_secs(10));
    let mut why: Vec<_> = arrived(world, &dead, 3)
        .await
        .iter()
        .map(|item| {
            (bodies(std::slice::from_ref(item)).remove(0), item.leased.origin.clone().expect("moved"))
        })
        .map(|(body, origin)| (body, origin.reason, origin.error.expect("always one")))
        .map(|(body, reason, error)| (body, reason, error.code.map(|code| code.to_string())))
        .collect();
    why.sort();
    let expected = [
        ("given up", MoveReason::Dead, None),
        ("too old", MoveReason::Expired, Some("dead_timeout")),
        ("used up", MoveReason::Attempts, Some("max_attempts")),
    ];
    let expected = expected.map(|(body, reason, code)| (body.to_owned(), reason, code.map(str::to_owned)));
    assert_eq!(why, expected);
}

async fn a_lease_that_waits_at_the_dead_queue_gets_it_at_once(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 2, Settings::default()).await;
    let waiting = waiting_lease(world, &dead, lease(1)).await;
    world.produce(&queue, items(1)).await;
    fail_all(world, &queue).await;
    let granted = waiting.await.expect("the task ran").expect("leased").accept();
    assert_eq!(bodies(&granted), ["item 0"]);
}

async fn what_has_no_dead_queue_to_go_to_yet_is_moving_until_there_is_one(world: &World) {
    let queue = world.queue("q", 2, to_dead()).await;
    let id = world.produce(&queue, items(1)).await[0];
    fail_all(world, &queue).await;
    for _ in 0..2 {
        let stats = world.stats(&queue).await;
        assert_eq!((stats.counts.live(), stats.moving), (0, 1));
        let deleted = world.engine().delete_queue(&queue, false).await;
        assert!(is_refused(&deleted, &Refusal::NotEmpty { live: 1 }));
        world.restart().await;
    }
    let view = world.engine().get(id).await.expect("kept");
    assert_eq!((view.item.state.phase(), view.payload), (Phase::Failed, None));
    let dead = world.queue("dead", 1, Settings::default()).await;
    assert_eq!(bodies(&arrived(world, &dead, 1).await), ["item 0"]);
    all_moved(world, &queue).await;
    world.engine().delete_queue(&queue, false).await.expect("nothing is left of it");
}

async fn what_could_not_go_to_one_dead_queue_goes_to_the_next(world: &World) {
    let queue = world.queue("q", 2, to_dead()).await;
    let morgue = world.queue("morgue", 1, Settings::default()).await;
    world.produce(&queue, items(2)).await;
    fail_all(world, &queue).await;
    assert_eq!(world.stats(&queue).await.moving, 2);
    let change = SettingsChange { dead_queue: Some(Some("morgue".into())), ..SettingsChange::default() };
    world.engine().update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
    assert_eq!(bodies(&arrived(world, &morgue, 2).await), ["item 0", "item 1"]);
    all_moved(world, &queue).await;
}

async fn the_payload_outlives_the_item_that_was_forgotten(world: &World) {
    let queue = world.queue("q", 1, Settings { retention: Span::from_secs(5), ..to_dead() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    fail_all(world, &queue).await;
    world.env.advance(Duration::from_secs(6));
    assert!(is_refused(&world.engine().get(id).await, &Refusal::NotFound));
    world.restart().await;
    let stats = world.stats(&queue).await;
    assert_eq!((stats.retained, stats.moving), (0, 1));
    let dead = world.queue("dead", 1, Settings::default()).await;
    assert_eq!(bodies(&arrived(world, &dead, 1).await), ["item 0"]);
    all_moved(world, &queue).await;
    world.restart().await;
    assert!(is_refused(&world.engine().get(id).await, &Refusal::NotFound));
}

async fn dead_queues_have_dead_queues(world: &World) {
    let next = |name: &str| Settings { dead_queue: Some(name.into()), ..to_dead() };
    let a = world.queue("a", 2, next("b")).await;
    let b = world.queue("b", 2, next("c")).await;
    let c = world.queue("c", 2, next("a")).await;
    world.produce(&a, items(3)).await;
    fail_all(world, &a).await;
    let mut from = arrived(world, &b, 3).await;
    for (here, there) in [(&b, &c), (&c, &a)] {
        let dead = |item: &Granted| RetryItem { dead: true, ..retry_item(item) };
        world.engine().retry(here, from.iter().map(dead).collect()).await.expect("judged");
        let moved = arrived(world, there, 3).await;
        let mut origins: Vec<ItemId> =
            moved.iter().filter_map(|item| item.leased.origin.as_ref()?.id).collect();
        let mut left: Vec<ItemId> = from.iter().map(|item| item.leased.id).collect();
        origins.sort();
        left.sort();
        assert_eq!(origins, left);
        from = moved;
    }
    let mut back = bodies(&from);
    back.sort();
    assert_eq!(back, ["item 0", "item 1", "item 2"]);
}

async fn the_targets_own_settings_apply_and_max_items_refuses_no_move(world: &World) {
    let queue = world.queue("q", 1, Settings { dead_timeout: Span::from_secs(5000), ..to_dead() }).await;
    let settings =
        Settings { max_items: 1, max_attempts: 4, dead_timeout: Span::from_secs(300), ..Settings::default() };
    let dead = world.queue("dead", 1, settings).await;
    let own = NewItem { max_attempts: Some(1), dead_timeout: lives(1000), ..item("one") };
    world.produce(&queue, vec![own, item("two")]).await;
    fail_all(world, &queue).await;
    let moved = arrived(world, &dead, 2).await;
    assert!(moved.iter().all(|item| item.leased.dead_timeout == lives(300)));
    let view = world.engine().get(moved[0].leased.id).await.expect("shown");
    assert_eq!(view.max_attempts, 4);
    let full = world.engine().produce(&dead, items(1)).await;
    assert!(matches!(full, Err(EngineError::Overloaded { .. })));
}

/// More than any batch takes.
async fn many_items_arrive_in_the_order_they_died_over_several_partitions(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 3, Settings::default()).await;
    let made = world.produce(&queue, items(1000)).await;
    fail_all(world, &queue).await;
    let moved = arrived(world, &dead, 1000).await;
    all_moved(world, &queue).await;
    let mut origins = Vec::new();
    for partition in
        moved.iter().map(|item| item.leased.id.partition).collect::<std::collections::BTreeSet<_>>()
    {
        let mut here: Vec<_> = moved.iter().filter(|item| item.leased.id.partition == partition).collect();
        here.sort_by_key(|item| item.leased.id);
        let from: Vec<ItemId> = here.iter().filter_map(|item| item.leased.origin.as_ref()?.id).collect();
        assert!(from.is_sorted(), "in the order they left");
        origins.extend(from);
    }
    origins.sort();
    assert_eq!(origins, made);
    assert_eq!(world.live(&dead).await, 1000);
}

async fn a_dead_queue_is_another_queue(world: &World) {
    use windlass_core::verbs::CreateQueue;
    let name = queue_name("dead");
    let create = CreateQueue::new(name, to_dead(), 1);
    let refused = world.engine().create_queue(create).await;
    assert!(
        matches!(&refused, Err(EngineError::Refused(Refusal::Invalid(invalid))) if invalid.field == "dead_queue")
    );
    let queue = world.queue("q", 1, to_dead()).await;
    for (wrong, field) in [("q", "dead_queue"), ("no/name", "dead_queue")] {
        let change = SettingsChange { dead_queue: Some(Some(Arc::from(wrong))), ..SettingsChange::default() };
        let refused = world.engine().update_queue(UpdateQueue::new(queue.clone(), change)).await;
        assert!(
            matches!(&refused, Err(EngineError::Refused(Refusal::Invalid(invalid))) if invalid.field == field)
        );
    }
    world.restart().await;
    let settings = world.engine().queue_info(&queue).expect("there").settings;
    assert_eq!(settings.dead_queue.as_deref(), Some("dead"));
}

async fn nothing_is_moved_once_the_dead_queue_was_taken_away(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let change = SettingsChange { dead_queue: Some(None), ..SettingsChange::default() };
    world.engine().update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
    world.produce(&queue, items(1)).await;
    let failed = fail_all(world, &queue).await;
    let stats = world.stats(&queue).await;
    assert_eq!((stats.retained, stats.moving), (1, 0));
    let view = world.engine().get(failed[0].leased.id).await.expect("kept");
    assert_eq!(view.item.state.phase(), Phase::Failed);
    assert!(view.item.created_at > Timestamp(0));
}

fn dead_queue(queue: &QueueName, to: &str) -> UpdateQueue {
    let change = SettingsChange { dead_queue: Some(Some(to.into())), ..SettingsChange::default() };
    UpdateQueue::new(queue.clone(), change)
}

async fn what_was_to_go_to_a_queue_deleted_since_goes_to_the_next_dead_queue(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let grave = world.queue("grave", 1, Settings::default()).await;
    // Kinds fill the dead queue up, so that what is assigned to it stays assigned.
    fill_with_kinds(world, &dead).await;
    world.produce(&queue, vec![NewItem { kind: "one-too-many".into(), ..item("stuck") }]).await;
    fail_all(world, &queue).await;
    assigned(world, &queue).await;
    world.engine().delete_queue(&dead, true).await.expect("deleted");
    world.engine().update_queue(dead_queue(&queue, "grave")).await.expect("changed");
    wait_for_more(world, &grave, 0).await;
    assert_eq!(bodies(&world.lease(&grave, 10).await), ["stuck"]);
    while_time_passes(world, all_moved(world, &queue)).await;
}

/// End items of groups go to the queue they name or nowhere, dead letters also to another dead queue.
async fn what_can_go_nowhere_does_not_hold_up_what_can(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    for index in 0..150 {
        let end = NewEnd { queue: Some("dead".into()), item: item("end") };
        let name = format!("group-{index}").into();
        let create =
            CreateGroup { name, items: vec![item("member")], start: true, end: Some(end), abort: None };
        world.engine().create_group(&queue, create).await.expect("made");
    }
    world.engine().delete_queue(&dead, true).await.expect("deleted");
    // All end items leave before the first item dies.
    let members = world.lease(&queue, 1000).await;
    for member in &members {
        world.complete(&queue, member).await;
    }
    world.env.advance(Duration::from_secs(1));
    world.produce(&queue, items(1)).await;
    fail_all(world, &queue).await;
    let grave = world.queue("grave", 1, Settings::default()).await;
    world.engine().update_queue(dead_queue(&queue, "grave")).await.expect("changed");
    wait_for_more(world, &grave, 0).await;
    wait_until_moving(world, &queue, 150).await;
}

async fn what_a_dead_queue_refuses_does_not_hold_up_the_rest(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    fill_with_kinds(world, &dead).await;
    let odd = |index| NewItem { kind: format!("odd-{index}").into(), ..item("refused") };
    let known = NewItem { kind: "kind-0".into(), ..item("taken") };
    world.produce(&queue, (0..120).map(odd).chain([known]).collect()).await;
    fail_all(world, &queue).await;
    wait_for_more(world, &dead, KINDS_MAX as u64).await;
    wait_until_moving(world, &queue, 120).await;
}

/// Until more than so many wait, while time passes.
async fn wait_for_more(world: &World, queue: &QueueName, before: u64) {
    let more = async {
        while world.waiting(queue).await <= before {
            tokio::task::yield_now().await;
        }
    };
    while_time_passes(world, more).await;
}

/// Until so many are left on their way, while time passes.
async fn wait_until_moving(world: &World, queue: &QueueName, count: u64) {
    let left = async {
        while world.stats(queue).await.moving != count {
            tokio::task::yield_now().await;
        }
    };
    while_time_passes(world, left).await;
}

/// Produces items of as many kinds as a partition takes.
pub(crate) async fn fill_with_kinds(world: &World, queue: &QueueName) {
    let kinds: Vec<NewItem> =
        (0..KINDS_MAX).map(|kind| NewItem { kind: format!("kind-{kind}").into(), ..item("kind") }).collect();
    for batch in kinds.chunks(1000) {
        world.produce(queue, batch.to_vec()).await;
    }
}

/// Until some partition was chosen for what is on its way.
async fn assigned(world: &World, queue: &QueueName) {
    let first = world.engine().commit_stats().commits;
    // It is assigned, refused, and put behind.
    let assigned = async {
        while world.engine().commit_stats().commits < first + 3 {
            tokio::task::yield_now().await;
        }
    };
    while_time_passes(world, assigned).await;
    assert_eq!(world.stats(queue).await.moving, 1);
}

pub(crate) async fn while_time_passes<T>(world: &World, call: impl Future<Output = T>) -> T {
    let passing = async {
        loop {
            world.env.advance(Duration::from_millis(10));
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        done = call => done,
        never = passing => never,
    }
}
