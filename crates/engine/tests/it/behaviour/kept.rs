//! What is kept of an item that ended: its payload, the item itself, and how much of both.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::attempt::AttemptEnd;
use windlass_core::event::NewEvent;
use windlass_core::id::ItemId;
use windlass_core::item::{ItemError, Phase, State};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{Keep, RetainPayload, Settings, SettingsChange};
use windlass_core::time::Timestamp;
use windlass_core::verbs::{Clear, CreateGroup, NewItem, RetryItem, UpdateQueue};
use windlass_engine::env::Env;
use windlass_engine::{Action, ItemView, Redrive};

use super::afterwards::{failed, moved_to, payload, rerun, shown};
use super::dead_queues::{all_moved, arrived, fail_all, fill_with_kinds, to_dead, while_time_passes};
use super::expiry::lives;
use super::find::in_phases;
use super::find_change::oldest;
use super::groups::group;
use super::streams::emit;
use super::{is_refused, retry_item, until};
use crate::world::{World, completion_with, item, items};

on_every_store!(
    the_payload_of_what_failed_expired_or_was_cancelled_is_kept,
    a_kept_payload_is_by_itself_nothing_to_show,
    what_is_kept_of_an_item_that_has_nothing_to_show,
    both_settings_count_for_what_ends_from_then_on,
    a_payload_is_kept_as_the_queue_said_when_a_clear_or_its_group_ended_the_item,
    payloads_results_errors_and_events_take_room,
    partitions_share_the_bytes_that_are_kept,
    each_missing_queue_is_waited_for_by_as_much,
    each_partition_has_its_share_and_at_least_one,
    what_waits_too_long_for_a_queue_that_is_not_there_falls_back,
    what_was_deleted_on_its_way_does_not_fall_back,
    an_item_falls_back_with_its_events,
    a_full_queue_is_no_reason_to_fall_back,
    an_attempt_log_is_by_itself_nothing_to_show,
    the_attempt_that_a_clear_ended_is_told_at_once,
    a_moved_item_is_not_rerun_and_tells_where_it_went,
);

async fn change(world: &World, queue: &QueueName, change: SettingsChange) {
    world.engine().update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
}

async fn is_kept(world: &World, id: ItemId) -> bool {
    let got = world.engine().get(id).await;
    assert!(got.is_ok() || is_refused(&got, &Refusal::NotFound), "{got:?}");
    got.is_ok()
}

/// Since when it counts as ended.
pub(super) fn finished_at(view: &ItemView) -> Timestamp {
    match &view.item.state {
        State::Final(outcome) => outcome.finished_at,
        State::Scheduled { .. } | State::Waiting { .. } | State::Leased(_) | State::Suspended(_) => {
            panic!("{view:?}")
        }
    }
}

fn waiting_ones() -> Clear {
    Clear { waiting: true, scheduled: false, leased: false, suspended: false }
}

async fn the_payload_of_what_failed_expired_or_was_cancelled_is_kept(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let expires = NewItem { dead_timeout: lives(5), ..item("expires") };
    let is_cancelled = NewItem { address: Some("desk".into()), ..item("is cancelled") };
    let ids = world.produce(&queue, vec![expires, is_cancelled]).await;
    world.engine().cancel(ids[1]).await.expect("cancelled");
    world.env.advance(Duration::from_secs(6));
    let fails = failed(world, &queue, item("fails")).await;
    for _ in ["before", "after a restart"] {
        for (id, phase, text) in [
            (ids[0], Phase::Expired, "expires"),
            (ids[1], Phase::Cancelled, "is cancelled"),
            (fails, Phase::Failed, "fails"),
        ] {
            let view = shown(world, id).await;
            assert_eq!((view.phase(), payload(&view)), (phase, Some(text)));
        }
        world.restart().await;
    }
    for id in [ids[0], ids[1], fails] {
        let text = payload(&shown(world, id).await).map(ToOwned::to_owned);
        let anew = rerun(world, id).await.expect("what is kept can be rerun");
        assert_eq!(payload(&shown(world, anew).await), text.as_deref());
    }
}

