//! What an item tells of itself: when it changed, who had it, how its attempts ended, which cron made it.

use std::time::Duration;

use windlass_core::attempt::AttemptEnd;
use windlass_core::id::ItemId;
use windlass_core::item::{CronRun, ItemError, MoveReason, Phase};
use windlass_core::row::QueueName;
use windlass_core::settings::{Keep, Settings};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{
    Clear, CreateGroup, LeaseItems, NewCron, NewItem, RetryItem, Settle, SuspendItem, UpdateItem,
};
use windlass_engine::env::Env;
use windlass_engine::{Granted, Redrive};

use super::afterwards::{failed, moved_to, shown};
use super::crons::{cron, named};
use super::dead_queues::{all_moved, fail_all};
use super::groups::group;
use super::kept::finished_at;
use super::retry_item;
use super::streams::emit;
use crate::world::{World, completion, item, items, lease};

on_every_store!(
    changed_at_is_when_the_state_became_another,
    a_group_start_and_a_clear_change_items_at_their_own_moments,
    what_ended_because_its_time_came_changed_when_it_was_due_and_is_kept_from_then_on,
    the_last_attempt_tells_how_its_lease_ended,
    an_attempt_that_ends_after_a_cancel_request_was_cancelled_however_it_ends,
    the_latest_lease_is_told_in_every_state,
    every_attempt_tells_how_its_lease_ended,
    what_is_given_up_after_a_cancel_request_or_cleared_was_cancelled,
    the_attempt_log_travels_to_the_dead_queue_and_back,
    a_lease_and_a_turn_carry_all_that_they_tell_of_an_item,
);

fn pass(world: &World, secs: u64) {
    world.env.advance(Duration::from_secs(secs));
}

/// Before and after a restart.
async fn assert_changed(world: &World, id: ItemId, phase: Phase, at: Timestamp) {
    for time in ["before", "after a restart"] {
        let view = shown(world, id).await;
        assert_eq!((view.phase(), view.item.changed_at()), (phase, at), "{time}");
        world.restart().await;
    }
}

async fn update(world: &World, id: ItemId, change: impl Fn(&mut UpdateItem)) {
    let mut update = UpdateItem::new(id.number);
    change(&mut update);
    world.engine().update(id, update, None).await.expect("changed");
}

fn error(message: &str) -> Option<ItemError> {
    Some(ItemError { code: Some("code".into()), message: message.into() })
}

async fn retry(world: &World, queue: &QueueName, retry: RetryItem) {
    world.engine().retry(queue, vec![retry]).await.expect("judged").results.remove(0).expect("retried");
}

