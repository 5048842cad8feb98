//! What an update does to an item in each of its states.

use std::time::Duration;

use windlass_core::group::Member;
use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{NewItem, RetryItem, SuspendItem, UpdateItem};
use windlass_engine::env::Env;
use windlass_engine::{EngineError, ItemView, Rewrite};

use super::addresses::at;
use super::afterwards::{failed, payload, shown};
use super::expiry::{error_code, lives};
use super::groups::group;
use super::{is_refused, retry_item};
use crate::world::{World, bodies, item, items};

on_every_store!(
    held_and_suspended_items_are_changed_but_for_their_time,
    leased_and_final_items_are_not_changed,
    an_update_that_is_refused_changes_nothing,
    a_time_in_the_past_makes_a_scheduled_item_wait,
    a_time_in_the_future_makes_a_waiting_item_scheduled,
    a_scheduled_member_of_a_group_that_was_not_started_becomes_held_at_once,
    a_lease_goes_by_the_priorities_that_items_have_by_now,
    as_many_attempts_as_were_made_leave_one_more,
    a_dead_timeout_shorter_than_the_age_expires_the_item_at_once,
);

async fn update(world: &World, update: UpdateItem, id: ItemId) -> Result<ItemView, EngineError> {
    world.engine().update(id, update, None).await.map(|changed| changed.value)
}

fn of(id: ItemId) -> UpdateItem {
    UpdateItem::new(id.number)
}

fn rewritten() -> Option<Rewrite> {
    Some(Box::new(|_, _| Ok(("new".into(), Some("facts".into())))))
}

/// A member of a group that was not started, and an item that waits for an answer.
async fn held_and_suspended(world: &World, queue: &QueueName) -> [(ItemId, Phase); 2] {
    world.engine().create_group(queue, group("g")).await.expect("made");
    let suspended = world.produce(queue, items(1)).await[0];
    let leased = world.lease(queue, 1).await;
    let suspend = SuspendItem { held: leased[0].held(), reason: None };
    world.engine().suspend(queue, vec![suspend]).await.expect("judged").results.remove(0).expect("suspended");
    let held = world.produce(queue, vec![NewItem { group: Some("g".into()), ..item("member") }]).await[0];
    [(held, Phase::Held), (suspended, Phase::Suspended)]
}

async fn held_and_suspended_items_are_changed_but_for_their_time(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let both = held_and_suspended(world, &queue).await;
    for (id, phase) in both {
        let all = UpdateItem { priority: Some(7), max_attempts: Some(9), ..of(id) };
        let changed = world.engine().update(id, all, rewritten()).await.expect("changed").value;
        assert_eq!((changed.phase(), changed.item.priority, changed.max_attempts), (phase, 7, 9));
        assert_eq!((payload(&changed), changed.facts.as_deref()), (Some("new"), Some(&b"facts"[..])));
        let delay = UpdateItem { delay: Some(Span::ZERO), ..of(id) };
        let time = UpdateItem { enqueue_at: Some(world.env.wall() + Span::from_secs(60)), ..of(id) };
        for timed in [delay, time] {
            let refused = update(world, UpdateItem { priority: Some(1), ..timed }, id).await;
            assert!(is_refused(&refused, &Refusal::WrongPhase { phase }), "{refused:?}");
        }
    }
    world.restart().await;
    for (id, phase) in both {
        let view = shown(world, id).await;
        assert_eq!((view.phase(), view.item.priority, payload(&view)), (phase, 7, Some("new")));
    }
    assert!(matches!(shown(world, both[0].0).await.member, Some(Member { held: true, .. })));
}