async fn a_kept_payload_is_by_itself_nothing_to_show(world: &World) {
    let queue =
        world.queue("q", 1, Settings { retain_payload: RetainPayload::All, ..Settings::default() }).await;
    let ids = world.produce(&queue, items(2)).await;
    let leased = world.lease(&queue, 1).await;
    world.complete(&queue, &leased[0]).await;
    world.engine().cancel(ids[1]).await.expect("cancelled");
    for _ in ["before", "after a restart"] {
        assert_eq!(world.stats(&queue).await.retained, 0);
        for id in &ids {
            assert!(!is_kept(world, *id).await);
        }
        world.restart().await;
    }
}

async fn what_is_kept_of_an_item_that_has_nothing_to_show(world: &World) {
    // By way of ending: completed, cancelled, cleared, with its group, deleted.
    for (keep, expected) in [(Keep::Shown, [false; 5]), (Keep::All, [true, true, true, true, false])] {
        let queue = world.queue(&format!("{keep:?}"), 1, Settings { keep, ..Settings::default() }).await;
        let mut ids = world.produce(&queue, items(3)).await;
        let leased = world.lease(&queue, 1).await;
        world.complete(&queue, &leased[0]).await;
        world.engine().cancel(ids[1]).await.expect("cancelled");
        world.engine().clear(&queue, waiting_ones()).await.expect("cleared");
        let create = CreateGroup { items: items(1), ..group("g") };
        ids.push(world.engine().create_group(&queue, create).await.expect("made").value.items[0].id);
        world.engine().cancel_group(&queue, &"g".into()).await.expect("cancelled");
        ids.extend(world.produce(&queue, items(1)).await);
        world.engine().delete_items(&queue, vec![ids[4]]).await.expect("judged");
        for time in ["before", "after a restart"] {
            for (id, expected) in ids.iter().zip(expected) {
                assert_eq!(is_kept(world, *id).await, expected, "{keep:?} {id} {time}");
            }
            let kept = expected.iter().filter(|kept| **kept).count();
            assert_eq!(world.stats(&queue).await.retained, kept as u64, "{keep:?} {time}");
            world.restart().await;
        }
    }
}

async fn both_settings_count_for_what_ends_from_then_on(world: &World) {
    let queue = world.queue("q", 1, Settings { keep: Keep::All, ..Settings::default() }).await;
    let with_payload = failed(world, &queue, item("kept")).await;
    let cleared = world.produce(&queue, items(2)).await;
    world.engine().clear(&queue, waiting_ones()).await.expect("cleared");
    let (keep, retain_payload) = (Some(Keep::Shown), Some(RetainPayload::None));
    change(world, &queue, SettingsChange { keep, retain_payload, ..SettingsChange::default() }).await;
    let without = failed(world, &queue, item("not kept")).await;
    let gone = world.produce(&queue, items(2)).await;
    world.engine().clear(&queue, waiting_ones()).await.expect("cleared");
    for _ in ["before", "after a restart"] {
        assert_eq!(payload(&shown(world, with_payload).await), Some("kept"));
        assert_eq!(payload(&shown(world, without).await), None);
        assert!(is_kept(world, cleared[0]).await && is_kept(world, cleared[1]).await);
        assert!(!is_kept(world, gone[0]).await && !is_kept(world, gone[1]).await);
        world.restart().await;
    }
}

/// What an item has that takes room.
#[derive(Clone, Copy, Debug)]
enum Large {
    Payload,
    Result,
    Error,
    Event,
}

/// Ends an item that has a thousand bytes of that, and little besides.
async fn end_one(world: &World, queue: &QueueName, large: Large) -> ItemId {
    let text = "x".repeat(1000);
    let new = if matches!(large, Large::Payload) { item(&text) } else { item("") };
    let id = world.produce(queue, vec![new]).await[0];
    let leased = world.lease(queue, 1).await.remove(0);
    let engine = world.engine();
    let dead = RetryItem { dead: true, ..retry_item(&leased) };
    match large {
        Large::Payload => drop(engine.retry(queue, vec![dead]).await.expect("judged")),
        Large::Result => {
            engine.complete(queue, vec![completion_with(leased.held(), text)]).await.expect("judged");
        }
        Large::Error => {
            // It is kept twice: of the item, and of the attempt.
            let error = Some(ItemError { code: None, message: text[..500].into() });
            engine.retry(queue, vec![RetryItem { error, ..dead }]).await.expect("judged");
        }
        Large::Event => {
            let event = NewEvent { content: Bytes::from(text), bytes: 1000 };
            engine.emit(leased.held(), None, vec![event]).await.expect("emitted");
            world.complete(queue, &leased).await;
        }
    }
    id
}

