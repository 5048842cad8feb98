//! Following an item: its events and states, in one order, to its end.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::event::NewEvent;
use windlass_core::id::ItemId;
use windlass_core::item::{LeaseEnd, Phase};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, CreateGroup, Emitted, Held};
use windlass_engine::{CloseMode, EndReason, Engine, EngineError, Frame, Subscription};

use super::counts::Dice;
use super::{is_refused, retry_item};
use crate::world::{World, completion, items};

on_every_store!(
    a_stream_shows_the_item_then_its_events_and_states_in_their_places_to_the_end,
    a_stream_after_a_number_replays_from_there_and_goes_on,
    a_final_item_is_shown_or_replayed_and_ends_at_once,
    what_cannot_be_followed_is_refused,
    an_emit_with_a_lost_permit_or_after_another_number_changes_nothing,
    events_outlive_a_restart_and_go_on_in_number,
    who_needed_events_that_are_gone_is_told_which,
    streams_are_closed_gracefully_or_at_once_and_can_be_opened_again,
    the_end_of_an_item_that_is_taken_away_is_shown,
    a_stream_ends_with_its_queue_and_with_the_engine,
    a_reload_loses_nobody_who_follows,
    streams_leave_nothing_behind,
    two_hundred_who_come_and_go_see_the_same_four_thousand_events,
    fifty_who_follow_cost_no_commits,
    who_comes_at_the_moment_of_the_end_still_sees_all_of_it,
);

pub(crate) fn event(content: &str) -> NewEvent {
    NewEvent { content: Bytes::copy_from_slice(content.as_bytes()), bytes: content.len() as u64 }
}

pub(crate) async fn emit(engine: &Engine, held: Held, contents: &[&str]) -> Emitted {
    let events = contents.iter().map(|content| event(content)).collect();
    engine.emit(held, None, events).await.expect("emitted").value
}

/// A frame in short.
pub(crate) fn said(frame: &Frame) -> String {
    match frame {
        Frame::Snapshot { item, last_seq } => format!("snapshot {:?} {last_seq}", item.phase()),
        Frame::Event { seq, content, .. } => {
            format!("{seq} {}", String::from_utf8(content.to_vec()).expect("our own text"))
        }
        Frame::State { phase, .. } => format!("{phase:?}"),
        Frame::Gap { from, to } => format!("gap {from} {to}"),
        Frame::End { reason, phase, moved_to: _ } => format!("end {reason:?} {phase:?}"),
    }
}

pub(crate) async fn next(stream: &mut Subscription) -> String {
    stream.next().await.as_ref().map_or_else(|| "nothing".to_owned(), said)
}

pub(crate) async fn rest(mut stream: Subscription) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(frame) = stream.next().await {
        all.push(said(&frame));
    }
    all
}

async fn one_leased(world: &World, settings: Settings) -> (QueueName, ItemId, Held) {
    let queue = world.queue("q", 2, settings).await;
    let id = world.produce(&queue, items(1)).await[0];
    let leased = world.lease(&queue, 1).await;
    (queue, id, leased[0].held())
}

async fn a_stream_shows_the_item_then_its_events_and_states_in_their_places_to_the_end(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let id = world.produce(&queue, items(1)).await[0];
    let engine = world.engine();
    let mut stream = engine.subscribe(id, None).await.expect("subscribed");
    let Some(Frame::Snapshot { item, last_seq: 0 }) = stream.next().await else { panic!("a snapshot") };
    assert_eq!((item.id, item.phase()), (id, Phase::Waiting));
    assert_eq!(item.payload, Some(Bytes::from_static(b"item 0")));
    let first = world.lease(&queue, 1).await;
    emit(&engine, first[0].held(), &["a", "b"]).await;
    engine.retry(&queue, vec![retry_item(&first[0])]).await.expect("judged");
    world.env.advance(std::time::Duration::from_secs(10));
    let second = loop {
        if let Some(item) = world.lease(&queue, 1).await.pop() {
            break item;
        }
    };
    emit(&engine, second.held(), &["c"]).await;
    world.complete(&queue, &second).await;
    let story =
        ["Leased", "1 a", "2 b", "Scheduled", "Waiting", "Leased", "3 c", "Completed", "end Final Completed"];
    assert_eq!(rest(stream).await, story);
    let view = engine.get(id).await.expect("its events are something to show");
    assert_eq!(view.item.extras.expect("it has events").event_count, 3);
}

