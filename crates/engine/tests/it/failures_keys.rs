//! What becomes of items with a key when their home fails.

use windlass_core::command::NewItem;
use windlass_core::id::PartitionId;
use windlass_engine::{EngineError, Outcome};

use crate::behaviour::addresses::at;
use crate::failures::{Broken, world};
use crate::faulty::Fault;

async fn broken_home(partitions: u32) -> (Broken, PartitionId) {
    let world = world(partitions).await;
    let broken = world.engine.queue_info(&world.queue).expect("it is there").partitions[0];
    *world.store.broken_partition.lock().expect("not poisoned") = Some(broken);
    (world, broken)
}

fn orders(count: usize) -> Vec<NewItem> {
    (0..count).map(|number| at(&format!("order-{number}"))).collect()
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
