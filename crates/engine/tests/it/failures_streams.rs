//! What those are shown who follow an item while the store fails: nothing that is not durable, and all that is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, Held, LeaseItems};
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::{CloseMode, Engine, Subscription};

use crate::behaviour::streams::{emit, event, next, rest, said};
use crate::failures::{Broken, world};
use crate::faulty::Fault;
use crate::log_disk::MemDisk;
use crate::log_failure::ready_with;
use crate::world::{ManualEnv, completion, completion_with, items, lease, queue_name};

async fn followed(world: &Broken) -> (Held, Subscription) {
    world.engine.produce(&world.queue, items(1)).await.expect("produced");
    let leased = world.engine.lease(&world.queue, lease(1), Span::ZERO).await.expect("leased").accept();
    let stream = world.engine.subscribe(leased[0].leased.id, Some(0)).await.expect("subscribed");
    (leased[0].held(), stream)
}

async fn try_emit(engine: &Engine, held: Held, content: &str) -> bool {
    engine.emit(held, None, vec![event(content)]).await.is_ok()
}

#[tokio::test]
async fn an_event_whose_commit_looked_failed_and_made_it_is_shown_once() {
    let world = world(1).await;
    let (held, mut stream) = followed(&world).await;
    world.store.fail_next(Fault::UnknownDone);
    assert!(try_emit(&world.engine, held, "a").await);
    assert_eq!(next(&mut stream).await, "1 a");
    assert_eq!(emit(&world.engine, held, &["b"]).await.first_seq, 2);
    assert_eq!(next(&mut stream).await, "2 b");
}

#[tokio::test]
async fn an_event_whose_commit_was_lost_is_never_shown_and_its_number_is_the_next_ones() {
    for fault in [Fault::UnknownLost, Fault::NotApplied] {
        let world = world(1).await;
        let (held, stream) = followed(&world).await;
        world.store.fail_next(fault);
        assert!(!try_emit(&world.engine, held, "lost").await);
        world.waiting().await;
        assert_eq!(emit(&world.engine, held, &["kept"]).await.first_seq, 1);
        let done = vec![completion(held)];
        world.engine.complete(&world.queue, done).await.expect("judged").results[0]
            .clone()
            .expect("completed");
        assert_eq!(rest(stream).await, ["1 kept", "Completed", "end Final Completed"]);
    }
}

#[tokio::test]
async fn an_end_whose_commit_was_lost_is_not_shown_before_the_next_one() {
    let world = world(1).await;
    let (held, stream) = followed(&world).await;
    world.store.fail_next(Fault::UnknownLost);
    let done = || world.engine.complete(&world.queue, vec![completion(held)]);
    done().await.expect("judged").results[0].clone().expect_err("it was lost");
    world.waiting().await;
    emit(&world.engine, held, &["a"]).await;
    done().await.expect("judged").results[0].clone().expect("completed");
    assert_eq!(rest(stream).await, ["1 a", "Completed", "end Final Completed"]);
}

async fn until_all_are_blocked() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_comes_while_streams_are_closed_is_still_shown_what_was_there() {
    let world = world(1).await;
    let (held, stream) = followed(&world).await;
    drop(stream);
    emit(&world.engine, held, &["a", "b"]).await;
    world.store.held.send_replace(true);
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let busy = tokio::spawn(async move { engine.produce(&queue, items(1)).await });
    until_all_are_blocked().await;
    let engine = world.engine.clone();
    let closing = tokio::spawn(async move { engine.close_streams(held.id, CloseMode::Graceful).await });
    until_all_are_blocked().await;
    let engine = world.engine.clone();
    let coming = tokio::spawn(async move { engine.subscribe(held.id, Some(0)).await });
    until_all_are_blocked().await;
    world.store.held.send_replace(false);
    assert_eq!(closing.await.expect("it ran").expect("closed"), 1);
    let stream = coming.await.expect("it ran").expect("subscribed");
    assert_eq!(rest(stream).await, ["1 a", "2 b", "end Closed Leased"]);
    busy.await.expect("it ran").expect("produced");
}

#[tokio::test]
async fn a_snapshot_is_of_one_moment_even_if_the_item_ends_meanwhile() {
    let world = world(1).await;
    let (held, stream) = followed(&world).await;
    drop(stream);
    emit(&world.engine, held, &["a"]).await;
    world.store.reads_held.send_replace(true);
    let engine = world.engine.clone();
    let coming = tokio::spawn(async move { engine.subscribe(held.id, None).await });
    until_all_are_blocked().await;
    let done = vec![completion_with(held, "result")];
    world.engine.complete(&world.queue, done).await.expect("judged").results[0].clone().expect("completed");
    world.store.reads_held.send_replace(false);
    let stream = coming.await.expect("it ran").expect("subscribed");
    assert_eq!(rest(stream).await, ["snapshot Completed 1", "Completed", "end Final Completed"]);
}