async fn payloads_results_errors_and_events_take_room(world: &World) {
    for large in [Large::Payload, Large::Result, Large::Error, Large::Event] {
        let settings = Settings { retention_max_bytes: 2700, ..Settings::default() };
        let queue = world.queue(&format!("{large:?}"), 1, settings).await;
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(end_one(world, &queue, large).await);
            // Room for two and a half.
            let kept = ids.len().min(2) as u64;
            until(async || world.stats(&queue).await.retained == kept).await;
        }
        let mut kept = Vec::new();
        for id in &ids {
            kept.push(is_kept(world, *id).await);
        }
        assert_eq!(kept, [false, false, true, true], "{large:?}: the oldest go first");
    }
}

async fn each_partition_has_its_share_and_at_least_one(world: &World) {
    for (retention_max_items, kept) in [(8, 2), (2, 1)] {
        let settings = Settings { retention_max_items, ..Settings::default() };
        let queue = world.queue(&format!("q{retention_max_items}"), 4, settings).await;
        // Each goes to the partition with the fewest.
        let mut ids = Vec::new();
        for _ in 0..12 {
            ids.extend(world.produce(&queue, items(1)).await);
        }
        fail_all(world, &queue).await;
        until(async || world.stats(&queue).await.retained == 4 * kept).await;
        for partition in world.stats(&queue).await.partitions {
            let here = ids.iter().filter(|id| id.partition == partition.partition);
            let mut left = 0;
            for id in here {
                left += u64::from(is_kept(world, *id).await);
            }
            assert_eq!(left, kept, "of {retention_max_items} in all");
        }
    }
}

async fn a_payload_is_kept_as_the_queue_said_when_a_clear_or_its_group_ended_the_item(world: &World) {
    let queue = world.queue("q", 1, Settings { keep: Keep::All, ..Settings::default() }).await;
    let mut ended = Vec::new();
    for (setting, keeps) in
        [(RetainPayload::Failed, true), (RetainPayload::None, false), (RetainPayload::All, true)]
    {
        let retain_payload = Some(setting);
        change(world, &queue, SettingsChange { retain_payload, ..SettingsChange::default() }).await;
        let cleared = world.produce(&queue, vec![item("cleared")]).await[0];
        world.engine().clear(&queue, waiting_ones()).await.expect("cleared");
        let name = format!("{setting:?}");
        let create = CreateGroup { items: vec![item("member")], ..group(&name) };
        let member = world.engine().create_group(&queue, create).await.expect("made").value.items[0].id;
        world.engine().cancel_group(&queue, &name.as_str().into()).await.expect("cancelled");
        ended.extend([(cleared, "cleared", keeps), (member, "member", keeps)]);
    }
    change(world, &queue, SettingsChange { retain_payload: Some(RetainPayload::None), ..Default::default() })
        .await;
    for _ in ["before", "after a restart"] {
        for (id, text, keeps) in &ended {
            let view = shown(world, *id).await;
            assert_eq!((view.phase(), payload(&view)), (Phase::Cancelled, keeps.then_some(*text)));
        }
        world.restart().await;
    }
}

async fn partitions_share_the_bytes_that_are_kept(world: &World) {
    let settings = Settings { retention_max_bytes: 4 * 2700, ..Settings::default() };
    let queue = world.queue("q", 4, settings).await;
    // Each goes to the partition with the fewest.
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.extend(world.produce(&queue, vec![item(&"x".repeat(1000))]).await);
    }
    fail_all(world, &queue).await;
    until(async || world.stats(&queue).await.retained == 8).await;
    for partition in world.stats(&queue).await.partitions {
        let mut left = 0;
        for id in ids.iter().filter(|id| id.partition == partition.partition) {
            left += u64::from(is_kept(world, *id).await);
        }
        assert_eq!(left, 2, "room for two and a half");
    }
}

