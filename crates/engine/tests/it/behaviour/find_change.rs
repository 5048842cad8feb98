//! Items that a search finds are changed all together, each as the call for one item would.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::partition::{Find, FindOrder};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{RetainPayload, Settings};
use windlass_core::verbs::{NewItem, RetryItem};
use windlass_engine::{Action, ChangePage, Search, Verify};

use super::find::{by_facts, in_phases, search, with_facts};
use super::{is_refused, retry_item};
use crate::world::{World, item, items};

on_every_store!(
    failed_items_are_rerun_in_few_commits,
    an_item_that_changed_since_it_was_found_does_not_count,
    reruns_of_one_address_make_one_item,
    items_of_every_partition_are_changed,
    items_are_rerun_after_their_partitions_changed,
);

pub(crate) fn oldest(find: Find, limit: usize) -> Search {
    Search { order: FindOrder::Oldest, ..search(find, limit) }
}

async fn change(world: &World, queue: &QueueName, search: &Search, action: Action) -> ChangePage {
    world.engine().change_items(queue, search, None, action, false).await.expect("changed")
}

fn changed(page: &ChangePage) -> Vec<ItemId> {
    page.results.iter().filter(|(_, result)| result.is_ok()).map(|(id, _)| *id).collect()
}

/// Fails all items that wait.
async fn fail_all(world: &World, queue: &QueueName) -> Vec<ItemId> {
    let leased = world.lease(queue, 1000).await;
    let dead = leased.iter().map(|item| RetryItem { dead: true, ..retry_item(item) }).collect();
    world.engine().retry(queue, dead).await.expect("judged");
    leased.iter().map(|item| item.leased.id).collect()
}

async fn failed_items_are_rerun_in_few_commits(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let made = world.produce(&queue, items(1000)).await;
    fail_all(world, &queue).await;
    let before = world.engine().commit_stats();
    let page = change(world, &queue, &oldest(in_phases([Phase::Failed]), 1000), Action::Rerun).await;
    let after = world.engine().commit_stats();
    let commits = after.commits - before.commits;
    assert!(commits <= 40, "{commits} commits");
    assert_eq!((changed(&page), page.walk), (made, None));
    assert_eq!(world.waiting(&queue).await, 1000);
}

async fn an_item_that_changed_since_it_was_found_does_not_count(world: &World) {
    let settings = Settings { retain_payload: RetainPayload::All, ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    let later =
        |facts| NewItem { delay: Some(windlass_core::time::Span::from_secs(60)), ..with_facts(facts) };
    let made = world.produce(&queue, vec![later("yes"), later("yes"), later("yes")]).await;
    for action in [Action::RunNow, Action::Delete] {
        let (engine, gone) = (world.engine(), if action == Action::RunNow { made[0] } else { made[1] });
        // Called with each item once it was found and before it is changed.
        let verify = move |_: &Bytes| {
            let queue = crate::world::queue_name("q");
            let deleting = async { engine.delete_items(&queue, vec![gone]).await };
            block_in_place(|| Handle::current().block_on(deleting)).expect("judged");
            true
        };
        let found = Search { verify: Some(Verify(Arc::new(verify))), ..by_facts("yes") };
        let page = change(world, &queue, &found, action).await;
        assert!(page.results.iter().all(|(_, result)| result.is_ok()), "{page:?}");
        let left = changed(&page);
        assert!(!left.contains(&gone) && left.contains(&made[2]), "{action:?}: {left:?}");
    }
    assert_eq!(world.live(&queue).await, 0);
}

async fn reruns_of_one_address_make_one_item(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let at = || NewItem { address: Some("here".into()), ..item("x") };
    let mut made = Vec::new();
    for _ in 0..3 {
        made.extend(world.produce(&queue, vec![at()]).await);
        fail_all(world, &queue).await;
        world.env.advance(Duration::from_secs(1));
    }
    let page = change(world, &queue, &oldest(in_phases([Phase::Failed]), 10), Action::Rerun).await;
    assert_eq!((changed(&page), page.results.len()), (vec![made[0]], 3));
    let again = change(world, &queue, &oldest(in_phases([Phase::Failed]), 10), Action::Rerun).await;
    assert_eq!((changed(&again), again.results.len()), (vec![], 2), "the first goes on as another");
    assert_eq!(world.waiting(&queue).await, 1);
}

async fn items_of_every_partition_are_changed(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let mut made = Vec::new();
    for _ in 0..30 {
        made.extend(world.produce(&queue, items(1)).await);
        world.env.advance(Duration::from_millis(1));
    }
    let page = change(world, &queue, &oldest(Find::default(), 20), Action::SetPriority(9)).await;
    assert_eq!((changed(&page).as_slice(), page.commits.len()), (&made[..20], 3));
    for (index, id) in made.iter().enumerate() {
        let priority = world.engine().get(*id).await.expect("there").item.priority;
        assert_eq!(priority, if index < 20 { 9 } else { 0 });
    }
    let (engine, some) = (world.engine(), oldest(Find::default(), 20));
    let dry = engine.change_items(&queue, &some, None, Action::Cancel, true).await.expect("tried");
    assert_eq!(changed(&dry), made[..20]);
    assert_eq!(world.waiting(&queue).await, 30);
    let page = change(world, &queue, &oldest(Find::default(), 1000), Action::Cancel).await;
    assert_eq!((changed(&page), page.commits.len()), (made, 3));
    assert_eq!(world.live(&queue).await, 0);
}

async fn items_are_rerun_after_their_partitions_changed(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let at = |index: usize| NewItem { address: Some(format!("address {index}").into()), ..item("x") };
    world.produce(&queue, (0..20).map(at).collect()).await;
    for _ in 0..10 {
        world.produce(&queue, items(1)).await;
    }
    while !fail_all(world, &queue).await.is_empty() {}
    world.engine().rebalance(&queue, 1).await.expect("fewer");
    let page = change(world, &queue, &oldest(in_phases([Phase::Failed]), 1000), Action::Rerun).await;
    assert_eq!(changed(&page).len(), 30, "{:?}", page.results);
    assert_eq!(world.waiting(&queue).await, 30);
    let again = change(world, &queue, &oldest(in_phases([Phase::Failed]), 1000), Action::Rerun).await;
    assert!(again.results.is_empty(), "{again:?}");
    let id = page.results[0].0;
    let single = world.engine().rerun(id, None).await;
    assert!(!is_refused(&single, &Refusal::NotFound) && single.is_err());
}
