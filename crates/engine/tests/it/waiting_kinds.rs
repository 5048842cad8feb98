//! Leases that wait for kinds: what a produce costs beside many of them, and who of them is served first.

use windlass_core::effort::{Looked, looks};
use windlass_core::row::QueueName;
use windlass_core::rule::Stop;
use windlass_core::settings::Settings;
use windlass_core::verbs::{Filter, LeaseItems, NewItem};

use crate::behaviour::rules::{lift, set};
use crate::behaviour::{LeaseTask, waiting_lease};
use crate::world::{Medium, World, bodies, item, lease};

const MANY: usize = 2000;

fn lease_of(kinds: &[&str], max_priority: u8) -> LeaseItems {
    let kinds = kinds.iter().map(|kind| (*kind).into()).collect();
    LeaseItems { filter: Filter::new(Some(kinds), max_priority), ..lease(1) }
}

fn item_of(kind: &str, priority: u8) -> NewItem {
    NewItem { kind: kind.into(), priority, ..item(kind) }
}

async fn wait_for_kind(world: &World, queue: &QueueName, kind: &str) -> LeaseTask {
    waiting_lease(world, queue, lease_of(&[kind], u8::MAX)).await
}

async fn got(task: LeaseTask) -> Vec<String> {
    bodies(&task.await.expect("ends").expect("leased").accept())
}

/// What one produce looks at that a waiting lease is served from, beside so many that wait for other kinds.
async fn looks_of_a_produce(others: usize) -> u64 {
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("work", 1, Settings::default()).await;
    let mut waiting = Vec::new();
    for other in 0..others {
        waiting.push(wait_for_kind(&world, &queue, &format!("other-{other}")).await);
    }
    let wanted = wait_for_kind(&world, &queue, "wanted").await;
    let before = looks(Looked::Tickets);
    world.produce(&queue, vec![item_of("wanted", 0)]).await;
    assert_eq!(got(wanted).await, ["wanted"]);
    let looked = looks(Looked::Tickets) - before;
    assert!(waiting.iter().all(|lease| !lease.is_finished()));
    world.close().await;
    looked
}

#[tokio::test]
async fn a_produce_looks_at_no_more_tickets_beside_many_leases_of_other_kinds() {
    let (few, many) = (looks_of_a_produce(2).await, looks_of_a_produce(MANY).await);
    assert!(few > 0, "tickets are counted");
    assert!(many <= few, "{few} tickets beside two leases, {many} beside {MANY}");
}

#[tokio::test]
async fn a_lease_that_comes_looks_at_no_ticket_but_its_own() {
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("work", 1, Settings::default()).await;
    let mut waiting = Vec::new();
    for other in 0..MANY {
        waiting.push(wait_for_kind(&world, &queue, &format!("other-{other}")).await);
    }
    let before = looks(Looked::Tickets);
    waiting.push(wait_for_kind(&world, &queue, "last").await);
    // The writer has looked by the time it answers.
    world.stats(&queue).await;
    let looked = looks(Looked::Tickets) - before;
    assert!((1..10).contains(&looked), "{looked} tickets for one lease");
    world.close().await;
}

#[tokio::test]
async fn the_oldest_lease_that_takes_an_item_gets_it_whatever_else_it_takes() {
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("work", 1, Settings::default()).await;
    let other = wait_for_kind(&world, &queue, "c").await;
    let urgent_only = waiting_lease(&world, &queue, lease_of(&["a"], 1)).await;
    let both = waiting_lease(&world, &queue, lease_of(&["a", "b"], u8::MAX)).await;
    let any = waiting_lease(&world, &queue, lease(1)).await;
    let only_a = wait_for_kind(&world, &queue, "a").await;

    world.produce(&queue, vec![item_of("a", 5)]).await;
    assert_eq!(got(both).await, ["a"]);
    world.produce(&queue, vec![item_of("b", 5)]).await;
    assert_eq!(got(any).await, ["b"]);
    world.produce(&queue, vec![item_of("a", 5)]).await;
    assert_eq!(got(only_a).await, ["a"]);
    world.produce(&queue, vec![item_of("a", 1)]).await;
    assert_eq!(got(urgent_only).await, ["a"]);
    assert!(!other.is_finished());
    world.close().await;
}

#[tokio::test]
async fn leases_that_take_several_kinds_share_a_batch_of_all_of_them() {
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("work", 1, Settings::default()).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(waiting_lease(&world, &queue, lease_of(&["a", "b", "c"], u8::MAX)).await);
    }
    world.produce(&queue, vec![item_of("a", 0), item_of("b", 0), item_of("c", 0)]).await;
    let mut all = Vec::new();
    for task in waiting {
        all.extend(got(task).await);
    }
    assert_eq!(all, ["a", "b", "c"]);
    world.close().await;
}

#[tokio::test]
async fn a_kind_that_goes_on_after_a_pause_is_given_to_the_lease_that_waits_for_it() {
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("work", 1, Settings::default()).await;
    let (one, all) = (Some("a"), None);
    for stopped in [one, all] {
        world.engine().set_rule(set(&queue, stopped, Stop::Pause)).await.expect("set");
        world.produce(&queue, vec![item_of("a", 0)]).await;
        let waiting = wait_for_kind(&world, &queue, "a").await;
        world.engine().lift_rule(lift(&queue, stopped, Stop::Pause)).await.expect("lifted");
        assert_eq!(got(waiting).await, ["a"]);
    }
    world.close().await;
}