/// The queue's dead queue was another one before, and neither is there.
async fn each_missing_queue_is_waited_for_by_as_much(world: &World) {
    let queue = with_room(world, 1500).await;
    let text = "x".repeat(1000);
    let mut ids = Vec::new();
    for dead_queue in ["dead", "grave"] {
        let dead_queue = Some(Some(dead_queue.into()));
        change(world, &queue, SettingsChange { dead_queue, ..SettingsChange::default() }).await;
        for _ in 0..2 {
            ids.push(failed(world, &queue, item(&text)).await);
        }
    }
    until(async || world.stats(&queue).await.moving == 2).await;
    for _ in ["before", "after a restart"] {
        let mut moving = Vec::new();
        // There is room for only one of those that fell back.
        for id in &ids[1..] {
            moving.push(shown(world, *id).await.item.state.outgoing().is_some());
        }
        assert_eq!(moving, [true, false, true], "of each the oldest fell back");
        world.restart().await;
    }
    let grave = world.queue("grave", 1, Settings::default()).await;
    // A dead queue that is there takes what waited for another one too.
    while_time_passes(world, all_moved(world, &queue)).await;
    let letters = world.lease(&grave, 10).await;
    let from = letters.iter().filter_map(|letter| letter.leased.origin.as_ref()?.id);
    assert_eq!(from.collect::<BTreeSet<_>>(), BTreeSet::from([ids[1], ids[3]]));
    assert_eq!(letters.len(), 2);
}

async fn what_waits_too_long_for_a_queue_that_is_not_there_falls_back(world: &World) {
    let retain_payload = RetainPayload::None;
    let settings = Settings { retention_max_bytes: 10_000, retain_payload, ..to_dead() };
    let queue = world.queue("q", 1, settings).await;
    let large = |number: usize| item(&format!("{number:01000}"));
    // Room for eight on their way, with what each takes besides.
    let ids = world.produce(&queue, (0..8).map(large).collect()).await;
    fail_all(world, &queue).await;
    assert_eq!(world.stats(&queue).await.moving, 8, "as many as may wait");
    let died_at = world.env.wall();
    world.env.advance(Duration::from_secs(100));
    let more = world.produce(&queue, (8..11).map(large).collect()).await;
    fail_all(world, &queue).await;
    let fell_back_at = world.env.wall();
    // The outbox sees to it on its own.
    until(async || world.stats(&queue).await.moving == 8).await;
    for (number, id) in ids.iter().take(3).enumerate() {
        let fallen = shown(world, *id).await;
        let text = format!("{number:01000}");
        assert_eq!(
            (fallen.phase(), payload(&fallen)),
            (Phase::Failed, Some(&*text)),
            "the oldest, as it ended"
        );
        assert_eq!(finished_at(&fallen), fell_back_at, "it counts as ended now");
        assert_eq!(fallen.item.changed_at(), died_at, "its state stayed the same");
    }
    for (id, ended_at) in [(ids[3], died_at), (more[2], fell_back_at)] {
        let moving = shown(world, id).await;
        assert_eq!((moving.phase(), payload(&moving)), (Phase::Failed, None));
        assert_eq!((finished_at(&moving), moving.item.changed_at()), (ended_at, ended_at));
    }
    let anew = rerun(world, ids[0]).await.expect("it moves no more");
    world.restart().await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let letters = arrived(world, &dead, 8).await;
    all_moved(world, &queue).await;
    let mut from: Vec<ItemId> =
        letters.iter().filter_map(|letter| letter.leased.origin.as_ref()?.id).collect();
    from.sort();
    assert_eq!(from, ids[3..].iter().chain(&more).copied().collect::<Vec<_>>());
    assert_eq!((world.live(&dead).await, world.live(&queue).await), (8, 1));
    assert_eq!(shown(world, anew).await.phase(), Phase::Waiting);
}

/// A queue of whose dead only so many bytes may wait for a queue that is not there.
async fn with_room(world: &World, retention_max_bytes: u64) -> QueueName {
    world.queue("q", 1, Settings { retention_max_bytes, ..to_dead() }).await
}

