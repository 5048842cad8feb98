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
use windlass_core::settings::{Keep, RetainPayload, Settings};
use windlass_core::verbs::{NewItem, RetryItem, SuspendItem};
use windlass_engine::{Action, ChangePage, EngineError, Search, Verify};

use super::afterwards::{moved_to, payload, shown};
use super::find::{by_facts, in_phases, search, with_facts};
use super::{is_refused, retry_item};
use crate::world::{World, item, items};

on_every_store!(
    failed_items_are_rerun_in_few_commits,
    an_item_that_changed_since_it_was_found_does_not_count,
    reruns_of_one_address_make_one_item,
    items_of_every_partition_are_changed,
    items_are_rerun_after_their_partitions_changed,
    a_dry_run_of_reruns_counts_addresses_and_room,
    a_walk_of_changes_goes_on_over_a_restart_and_a_rebalance,
    items_on_their_way_are_cancelled_by_nobody_and_deleted_where_they_are,
    suspended_items_are_changed_with_the_others,
    a_dry_run_sees_addresses_held_where_they_are_at_home_by_now,
    of_items_with_one_address_the_oldest_is_rerun_wherever_the_address_is_at_home,
    an_item_refused_for_its_address_takes_no_room_from_others,
    items_are_rerun_whatever_way_they_ended,
    of_two_bulk_reruns_at_once_each_item_is_rerun_once,
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
    // How many are committed together is up to the threads of the machine: one by one would be a thousand.
    assert!(commits <= 250, "{commits} commits");
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

async fn dry_rerun(world: &World, queue: &QueueName) -> ChangePage {
    let failed = oldest(in_phases([Phase::Failed]), 1000);
    world.engine().change_items(queue, &failed, None, Action::Rerun, true).await.expect("tried")
}

async fn a_dry_run_of_reruns_counts_addresses_and_room(world: &World) {
    let at = |address: &str| NewItem { address: Some(address.into()), ..item("x") };
    let room = |max_items| Settings { max_items, ..Settings::default() };
    let twice = [at("twice"), at("twice"), item("a"), item("b")];
    let plain = [item("a"), item("b"), item("c"), item("d")];
    for (name, settings, items, expected) in
        [("unbounded", room(0), twice, vec![0, 2, 3]), ("small", room(3), plain, vec![0, 1])]
    {
        let queue = world.queue(name, 2, settings).await;
        let mut made = Vec::new();
        for item in items {
            made.extend(world.produce(&queue, vec![item]).await);
            fail_all(world, &queue).await;
            world.env.advance(Duration::from_secs(1));
        }
        world.produce(&queue, vec![item("lives")]).await;
        let before = world.engine().commit_stats().commits;
        let dry = dry_rerun(world, &queue).await;
        assert_eq!(world.engine().commit_stats().commits, before);
        let expected: Vec<ItemId> = expected.into_iter().map(|index: usize| made[index]).collect();
        assert_eq!((changed(&dry), dry.results.len()), (expected, 4), "{name}");
        let page = change(world, &queue, &oldest(in_phases([Phase::Failed]), 1000), Action::Rerun).await;
        assert_eq!((changed(&page), page.results.len()), (changed(&dry), 4), "{name}");
    }
}

async fn a_dry_run_sees_addresses_held_where_they_are_at_home_by_now(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let at = |index: usize| NewItem { address: Some(format!("desk {index}").into()), ..item("x") };
    world.produce(&queue, (0..20).map(at).collect()).await;
    fail_all(world, &queue).await;
    world.engine().rebalance(&queue, 4).await.expect("more");
    assert_eq!(changed(&dry_rerun(world, &queue).await).len(), 20);
    world.produce(&queue, (0..10).map(at).collect()).await;
    let dry = dry_rerun(world, &queue).await;
    assert_eq!((changed(&dry).len(), dry.results.len()), (10, 20));
    let page = change(world, &queue, &oldest(in_phases([Phase::Failed]), 1000), Action::Rerun).await;
    assert_eq!(changed(&page), changed(&dry));
}

/// All of an address but the first are refused for the item that the first became.
async fn of_items_with_one_address_the_oldest_is_rerun_wherever_the_address_is_at_home(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let at = |index: usize| NewItem { address: Some(format!("desk {index}").into()), ..item("x") };
    let mut oldest_made = Vec::new();
    for round in 0..3 {
        let made = world.produce(&queue, (0..12).map(at).collect()).await;
        if round == 0 {
            oldest_made = made;
        }
        fail_all(world, &queue).await;
    }
    world.engine().rebalance(&queue, 4).await.expect("more");
    let page = change(world, &queue, &oldest(in_phases([Phase::Failed]), 1000), Action::Rerun).await;
    assert_eq!((changed(&page), page.results.len()), (oldest_made, 36));
    for (id, result) in page.results.iter().filter(|(_, result)| result.is_err()) {
        let address = shown(world, *id).await.item.extras.expect("extras").address.expect("an address");
        let holder = world.engine().item_at(&queue, &address).await.expect("the address is taken");
        assert!(
            matches!(result, Err(EngineError::DuplicateAddress { id }) if *id == holder),
            "{address}: {result:?}"
        );
    }
    assert_eq!(world.live(&queue).await, 12);
}

async fn an_item_refused_for_its_address_takes_no_room_from_others(world: &World) {
    let queue = world.queue("q", 2, Settings { max_items: 2, ..Settings::default() }).await;
    let at = |address: &str| NewItem { address: Some(address.into()), ..item("x") };
    let mut made = Vec::new();
    for address in ["twice", "twice", "once"] {
        made.extend(world.produce(&queue, vec![at(address)]).await);
        fail_all(world, &queue).await;
        world.env.advance(Duration::from_secs(1));
    }
    let dry = dry_rerun(world, &queue).await;
    let page = change(world, &queue, &oldest(in_phases([Phase::Failed]), 1000), Action::Rerun).await;
    assert_eq!(changed(&page), [made[0], made[2]]);
    assert_eq!(changed(&dry), changed(&page));
}

async fn a_walk_of_changes_goes_on_over_a_restart_and_a_rebalance(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let mut made = Vec::new();
    for _ in 0..60 {
        made.extend(world.produce(&queue, items(1)).await);
        world.env.advance(Duration::from_millis(1));
    }
    let some = oldest(Find::default(), 20);
    let mut walk = None;
    let mut seen = Vec::new();
    for step in 0..3 {
        let engine = world.engine();
        let page = engine.change_items(&queue, &some, walk.as_ref(), Action::SetPriority(9), false);
        let page = page.await.expect("changed");
        seen.extend(changed(&page));
        walk = page.walk;
        match step {
            0 => world.restart().await,
            _ => drop(world.engine().rebalance(&queue, 5).await),
        }
        world.produce(&queue, items(5)).await;
    }
    assert!(walk.is_none() || seen.len() == 60, "{walk:?}");
    seen.sort();
    made.sort();
    assert_eq!(seen, made, "each once, and nothing that came later");
}

async fn items_on_their_way_are_cancelled_by_nobody_and_deleted_where_they_are(world: &World) {
    let settings = Settings { dead_queue: Some("dead".into()), ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    let made = world.produce(&queue, items(3)).await;
    fail_all(world, &queue).await;
    assert_eq!(world.stats(&queue).await.moving, 3);
    for action in [Action::Cancel, Action::RunNow, Action::SetPriority(1)] {
        let page = change(world, &queue, &oldest(Find::default(), 10), action).await;
        assert!(page.results.is_empty(), "{action:?}: {page:?}");
    }
    let page = change(world, &queue, &oldest(Find::default(), 10), Action::Rerun).await;
    assert_eq!((changed(&page), page.results.len()), (vec![], 3));
    assert!(page.results.iter().all(|(_, result)| is_refused(result, &Refusal::Leaving)), "{page:?}");
    let page = change(world, &queue, &oldest(Find::default(), 10), Action::Delete).await;
    assert_eq!(changed(&page), made);
    assert!(is_refused(&world.engine().get(made[0]).await, &Refusal::NotFound));
    let dead = world.queue("dead", 1, Settings::default()).await;
    super::dead_queues::all_moved(world, &queue).await;
    assert_eq!(world.waiting(&dead).await, 3, "they arrive all the same");
    assert!(is_refused(&world.engine().get(made[0]).await, &Refusal::NotFound));
}

async fn suspended_items_are_changed_with_the_others(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let suspend_two = async || {
        let made = world.produce(&queue, items(2)).await;
        let leased = world.lease(&queue, 2).await;
        let suspend = |item: &windlass_engine::Granted| SuspendItem { held: item.held(), reason: None };
        world.engine().suspend(&queue, leased.iter().map(suspend).collect()).await.expect("judged");
        made
    };
    let made = suspend_two().await;
    let suspended = oldest(in_phases([Phase::Suspended]), 10);
    for action in [Action::RunNow, Action::Rerun] {
        assert!(change(world, &queue, &suspended, action).await.results.is_empty(), "{action:?}");
    }
    assert_eq!(changed(&change(world, &queue, &suspended, Action::SetPriority(3)).await), made);
    let view = world.engine().get(made[0]).await.expect("there");
    assert_eq!((view.phase(), view.item.priority), (Phase::Suspended, 3));
    assert_eq!(changed(&change(world, &queue, &suspended, Action::Cancel).await), made);
    let made = suspend_two().await;
    assert_eq!(changed(&change(world, &queue, &suspended, Action::Delete).await), made);
    assert_eq!(world.live(&queue).await, 0);
}

async fn items_are_rerun_whatever_way_they_ended(world: &World) {
    let settings = Settings { retain_payload: RetainPayload::All, keep: Keep::All, ..Settings::default() };
    let queue = world.queue("q", 2, settings).await;
    let completed = world.produce(&queue, vec![item("completed"), item("completed")]).await;
    for leased in world.lease(&queue, 2).await {
        world.complete(&queue, &leased).await;
    }
    let cancelled = world.produce(&queue, vec![item("cancelled"), item("cancelled")]).await;
    change(world, &queue, &oldest(Find::default(), 10), Action::Cancel).await;
    let dead_timeout = Some(windlass_core::time::Span::from_secs(5));
    let expired = NewItem { dead_timeout, ..item("expired") };
    let expired = world.produce(&queue, vec![expired.clone(), expired]).await;
    world.env.advance(Duration::from_secs(5));
    let page = change(world, &queue, &oldest(Find::default(), 10), Action::Rerun).await;
    let mut all = [completed.clone(), cancelled.clone(), expired.clone()].concat();
    let mut done = changed(&page);
    all.sort();
    done.sort();
    assert_eq!((done, page.results.len()), (all, 6), "{page:?}");
    let ended = [
        (completed, Phase::Completed, "completed"),
        (cancelled, Phase::Cancelled, "cancelled"),
        (expired, Phase::Expired, "expired"),
    ];
    for (ids, phase, text) in ended {
        for id in ids {
            let old = shown(world, id).await;
            assert_eq!((old.phase(), payload(&old)), (phase, None));
            let new = shown(world, moved_to(&old).expect("it was rerun")).await;
            assert_eq!((new.phase(), payload(&new)), (Phase::Waiting, Some(text)));
        }
    }
    assert_eq!(world.live(&queue).await, 6);
    let again = change(world, &queue, &oldest(Find::default(), 10), Action::Rerun).await;
    assert!(again.results.is_empty(), "{again:?}");
}

/// Half of the items are rerun in another partition: their addresses are at home there by now.
async fn of_two_bulk_reruns_at_once_each_item_is_rerun_once(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let made = (0..200).map(|index| match index % 2 {
        0 => item("x"),
        _ => NewItem { address: Some(format!("desk {index}").into()), ..item("x") },
    });
    let made = world.produce(&queue, made.collect()).await;
    fail_all(world, &queue).await;
    world.engine().rebalance(&queue, 3).await.expect("more");
    let begin = || {
        let (engine, queue) = (world.engine(), queue.clone());
        let failed = oldest(in_phases([Phase::Failed]), 1000);
        tokio::spawn(async move { engine.change_items(&queue, &failed, None, Action::Rerun, false).await })
    };
    let begun = [begin(), begin()];
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    for page in begun {
        let page = page.await.expect("the task ran").expect("changed");
        done.extend(changed(&page));
        refused.extend(page.results.into_iter().filter_map(|(id, result)| Some((id, result.err()?))));
    }
    done.sort();
    assert_eq!(done, made, "each once");
    for (id, error) in refused {
        let anew = moved_to(&shown(world, id).await).expect("it was rerun");
        let told = matches!(error, EngineError::Refused(Refusal::MovedOn { id }) if id == anew);
        assert!(told, "{id:?}: {error:?}");
    }
    assert_eq!(world.live(&queue).await, 200);
}
