//! Lists over all partitions of a queue, when one of them fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::Phase;
use windlass_core::partition::Find;
use windlass_core::rule::Stop;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateGroup, SetRule};
use windlass_engine::{Action, EngineError, Outcome, PartitionState, Search, SearchPage};

use crate::behaviour::find::{ids, in_phases, search};
use crate::failures::{Broken, world};
use crate::stalled::turns;
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

/// Lets a call run into the time that it waits for a partition.
async fn out_of_patience<T>(world: &Broken, call: JoinHandle<T>) -> T {
    turns().await;
    assert!(!call.is_finished(), "the call waits for a while");
    world.env.advance(Duration::from_secs(3));
    call.await.expect("the task ran")
}

fn spawn_find(world: &Broken, search: Search) -> JoinHandle<Result<SearchPage, EngineError>> {
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    tokio::spawn(async move { engine.find(&queue, &search, None).await })
}

/// Two partitions with 5 items each, the ids of which come by partition.
async fn two_with_items() -> (Broken, BTreeMap<PartitionId, BTreeSet<ItemId>>) {
    let world = world(2).await;
    for _ in 0..2 {
        world.engine.produce(&world.queue, items(5)).await.expect("produced");
    }
    let all = world.engine.find(&world.queue, &search(Find::default(), 100), None).await.expect("found");
    let mut by_partition: BTreeMap<PartitionId, BTreeSet<ItemId>> = BTreeMap::new();
    for id in ids(&all.items) {
        by_partition.entry(id.partition).or_default().insert(id);
    }
    assert!(by_partition.len() == 2 && by_partition.values().all(|ids| ids.len() == 5), "{by_partition:?}");
    (world, by_partition)
}

#[tokio::test]
async fn a_find_waits_only_for_a_while_for_a_partition_that_is_loading() {
    let (world, by_partition) = two_with_items().await;
    world.store.slow.send_replace(true);
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let reload = tokio::spawn(async move { engine.reload(&queue).await });
    world.store.acquiring.subscribe().wait_for(|waiting| *waiting > 0).await.expect("the store is there");
    let states = &world.engine.overview()[0].partitions;
    let loading = states.iter().filter(|(_, state)| *state == PartitionState::Loading);
    let loading: Vec<PartitionId> = loading.map(|(partition, _)| *partition).collect();
    assert_eq!(loading.len(), 1, "{states:?}");

    let strict = search(Find::default(), 100);
    let partial = Search { partial: true, ..strict.clone() };
    let page = world.engine.find(&world.queue, &partial, None).await.expect("found at once");
    assert_eq!((page.missing, page.items.len()), (loading.clone(), 5));
    let refused = out_of_patience(&world, spawn_find(&world, strict.clone())).await;
    assert!(is_not_applied(&refused), "{refused:?}");
    let change = world.engine.clone();
    let (queue, all) = (world.queue.clone(), strict.clone());
    let change =
        tokio::spawn(async move { change.change_items(&queue, &all, None, Action::Cancel, true).await });
    assert!(is_not_applied(&out_of_patience(&world, change).await));

    let short = spawn_find(&world, strict.clone());
    turns().await;
    world.store.slow.send_replace(false);
    assert_eq!(short.await.expect("the task ran").expect("loaded meanwhile").items.len(), 10);
    reload.await.expect("the task ran").expect("acquired anew");
    let rest = world.engine.find(&world.queue, &strict, page.walk.as_ref()).await.expect("found");
    assert_eq!(ids(&rest.items).into_iter().collect::<BTreeSet<_>>(), by_partition[&loading[0]]);
}