async fn a_stream_after_a_number_replays_from_there_and_goes_on(world: &World) {
    let (queue, id, permit) = one_leased(world, Settings::default()).await;
    let engine = world.engine();
    emit(&engine, permit, &["a", "b", "c"]).await;
    let mut whole = engine.subscribe(id, Some(0)).await.expect("subscribed");
    let mut part = engine.subscribe(id, Some(2)).await.expect("subscribed");
    assert_eq!(next(&mut whole).await, "1 a");
    assert_eq!(next(&mut part).await, "3 c");
    let mut live = tokio::spawn(async move { (next(&mut part).await, part) });
    assert!(futures_are_pending(&mut live).await);
    emit(&engine, permit, &["d"]).await;
    let (shown, part) = live.await.expect("it ran");
    assert_eq!(shown, "4 d");
    engine.complete(&queue, vec![completion(permit)]).await.expect("judged");
    assert_eq!(rest(whole).await, ["2 b", "3 c", "4 d", "Completed", "end Final Completed"]);
    assert_eq!(rest(part).await, ["Completed", "end Final Completed"]);
}

/// Lets everything else run that can.
async fn futures_are_pending<T>(task: &mut tokio::task::JoinHandle<T>) -> bool {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    !task.is_finished()
}

async fn a_final_item_is_shown_or_replayed_and_ends_at_once(world: &World) {
    let (queue, id, permit) = one_leased(world, Settings::default()).await;
    let engine = world.engine();
    emit(&engine, permit, &["a", "b"]).await;
    engine.complete(&queue, vec![completion(permit)]).await.expect("judged");
    let replayed = rest(engine.subscribe(id, Some(1)).await.expect("subscribed")).await;
    assert_eq!(replayed, ["2 b", "Completed", "end Final Completed"]);
    let shown = rest(engine.subscribe(id, None).await.expect("subscribed")).await;
    assert_eq!(shown, ["snapshot Completed 2", "Completed", "end Final Completed"]);
    world.env.advance(std::time::Duration::from_secs(48 * 3600));
    assert!(is_refused(&engine.subscribe(id, None).await, &Refusal::NotFound));
}

async fn what_cannot_be_followed_is_refused(world: &World) {
    let (queue, id, permit) = one_leased(world, Settings::default()).await;
    let engine = world.engine();
    emit(&engine, permit, &["a"]).await;
    let ahead = engine.subscribe(id, Some(2)).await;
    let Err(EngineError::Refused(Refusal::Invalid(invalid))) = ahead else { panic!("{ahead:?}") };
    assert_eq!(invalid.field, "after");
    engine.delete_items(&queue, vec![id]).await.expect("judged");
    assert!(is_refused(&engine.subscribe(id, None).await, &Refusal::NotFound));
    assert!(is_refused(&engine.close_streams(id, CloseMode::Graceful).await, &Refusal::NotFound));
    assert_eq!(engine.overview()[0].subscribers, 0);
}

async fn an_emit_with_a_lost_permit_or_after_another_number_changes_nothing(world: &World) {
    let (queue, id, permit) = one_leased(world, Settings::default()).await;
    let engine = world.engine();
    let after = |after| engine.emit(permit, Some(after), vec![event("a")]);
    assert_eq!(after(0).await.expect("the first").value.last_seq, 1);
    assert!(is_refused(&after(0).await, &Refusal::NotAfter { last_seq: 1 }));
    engine.release(&queue, vec![permit]).await.expect("judged");
    let lost = Refusal::LeaseLost { reason: Some(LeaseEnd::Released) };
    assert!(is_refused(&engine.emit(permit, None, vec![event("b")]).await, &lost));
    let view = engine.get(id).await.expect("it is there");
    assert_eq!(view.item.extras.expect("it has an event").event_count, 1);
}