async fn what_was_deleted_on_its_way_does_not_fall_back(world: &World) {
    let queue = with_room(world, 1000).await;
    let id = failed(world, &queue, item(&"x".repeat(500))).await;
    let all = oldest(in_phases([Phase::Failed]), 10);
    world.engine().change_items(&queue, &all, None, Action::Delete, false).await.expect("changed");
    assert_eq!(world.stats(&queue).await.moving, 1);
    let later = failed(world, &queue, item(&"y".repeat(500))).await;
    until(async || world.stats(&queue).await.moving == 1).await;
    world.restart().await;
    assert!(!is_kept(world, id).await);
    assert!(shown(world, later).await.item.state.outgoing().is_some(), "there is room for it now");
}

async fn an_item_falls_back_with_its_events(world: &World) {
    let queue = with_room(world, 2000).await;
    let id = world.produce(&queue, items(1)).await[0];
    let leased = world.lease(&queue, 1).await.remove(0);
    emit(&world.engine(), leased.held(), &[&"1".repeat(200), &"2".repeat(200)]).await;
    let dead = RetryItem { dead: true, ..retry_item(&leased) };
    world.engine().retry(&queue, vec![dead]).await.expect("judged");
    assert_eq!(world.stats(&queue).await.moving, 1);
    let later = failed(world, &queue, item(&"x".repeat(1600))).await;
    until(async || shown(world, id).await.item.state.outgoing().is_none()).await;
    for _ in ["before", "after a restart"] {
        assert_eq!(shown(world, id).await.item.extras.map(|extras| extras.event_count), Some(2));
        assert!(shown(world, later).await.item.state.outgoing().is_some(), "there is room for it");
        world.restart().await;
    }
}

async fn a_full_queue_is_no_reason_to_fall_back(world: &World) {
    let queue = world.queue("q", 1, Settings { retention_max_bytes: 1, ..to_dead() }).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    fill_with_kinds(world, &dead).await;
    let odd = NewItem { kind: "odd".into(), ..item("refused") };
    failed(world, &queue, odd).await;
    let passes = async {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    };
    while_time_passes(world, passes).await;
    assert_eq!((world.stats(&queue).await.moving, world.stats(&queue).await.retained), (1, 0));
}

async fn an_attempt_log_is_by_itself_nothing_to_show(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let id = world.produce(&queue, items(1)).await[0];
    let leased = world.lease(&queue, 1).await;
    world.engine().revoke(&queue, vec![leased[0].held()]).await.expect("judged");
    assert_eq!(world.engine().get_with_attempts(id).await.expect("shown").1.len(), 1);
    let leased = world.lease(&queue, 1).await;
    world.complete(&queue, &leased[0]).await;
    assert!(!is_kept(world, id).await);
}

async fn the_attempt_that_a_clear_ended_is_told_at_once(world: &World) {
    let queue = world.queue("q", 1, Settings { keep: Keep::All, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    world.lease(&queue, 1).await;
    let leased_ones = Clear { waiting: false, leased: true, ..waiting_ones() };
    world.engine().clear(&queue, leased_ones).await.expect("cleared");
    let cleared_at = world.env.wall();
    for time in ["at once", "after a restart"] {
        let (view, log) = world.engine().get_with_attempts(id).await.expect("shown");
        assert_eq!((view.phase(), log.len()), (Phase::Cancelled, 1), "{time}");
        assert_eq!((log[0].end, log[0].ended_at), (AttemptEnd::Cancelled, cleared_at), "{time}");
        world.restart().await;
    }
}

async fn a_moved_item_is_not_rerun_and_tells_where_it_went(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let id = failed(world, &queue, item("moves")).await;
    all_moved(world, &queue).await;
    let letter = moved_to(&shown(world, id).await).expect("it died");
    world.engine().redrive(&dead, Redrive::default()).await.expect("redriven");
    let back = arrived(world, &queue, 1).await.remove(0).leased.id;
    all_moved(world, &dead).await;
    for _ in ["before", "after a restart"] {
        for (moved, there) in [(id, letter), (letter, back)] {
            assert!(is_refused(&rerun(world, moved).await, &Refusal::MovedOn { id: there }));
        }
        world.restart().await;
    }
}
