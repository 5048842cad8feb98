//! Going along with an item to what it became: by asking, and by waiting.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::partition::Find;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_core::verbs::{NewItem, RetryItem, UpdateItem, UpdateQueue};
use windlass_engine::{Action, EndReason, Frame, ItemView, Redrive, Rewrite, Subscription};

use super::afterwards::{failed, rerun};
use super::dead_queues::{all_moved, arrived, fill_with_kinds, to_dead, while_time_passes};
use super::find::{in_phases, search};
use super::find_change::oldest;
use super::streams::said;
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
    a_wait_for_the_latest_of_a_live_letter_is_told_how_the_letter_ended,
    a_wait_for_the_latest_of_a_letter_that_dies_itself_is_told_the_letters_failure,
    a_wait_for_the_latest_goes_on_with_every_item_of_the_chain,
    where_the_next_is_gone_the_last_that_is_there_is_the_latest,
    a_stream_of_the_latest_stays_with_it,
    the_end_of_a_live_stream_tells_where_the_item_went,
    the_end_of_a_stream_is_held_back_for_a_second_at_most,
);

/// An item that died, and its dead letter, which waits.
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
    world.engine().delete_queue(&target, true).await.expect("deleted");
    let less = SettingsChange { retention_max_bytes: Some(1), ..SettingsChange::default() };
    world.engine().update_queue(UpdateQueue::new(dead.clone(), less)).await.expect("updated");
    let told = while_time_passes(world, waiting).await.expect("the task ran").expect("told");
    assert_eq!((told.phase(), moved_to(&told)), (Phase::Cancelled, None));
    while_time_passes(world, until(async || world.stats(&dead).await.moving == 0)).await;
}

