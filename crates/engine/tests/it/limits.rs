//! What the engine takes at most: queues, partitions and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use windlass_core::limits::RegistryLimits;
use windlass_core::refusal::{Limit, Refusal};
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateGroup, CreateQueue};
use windlass_engine::store::memory::MemoryStore;
use windlass_engine::{Engine, EngineError, EngineOptions, MemoryLimit, MemoryStats};

use crate::behaviour::is_refused;
use crate::world::{ManualEnv, completion, held, import_item, items, lease, queue_name};

fn queue_of(name: &str, partitions: u32) -> CreateQueue {
    CreateQueue::new(queue_name(name), Settings::default(), partitions)
}

#[tokio::test]
async fn queues_and_partitions_beyond_the_limits_are_refused_also_after_a_restart() {
    let (env, store) = (Arc::new(ManualEnv::new()), Arc::new(MemoryStore::new()));
    let registry = RegistryLimits { queues: 2, partitions: 3 };
    let limits = EngineOptions { registry, ..EngineOptions::default() };
    let at = |limit, max| Refusal::AtLimit { limit, max };
    let engine = Engine::open_with(env.clone(), store.clone(), limits.clone()).await.expect("it opens");
    engine.create_queue(queue_of("a", 2)).await.expect("made");
    assert!(is_refused(&engine.create_queue(queue_of("b", 2)).await, &at(Limit::Partitions, 3)));
    engine.create_queue(queue_of("b", 1)).await.expect("made");
    engine.close().await;
    let engine = Engine::open_with(env, store, limits).await.expect("it opens again");
    assert!(is_refused(&engine.create_queue(queue_of("c", 1)).await, &at(Limit::Queues, 2)));
    assert!(is_refused(&engine.rebalance(&queue_name("b"), 2).await, &at(Limit::Partitions, 3)));
    engine.delete_queue(&queue_name("a"), false).await.expect("deleted");
    engine.rebalance(&queue_name("b"), 3).await.expect("rebalanced");
}

fn is_out_of_memory<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::OutOfMemory { bytes: 101, max: 100 }))
}

#[tokio::test]
async fn beyond_the_memory_limit_nothing_is_produced_and_workers_go_on() {
    let (env, used, readings) =
        (Arc::new(ManualEnv::new()), Arc::new(AtomicU64::new(100)), Arc::new(AtomicUsize::new(0)));
    let (seen, read) = (Arc::clone(&used), Arc::clone(&readings));
    let bytes_now = Arc::new(move || {
        read.fetch_add(1, Ordering::SeqCst);
        Some(seen.load(Ordering::SeqCst))
    });
    let memory = Some(MemoryLimit { bytes_max: 100, bytes_now });
    let limits = EngineOptions { memory, ..EngineOptions::default() };
    let engine =
        Engine::open_with(env.clone(), Arc::new(MemoryStore::new()), limits).await.expect("it opens");
    engine.create_queue(queue_of("q", 1)).await.expect("made");
    let queue = queue_name("q");
    for _ in 0..3 {
        engine.produce(&queue, items(1)).await.expect("as much as is allowed");
    }
    assert_eq!(readings.load(Ordering::SeqCst), 1, "no more than one reading a second");

    used.store(101, Ordering::SeqCst);
    env.advance(Duration::from_secs(1));
    let group = CreateGroup { name: "g".into(), items: items(1), start: true, end: None, abort: None };
    assert!(is_out_of_memory(&engine.produce(&queue, items(1)).await));
    assert!(is_out_of_memory(&engine.produce_once(&queue, "key".into(), items(1)).await));
    assert!(is_out_of_memory(&engine.import(&queue, vec![import_item("imported")]).await));
    assert!(is_out_of_memory(&engine.create_group(&queue, group).await));
    assert_eq!(engine.memory_stats(), Some(MemoryStats { bytes_max: 100, refused: 4 }));
    let leased = engine.lease(&queue, lease(3), Span::ZERO).await.expect("leased").accept();
    assert!(
        engine.extend(&queue, None, held(&leased)).await.expect("judged").results.iter().all(Result::is_ok)
    );
    let done = leased.iter().map(|item| completion(item.held())).collect();
    assert!(engine.complete(&queue, done).await.expect("judged").results.iter().all(Result::is_ok));
    assert_eq!(readings.load(Ordering::SeqCst), 2);

    used.store(99, Ordering::SeqCst);
    env.advance(Duration::from_secs(1));
    engine.produce(&queue, items(1)).await.expect("there is memory again");
}

#[tokio::test]
async fn where_the_system_does_not_tell_memory_is_not_limited() {
    let memory = Some(MemoryLimit { bytes_max: 100, bytes_now: Arc::new(|| None) });
    let limits = EngineOptions { memory, ..EngineOptions::default() };
    let env = Arc::new(ManualEnv::new());
    let engine = Engine::open_with(env, Arc::new(MemoryStore::new()), limits).await.expect("it opens");
    engine.create_queue(queue_of("q", 1)).await.expect("made");
    engine.produce(&queue_name("q"), items(1)).await.expect("produced");
}
