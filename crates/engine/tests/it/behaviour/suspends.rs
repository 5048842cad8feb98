//! Items whose workers wait for an answer.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::event::NewEvent;
use windlass_core::item::{LeaseEnd, Phase};
use windlass_core::refusal::Refusal;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Input, NewItem, SuspendItem};
use windlass_engine::Granted;

use super::is_refused;
use super::streams::{next, rest};
use crate::world::{World, item, items};

on_every_store!(
    a_suspended_item_waits_for_an_answer_and_goes_on_with_it,
    the_answer_outlives_a_restart_and_a_worker_that_dies,
    a_suspended_item_counts_is_cancelled_and_expires,
);

fn suspend(item: &Granted) -> Vec<SuspendItem> {
    vec![SuspendItem { held: item.held(), reason: Some("which colour?".into()) }]
}

fn answer(text: &'static str) -> Input {
    let bytes = Bytes::from_static(text.as_bytes());
    Input { event: NewEvent { content: bytes.clone(), bytes: bytes.len() as u64 }, body: bytes }
}

async fn a_suspended_item_waits_for_an_answer_and_goes_on_with_it(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let engine = world.engine();
    let id = world.produce(&queue, items(1)).await[0];
    let first = world.lease(&queue, 1).await;
    assert_eq!(first[0].input, None);
    let mut stream = engine.subscribe(id, Some(0)).await.expect("subscribed");
    assert!(is_refused(&engine.resume(id, None).await, &Refusal::NotSuspended));
    let judged = engine.suspend(&queue, suspend(&first[0])).await.expect("judged");
    judged.results[0].clone().expect("suspended");
    assert_eq!(next(&mut stream).await, "Suspended");
    assert!(world.lease(&queue, 1).await.is_empty());
    let lost = Refusal::LeaseLost { reason: Some(LeaseEnd::Suspended) };
    let again = engine.suspend(&queue, suspend(&first[0])).await.expect("judged").results.remove(0);
    assert!(is_refused(&again, &lost));
    engine.resume(id, Some(answer("blue"))).await.expect("resumed");
    let second = world.lease(&queue, 1).await;
    assert_eq!(second[0].input, Some(Bytes::from_static(b"blue")));
    assert_eq!((second[0].body.clone(), second[0].leased.attempts), (Bytes::from_static(b"item 0"), 1));
    world.complete(&queue, &second[0]).await;
    assert_eq!(rest(stream).await, ["1 blue", "Waiting", "Leased", "Completed", "end Final Completed"]);
}

async fn the_answer_outlives_a_restart_and_a_worker_that_dies(world: &World) {
    let queue = world.queue("q", 1, Settings { max_attempts: 0, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    let leased = world.lease(&queue, 1).await;
    world.engine().suspend(&queue, suspend(&leased[0])).await.expect("judged");
    world.restart().await;
    assert_eq!(world.engine().get(id).await.expect("it is there").phase(), Phase::Suspended);
    world.engine().resume(id, Some(answer("blue"))).await.expect("resumed");
    world.restart().await;
    for _ in 0..2 {
        let leased = world.lease(&queue, 1).await;
        assert_eq!(leased[0].input, Some(Bytes::from_static(b"blue")));
        world.env.advance(Duration::from_secs(60));
    }
}

async fn a_suspended_item_counts_is_cancelled_and_expires(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let engine = world.engine();
    let ids = world.produce(&queue, items(1)).await;
    let timed = NewItem { dead_timeout: Some(Span::from_secs(5)), ..item("timed") };
    let timed = world.produce(&queue, vec![timed]).await[0];
    for leased in world.lease(&queue, 2).await {
        engine.suspend(&queue, suspend(&leased)).await.expect("judged");
    }
    let stats = engine.stats(&queue).await.expect("stats");
    assert_eq!((stats.counts.suspended, stats.counts.live()), (2, 2));
    let cancelled = engine.cancel(ids[0]).await.expect("cancelled");
    assert_eq!(cancelled.value.item.state.phase(), Phase::Cancelled);
    world.env.advance(Duration::from_secs(5));
    assert_eq!(engine.get(timed).await.expect("it has an error").phase(), Phase::Expired);
    assert_eq!(engine.stats(&queue).await.expect("stats").counts.live(), 0);
}
