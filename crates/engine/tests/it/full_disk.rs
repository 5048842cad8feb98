//! A disk that runs full under a working engine: what ends items goes on, what grows is refused, and once there is
//! room again it recovers by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, ExtendItem, NewItem, Settle, SuspendItem};
use windlass_engine::store::Room;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::{Engine, EngineError, Granted, Outcome};

use crate::behaviour::streams::event;
use crate::log_disk::MemDisk;
use crate::world::{ManualEnv, completion, item, lease, queue_name};

const SEGMENT_BYTES: u32 = 64 << 10;
/// Room for some segments and snapshots.
const DISK_BYTES: u64 = 12 * SEGMENT_BYTES as u64;

fn large_items(count: usize) -> Vec<NewItem> {
    vec![NewItem { body: Bytes::from(vec![7; 1000]), ..item("") }; count]
}

async fn fill_up(engine: &Engine, queue: &QueueName) -> (u64, EngineError) {
    let mut produced = 0;
    loop {
        match engine.produce(queue, large_items(8)).await {
            Ok(done) => produced += done.results.len() as u64,
            Err(error) => return (produced, error),
        }
        assert!(produced < 10_000, "the disk is small");
    }
}

fn is_refused(error: &EngineError) -> bool {
    matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. })
}

/// An engine with one queue on a disk of so many bytes.
async fn small_world(settings: Settings) -> (Arc<ManualEnv>, Arc<MemDisk>, Engine, QueueName) {
    let env = Arc::new(ManualEnv::new());
    let disk: Arc<MemDisk> = Arc::default();
    disk.faults().room.store(DISK_BYTES, Ordering::SeqCst);
    let options =
        LogOptions { segment_bytes: SEGMENT_BYTES, snapshot_min_bytes: 32 << 10, ..LogOptions::default() };
    let store = LogStore::open(env.clone(), disk.clone(), options).await.expect("the log opens");
    let engine = Engine::open(env.clone(), Arc::new(store)).await.expect("the engine opens");
    let queue = queue_name("q");
    let create = CreateQueue::new(queue.clone(), settings, 1);
    engine.create_queue(create).await.expect("the queue is made");
    (env, disk, engine, queue)
}

async fn complete_all(engine: &Engine, queue: &QueueName, items: &[Granted]) {
    for items in items.chunks(100) {
        let done = items.iter().map(|item| completion(item.held())).collect();
        let results = engine.complete(queue, done).await.expect("judged").results;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_still_ends_items_and_recovers_once_there_is_room() {
    let (env, disk, engine, queue) = small_world(Settings::default()).await;
    let (produced, error) = fill_up(&engine, &queue).await;
    assert!(is_refused(&error) && error.is_store_full(), "{error}");
    let stats = engine.stats(&queue).await.expect("stats");
    assert_eq!(stats.counts.waiting, produced);
    assert_eq!((stats.partitions[0].room, engine.stores()[0].room), (Room::Full, Room::Full));
    assert!(engine.stores()[0].stats.bytes_free.is_some_and(|free| free < 2 * u64::from(SEGMENT_BYTES)));

    let leased = engine.lease(&queue, lease(20), Span::ZERO).await.expect("leased").accept();
    assert_eq!(leased.len(), 20);
    // What a worker says takes room like what is produced, however little it is.
    let emitted = engine.emit(leased[0].held(), None, vec![event("")]).await;
    assert!(emitted.as_ref().is_err_and(is_refused), "{emitted:?}");
    complete_all(&engine, &queue, &leased).await;
    assert_eq!(engine.stats(&queue).await.expect("stats").counts.waiting, produced - 20);

    disk.faults().room.store(u64::MAX, Ordering::SeqCst);
    // Nobody tells the store: it looks again by itself as time passes.
    while engine.produce(&queue, large_items(8)).await.is_err() {
        env.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.stats(&queue).await.expect("stats").counts.waiting, produced - 12);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_and_heartbeats_do_not_use_up_what_completions_need() {
    let settings = Settings { retention: Span::ZERO, ..Settings::default() };
    let (env, disk, engine, queue) = small_world(settings).await;
    let (produced, _) = fill_up(&engine, &queue).await;

    let mut leased = engine.lease(&queue, lease(5), Span::ZERO).await.expect("leased").accept();
    let refused = loop {
        match engine.lease(&queue, lease(1), Span::ZERO).await {
            Ok(grant) => leased.extend(grant.accept()),
            Err(error) => break error,
        }
        let held = leased.iter().map(|item| item.held()).collect();
        engine.extend(&queue, None, held).await.expect("judged");
        assert!((leased.len() as u64) < produced, "nothing was ever refused");
    };
    assert!(refused.is_store_full(), "{refused}");
    // Nor do leases wait for what cannot be leased, and suspending frees nothing.
    let waited = engine.lease(&queue, lease(1), Span::from_secs(60)).await;
    assert!(waited.as_ref().is_err_and(EngineError::is_store_full), "{waited:?}");
    let suspend = SuspendItem { held: leased[0].held(), reason: None };
    let suspended = engine.suspend(&queue, vec![suspend]).await;
    let told = suspended.expect("judged").results.remove(0);
    assert!(told.as_ref().is_err_and(EngineError::is_store_full), "{told:?}");
    assert_eq!(engine.stats(&queue).await.expect("stats").partitions[0].room, Room::Last);

    // A worker's turn ends what it can, and leases nothing.
    let [ended, extended] = [leased.remove(0).held(), leased[0].held()];
    let turn = vec![
        Settle::Extend(ExtendItem { held: extended, lease_timeout: None }),
        Settle::Complete(completion(ended)),
    ];
    let turn = engine.next(&queue, turn, Some(lease(1))).await.expect("a sound turn");
    let told = &turn.settled.results;
    assert!(told[0].as_ref().is_err_and(EngineError::is_store_full) && told[1].is_ok(), "{told:?}");
    assert!(turn.leased.as_ref().is_err_and(EngineError::is_store_full), "{:?}", turn.leased);

    complete_all(&engine, &queue, &leased).await;
    let left = produced - leased.len() as u64 - 1;
    assert_eq!(engine.stats(&queue).await.expect("stats").counts.waiting, left);
    disk.faults().room.store(u64::MAX, Ordering::SeqCst);
    while engine.stats(&queue).await.expect("stats").counts.waiting > 0 {
        env.advance(Duration::from_secs(1));
        if let Ok(grant) = engine.lease(&queue, lease(100), Span::ZERO).await {
            complete_all(&engine, &queue, &grant.accept()).await;
        }
    }
    engine.produce(&queue, large_items(8)).await.expect("there is room again");
    engine.close().await;
}
