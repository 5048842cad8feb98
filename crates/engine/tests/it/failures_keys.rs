//! What becomes of items with a key when their home fails.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_engine::{Engine, EngineError, Outcome};

use crate::behaviour::addresses::orders;
use crate::failures::{Broken, world};
use crate::faulty::Fault;
use crate::world::{ManualEnv, item, queue_name};

async fn broken_home(partitions: u32) -> (Broken, PartitionId) {
    let world = world(partitions).await;
    let broken = world.engine.queue_info(&world.queue).expect("it is there").partitions[0];
    *world.store.broken_partition.lock().expect("not poisoned") = Some(broken);
    (world, broken)
}

fn is_not_applied(error: &EngineError) -> bool {
    matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. })
}

#[tokio::test]
async fn items_whose_home_cannot_commit_fail_by_themselves_and_go_nowhere_else() {
    let (world, broken) = broken_home(3).await;
    let judged = world.engine.produce(&world.queue, orders(60)).await.expect("two of them could");
    let failed: Vec<usize> = (0..60).filter(|index| judged.results[*index].is_err()).collect();
    assert!(!failed.is_empty() && failed.len() < 60);
    assert!(judged.results.iter().flatten().all(|made| made.id.partition != broken));
    assert!(judged.results.iter().filter_map(|result| result.as_ref().err()).all(is_not_applied));
    assert_eq!(judged.commits.len(), 2);
    // By now the partition is known to be faulty: the same.
    let judged = world.engine.produce(&world.queue, orders(60)).await.expect("judged");
    for (index, result) in judged.results.iter().enumerate() {
        let error = result.as_ref().expect_err("taken, or without a home");
        assert_eq!(is_not_applied(error), failed.contains(&index), "{error}");
    }
    *world.store.broken_partition.lock().expect("not poisoned") = None;
    assert_eq!(world.waiting().await, 60 - failed.len() as u64);
    let judged = world.engine.produce(&world.queue, orders(60)).await.expect("judged");
    let made: Vec<usize> = (0..60).filter(|index| judged.results[*index].is_ok()).collect();
    assert_eq!(made, failed, "nothing of the others was lost, and nothing of these was there");
}

#[tokio::test]
async fn a_call_of_which_nothing_could_be_done_fails_as_a_whole() {
    let world = world(3).await;
    *world.store.down.lock().expect("not poisoned") = true;
    world.store.fail_all(Some(Fault::UnknownDone));
    let error = world.engine.produce(&world.queue, orders(60)).await.expect_err("nobody knows");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::Unknown, .. }), "{error}");
    let error = world.engine.produce(&world.queue, orders(60)).await.expect_err("faulty");
    assert!(is_not_applied(&error), "{error}");
    let error = world.engine.item_at(&world.queue, "order-1").await.expect_err("faulty");
    assert!(is_not_applied(&error), "{error}");
    world.store.fail_all(None);
    *world.store.down.lock().expect("not poisoned") = false;
    assert_eq!(world.waiting().await, 60);
}

#[tokio::test]
async fn a_call_whose_outcome_is_unknown_is_told_so_also_by_a_server_that_shuts_down() {
    let world = world(1).await;
    world.store.held.send_replace(true);
    world.store.fail_next(Fault::UnknownDone);
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let producing = tokio::spawn(async move { engine.produce(&queue, orders(1)).await });
    while world.store.is_armed() {
        tokio::task::yield_now().await;
    }
    let engine = world.engine.clone();
    let closing = tokio::spawn(async move { engine.close().await });
    // Refused as unknown, until the server shuts down.
    while !world.engine.produce(&queue_name("other"), orders(1)).await.as_ref().is_err_and(is_not_applied) {
        tokio::task::yield_now().await;
    }
    *world.store.down.lock().expect("not poisoned") = true;
    world.store.held.send_replace(false);
    closing.await.expect("the task ran");
    let error = producing.await.expect("the task ran").expect_err("the truth cannot be read back");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::Unknown, .. }), "{error}");
}

#[tokio::test]
async fn a_repeat_of_a_call_that_reached_only_some_partitions_completes_it() {
    let (world, broken) = broken_home(3).await;
    // A key that is at home elsewhere, or nothing would be done at all.
    let mut reached = None;
    for number in 0.. {
        let key: Arc<str> = format!("call {number}").into();
        if let Ok(judged) = world.engine.produce_once(&world.queue, Arc::clone(&key), orders(60)).await {
            reached = Some((key, judged.results));
            break;
        }
    }
    let (key, first) = reached.expect("some key is at home in another partition");
    assert!(
        first.iter().any(Result::is_err) && first.iter().flatten().all(|made| made.id.partition != broken)
    );
    *world.store.broken_partition.lock().expect("not poisoned") = None;
    world.waiting().await;
    for _ in 0..2 {
        let again =
            world.engine.produce_once(&world.queue, Arc::clone(&key), orders(60)).await.expect("judged");
        for (again, first) in again.results.iter().zip(&first) {
            let made = again.as_ref().expect("produced by now");
            assert!(first.as_ref().map_or(made.id.partition == broken, |first| first == made));
        }
        assert_eq!(world.waiting().await, 60);
    }
}

/// However a process ends in the middle of a call, sending the call again completes it and makes nothing twice.
#[tokio::test]
async fn a_call_sent_again_after_any_crash_is_carried_out_once() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for commits in 0..4 {
            crash_and_send_again(commits, fault).await;
        }
    }
}

async fn crash_and_send_again(commits: usize, fault: Fault) {
    let world = world(3).await;
    let mut items = orders(12);
    items.extend((0..3).map(|_| item("free")));
    world.store.fail_after(commits, fault);
    let (engine, queue, call) = (world.engine.clone(), world.queue.clone(), items.clone());
    let calling = async move { engine.produce_once(&queue, "call".into(), call).await };
    let mut crashed = world.store.crashed.subscribe();
    let told = tokio::select! {
        told = calling => Some(told.expect("no crash came in its way")),
        _crash = crashed.wait_for(|crashed| *crashed) => None,
    };
    let store = Arc::new(world.store.next_process());
    let env = Arc::new(ManualEnv::new());
    env.advance(Duration::from_secs(1));
    let engine = Engine::open(env, store).await.expect("the engine opens again");
    let queue = queue_name("q");
    let mut answers = Vec::new();
    for _ in 0..2 {
        let again = engine.produce_once(&queue, "call".into(), items.clone()).await.expect("judged");
        answers.push(again.results.into_iter().map(|made| made.expect("produced")).collect::<Vec<_>>());
    }
    assert_eq!(answers[0], answers[1]);
    if let Some(told) = told {
        let told: Vec<_> = told.results.into_iter().map(|made| made.expect("produced")).collect();
        assert_eq!(told, answers[0]);
    }
    assert_eq!(engine.stats(&queue).await.expect("stats").counts.waiting, 15, "{fault:?} after {commits}");
}