async fn a_wait_for_a_redriven_letter_is_told_that_it_was_deleted(world: &World) {
    let (dead, _, letter, waiting) = under_way(world).await;
    let all = oldest(in_phases([Phase::Cancelled]), 10);
    let page = world.engine().change_items(&dead, &all, None, Action::Delete, false).await.expect("changed");
    assert!(matches!(page.results[..], [(_, Ok(()))]), "{:?}", page.results);
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

async fn a_wait_for_the_latest_of_a_live_letter_is_told_how_the_letter_ended(world: &World) {
    let (_, dead, id, letter) = died(world).await;
    let waiting = waiting_for_latest(&world.engine(), letter).await;
    let leased = world.lease(&dead, 1).await;
    let done = vec![completion_with(leased[0].held(), "mended by hand")];
    world.engine().complete(&dead, done).await.expect("judged");
    let told = waiting.await.expect("the task ran").expect("told");
    assert_eq!((told.id, told.phase()), (letter, Phase::Completed));
    assert_eq!(told.result.as_deref(), Some(&b"mended by hand"[..]));
    // Once the letter is final, the item that died is the latest.
    let told = world.engine().wait_for_latest(letter, Span::from_secs(60)).await.expect("told");
    assert_eq!((told.id, told.phase()), (id, Phase::Failed));
    assert_eq!(world.engine().get_latest(letter).await.expect("shown").id, id);
}

async fn a_wait_for_the_latest_of_a_letter_that_dies_itself_is_told_the_letters_failure(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let next = Settings { dead_queue: Some("grave".into()), ..Settings::default() };
    let dead = world.queue("dead", 1, next).await;
    world.queue("grave", 1, Settings::default()).await;
    let id = failed(world, &queue, item("work")).await;
    all_moved(world, &queue).await;
    let letter = moved_to(&world.engine().get(id).await.expect("shown")).expect("it died");
    let waiting = waiting_for_latest(&world.engine(), letter).await;
    let leased = world.lease(&dead, 1).await;
    let retry = RetryItem { dead: true, ..retry_item(&leased[0]) };
    world.engine().retry(&dead, vec![retry]).await.expect("judged");
    let told = waiting.await.expect("the task ran").expect("told");
    assert_eq!((told.id, told.phase()), (letter, Phase::Failed));
    all_moved(world, &dead).await;
    assert_eq!(world.engine().follow(letter).await.expect("followed"), id);
}

async fn a_wait_for_the_latest_goes_on_with_every_item_of_the_chain(world: &World) {
    let (queue, dead, id, _) = died(world).await;
    redrive(world, &dead).await;
    let back = arrived(world, &queue, 1).await.remove(0);
    all_moved(world, &dead).await;
    let waiting = waiting_for_latest(&world.engine(), id).await;
    let retry = RetryItem { dead: true, ..retry_item(&back) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    let told = waiting.await.expect("the task ran").expect("told");
    assert_eq!((told.id, told.phase()), (back.leased.id, Phase::Failed), "its letter is passed over");
    all_moved(world, &queue).await;
    redrive(world, &dead).await;
    let again = arrived(world, &queue, 1).await.remove(0);
    all_moved(world, &dead).await;
    let waiting = waiting_for_latest(&world.engine(), id).await;
    world.complete(&queue, &again).await;
    let told = waiting.await.expect("the task ran").expect("told");
    assert_eq!((told.id, told.phase()), (again.leased.id, Phase::Completed), "also of one that is not kept");
    let latest = world.engine().wait_for_latest(id, Span::from_secs(60)).await.expect("told");
    assert_eq!(latest.id, back.leased.id, "the last that is there");
}

async fn where_the_next_is_gone_the_last_that_is_there_is_the_latest(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let first = failed(world, &queue, item("work")).await;
    let second = rerun(world, first).await.expect("rerun");
    let leased = world.lease(&queue, 1).await;
    let retry = RetryItem { dead: true, ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    let third = rerun(world, second).await.expect("rerun");
    for (gone, latest) in [(third, second), (second, first)] {
        let newest = search(Find::default(), 1);
        let deleted = world.engine().change_items(&queue, &newest, None, Action::Delete, false).await;
        assert_eq!(deleted.expect("deleted").results.remove(0).0, gone);
        for _ in ["before", "after a restart"] {
            assert_eq!(world.engine().follow(first).await.expect("followed"), latest);
            let (view, _) = world.engine().get_latest_with_attempts(first).await.expect("shown");
            let told = world.engine().wait_for_latest(first, Span::from_secs(60)).await.expect("told");
            assert_eq!((view.id, told.id, told.phase()), (latest, latest, Phase::Failed));
            world.restart().await;
        }
    }
}

async fn a_stream_of_the_latest_stays_with_it(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let first = failed(world, &queue, item("work")).await;
    let second = rerun(world, first).await.expect("rerun");
    let mut stream = world.engine().subscribe_to_latest(first).await.expect("subscribed");
    let Some(Frame::Snapshot { item, .. }) = stream.next().await else { panic!("a snapshot") };
    assert_eq!((item.id, item.phase()), (second, Phase::Waiting));
    let leased = world.lease(&queue, 1).await;
    let retry = RetryItem { dead: true, ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    rerun(world, second).await.expect("rerun");
    let frames = rest(stream).await;
    assert_eq!(frames.iter().map(said).collect::<Vec<_>>(), ["Leased", "Failed", "end Final Failed"]);
}

async fn rest(mut stream: Subscription) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(frame) = stream.next().await {
        frames.push(frame);
    }
    frames
}

/// Where the last frame says that the item went.
fn went_to(frames: &[Frame]) -> Option<ItemId> {
    match frames.last() {
        Some(Frame::End { reason: EndReason::Final, moved_to, .. }) => Some(moved_to.as_ref()?.id),
        other => panic!("{other:?}"),
    }
}

async fn the_end_of_a_live_stream_tells_where_the_item_went(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let id = world.produce(&queue, vec![item("work")]).await[0];
    let stream = world.engine().subscribe(id, None).await.expect("subscribed");
    let leased = world.lease(&queue, 1).await;
    let retry = RetryItem { dead: true, ..retry_item(&leased[0]) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    let frames = rest(stream).await;
    let letter = went_to(&frames).expect("it died");
    assert_eq!(Some(letter), moved_to(&world.engine().get(id).await.expect("shown")));
    let streams = [
        world.engine().subscribe(letter, None).await.expect("subscribed"),
        world.engine().subscribe(letter, Some(0)).await.expect("subscribed"),
    ];
    redrive(world, &dead).await;
    let back = arrived(world, &queue, 1).await.remove(0).leased.id;
    for stream in streams {
        assert_eq!(went_to(&rest(stream).await), Some(back));
    }
    let late = world.engine().subscribe(letter, None).await.expect("subscribed");
    assert_eq!(went_to(&rest(late).await), Some(back));
}

async fn the_end_of_a_stream_is_held_back_for_a_second_at_most(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let id = world.produce(&queue, vec![item("work")]).await[0];
    let mut stream = world.engine().subscribe(id, Some(0)).await.expect("subscribed");
    let leased = world.lease(&queue, 1).await;
    let retry = RetryItem { dead: true, ..retry_item(&leased[0]) };
    // Its dead queue does not exist.
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    for expected in ["Leased", "Failed"] {
        assert_eq!(stream.next().await.as_ref().map(said).as_deref(), Some(expected));
    }
    for passed in [0, 500, 499] {
        world.env.advance(Duration::from_millis(passed));
        assert!(!stream.would_wait() && stream.at_hand().is_none());
        // Whoever stops waiting and comes again does not begin anew.
        tokio::select! {
            biased;
            frame = stream.next() => panic!("{frame:?} after {passed} ms"),
            () = yields(100) => {}
        }
    }
    world.env.advance(Duration::from_millis(1));
    assert_eq!(went_to(&rest(stream).await), None);
}

async fn yields(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}