#[tokio::test]
async fn a_partial_find_does_not_wait_for_a_commit_that_hangs() {
    let (world, by_partition) = two_with_items().await;
    let stalled = *by_partition.keys().next().expect("one of two");
    world.store.stalled.send_replace(Some(stalled));
    let begun = *world.store.committing.borrow();
    let (engine, queue) = (world.engine.clone(), world.queue.clone());
    let pause = SetRule { queue, kind: None, stop: Stop::Pause, reason: None, until: None };
    let pausing = tokio::spawn(async move { engine.set_rule(pause).await });
    // The registry and both partitions.
    let mut committing = world.store.committing.subscribe();
    committing.wait_for(|count| *count >= begun + 3).await.expect("the store is there");

    let strict = search(Find::default(), 100);
    let partial = Search { partial: true, ..strict.clone() };
    let page = out_of_patience(&world, spawn_find(&world, partial)).await.expect("found");
    let found: BTreeSet<ItemId> = ids(&page.items).into_iter().collect();
    assert_eq!((page.missing, found.len()), (vec![stalled], 5));
    assert!(found.is_disjoint(&by_partition[&stalled]));
    let waiting = spawn_find(&world, strict.clone());
    world.env.advance(Duration::from_secs(20));
    turns().await;
    assert!(!waiting.is_finished(), "a page that must be whole waits for as long as its caller does");
    world.store.stalled.send_replace(None);
    pausing.await.expect("the task ran").expect("paused");
    assert_eq!(waiting.await.expect("the task ran").expect("found").items.len(), 10);
    let rest = world.engine.find(&world.queue, &strict, page.walk.as_ref()).await.expect("found");
    assert_eq!(ids(&rest.items).into_iter().collect::<BTreeSet<_>>(), by_partition[&stalled]);
}

#[tokio::test]
async fn a_walk_ends_in_a_partition_that_did_not_serve_when_it_began() {
    let (world, by_partition) = two_with_items().await;
    let broken = *by_partition.keys().next().expect("one of two");
    *world.store.broken_partition.lock().expect("not poisoned") = Some(broken);
    world.until_faulty(1).await;
    let partial = Search { partial: true, ..search(Find::default(), 100) };
    let first = world.engine.find(&world.queue, &partial, None).await.expect("found");
    assert_eq!(first.missing, [broken]);
    world.env.advance(Duration::from_secs(2));
    *world.store.broken_partition.lock().expect("not poisoned") = None;
    world.waiting().await;
    for _ in 0..2 {
        world.engine.produce(&world.queue, items(1)).await.expect("produced");
    }
    let rest = world.engine.find(&world.queue, &partial, first.walk.as_ref()).await.expect("found");
    let found: BTreeSet<ItemId> = ids(&rest.items).into_iter().collect();
    assert_eq!((&found, rest.walk), (&by_partition[&broken], None), "nothing that came later");
}

#[tokio::test]
async fn an_item_whose_payload_cannot_be_read_now_is_not_shown_without_it() {
    let (world, by_partition) = two_with_items().await;
    let unreadable = *by_partition.keys().next().expect("one of two");
    *world.store.unreadable_partition.lock().expect("not poisoned") = Some(unreadable);
    let with_payloads = Search { payloads: true, ..search(Find::default(), 100) };
    let refused = world.engine.find(&world.queue, &with_payloads, None).await;
    assert!(is_not_applied(&refused), "{refused:?}");
    let without = world.engine.find(&world.queue, &search(Find::default(), 100), None).await.expect("found");
    assert_eq!(without.items.len(), 10);

    let partial = Search { partial: true, ..with_payloads.clone() };
    let page = world.engine.find(&world.queue, &partial, None).await.expect("found");
    let found: BTreeSet<ItemId> = ids(&page.items).into_iter().collect();
    assert_eq!((page.missing, found.len()), (vec![unreadable], 5));
    assert!(found.is_disjoint(&by_partition[&unreadable]));
    *world.store.unreadable_partition.lock().expect("not poisoned") = None;
    let rest = world.engine.find(&world.queue, &with_payloads, page.walk.as_ref()).await.expect("found");
    assert_eq!(ids(&rest.items).into_iter().collect::<BTreeSet<_>>(), by_partition[&unreadable]);
    assert!(rest.items.iter().all(|view| view.payload.is_some()) && rest.walk.is_none());

    *world.store.damaged.lock().expect("not poisoned") = Some(Bytes::from_static(b"item 2"));
    let all = world.engine.find(&world.queue, &with_payloads, None).await.expect("found");
    let lost = all.items.iter().filter(|view| view.payload.is_none());
    assert_eq!((all.items.len(), lost.count()), (10, 2), "a damaged payload does not hide its item");
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