async fn events_outlive_a_restart_and_go_on_in_number(world: &World) {
    let (queue, id, permit) = one_leased(world, Settings::default()).await;
    emit(&world.engine(), permit, &["a", "b"]).await;
    let stream = world.engine().subscribe(id, Some(0)).await.expect("subscribed");
    let waiting = tokio::spawn(rest(stream));
    world.restart().await;
    let shown = waiting.await.expect("it ran");
    assert_eq!(shown.last().map(String::as_str), Some("end Closed Leased"));
    assert_eq!(emit(&world.engine(), permit, &["c"]).await.first_seq, 3);
    world.engine().complete(&queue, vec![completion(permit)]).await.expect("judged");
    let story = ["2 b", "3 c", "Completed", "end Final Completed"];
    assert_eq!(rest(world.engine().subscribe(id, Some(1)).await.expect("subscribed")).await, story);
}

async fn who_needed_events_that_are_gone_is_told_which(world: &World) {
    let (queue, id, permit) = one_leased(world, Settings::default()).await;
    let engine = world.engine();
    let mut slow = engine.subscribe(id, Some(0)).await.expect("subscribed");
    emit(&engine, permit, &["a"]).await;
    assert_eq!(next(&mut slow).await, "1 a");
    // As far as the core goes they are large.
    let large = |content| vec![NewEvent { bytes: 6 << 20, ..event(content) }];
    for content in ["b", "c", "d", "e"] {
        engine.emit(permit, None, large(content)).await.expect("emitted");
    }
    engine.complete(&queue, vec![completion(permit)]).await.expect("judged");
    let end = ["4 d", "5 e", "Completed", "end Final Completed"];
    assert_eq!(rest(slow).await, [&["gap 2 3"][..], &end].concat());
    let late = engine.subscribe(id, Some(0)).await.expect("subscribed");
    assert_eq!(rest(late).await, [&["gap 1 3"][..], &end].concat());
    let later = engine.subscribe(id, Some(3)).await.expect("subscribed");
    assert_eq!(rest(later).await, end);
}

async fn streams_are_closed_gracefully_or_at_once_and_can_be_opened_again(world: &World) {
    let (_, id, permit) = one_leased(world, Settings::default()).await;
    let engine = world.engine();
    emit(&engine, permit, &["a", "b"]).await;
    let slow = engine.subscribe(id, Some(0)).await.expect("subscribed");
    let other = engine.subscribe(id, Some(2)).await.expect("subscribed");
    assert_eq!(engine.close_streams(id, CloseMode::Graceful).await.expect("closed"), 2);
    assert_eq!(engine.close_streams(id, CloseMode::Graceful).await.expect("closed"), 0);
    let mut again = engine.subscribe(id, Some(1)).await.expect("subscribed");
    emit(&engine, permit, &["c"]).await;
    assert_eq!(rest(slow).await, ["1 a", "2 b", "end Closed Leased"]);
    assert_eq!(rest(other).await, ["end Closed Leased"]);
    assert_eq!(next(&mut again).await, "2 b");
    assert_eq!(engine.close_streams(id, CloseMode::Immediate).await.expect("closed"), 1);
    assert_eq!(rest(again).await, ["end Closed Leased"]);
}

async fn the_end_of_an_item_that_is_taken_away_is_shown(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let engine = world.engine();
    let ids = world.produce(&queue, items(2)).await;
    let create = CreateGroup { name: "group".into(), end: None, abort: None, items: items(1), start: true };
    let member = engine.create_group(&queue, create).await.expect("created").value.items[0].id;
    let mut streams = Vec::new();
    for id in [ids[0], ids[1], member] {
        streams.push(engine.subscribe(id, Some(0)).await.expect("subscribed"));
    }
    engine.delete_items(&queue, vec![ids[0]]).await.expect("judged");
    engine.cancel_group(&queue, &"group".into()).await.expect("cancelled");
    let all = Clear { waiting: true, scheduled: true, leased: true, suspended: true };
    engine.clear(&queue, all).await.expect("cleared");
    for stream in streams {
        assert_eq!(rest(stream).await, ["Cancelled", "end Final Cancelled"]);
    }
    // One whose events are gone with it.
    let id = world.produce(&queue, items(1)).await[0];
    let leased = world.lease(&queue, 1).await;
    let stream = engine.subscribe(id, Some(0)).await.expect("subscribed");
    emit(&engine, leased[0].held(), &["a"]).await;
    engine.delete_items(&queue, vec![id]).await.expect("judged");
    assert_eq!(rest(stream).await, ["gap 1 1", "Cancelled", "end Final Cancelled"]);
}

