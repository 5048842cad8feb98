//! What operators see of a queue, and what they do with it.

use bytes::Bytes;
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::{Extras, Phase, State};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{Requeue, Settings};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Clear, ImportItem, List, NewItem};
use windlass_engine::env::Env;
use windlass_engine::{ItemView, Page};

use super::{is_refused, retry_item};
use crate::world::{World, bodies, completion, held, import_item, item, items};

on_every_store!(
    pages_are_what_a_lease_would_hand_out,
    a_page_shows_items_with_all_they_have,
    a_page_is_bounded_in_bytes_and_never_empty_before_the_end,
    what_was_cleared_is_in_no_list,
    a_pivot_or_partition_that_is_not_there_is_refused,
    what_one_queue_lists_another_imports,
    a_list_tells_until_when_a_lease_holds_after_a_restart,
    an_import_takes_its_places_in_the_queue,
    deleted_items_are_gone_and_their_permits_void,
    a_reload_reads_back_everything_and_leaves_leases_alone,
);

fn page(partition: PartitionId, list: List, after: Option<ItemId>, limit: usize) -> Page {
    Page { partition, list, after, limit }
}

async fn partition(world: &World, queue: &QueueName) -> PartitionId {
    world.engine().queue_info(queue).expect("it is there").partitions[0]
}

