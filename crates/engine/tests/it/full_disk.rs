//! A disk that runs full under a working engine: what ends items goes on, what grows is refused, and once there is
//! room again it recovers by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::command::{CreateQueue, NewItem};
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::{Engine, EngineError, Outcome};

use crate::behaviour::streams::event;
use crate::log_disk::MemDisk;
use crate::world::{ManualEnv, item, lease, queue_name};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_still_ends_items_and_recovers_once_there_is_room() {
    let env = Arc::new(ManualEnv::new());
    let disk: Arc<MemDisk> = Arc::default();
    disk.faults().room.store(DISK_BYTES, Ordering::SeqCst);
    let options =
        LogOptions { segment_bytes: SEGMENT_BYTES, snapshot_min_bytes: 32 << 10, ..LogOptions::default() };
    let store = LogStore::open(env.clone(), disk.clone(), options).await.expect("the log opens");
    let engine = Engine::open(env.clone(), Arc::new(store)).await.expect("the engine opens");
    let queue = queue_name("q");
    let create = CreateQueue { name: queue.clone(), settings: Settings::default(), partitions: 1 };
    engine.create_queue(create).await.expect("the queue is made");

    let (produced, error) = fill_up(&engine, &queue).await;
    assert!(is_refused(&error), "{error}");
    assert_eq!(engine.stats(&queue).await.expect("stats").counts.waiting, produced);

    let leased = engine.lease(&queue, lease(20), Span::ZERO).await.expect("leased").accept();
    assert_eq!(leased.len(), 20);
    // What a worker says takes room like what is produced, however little it is.
    let emitted = engine.emit(leased[0].id, leased[0].permit, None, vec![event("")]).await;
    assert!(emitted.as_ref().is_err_and(is_refused), "{emitted:?}");
    let done = leased.iter().map(|item| (item.id, item.permit, None)).collect();
    assert!(engine.complete(&queue, done).await.expect("judged").results.iter().all(Result::is_ok));
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
