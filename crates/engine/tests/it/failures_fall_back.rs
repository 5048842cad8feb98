//! What waits for a queue that is there but takes nothing now: it falls back only for one that does not exist.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::verbs::UpdateQueue;
use windlass_engine::Engine;

use crate::failures_moves::Moving;
use crate::world::items;

/// With nothing that may wait for a queue that does not exist, and some that wait for one that does.
async fn with_little_room(count: usize) -> Moving {
    let moving = Moving::new().await;
    moving.create(&moving.dead, Settings::default()).await;
    let no_room = SettingsChange { retention_max_bytes: Some(1), ..SettingsChange::default() };
    moving.engine.update_queue(UpdateQueue::new(moving.queue.clone(), no_room)).await.expect("updated");
    moving.engine.produce(&moving.queue, items(count)).await.expect("produced");
    moving
}

/// While nothing can arrive, all stay on their way.
async fn none_falls_back(moving: &Moving, count: u64) {
    for _ in 0..100 {
        moving.env.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
        let stats = moving.stats(&moving.queue).await;
        assert_eq!((stats.moving, stats.retained), (count, 0));
    }
}

#[tokio::test]
async fn what_waits_for_a_faulty_queue_does_not_fall_back() {
    const COUNT: u64 = 40;
    let moving = with_little_room(COUNT as usize).await;
    let broken = Some(moving.partition_of(&moving.dead).await);
    *moving.store.broken_partition.lock().expect("not poisoned") = broken;
    moving.engine.produce(&moving.dead, items(1)).await.expect_err("it fails");
    moving.until(async || !moving.serves(&moving.dead).await).await;
    for _ in 0..COUNT / 10 {
        moving.fail(&moving.lease(&moving.queue).await).await;
    }
    none_falls_back(&moving, COUNT).await;
    // In the next process the queue is there from the start, and its partition never was.
    moving.engine.close().await;
    let store = Arc::new(moving.store.next_process());
    *store.broken_partition.lock().expect("not poisoned") = broken;
    let engine = Engine::open(moving.env.clone(), store.clone()).await.expect("the engine opens again");
    let moving = Moving { store, engine, ..moving };
    none_falls_back(&moving, COUNT).await;
    *moving.store.broken_partition.lock().expect("not poisoned") = None;
    moving.settled().await;
    assert_eq!(moving.live(&moving.dead).await, COUNT);
}

#[tokio::test]
async fn what_waits_for_a_queue_in_a_full_store_does_not_fall_back() {
    let moving = with_little_room(10).await;
    let leased = moving.lease(&moving.queue).await;
    *moving.store.full.lock().expect("not poisoned") = true;
    moving.fail(&leased).await;
    none_falls_back(&moving, 10).await;
    *moving.store.full.lock().expect("not poisoned") = false;
    moving.settled().await;
    assert_eq!(moving.live(&moving.dead).await, 10);
}
