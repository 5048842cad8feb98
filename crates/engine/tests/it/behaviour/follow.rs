//! Going along with an item to what it became: by asking, and by waiting.

use bytes::Bytes;
use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_core::verbs::{NewItem, RetryItem, UpdateItem, UpdateQueue};
use windlass_engine::env::Env;
use windlass_engine::{Action, ItemView, Redrive, Rewrite};

use super::dead_queues::{all_moved, arrived, fill_with_kinds, to_dead, while_time_passes};
use super::find::in_phases;
use super::find_change::oldest;
use super::{WaitTask, is_refused, retry_item, until, waiting_for, waiting_for_latest};
use crate::world::{World, completion_with, item};

on_every_store!(
    a_wait_for_a_redriven_letter_is_told_where_it_went,
    a_wait_for_a_redriven_letter_is_told_that_it_fell_back,
    a_wait_for_a_redriven_letter_is_told_that_it_was_deleted,
    a_wait_for_the_latest_goes_on_with_what_a_letter_became,
    a_wait_for_the_latest_of_a_failed_item_is_told_its_failure,
    a_final_letter_leads_back_to_the_item_that_died,
    a_wait_is_told_the_facts_that_an_update_changed_meanwhile,
);

/// An item that died, and its letter, which waits.
async fn died(world: &World) -> (QueueName, QueueName, ItemId, ItemId) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let id = world.produce(&queue, vec![item("work")]).await[0];
    let leased = world.lease(&queue, 1).await;
    let retry = RetryItem { dead: true, ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    all_moved(world, &queue).await;
    let letter = moved_to(&world.engine().get(id).await.expect("shown")).expect("it died");
    (queue, dead, id, letter)
}

fn moved_to(view: &ItemView) -> Option<ItemId> {
    view.item.extras.as_ref()?.moved_to.as_ref().map(|moved_to| moved_to.id)
}

async fn redrive(world: &World, dead: &QueueName) {
    let redriven = world.engine().redrive(dead, Redrive::default()).await.expect("redriven");
    assert_eq!(redriven.value.moved, 1);
}

async fn a_wait_for_a_redriven_letter_is_told_where_it_went(world: &World) {
    let (queue, dead, _, letter) = died(world).await;
    let waiting = waiting_for(&world.engine(), letter).await;
    redrive(world, &dead).await;
    let told = waiting.await.expect("the task ran").expect("told");
    let back = arrived(world, &queue, 1).await.remove(0);
    assert_eq!((told.phase(), moved_to(&told)), (Phase::Cancelled, Some(back.leased.id)));
}

/// A redriven letter that its target refuses, somebody who waits for it, and both queues.
async fn under_way(world: &World) -> (QueueName, QueueName, ItemId, WaitTask) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let target = world.queue("target", 1, Settings::default()).await;
    fill_with_kinds(world, &target).await;
    world.produce(&queue, vec![NewItem { kind: "odd".into(), ..item("work") }]).await;
    let leased = world.lease(&queue, 1).await;
    let retry = RetryItem { dead: true, ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    all_moved(world, &queue).await;
    let letter = moved_to(&world.engine().get(leased[0].leased.id).await.expect("shown")).expect("it died");
    let waiting = waiting_for(&world.engine(), letter).await;
    let redrive = Redrive { to: Some(target.clone()), ..Redrive::default() };
    assert_eq!(world.engine().redrive(&dead, redrive).await.expect("redriven").value.moved, 1);
    (dead, target, letter, waiting)
}

async fn a_wait_for_a_redriven_letter_is_told_that_it_fell_back(world: &World) {
    let (dead, target, _, waiting) = under_way(world).await;
    let before = world.env.wall();
    world.engine().delete_queue(&target, true).await.expect("deleted");
    let less = SettingsChange { retention_max_bytes: Some(1), ..SettingsChange::default() };
    world.engine().update_queue(UpdateQueue::new(dead.clone(), less)).await.expect("updated");
    let told = while_time_passes(world, waiting).await.expect("the task ran").expect("told");
    assert_eq!((told.phase(), moved_to(&told)), (Phase::Cancelled, None));
    assert_eq!(world.stats(&dead).await.moving, 0);
    assert!(world.env.wall() < before + Span::from_secs(60), "long before the wait ends by itself");
}