#[tokio::test]
async fn what_is_at_hand_is_shown_without_a_read_and_what_was_let_go_is_read_again() {
    let world = world(1).await;
    let (held, mut stream) = followed(&world).await;
    emit(&world.engine, held, &["a", "b"]).await;
    emit(&world.engine, held, &["c"]).await;
    assert!(stream.at_hand().is_none());
    assert_eq!(world.store.event_reads.load(Ordering::SeqCst), 0);
    assert_eq!(next(&mut stream).await, "1 a");
    assert!(stream.read_ahead_bytes() > 0);
    assert_eq!(stream.at_hand().as_ref().map(said).as_deref(), Some("2 b"));
    assert_eq!(world.store.event_reads.load(Ordering::SeqCst), 1);
    stream.let_go();
    assert_eq!(stream.read_ahead_bytes(), 0);
    assert!(stream.at_hand().is_none());
    assert_eq!(next(&mut stream).await, "3 c");
    assert_eq!(stream.read_ahead_bytes(), 0);
    assert_eq!(world.store.event_reads.load(Ordering::SeqCst), 2);
}

/// A log that was salvaged may lack some.
#[tokio::test]
async fn a_batch_that_is_missing_is_a_gap_and_those_after_it_are_not() {
    let world = world(1).await;
    let (held, mut stream) = followed(&world).await;
    let large = "a".repeat(200 << 10);
    emit(&world.engine, held, &[&large]).await;
    *world.store.lost_events.lock().expect("not poisoned") = Some(2);
    emit(&world.engine, held, &["lost"]).await;
    emit(&world.engine, held, &["b"]).await;
    assert_eq!(next(&mut stream).await, format!("1 {large}"));
    assert_eq!(next(&mut stream).await, "gap 2 2");
    assert_eq!(next(&mut stream).await, "3 b");
}

#[tokio::test]
async fn whoever_cannot_read_on_is_sent_away_and_may_come_again() {
    let world = world(1).await;
    let (held, stream) = followed(&world).await;
    emit(&world.engine, held, &["a"]).await;
    world.store.events_broken.store(true, Ordering::SeqCst);
    assert_eq!(rest(stream).await, ["end Closed Leased"]);
    world.store.events_broken.store(false, Ordering::SeqCst);
    let mut stream = world.engine.subscribe(held.id, Some(0)).await.expect("subscribed");
    assert_eq!(next(&mut stream).await, "1 a");
}

/// With relaxed durability what was shown may be taken back. Whoever has seen it is sent away, and others see what is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_was_ahead_of_a_log_that_went_back_is_closed() {
    const INTERVAL: Span = Span::from_secs(3600);
    let env = Arc::new(ManualEnv::new());
    let disk: Arc<MemDisk> = Arc::default();
    let options = LogOptions { durability: Durability::Interval(INTERVAL), ..LogOptions::default() };
    let segment_bytes = options.segment_bytes;
    let store = LogStore::open(env.clone(), disk.clone(), options).await.expect("the log opens");
    let engine = Engine::open(env.clone(), Arc::new(store)).await.expect("the engine opens");
    let queue = queue_name("q");
    let create = CreateQueue::new(queue.clone(), Settings::default(), 1);
    engine.create_queue(create).await.expect("the queue is made");
    engine.produce(&queue, items(1)).await.expect("produced");
    let long = LeaseItems { lease_timeout: Some(Span::from_secs(1 << 30)), ..lease(1) };
    let leased = engine.lease(&queue, long, Span::ZERO).await.expect("leased").accept();
    let held = leased[0].held();
    emit(&engine, held, &["a"]).await;
    let mut stream = engine.subscribe(held.id, Some(0)).await.expect("subscribed");
    assert_eq!(next(&mut stream).await, "1 a");
    // Segments are made ready ahead: the fault is to strike what was emitted.
    ready_with(&disk, segment_bytes, || engine.store_stats().bytes_stored).await;
    let synced = engine.store_stats().syncs;
    env.advance(Duration::from_secs(3600));
    while engine.store_stats().syncs == synced {
        tokio::task::yield_now().await;
    }
    emit(&engine, held, &["lost"]).await;
    assert_eq!(next(&mut stream).await, "2 lost");
    disk.faults().syncs.store(1, Ordering::SeqCst);
    env.advance(Duration::from_secs(3600));
    while disk.faults().syncs.load(Ordering::SeqCst) > 0 {
        tokio::task::yield_now().await;
    }
    // Which is found out by whoever writes next.
    let emitter = engine.clone();
    let kept =
        tokio::spawn(async move { while emitter.emit(held, None, vec![event("kept")]).await.is_err() {} });
    while !kept.is_finished() {
        env.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(rest(stream).await, ["end Closed Leased"]);
    let mut stream = engine.subscribe(held.id, Some(1)).await.expect("subscribed");
    assert_eq!(next(&mut stream).await, "2 kept");
}
