//! Lists over all partitions of a queue, when one of them fails.

use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_core::time::Span;
use windlass_core::verbs::CreateGroup;
use windlass_engine::{EngineError, Outcome, PartitionState};

use crate::failures::{Broken, world};
use crate::world::{items, lease};

impl Broken {
    async fn held_in(&self) -> Result<Vec<PartitionId>, EngineError> {
        let permits = self.engine.permits(&self.queue, None, 1000).await?;
        let mut partitions: Vec<PartitionId> = permits.iter().map(|permit| permit.id.partition).collect();
        partitions.sort_unstable();
        Ok(partitions)
    }

    async fn groups(&self) -> Result<Vec<String>, EngineError> {
        let groups = self.engine.groups(&self.queue, None, 1000).await?;
        Ok(groups.iter().map(|group| group.name.to_string()).collect())
    }

    /// Until so many of its partitions are faulty.
    async fn until_faulty(&self, count: usize) {
        loop {
            let _some_fail = self.engine.produce(&self.queue, items(1)).await;
            let stats = self.engine.stats(&self.queue).await.expect("stats");
            let serves = |state: &PartitionState| *state == PartitionState::Available;
            if stats.partitions.iter().filter(|partition| !serves(&partition.state)).count() == count {
                return;
            }
            self.env.advance(Duration::from_millis(1));
            tokio::task::yield_now().await;
        }
    }
}

fn is_not_applied<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::Unavailable { outcome: Outcome::NotApplied, .. }))
}

#[tokio::test]
async fn permits_and_groups_of_partitions_that_serve_are_listed_while_another_fails() {
    let world = world(3).await;
    for _ in 0..3 {
        world.engine.produce(&world.queue, items(1)).await.expect("produced");
    }
    let leased = world.engine.lease(&world.queue, lease(3), Span::ZERO).await.expect("leased").accept();
    assert_eq!(leased.len(), 3);
    for number in 0..20 {
        let (name, items) = (format!("group-{number:02}").into(), Vec::new());
        let create = CreateGroup { name, end: None, abort: None, items, start: false };
        world.engine.create_group(&world.queue, create).await.expect("made");
    }
    let (all, groups) = (world.held_in().await.expect("listed"), world.groups().await.expect("listed"));
    assert_eq!((all.len(), groups.len()), (3, 20));

    *world.store.broken_partition.lock().expect("not poisoned") = Some(all[1]);
    world.until_faulty(1).await;
    assert_eq!(world.held_in().await.expect("listed"), [all[0], all[2]]);
    let listed = world.groups().await.expect("listed");
    assert!(!listed.is_empty() && listed.len() < 20 && listed.is_sorted(), "{listed:?}");

    *world.store.down.lock().expect("not poisoned") = true;
    world.store.fail_all(Some(crate::faulty::Fault::UnknownLost));
    world.until_faulty(3).await;
    assert!(is_not_applied(&world.held_in().await) && is_not_applied(&world.groups().await));
}