async fn a_wait_for_a_redriven_letter_is_told_that_it_was_deleted(world: &World) {
    let (dead, _, letter, waiting) = under_way(world).await;
    let all = oldest(in_phases([Phase::Cancelled]), 10);
    let page = world.engine().change_items(&dead, &all, None, Action::Delete, false).await.expect("changed");
    assert_eq!(page.results.len(), 1);
    until(async || waiting.is_finished()).await;
    let told = waiting.await.expect("the task ran").expect("told");
    assert_eq!((told.phase(), moved_to(&told)), (Phase::Cancelled, None));
    assert!(is_refused(&world.engine().get(letter).await, &Refusal::NotFound));
}

async fn a_wait_for_the_latest_goes_on_with_what_a_letter_became(world: &World) {
    let (queue, dead, _, letter) = died(world).await;
    let waiting = waiting_for_latest(&world.engine(), letter).await;
    redrive(world, &dead).await;
    let back = arrived(world, &queue, 1).await.remove(0);
    assert!(!waiting.is_finished());
    // A result keeps the item for as long as the wait needs to find it.
    let done = vec![completion_with(back.held(), "done")];
    world.engine().complete(&queue, done).await.expect("judged");
    let told = waiting.await.expect("the task ran").expect("told");
    assert_eq!((told.id, told.phase()), (back.leased.id, Phase::Completed));
}

async fn a_wait_for_the_latest_of_a_failed_item_is_told_its_failure(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    world.queue("dead", 1, Settings::default()).await;
    let id = world.produce(&queue, vec![item("work")]).await[0];
    let waiting = waiting_for_latest(&world.engine(), id).await;
    let leased = world.lease(&queue, 1).await;
    let retry = RetryItem { dead: true, ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    let told = waiting.await.expect("the task ran").expect("told");
    assert_eq!((told.id, told.phase()), (id, Phase::Failed));
}

async fn a_final_letter_leads_back_to_the_item_that_died(world: &World) {
    let (_, dead, id, letter) = died(world).await;
    let follow = async || world.engine().follow(letter).await.expect("followed");
    assert_eq!(follow().await, letter);
    let leased = world.lease(&dead, 1).await;
    assert_eq!(follow().await, letter);
    let retry = RetryItem { dead: true, ..retry_item(&leased[0]) };
    world.engine().retry(&dead, vec![retry]).await.expect("judged");
    for _ in ["before", "after a restart"] {
        assert_eq!(follow().await, id);
        world.restart().await;
    }
}

async fn a_wait_is_told_the_facts_that_an_update_changed_meanwhile(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let with_facts = |facts: Option<&'static str>| NewItem {
        facts: facts.map(|facts| Bytes::from_static(facts.as_bytes())),
        ..item("work")
    };
    for (before, after) in [(Some("old"), Some("new")), (Some("old"), None), (None, Some("new"))] {
        let id = world.produce(&queue, vec![with_facts(before)]).await[0];
        let waiting = waiting_for(&world.engine(), id).await;
        let facts = after.map(|facts| Bytes::from_static(facts.as_bytes()));
        let rewrite: Rewrite = Box::new(|payload, _| Ok((payload.expect("there"), facts)));
        world.engine().update(id, UpdateItem::new(id.number), Some(rewrite)).await.expect("changed");
        let leased = world.lease(&queue, 1).await;
        let error = Some(windlass_core::item::ItemError { code: None, message: "kept".into() });
        let retry = RetryItem { dead: true, error, ..retry_item(&leased[0]) };
        world.engine().retry(&queue, vec![retry]).await.expect("judged");
        let told = waiting.await.expect("the task ran").expect("told");
        assert_eq!(told.facts.as_deref(), after.map(str::as_bytes), "{before:?} {after:?}");
    }
}
