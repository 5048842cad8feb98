//! Stores that damage a payload or have no room: what that costs items, the same on every store.

use std::sync::Arc;

use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::verbs::{List, NewItem};
use windlass_engine::{Action, ItemView, Page};

use super::afterwards::{failed, moved_to, rerun, shown};
use super::dead_queues::{all_moved, to_dead, while_time_passes};
use super::expiry::error_code;
use super::find::in_phases;
use super::find_change::oldest;
use super::{is_refused, until};
use crate::world::{Faults, World, bodies, item};

macro_rules! on_every_store_with_faults {
    ($($scenario:ident),* $(,)?) => {
        $(mod $scenario {
            use std::sync::Arc;

            use crate::world::{Faults, Medium, World};

            async fn on(medium: Medium) {
                let faults = Arc::<Faults>::default();
                let world = World::with_faults(medium, &faults).await;
                super::$scenario(&world, &faults).await;
                world.close().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn memory() {
                on(Medium::memory()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn spread() {
                on(Medium::spread()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn log() {
                on(Medium::log()).await;
            }
        })*
    };
}

on_every_store_with_faults!(
    a_damaged_payload_costs_its_item_and_nothing_else,
    a_damaged_item_moves_without_its_payload_and_ends_in_its_dead_queue,
    a_dead_queue_without_room_is_waited_for,
);

fn is_damaged(view: &ItemView) -> bool {
    view.phase() == Phase::Failed && error_code(view).as_deref() == Some("damaged")
}

async fn listed(world: &World, queue: &QueueName) -> Vec<ItemView> {
    let partition = world.stats(queue).await.partitions[0].partition;
    let page = Page { partition, list: List::Queue, after: None, limit: 100 };
    world.engine().list(queue, page).await.expect("a page")
}

/// With facts, which are stored by themselves.
fn with_facts(payload: &str) -> NewItem {
    NewItem { facts: Some("name=value".into()), ..item(payload) }
}

async fn is_gone(world: &World, id: ItemId) -> bool {
    is_refused(&world.engine().get(id).await, &Refusal::NotFound)
}

async fn a_damaged_payload_costs_its_item_and_nothing_else(world: &World, faults: &Arc<Faults>) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let new = ["one", "rotten", "three", "rotten too"].map(with_facts);
    let ids = world.produce(&queue, new.to_vec()).await;
    faults.damage("rotten");
    for time in ["before", "after a restart"] {
        let seen = shown(world, ids[1]).await;
        assert_eq!(
            (seen.phase(), seen.payload, seen.facts),
            (Phase::Waiting, None, Some("name=value".into()))
        );
        let listed = listed(world, &queue).await;
        let told: Vec<_> = listed.iter().map(|view| (view.id, view.payload.is_some())).collect();
        assert_eq!(told, ids.iter().copied().zip([true, false, true, false]).collect::<Vec<_>>(), "{time}");
        assert_eq!(listed[1].facts, Some("name=value".into()), "{time}");
        world.restart().await;
    }
    world
        .engine()
        .delete_items(&queue, vec![ids[3]])
        .await
        .expect("judged")
        .results
        .remove(0)
        .expect("deleted");
    assert!(is_gone(world, ids[3]).await);
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["one", "three"]);
    for _ in ["before", "after a restart"] {
        let failed = shown(world, ids[1]).await;
        assert!(is_damaged(&failed), "{failed:?}");
        assert_eq!((failed.item.attempts, &failed.payload), (0, &None));
        assert!(is_refused(&rerun(world, ids[1]).await, &Refusal::NoPayload { lost: true }));
        world.restart().await;
    }
    let all = oldest(in_phases([Phase::Failed]), 10);
    world.engine().change_items(&queue, &all, None, Action::Delete, false).await.expect("changed");
    assert!(is_gone(world, ids[1]).await);
}

async fn a_damaged_item_moves_without_its_payload_and_ends_in_its_dead_queue(
    world: &World,
    faults: &Arc<Faults>,
) {
    let queue = world.queue("q", 1, to_dead()).await;
    // Each is the dead queue of the other.
    let settings = Settings { dead_queue: Some("q".into()), ..Settings::default() };
    let dead = world.queue("dead", 1, settings).await;
    let id = world.produce(&queue, vec![with_facts("rotten")]).await[0];
    faults.damage("rotten");
    assert!(world.lease(&queue, 1).await.is_empty(), "the lease ends it");
    all_moved(world, &queue).await;
    let letter = moved_to(&shown(world, id).await).expect("it died");
    for _ in ["before", "after a restart"] {
        assert!(is_damaged(&shown(world, id).await));
        let listed = listed(world, &dead).await.remove(0);
        assert_eq!((listed.id, listed.payload, listed.facts), (letter, None, Some("name=value".into())));
        world.restart().await;
    }
    assert!(world.lease(&dead, 1).await.is_empty(), "there is nothing to work on");
    let ended = shown(world, letter).await;
    assert!(is_damaged(&ended) && ended.item.state.outgoing().is_none(), "it moves no more: {ended:?}");
    assert!(is_refused(&rerun(world, letter).await, &Refusal::NoPayload { lost: true }));
}

async fn a_dead_queue_without_room_is_waited_for(world: &World, faults: &Arc<Faults>) {
    let queue = world.queue("q", 1, Settings { retention_max_bytes: 1, ..to_dead() }).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let home = world.stats(&dead).await.partitions[0].partition;
    faults.set_full(home, true);
    failed(world, &queue, item("first")).await;
    failed(world, &queue, item("second")).await;
    // Nothing but moves comes to the dead queue, and its writer asks for room at most three times per batch: of three batches, one
    // at least began after both items had failed and was refused.
    let asked = faults.asked_in_vain() + 3 * 3;
    while_time_passes(world, until(async || faults.asked_in_vain() >= asked)).await;
    let stats = world.stats(&queue).await;
    assert_eq!((stats.moving, stats.retained, world.live(&dead).await), (2, 0, 0));
    faults.set_full(home, false);
    while_time_passes(world, all_moved(world, &queue)).await;
    assert_eq!(bodies(&world.lease(&dead, 10).await), ["first", "second"]);
}