async fn leased_and_final_items_are_not_changed(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let failed = failed(world, &queue, item("old")).await;
    let cancelled = world.produce(&queue, vec![at("desk")]).await[0];
    world.engine().cancel(cancelled).await.expect("cancelled");
    let leased = world.produce(&queue, vec![item("old")]).await[0];
    world.lease(&queue, 1).await;
    for (id, phase) in [(failed, Phase::Failed), (cancelled, Phase::Cancelled), (leased, Phase::Leased)] {
        let refusal = Refusal::WrongPhase { phase };
        for change in [of(id), UpdateItem { priority: Some(1), ..of(id) }] {
            let refused = update(world, change, id).await;
            assert!(is_refused(&refused, &refusal), "{refused:?}");
        }
        let refused = world.engine().update(id, of(id), rewritten()).await.map(drop);
        assert!(is_refused(&refused, &refusal), "{refused:?}");
        assert_eq!(shown(world, id).await.item.priority, 0);
    }
    assert_eq!(payload(&shown(world, failed).await), Some("old"));
}

async fn an_update_that_is_refused_changes_nothing(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let [_, (suspended, phase)] = held_and_suspended(world, &queue).await;
    let before = shown(world, suspended).await;
    let all = UpdateItem {
        priority: Some(3),
        max_attempts: Some(1),
        dead_timeout: lives(1),
        delay: Some(Span::from_secs(5)),
        ..of(suspended)
    };
    let refused = world.engine().update(suspended, all, rewritten()).await.map(drop);
    assert!(is_refused(&refused, &Refusal::WrongPhase { phase }), "{refused:?}");
    let rewrite: Rewrite = Box::new(|_, _| Err(Refusal::NoPayload { lost: true }));
    let prior = UpdateItem { priority: Some(3), ..of(suspended) };
    let refused = world.engine().update(suspended, prior, Some(rewrite)).await.map(drop);
    assert!(is_refused(&refused, &Refusal::NoPayload { lost: true }), "{refused:?}");
    for _ in ["before", "after a restart"] {
        let after = shown(world, suspended).await;
        assert_eq!(
            (&after.item, &after.payload, &after.facts),
            (&before.item, &before.payload, &before.facts)
        );
        world.restart().await;
    }
}

async fn a_time_in_the_past_makes_a_scheduled_item_wait(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let later = || NewItem { delay: Some(Span::from_secs(3600)), ..item("later") };
    let ids = world.produce(&queue, vec![later(), later(), later()]).await;
    let past = UpdateItem { enqueue_at: Some(Timestamp(1)), ..of(ids[0]) };
    assert_eq!(update(world, past.clone(), ids[0]).await.expect("changed").phase(), Phase::Waiting);
    let at_once = UpdateItem { delay: Some(Span::ZERO), ..of(ids[1]) };
    assert_eq!(update(world, at_once, ids[1]).await.expect("changed").phase(), Phase::Waiting);
    let again = update(world, past, ids[0]).await.expect("nothing to change");
    assert_eq!(again.phase(), Phase::Waiting);
    let leased: Vec<ItemId> = world.lease(&queue, 10).await.iter().map(|item| item.leased.id).collect();
    assert_eq!(leased, ids[..2]);
    let sooner = UpdateItem { delay: Some(Span::from_secs(5)), ..of(ids[2]) };
    assert_eq!(update(world, sooner, ids[2]).await.expect("changed").phase(), Phase::Scheduled);
    world.env.advance(Duration::from_secs(5));
    assert_eq!(world.lease(&queue, 10).await.len(), 1);
}

async fn a_lease_goes_by_the_priorities_that_items_have_by_now(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let of_priority = |priority| NewItem { priority, ..item(&format!("was {priority}")) };
    let ids = world.produce(&queue, vec![of_priority(5), of_priority(6), of_priority(7)]).await;
    for (id, priority) in ids.iter().zip([9, 8, 8]) {
        let prior = UpdateItem { priority: Some(priority), ..of(*id) };
        assert_eq!(update(world, prior, *id).await.expect("changed").item.priority, priority);
    }
    world.restart().await;
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["was 6", "was 7", "was 5"]);
}