async fn all(world: &World, queue: &QueueName, list: List, limit: usize) -> Vec<ItemView> {
    let partition = partition(world, queue).await;
    let mut all: Vec<ItemView> = Vec::new();
    loop {
        let after = all.last().map(|view| view.id);
        let page = world.engine().list(queue, page(partition, list, after, limit)).await.expect("a page");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

fn payloads(views: &[ItemView]) -> Vec<Option<Bytes>> {
    views.iter().map(|view| view.payload.clone()).collect()
}

fn mixed(count: usize) -> Vec<NewItem> {
    let kinds = ["default", "mail", "report"];
    let new = |index: usize| NewItem {
        kind: kinds[index % 3].into(),
        priority: (index * 7 % 4) as u8,
        ..item(&format!("item {index}"))
    };
    (0..count).map(new).collect()
}

async fn pages_are_what_a_lease_would_hand_out(world: &World) {
    let queue = world.queue("q", 1, Settings { requeue: Requeue::Tail, ..Settings::default() }).await;
    world.produce(&queue, mixed(300)).await;
    let leased = world.lease(&queue, 40).await;
    world.engine().release(&queue, held(&leased[20..])).await.expect("judged");
    let again: Vec<_> = leased[..10].iter().map(retry_item).collect();
    world.engine().retry(&queue, again).await.expect("judged");
    let listed = all(world, &queue, List::Queue, 37).await;
    assert_eq!(listed.len(), 290);
    assert_eq!(all(world, &queue, List::Scheduled, 3).await.len(), 10);
    let waiting: Vec<ItemId> =
        listed.iter().filter(|view| view.item.state.phase() == Phase::Waiting).map(|view| view.id).collect();
    let order: Vec<ItemId> = world.lease(&queue, 1000).await.iter().map(|item| item.leased.id).collect();
    assert_eq!(waiting, order);
}

async fn a_page_shows_items_with_all_they_have(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let due = world.env.wall() + Span::from_secs(100);
    let later = NewItem { enqueue_at: Some(due), ..item("later") };
    let ids = world.produce(&queue, vec![item("first"), item("second"), later]).await;
    let leased = world.lease(&queue, 1).await;
    let listed = all(world, &queue, List::Queue, 10).await;
    assert_eq!(listed.iter().map(|view| view.id).collect::<Vec<_>>(), ids[..2]);
    assert_eq!(payloads(&listed), [Some("first".into()), Some("second".into())]);
    assert_eq!((listed[0].item.attempts, listed[0].max_attempts, &listed[0].queue), (1, 3, &queue));
    assert_eq!(listed[0].item.state.phase(), Phase::Leased);
    assert_eq!(leased[0].leased.id, ids[0]);
    let scheduled = all(world, &queue, List::Scheduled, 10).await;
    assert_eq!((scheduled[0].id, payloads(&scheduled)), (ids[2], vec![Some("later".into())]));
}

async fn a_page_is_bounded_in_bytes_and_never_empty_before_the_end(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let large = Bytes::from(vec![7; 400_000]);
    for _ in 0..30 {
        world.produce(&queue, vec![NewItem { body: large.clone(), ..item("") }]).await;
    }
    let home = partition(world, &queue).await;
    let first = world.engine().list(&queue, page(home, List::Queue, None, 1000)).await.expect("a page");
    assert!((1..30).contains(&first.len()), "{} items of 400 kB", first.len());
    assert_eq!(all(world, &queue, List::Queue, 1000).await.len(), 30);
}

async fn what_was_cleared_is_in_no_list(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    for _ in 0..3 {
        world.produce(&queue, items(1000)).await;
    }
    world.lease(&queue, 1000).await;
    let clear = Clear { waiting: true, scheduled: false, leased: true, suspended: false };
    world.engine().clear(&queue, clear).await.expect("cleared");
    assert!(all(world, &queue, List::Queue, 10).await.is_empty());
    world.produce(&queue, vec![item("new")]).await;
    assert_eq!(payloads(&all(world, &queue, List::Queue, 10).await), [Some("new".into())]);
}

async fn a_pivot_or_partition_that_is_not_there_is_refused(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let other = world.queue("other", 1, Settings::default()).await;
    let ids = world.produce(&queue, items(2)).await;
    let strangers = world.produce(&other, items(1)).await;
    let home = partition(world, &queue).await;
    world.engine().cancel(ids[0]).await.expect("cancelled");
    for pivot in [ids[0], strangers[0]] {
        let refused = world.engine().list(&queue, page(home, List::Queue, Some(pivot), 10)).await;
        assert!(is_refused(&refused, &Refusal::NoSuchPivot), "{refused:?}");
    }
    let stranger = partition(world, &other).await;
    let refused = world.engine().list(&queue, page(stranger, List::Queue, None, 10)).await;
    let nowhere = Refusal::NoSuchPartition { queue: queue.name.clone(), partition: stranger };
    assert!(is_refused(&refused, &nowhere), "{refused:?}");
}

/// A listed item as an import takes it.
fn import_of(view: ItemView) -> ImportItem {
    let due_at = match view.item.state {
        State::Scheduled { due_at } => Some(due_at),
        State::Waiting { .. } | State::Leased(_) | State::Suspended(_) | State::Final(_) => None,
    };
    let changed_at = Some(view.item.changed_at());
    let started = view.item.started().map(|(at, client_id)| (at, client_id.clone()));
    let extras = view.item.extras.map_or_else(Extras::default, |extras| *extras);
    ImportItem {
        kind: view.item.kind,
        priority: view.item.priority,
        group: view.member.map(|member| member.group),
        created_at: Some(view.item.created_at),
        changed_at,
        started,
        attempts: view.item.attempts,
        due_at,
        max_attempts: Some(view.max_attempts),
        dead_timeout: extras.dead_timeout,
        address: extras.address,
        origin: extras.origin,
        cron: extras.cron,
        hashes: Hashes::default(),
        error: extras.error,
        suspended: None,
        body: view.payload.expect("live items have one"),
        facts: None,
    }
}

/// What waits, as an import takes it.
pub(crate) async fn exported(world: &World, queue: &QueueName) -> Vec<ImportItem> {
    all(world, queue, List::Queue, 1000).await.into_iter().map(import_of).collect()
}

async fn what_one_queue_lists_another_imports(world: &World) {
    let queue = world.queue("from", 1, Settings::default()).await;
    let target = world.queue("to", 1, Settings { max_attempts: 9, ..Settings::default() }).await;
    let due = world.env.wall() + Span::from_secs(100);
    let mut made = mixed(50);
    made.extend((0..5).map(|index| NewItem {
        enqueue_at: Some(due),
        max_attempts: Some(5),
        ..item(&format!("later {index}"))
    }));
    world.produce(&queue, made).await;
    world.lease(&queue, 10).await;
    world.env.advance(std::time::Duration::from_secs(1));
    for list in [List::Queue, List::Scheduled] {
        let items = all(world, &queue, list, 1000).await.into_iter().map(import_of).collect();
        world.engine().import(&target, items).await.expect("imported");
    }
    let seen = |views: Vec<ItemView>| -> Vec<(Bytes, u32, u32, u8, Timestamp)> {
        let one = |view: ItemView| {
            let item = view.item;
            (view.payload.expect("live"), item.attempts, view.max_attempts, item.priority, item.created_at)
        };
        views.into_iter().map(one).collect()
    };
    for _ in ["before", "after a restart"] {
        for list in [List::Queue, List::Scheduled] {
            let (there, here) = (all(world, &queue, list, 7).await, all(world, &target, list, 9).await);
            for (there, here) in there.iter().zip(&here) {
                assert_eq!(here.item.changed_at(), there.item.changed_at());
                assert_eq!(here.item.started(), there.item.started());
            }
            assert_eq!(seen(there), seen(here));
        }
        world.restart().await;
    }
    let listed = all(world, &target, List::Queue, 100).await;
    assert!(listed.iter().all(|view| view.item.state.phase() == Phase::Waiting));
    assert_eq!(world.stats(&target).await.counts.scheduled, 5);
}

async fn a_list_tells_until_when_a_lease_holds_after_a_restart(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let ids = world.produce(&queue, items(1)).await;
    world.lease(&queue, 1).await;
    world.restart().await;
    world.env.advance(std::time::Duration::from_secs(55));
    world.restart().await;
    let shown = world.engine().get(ids[0]).await.expect("live").item;
    let listed = all(world, &queue, List::Queue, 10).await.remove(0).item;
    assert_eq!(listed.state, shown.state, "the grace is in force");
}

async fn an_import_takes_its_places_in_the_queue(world: &World) {
    let queue = world.queue("q", 1, Settings { max_items: 2, ..Settings::default() }).await;
    world.engine().import(&queue, vec![import_item("one")]).await.expect("there is room");
    let refused = world.engine().import(&queue, vec![import_item("two"), import_item("three")]).await;
    assert!(matches!(refused, Err(windlass_engine::EngineError::Overloaded { .. })), "{refused:?}");
    world.engine().import(&queue, vec![import_item("two")]).await.expect("there is room");
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["one", "two"]);
}

async fn deleted_items_are_gone_and_their_permits_void(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.extend(world.produce(&queue, items(1)).await);
    }
    let leased = world.lease(&queue, 1).await;
    let stranger = ItemId { partition: PartitionId(77), ..ids[0] };
    let asked = [ids.clone(), vec![stranger, ids[1]]].concat();
    let judged = world.engine().delete_items(&queue, asked).await.expect("judged");
    assert!(judged.results[..4].iter().all(Result::is_ok));
    assert!(judged.results[4..].iter().all(|result| is_refused(result, &Refusal::NotFound)));
    let late = world.engine().complete(&queue, vec![completion(leased[0].held())]).await;
    assert!(is_refused(&late.expect("judged").results[0], &Refusal::NotFound));
    let gone = world.engine().get(leased[0].leased.id).await;
    assert!(is_refused(&gone, &Refusal::NotFound), "{gone:?}");
    let stats = world.stats(&queue).await;
    assert_eq!((stats.counts.live(), stats.retained), (0, 0));
}

async fn a_reload_reads_back_everything_and_leaves_leases_alone(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(10)).await;
    world.produce(&queue, items(10)).await;
    let leased = world.lease(&queue, 5).await;
    let before = world.stats(&queue).await;
    world.engine().reload(&queue).await.expect("acquired anew");
    let after = world.stats(&queue).await;
    assert_eq!(
        (before.counts, before.partitions.len(), before.priorities),
        (after.counts, after.partitions.len(), after.priorities)
    );
    world.complete(&queue, &leased[0]).await;
    let again = world.engine().complete(&queue, vec![completion(leased[0].held())]).await;
    assert!(is_refused(&again.expect("judged").results[0], &Refusal::NotFound));
    let released = world.engine().release(&queue, held(&leased[1..])).await.expect("judged");
    assert!(released.results.iter().all(Result::is_ok));
    assert_eq!(world.lease(&queue, 100).await.len(), 19);
}