async fn changed_at_is_when_the_state_became_another(world: &World) {
    let queue = world.queue("q", 1, Settings { max_attempts: 0, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    let created_at = world.env.wall();
    pass(world, 1);
    update(world, id, |update| update.priority = Some(1)).await;
    assert_changed(world, id, Phase::Waiting, created_at).await;
    let leased = world.lease(&queue, 1).await.remove(0);
    let leased_at = world.env.wall();
    pass(world, 1);
    world.engine().extend(&queue, None, vec![leased.held()]).await.expect("extended");
    emit(&world.engine(), leased.held(), &["an event"]).await;
    assert_changed(world, id, Phase::Leased, leased_at).await;
    world.engine().release(&queue, vec![leased.held()]).await.expect("released");
    assert_changed(world, id, Phase::Waiting, world.env.wall()).await;
    pass(world, 1);
    let leased = world.lease(&queue, 1).await.remove(0);
    pass(world, 1);
    retry(world, &queue, RetryItem { delay: Some(Span::from_secs(10)), ..retry_item(&leased) }).await;
    let (retried_at, due_at) = (world.env.wall(), world.env.wall() + Span::from_secs(10));
    pass(world, 1);
    assert_changed(world, id, Phase::Scheduled, retried_at).await;
    pass(world, 20);
    assert_changed(world, id, Phase::Waiting, due_at).await;
    update(world, id, |update| update.delay = Some(Span::from_secs(100))).await;
    let scheduled_at = world.env.wall();
    pass(world, 1);
    update(world, id, |update| update.delay = Some(Span::from_secs(50))).await;
    assert_changed(world, id, Phase::Scheduled, scheduled_at).await;
    update(world, id, |update| update.delay = Some(Span::ZERO)).await;
    assert_changed(world, id, Phase::Waiting, world.env.wall()).await;
    let leased = world.lease(&queue, 1).await.remove(0);
    pass(world, 1);
    let suspend = SuspendItem { held: leased.held(), reason: None };
    world.engine().suspend(&queue, vec![suspend]).await.expect("suspended");
    let suspended_at = world.env.wall();
    pass(world, 1);
    assert_changed(world, id, Phase::Suspended, suspended_at).await;
    world.engine().resume(id, None).await.expect("resumed");
    assert_changed(world, id, Phase::Waiting, world.env.wall()).await;
    pass(world, 1);
    let leased = world.lease(&queue, 1).await.remove(0);
    let leased_at = world.env.wall();
    pass(world, 1);
    world.engine().cancel(id).await.expect("asked to stop");
    assert_changed(world, id, Phase::Leased, leased_at).await;
    retry(world, &queue, retry_item(&leased)).await;
    assert_changed(world, id, Phase::Cancelled, world.env.wall()).await;
}

async fn a_group_start_and_a_clear_change_items_at_their_own_moments(world: &World) {
    let queue = world.queue("q", 1, Settings { keep: Keep::All, ..Settings::default() }).await;
    let created = CreateGroup { items: items(2), ..group("g") };
    let created = world.engine().create_group(&queue, created).await.expect("made").value;
    let held_at = world.env.wall();
    pass(world, 5);
    assert_changed(world, created.items[0].id, Phase::Held, held_at).await;
    world.engine().start_group(&queue, &"g".into()).await.expect("started");
    let started_at = world.env.wall();
    pass(world, 5);
    assert_changed(world, created.items[0].id, Phase::Waiting, started_at).await;
    let clear = Clear { waiting: true, scheduled: false, leased: false, suspended: false };
    assert_eq!(world.engine().clear(&queue, clear).await.expect("cleared").value, 2);
    let cleared_at = world.env.wall();
    pass(world, 5);
    assert_changed(world, created.items[1].id, Phase::Cancelled, cleared_at).await;
}

async fn what_ended_because_its_time_came_changed_when_it_was_due_and_is_kept_from_then_on(world: &World) {
    let settings = Settings { max_attempts: 1, retention: Span::from_secs(600), ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    let in_a_minute = Some(Span::from_secs(60));
    let mortal = |payload| NewItem { dead_timeout: in_a_minute, ..item(payload) };
    let scheduled = NewItem { delay: Some(Span::from_secs(7200)), ..mortal("scheduled") };
    let new = vec![item("is leased"), mortal("is suspended"), mortal("waits"), scheduled];
    let ids = world.produce(&queue, new).await;
    let made_at = world.env.wall();
    let leased = world.lease(&queue, 2).await;
    let suspend = SuspendItem { held: leased[1].held(), reason: None };
    world.engine().suspend(&queue, vec![suspend]).await.expect("suspended");
    pass(world, 3600);
    let due_at = made_at + Span::from_secs(60);
    assert_eq!(leased[0].leased.deadline, due_at);
    for _ in ["an hour later", "after a restart"] {
        for (id, phase) in ids.iter().zip([Phase::Failed, Phase::Expired, Phase::Expired, Phase::Expired]) {
            let view = shown(world, *id).await;
            assert_eq!((view.phase(), view.item.changed_at()), (phase, due_at));
            assert_eq!(finished_at(&view), world.env.wall(), "its retention was over before");
        }
        world.restart().await;
    }
    let (_, log) = world.engine().get_with_attempts(ids[0]).await.expect("shown");
    assert_eq!(log[0].ended_at, due_at);
}

async fn the_last_attempt_tells_how_its_lease_ended(world: &World) {
    let queue = world.queue("q", 1, Settings { max_attempts: 1, ..Settings::default() }).await;
    for (way, outcome) in
        [("retry", AttemptEnd::Dead), ("revoke", AttemptEnd::Revoked), ("deadline", AttemptEnd::Expired)]
    {
        let id = world.produce(&queue, vec![item(way)]).await[0];
        let leased = world.lease(&queue, 1).await.remove(0);
        pass(world, 5);
        let said = end_lease(world, &queue, &leased, way).await;
        for _ in ["before", "after a restart"] {
            assert_eq!(shown(world, id).await.phase(), Phase::Failed);
            assert_eq!(attempts(world, id).await, [(1, outcome, said.clone())]);
            world.restart().await;
        }
    }
}

async fn an_attempt_that_ends_after_a_cancel_request_was_cancelled_however_it_ends(world: &World) {
    let queue = world.queue("q", 1, Settings { keep: Keep::All, ..Settings::default() }).await;
    for way in ["retry", "suspend", "revoke", "deadline"] {
        let id = world.produce(&queue, vec![item(way)]).await[0];
        let leased = world.lease(&queue, 1).await.remove(0);
        world.engine().cancel(id).await.expect("asked to stop");
        pass(world, 5);
        let said = end_lease(world, &queue, &leased, way).await;
        for _ in ["before", "after a restart"] {
            let (view, log) = world.engine().get_with_attempts(id).await.expect("shown");
            assert_eq!((view.phase(), view.item.changed_at()), (Phase::Cancelled, log[0].ended_at), "{way}");
            assert_eq!(attempts(world, id).await, [(1, AttemptEnd::Cancelled, said.clone())], "{way}");
            world.restart().await;
        }
    }
}

/// Ends a lease in this way, and tells what its worker said.
async fn end_lease(world: &World, queue: &QueueName, leased: &Granted, way: &str) -> Option<String> {
    match way {
        "retry" => {
            let error = error("no luck");
            world
                .engine()
                .retry(queue, vec![RetryItem { error, ..retry_item(leased) }])
                .await
                .expect("judged");
            return Some("no luck".to_owned());
        }
        "suspend" => {
            let suspend = SuspendItem { held: leased.held(), reason: None };
            world.engine().suspend(queue, vec![suspend]).await.expect("judged");
        }
        "revoke" => drop(world.engine().revoke(queue, vec![leased.held()]).await.expect("judged")),
        _ => pass(world, 61),
    }
    None
}

async fn leased_by(world: &World, queue: &QueueName, client: &str) -> Granted {
    let lease = LeaseItems { client_id: client.into(), ..lease(1) };
    world.engine().lease(queue, lease, Span::ZERO).await.expect("leased").accept().remove(0)
}

/// What becomes of a lease.
#[derive(Clone, Copy)]
enum Deed {
    Nothing,
    Release,
    Retry,
    Suspend,
    GiveUp,
}

async fn the_latest_lease_is_told_in_every_state(world: &World) {
    let queue = world.queue("q", 1, Settings { max_attempts: 0, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    assert_eq!(shown(world, id).await.item.started(), None);
    let (engine, delay) = (|| world.engine(), Some(Span::from_secs(1)));
    for (client, deed, phase) in [
        ("first", Deed::Nothing, Phase::Leased),
        ("second", Deed::Release, Phase::Waiting),
        ("third", Deed::Retry, Phase::Scheduled),
        ("fourth", Deed::Suspend, Phase::Suspended),
        ("fifth", Deed::GiveUp, Phase::Failed),
    ] {
        let leased = leased_by(world, &queue, client).await;
        let leased_at = world.env.wall();
        pass(world, 1);
        let held = leased.held();
        match deed {
            Deed::Nothing => {}
            Deed::Release => drop(engine().release(&queue, vec![held]).await.expect("released")),
            Deed::Retry => retry(world, &queue, RetryItem { delay, ..retry_item(&leased) }).await,
            Deed::Suspend => {
                let suspend = SuspendItem { held, reason: None };
                engine().suspend(&queue, vec![suspend]).await.expect("suspended");
            }
            Deed::GiveUp => retry(world, &queue, RetryItem { dead: true, ..retry_item(&leased) }).await,
        }
        for time in ["before", "after a restart"] {
            let view = shown(world, id).await;
            let told = view.item.started().map(|(at, client)| (at, &**client));
            assert_eq!((view.phase(), told), (phase, Some((leased_at, client))), "{time}");
            world.restart().await;
        }
        match deed {
            Deed::Nothing => drop(engine().release(&queue, vec![held]).await.expect("released")),
            Deed::Suspend => drop(engine().resume(id, None).await.expect("resumed")),
            Deed::Release | Deed::Retry | Deed::GiveUp => pass(world, 1),
        }
    }
}

/// Number and outcome of each attempt, and what was said of it.
async fn attempts(world: &World, id: ItemId) -> Vec<(u32, AttemptEnd, Option<String>)> {
    let (_, log) = world.engine().get_with_attempts(id).await.expect("shown");
    let said = |error: ItemError| error.message.to_string();
    log.into_iter().map(|attempt| (attempt.attempt, attempt.end, attempt.error.map(said))).collect()
}

async fn every_attempt_tells_how_its_lease_ended(world: &World) {
    let queue = world.queue("q", 1, Settings { max_attempts: 0, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    let at_once = |item: &Granted| RetryItem { delay: Some(Span::ZERO), ..retry_item(item) };
    let leased = leased_by(world, &queue, "first").await;
    let leased_at = world.env.wall();
    pass(world, 2);
    retry(world, &queue, RetryItem { error: error("busy"), ..at_once(&leased) }).await;
    let (_, log) = world.engine().get_with_attempts(id).await.expect("shown");
    assert_eq!(
        (&*log[0].client_id, log[0].leased_at, log[0].ended_at),
        ("first", leased_at, world.env.wall())
    );
    let released = world.lease(&queue, 1).await;
    world.engine().release(&queue, vec![released[0].held()]).await.expect("released");
    let suspended = world.lease(&queue, 1).await;
    let suspend = SuspendItem { held: suspended[0].held(), reason: None };
    world.engine().suspend(&queue, vec![suspend]).await.expect("suspended");
    world.engine().resume(id, None).await.expect("resumed");
    world.lease(&queue, 1).await;
    pass(world, 61);
    let revoked = world.lease(&queue, 1).await;
    world.engine().revoke(&queue, vec![revoked[0].held()]).await.expect("revoked");
    let last = world.lease(&queue, 1).await;
    retry(world, &queue, RetryItem { dead: true, error: error("no hope"), ..retry_item(&last[0]) }).await;
    let expected = [
        (1, AttemptEnd::Retried, Some("busy".to_owned())),
        (2, AttemptEnd::Expired, None),
        (3, AttemptEnd::Revoked, None),
        (4, AttemptEnd::Dead, Some("no hope".to_owned())),
    ];
    for _ in ["before", "after a restart"] {
        assert_eq!(attempts(world, id).await, expected, "a release and a suspension are no attempts");
        world.restart().await;
    }
}

async fn what_is_given_up_after_a_cancel_request_or_cleared_was_cancelled(world: &World) {
    let queue = world.queue("q", 1, Settings { keep: Keep::All, ..Settings::default() }).await;
    let ids = world.produce(&queue, items(3)).await;
    let leased = world.lease(&queue, 3).await;
    for id in &ids[..2] {
        world.engine().cancel(*id).await.expect("asked to stop");
    }
    retry(world, &queue, retry_item(&leased[0])).await;
    world.engine().release(&queue, vec![leased[1].held()]).await.expect("released");
    let clear = Clear { waiting: false, scheduled: false, leased: true, suspended: false };
    assert_eq!(world.engine().clear(&queue, clear).await.expect("cleared").value, 1);
    for _ in ["before", "after a restart"] {
        for id in &ids {
            assert_eq!(shown(world, *id).await.phase(), Phase::Cancelled);
            assert_eq!(attempts(world, *id).await, [(1, AttemptEnd::Cancelled, None)]);
        }
        world.restart().await;
    }
}

async fn the_attempt_log_travels_to_the_dead_queue_and_back(world: &World) {
    let settings = Settings { dead_queue: Some("dead".into()), ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let id = failed(world, &queue, item("first")).await;
    all_moved(world, &queue).await;
    let expected = [(1, AttemptEnd::Dead, Some("no hope".to_owned()))];
    let letter = moved_to(&shown(world, id).await).expect("it died");
    world.engine().redrive(&dead, Redrive::default()).await.expect("redriven");
    all_moved(world, &dead).await;
    let back = moved_to(&shown(world, letter).await).expect("it went back");
    for id in [id, letter, back] {
        assert_eq!(attempts(world, id).await, expected);
    }
}

#[derive(Debug, PartialEq)]
struct Told {
    max_attempts: u32,
    error: Option<String>,
    origin: Option<(ItemId, MoveReason)>,
    cron: Option<CronRun>,
}

fn told(granted: &Granted) -> Told {
    let leased = &granted.leased;
    let origin = leased.origin.as_ref().and_then(|origin| Some((origin.id?, origin.reason)));
    let error = leased.error.as_ref().map(|error| error.message.to_string());
    Told { max_attempts: leased.max_attempts, error, origin, cron: leased.cron.as_deref().cloned() }
}

async fn a_lease_and_a_turn_carry_all_that_they_tell_of_an_item(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let report = NewItem { max_attempts: Some(7), ..item("report") };
    let new = NewCron { item: report, ..cron("nightly", "@yearly") };
    world.engine().create_cron(&queue, new).await.expect("made");
    let triggered = world.engine().trigger_cron(&named("nightly")).await.expect("made").value.id;
    let scheduled_at = world.env.wall();
    pass(world, 9);
    fail_all(world, &queue).await;
    world.engine().rerun(triggered, None).await.expect("rerun");
    let leased = world.lease(&queue, 1).await;
    let cron = Some(CronRun { name: "nightly".into(), scheduled_at });
    let origin = Some((triggered, MoveReason::Rerun));
    let expected = Told { max_attempts: 7, error: None, origin, cron };
    assert_eq!(told(&leased[0]), expected);
    let again = RetryItem { delay: Some(Span::ZERO), error: error("busy"), ..retry_item(&leased[0]) };
    retry(world, &queue, again).await;
    let expected = Told { error: Some("busy".to_owned()), ..expected };
    for _ in ["before", "after a restart"] {
        world.produce(&queue, vec![NewItem { priority: 9, ..item("other") }]).await;
        let leased = world.lease(&queue, 2).await;
        assert_eq!(told(&leased[0]), expected);
        world.engine().release(&queue, vec![leased[0].held()]).await.expect("released");
        let other = vec![Settle::Complete(completion(leased[1].held()))];
        let turn = world.engine().next(&queue, other, Some(lease(1))).await.expect("a sound turn");
        let leased = turn.leased.expect("leased").accept();
        assert_eq!(told(&leased[0]), expected);
        world.engine().release(&queue, vec![leased[0].held()]).await.expect("released");
        world.restart().await;
    }
}