async fn a_stream_ends_with_its_queue_and_with_the_engine(world: &World) {
    let (queue, id, _) = one_leased(world, Settings::default()).await;
    let engine = world.engine();
    let stream = engine.subscribe(id, Some(0)).await.expect("subscribed");
    engine.delete_queue(&queue, true).await.expect("deleted");
    assert_eq!(rest(stream).await, ["end Closed Leased"]);
    let (_, id, _) = one_leased(world, Settings::default()).await;
    let stream = engine.subscribe(id, None).await.expect("subscribed");
    engine.send_waiters_home();
    assert_eq!(rest(stream).await, ["snapshot Leased 0", "end Closed Leased"]);
    let refused = engine.subscribe(id, None).await;
    assert!(matches!(refused, Err(EngineError::Unavailable { .. })), "{refused:?}");
}

async fn a_reload_loses_nobody_who_follows(world: &World) {
    let (queue, id, permit) = one_leased(world, Settings::default()).await;
    let engine = world.engine();
    let stream = engine.subscribe(id, Some(0)).await.expect("subscribed");
    emit(&engine, permit, &["a"]).await;
    engine.reload(&queue).await.expect("acquired anew");
    emit(&engine, permit, &["b"]).await;
    engine.complete(&queue, vec![completion(permit)]).await.expect("judged");
    assert_eq!(rest(stream).await, ["1 a", "2 b", "Completed", "end Final Completed"]);
}

async fn streams_leave_nothing_behind(world: &World) {
    let settings = Settings { retention: Span::from_secs(60), ..Settings::default() };
    let (queue, id, permit) = one_leased(world, settings).await;
    let engine = world.engine();
    let empty = engine.store_stats().bytes_live;
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(engine.subscribe(id, Some(0)).await.expect("subscribed"));
        emit(&engine, permit, &["a", "b"]).await;
    }
    assert_eq!(engine.overview()[0].subscribers, 10);
    assert!(engine.store_stats().bytes_live > empty);
    drop(streams);
    assert_eq!(engine.overview()[0].subscribers, 0);
    engine.complete(&queue, vec![completion(permit)]).await.expect("judged");
    world.env.advance(std::time::Duration::from_secs(60));
    assert!(is_refused(&engine.get(id).await, &Refusal::NotFound));
    assert_eq!(engine.store_stats().bytes_live, 0);
}

/// Follows an item to its end; now and then it stops and begins again where it was. Gives all events it saw.
async fn follower(engine: Engine, id: ItemId, mut dice: Dice) -> Vec<(u64, Bytes)> {
    let mut seen: Vec<(u64, Bytes)> = Vec::new();
    loop {
        let after = seen.last().map_or(0, |(seq, _)| *seq);
        let mut stream = engine.subscribe(id, Some(after)).await.expect("subscribed");
        let mut patience = if dice.below(3) == 0 { dice.below(2000) } else { u64::MAX };
        let mut last_state = None;
        while let Some(frame) = stream.next().await {
            match frame {
                Frame::Event { seq, content, .. } => seen.push((seq, content)),
                Frame::State { phase, .. } => last_state = Some(phase),
                Frame::End { reason, phase, moved_to: _ } => {
                    assert_eq!((reason, phase), (EndReason::Final, Phase::Completed));
                    assert_eq!(last_state, Some(Phase::Completed));
                    return seen;
                }
                Frame::Snapshot { .. } | Frame::Gap { .. } => panic!("{frame:?}"),
            }
            patience = patience.saturating_sub(1);
            if patience == 0 {
                break;
            }
        }
    }
}

