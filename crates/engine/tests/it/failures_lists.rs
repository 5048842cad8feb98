//! Lists over all partitions of a queue, when one of them fails.

use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_core::item::Phase;
use windlass_core::partition::Find;
use windlass_core::time::Span;
use windlass_core::verbs::CreateGroup;
use windlass_engine::{Action, EngineError, Outcome, PartitionState, Search};

use crate::behaviour::find::{ids, in_phases, search};
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

#[tokio::test]
async fn a_find_names_the_partitions_that_do_not_serve_or_fails() {
    let world = world(3).await;
    for _ in 0..3 {
        world.engine.produce(&world.queue, items(5)).await.expect("produced");
    }
    let strict = search(Find::default(), 4);
    let first = world.engine.find(&world.queue, &strict, None).await.expect("found");
    let all = world.engine.find(&world.queue, &search(Find::default(), 100), None).await.expect("found");
    let broken = all.items[0].id.partition;
    *world.store.broken_partition.lock().expect("not poisoned") = Some(broken);
    world.until_faulty(1).await;
    assert!(is_not_applied(&world.engine.find(&world.queue, &strict, None).await));
    assert!(is_not_applied(&world.engine.find(&world.queue, &strict, first.walk.as_ref()).await));
    assert!(is_not_applied(
        &world.engine.find_in_all_queues(&search(in_phases([Phase::Suspended, Phase::Waiting]), 4)).await
    ));
    // Nobody knows whether the broken partition has any.
    let failed = search(in_phases([Phase::Failed]), 4);
    assert!(is_not_applied(&world.engine.find_in_all_queues(&failed).await));
    let of_others =
        world.engine.find_in_all_queues(&Search { partial: true, ..failed }).await.expect("found");
    assert_eq!((of_others.items.len(), of_others.missing), (0, vec![broken]));
    let change = world.engine.change_items(&world.queue, &strict, None, Action::Cancel, false).await;
    assert!(is_not_applied(&change));

    let partial = Search { partial: true, ..search(Find::default(), 4) };
    let (mut walk, mut seen) = (None, Vec::new());
    loop {
        let page = world.engine.find(&world.queue, &partial, walk.as_ref()).await.expect("found");
        assert_eq!(page.missing, [broken]);
        seen.extend(ids(&page.items));
        walk = Some(page.walk.expect("as long as a partition is missing the end is not reached"));
        if page.scanned == 0 {
            break;
        }
    }
    let known = ids(&all.items).into_iter().filter(|id| id.partition != broken);
    assert!(known.clone().count() == 10 && known.into_iter().all(|id| seen.contains(&id)), "{seen:?}");

    // The walk of before goes on, over the partition too, once that serves; so does one that has seen the others.
    *world.store.broken_partition.lock().expect("not poisoned") = None;
    world.waiting().await;
    let missed = world.engine.find(&world.queue, &search(Find::default(), 100), walk.as_ref()).await;
    let missed = missed.expect("found");
    assert!(missed.items.iter().all(|view| view.id.partition == broken) && missed.items.len() == 5);

    let rest = search(Find::default(), 100);
    let rest = world.engine.find(&world.queue, &rest, first.walk.as_ref()).await.expect("found");
    let both: Vec<_> = ids(&first.items).into_iter().chain(ids(&rest.items)).collect();
    assert_eq!(both, ids(&all.items));
}

#[tokio::test]
async fn changes_of_a_partition_that_cannot_commit_fail_by_themselves() {
    let world = world(2).await;
    for _ in 0..2 {
        world.engine.produce(&world.queue, items(5)).await.expect("produced");
    }
    world.store.fail_next(crate::faulty::Fault::NotApplied);
    let all = search(Find::default(), 100);
    let page = world.engine.change_items(&world.queue, &all, None, Action::SetPriority(3), false).await;
    let page = page.expect("changed");
    let failed: Vec<_> = page.results.iter().filter(|(_, result)| result.is_err()).collect();
    assert_eq!((page.results.len(), failed.len(), page.commits.len()), (10, 5, 1));
    assert!(failed.iter().all(|(_, result)| is_not_applied(result)));
    world.waiting().await;
    let changed = Find { phases: None, ..Find::default() };
    let found = world.engine.find(&world.queue, &search(changed, 100), None).await.expect("found");
    assert_eq!(found.items.iter().filter(|view| view.item.priority == 3).count(), 5);
}
