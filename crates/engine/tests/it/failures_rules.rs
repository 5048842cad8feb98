//! Rules, when partitions or the registry cannot serve.

use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_core::rule::Stop;
use windlass_core::time::Span;
use windlass_engine::{EngineError, Outcome, PartitionState, WhyNot};

use crate::behaviour::rules::{lift, set};
use crate::failures::{Broken, world};
use crate::faulty::Fault;
use crate::world::{items, lease};

impl Broken {
    fn set_broken(&self, partition: Option<PartitionId>) {
        *self.store.broken_partition.lock().expect("not poisoned") = partition;
    }

    async fn leased(&self) -> usize {
        self.engine.lease(&self.queue, lease(100), Span::ZERO).await.expect("leased").accept().len()
    }

    /// Two items in each of two partitions, the first of which then fails.
    async fn with_a_faulty_partition(&self) -> PartitionId {
        for _ in 0..2 {
            self.engine.produce(&self.queue, items(2)).await.expect("produced");
        }
        let faulty = self.engine.stats(&self.queue).await.expect("stats").partitions[0].partition;
        self.set_broken(Some(faulty));
        for _ in 0..2 {
            let _one_fails = self.engine.produce(&self.queue, items(1)).await;
        }
        let state = self.engine.stats(&self.queue).await.expect("stats").partitions[0].state.clone();
        assert!(matches!(state, PartitionState::Faulty { .. }), "{state:?}");
        faulty
    }
}

#[tokio::test]
async fn a_faulty_partition_takes_a_rule_on_when_it_is_acquired_and_before_it_grants_a_lease() {
    let world = world(2).await;
    world.with_a_faulty_partition().await;
    world.engine.set_rule(set(&world.queue, None, Stop::Pause)).await.expect("the others have it");
    assert_eq!(world.leased().await, 0);
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let waiting = tokio::spawn(async move { engine.lease(&queue, lease(100), Span::from_secs(3600)).await });
    world.set_broken(None);
    let waits = world.waiting().await;
    assert_eq!(world.engine.stats(&world.queue).await.expect("stats").stopped, waits);
    assert_eq!(world.leased().await, 0);
    assert!(!waiting.is_finished(), "nobody got anything");
    world.engine.lift_rule(lift(&world.queue, None, Stop::Pause)).await.expect("lifted");
    let granted = waiting.await.expect("the task ran").expect("leased").accept().len();
    assert_eq!((granted + world.leased().await) as u64, waits);
}

#[tokio::test]
async fn a_rule_lifted_while_a_partition_is_faulty_does_not_come_back_with_it() {
    let world = world(2).await;
    world.engine.set_rule(set(&world.queue, Some("default"), Stop::Block)).await.expect("set");
    world.with_a_faulty_partition().await;
    world.engine.lift_rule(lift(&world.queue, Some("default"), Stop::Block)).await.expect("lifted");
    world.set_broken(None);
    let waits = world.waiting().await;
    assert_eq!(world.leased().await as u64, waits);
}

#[tokio::test]
async fn an_item_of_a_faulty_partition_is_told_so() {
    let world = world(1).await;
    let produced = world.engine.produce(&world.queue, items(1)).await.expect("produced");
    let id = produced.results[0].as_ref().expect("produced").id;
    world.set_broken(Some(id.partition));
    assert!(world.engine.produce(&world.queue, items(1)).await.is_err());
    let why = world.engine.explain(id).await.expect("explained");
    assert_eq!(why.phase, None);
    assert!(
        matches!(&why.reasons[..], [WhyNot::PartitionFaulty { error }] if error.contains("broken on purpose"))
    );
}

#[tokio::test]
async fn a_rule_whose_commit_nobody_knows_of_is_in_force_everywhere_or_nowhere() {
    for fault in [Fault::UnknownDone, Fault::UnknownLost, Fault::NotApplied] {
        let world = world(2).await;
        for _ in 0..2 {
            world.engine.produce(&world.queue, items(2)).await.expect("produced");
        }
        world.store.fail_next(fault);
        let told = world.engine.set_rule(set(&world.queue, None, Stop::Pause)).await;
        let done = match &told {
            Ok(_) => true,
            Err(EngineError::Unavailable { outcome: Outcome::NotApplied, .. }) => false,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(done, fault == Fault::UnknownDone);
        world.env.advance(Duration::from_secs(10));
        world.waiting().await;
        assert_eq!(world.leased().await, if done { 0 } else { 4 }, "{fault:?}");
    }
}

#[tokio::test]
async fn a_rule_that_no_partition_could_commit_is_taken_on_by_all_of_them() {
    let world = world(2).await;
    for _ in 0..2 {
        world.engine.produce(&world.queue, items(2)).await.expect("produced");
    }
    // The registry's own commit succeeds, and the first one of a partition does not.
    world.store.fail_after(1, Fault::UnknownLost);
    world.engine.set_rule(set(&world.queue, None, Stop::Pause)).await.expect("the registry has it");
    assert!(!world.store.is_armed());
    world.waiting().await;
    assert_eq!(world.leased().await, 0);
    assert_eq!(world.engine.stats(&world.queue).await.expect("stats").stopped, 4);
}