async fn two_hundred_who_come_and_go_see_the_same_four_thousand_events(world: &World) {
    let (queue, id, permit) = one_leased(world, Settings::default()).await;
    let engine = world.engine();
    let mut dice = Dice(42);
    let mut followers = Vec::new();
    let mut emitted = 0;
    while emitted < 4000 {
        let batch = (1 + dice.below(40)).min(4000 - emitted);
        let events = (0..batch).map(|index| event(&format!("event {}", emitted + index + 1))).collect();
        engine.emit(permit, Some(emitted), events).await.expect("emitted");
        emitted += batch;
        for _ in 0..dice.below(4) {
            if followers.len() < 200 {
                followers.push(tokio::spawn(follower(engine.clone(), id, Dice(dice.below(1 << 30)))));
            }
        }
    }
    engine.complete(&queue, vec![completion(permit)]).await.expect("judged");
    while followers.len() < 200 {
        followers.push(tokio::spawn(follower(engine.clone(), id, Dice(dice.below(1 << 30)))));
    }
    let expected: Vec<(u64, Bytes)> =
        (1..=4000).map(|seq| (seq, Bytes::from(format!("event {seq}")))).collect();
    for follower in followers {
        assert!(follower.await.expect("it ran") == expected);
    }
    assert_eq!(engine.overview()[0].subscribers, 0);
}

async fn fifty_who_follow_cost_no_commits(world: &World) {
    let (_, id, permit) = one_leased(world, Settings::default()).await;
    let engine = world.engine();
    let hundred_emits = async || {
        let before = engine.commit_stats().commits;
        for _ in 0..100 {
            emit(&engine, permit, &["a", "b"]).await;
        }
        engine.commit_stats().commits - before
    };
    let alone = hundred_emits().await;
    let mut followers = Vec::new();
    for _ in 0..50 {
        let mut stream = engine.subscribe(id, None).await.expect("subscribed");
        followers.push(tokio::spawn(async move {
            while let Some(frame) = stream.next().await {
                if matches!(frame, Frame::Event { seq: 400, .. }) {
                    return;
                }
            }
        }));
    }
    assert_eq!((alone, hundred_emits().await), (100, 100));
    for follower in followers {
        follower.await.expect("it ran");
    }
}

/// Ten thousand items, each followed at the very moment of its end: always the whole story with its end.
async fn who_comes_at_the_moment_of_the_end_still_sees_all_of_it(world: &World) {
    const ROUNDS: usize = 10_000;
    let queue = Arc::new(world.queue("q", 1, Settings::default()).await);
    let engine = world.engine();
    for round in 0..ROUNDS / 100 {
        world.produce(&queue, items(100)).await;
        let mut races = Vec::new();
        for item in world.lease(&queue, 100).await {
            let held = item.held();
            emit(&engine, held, &["a"]).await;
            let (worker, queue) = (engine.clone(), Arc::clone(&queue));
            tokio::spawn(async move {
                worker.emit(held, None, vec![event("b")]).await.expect("emitted");
                worker.complete(&queue, vec![completion(held)]).await.expect("judged");
            });
            let follower = engine.clone();
            let after = (round % 2 == 0).then_some(0);
            races.push(tokio::spawn(async move {
                rest(follower.subscribe(held.id, after).await.expect("it is kept")).await
            }));
        }
        for race in races {
            let story = race.await.expect("it ran");
            let events: Vec<&str> = story
                .iter()
                .map(String::as_str)
                .filter(|frame| frame.ends_with(" a") || frame.ends_with(" b"))
                .collect();
            match story[0].as_str() {
                "snapshot Leased 1" => assert_eq!(events, ["2 b"]),
                "snapshot Leased 2" | "snapshot Completed 2" => assert!(events.is_empty()),
                _ => assert_eq!(events, ["1 a", "2 b"]),
            }
            assert_eq!(story[story.len() - 2..], ["Completed", "end Final Completed"]);
        }
    }
    assert_eq!(engine.overview()[0].subscribers, 0);
}