async fn as_many_attempts_as_were_made_leave_one_more(world: &World) {
    let queue = world.queue("q", 1, Settings { max_attempts: 5, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    let retry = async || {
        let leased = world.lease(&queue, 1).await;
        let retry = RetryItem { delay: Some(Span::ZERO), ..retry_item(&leased[0]) };
        world.engine().retry(&queue, vec![retry]).await.expect("judged");
        shown(world, id).await.phase()
    };
    assert_eq!([retry().await, retry().await], [Phase::Waiting; 2]);
    let fewer = UpdateItem { max_attempts: Some(1), ..of(id) };
    let changed = update(world, fewer, id).await.expect("changed");
    assert_eq!((changed.phase(), changed.max_attempts, changed.item.attempts), (Phase::Waiting, 1, 2));
    assert_eq!(retry().await, Phase::Failed);
}

async fn a_dead_timeout_shorter_than_the_age_expires_the_item_at_once(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let [(held, _), (suspended, _)] = held_and_suspended(world, &queue).await;
    let ids =
        world.produce(&queue, vec![item("waits"), NewItem { delay: lives(3600), ..item("later") }]).await;
    world.env.advance(Duration::from_secs(10));
    for id in [held, suspended, ids[0], ids[1]] {
        let longer = UpdateItem { dead_timeout: lives(11), ..of(id) };
        let before = shown(world, id).await.phase();
        assert_eq!(update(world, longer, id).await.expect("changed").phase(), before);
        let shorter = UpdateItem { dead_timeout: lives(9), ..of(id) };
        let expired = update(world, shorter, id).await.expect("changed");
        assert_eq!(
            (expired.phase(), error_code(&expired).as_deref()),
            (Phase::Expired, Some("dead_timeout"))
        );
        assert_eq!(shown(world, id).await.phase(), Phase::Expired);
    }
    assert_eq!(world.live(&queue).await, 0);
}

async fn a_time_in_the_future_makes_a_waiting_item_scheduled(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let ids = world.produce(&queue, vec![item("first"), item("second")]).await;
    let due_at = world.env.wall() + Span::from_secs(60);
    let later = UpdateItem { enqueue_at: Some(due_at), ..of(ids[0]) };
    assert_eq!(update(world, later, ids[0]).await.expect("changed").phase(), Phase::Scheduled);
    world.restart().await;
    let leased = world.lease(&queue, 10).await;
    assert_eq!(bodies(&leased), ["second"]);
    world.complete(&queue, &leased[0]).await;
    world.env.advance(Duration::from_secs(59));
    assert!(world.lease(&queue, 10).await.is_empty());
    world.env.advance(Duration::from_secs(1));
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["first"]);
}

async fn a_scheduled_member_of_a_group_that_was_not_started_becomes_held_at_once(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.engine().create_group(&queue, group("g")).await.expect("made");
    let member =
        |payload| NewItem { group: Some("g".into()), delay: Some(Span::from_secs(3600)), ..item(payload) };
    let ids = world.produce(&queue, vec![member("a"), member("b"), member("stays")]).await;
    let at_once = UpdateItem { delay: Some(Span::ZERO), ..of(ids[0]) };
    let past = UpdateItem { enqueue_at: Some(Timestamp(1)), ..of(ids[1]) };
    for (id, due) in ids.iter().zip([at_once, past]) {
        assert_eq!(shown(world, *id).await.phase(), Phase::Scheduled);
        let changed = update(world, due, *id).await.expect("changed");
        assert_eq!(changed.phase(), Phase::Held);
        assert!(matches!(changed.member, Some(Member { held: true, .. })), "{changed:?}");
    }
    world.restart().await;
    let counts = world.stats(&queue).await.counts;
    assert_eq!((counts.held, counts.scheduled), (2, 1));
    assert!(world.lease(&queue, 10).await.is_empty());
    world.engine().start_group(&queue, &"g".into()).await.expect("started");
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["a", "b"]);
}
