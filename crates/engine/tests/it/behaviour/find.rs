//! Items are found page by page in all partitions of a queue, while items come, change and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::effort::{Looked, looks};
use windlass_core::headers::header_hash;
use windlass_core::id::ItemId;
use windlass_core::item::{ItemError, Phase};
use windlass_core::partition::{Find, FindOrder};
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::verbs::{NewItem, RetryItem};
use windlass_engine::{ItemView, Search, SearchPage, Verify, Walk};

use super::counts::{Dice, some_deed};
use super::retry_item;
use crate::world::{Medium, World, item, items};

on_every_store!(
    a_walk_shows_what_was_there_before_and_still_matches_exactly_once,
    partitions_are_merged_by_the_time_of_production,
    a_filter_by_record_shows_only_items_whose_facts_have_it,
    the_most_frequent_errors_are_told_with_the_latest_item,
    all_queues_are_searched_for_the_newest,
);

pub(crate) fn search(find: Find, limit: usize) -> Search {
    let (find, order) = (Arc::new(find), FindOrder::Newest);
    Search { find, order, verify: None, limit, payloads: false, partial: false }
}

pub(crate) fn ids(items: &[ItemView]) -> Vec<ItemId> {
    items.iter().map(|view| view.id).collect()
}

pub(crate) fn in_phases(phases: impl IntoIterator<Item = Phase>) -> Find {
    Find { phases: Some(phases.into_iter().collect()), ..Find::default() }
}

pub(super) async fn page(
    world: &World,
    queue: &QueueName,
    search: &Search,
    walk: Option<&Walk>,
) -> SearchPage {
    world.engine().find(queue, search, walk).await.expect("found")
}

/// Everything that matches now.
pub(super) async fn all(world: &World, queue: &QueueName, search: &Search) -> Vec<ItemView> {
    let search = Search { limit: 1000, ..search.clone() };
    let (mut walk, mut seen) = (None, Vec::new());
    loop {
        let page = page(world, queue, &search, walk.as_ref()).await;
        seen.extend(page.items);
        match page.walk {
            Some(next) => walk = Some(next),
            None => return seen,
        }
    }
}

/// Walks in small pages, between which something happens. What was there before and still matches is seen exactly once.
pub(super) async fn check_walk(
    world: &World,
    queue: &QueueName,
    wanted: &Search,
    round: u64,
    mut between: impl AsyncFnMut(),
) {
    let every = search(Find::default(), 1000);
    let matching =
        async || -> BTreeSet<ItemId> { ids(&all(world, queue, wanted).await).into_iter().collect() };
    let before = matching().await;
    let known: BTreeSet<ItemId> = ids(&all(world, queue, &every).await).into_iter().collect();
    let (mut walk, mut seen): (Option<Walk>, BTreeMap<ItemId, usize>) = (None, BTreeMap::new());
    loop {
        let page = page(world, queue, wanted, walk.as_ref()).await;
        assert!(page.items.len() <= wanted.limit && page.missing.is_empty());
        ids(&page.items).into_iter().for_each(|id| *seen.entry(id).or_default() += 1);
        let Some(next) = page.walk else { break };
        walk = Some(next);
        between().await;
    }
    let after = matching().await;
    assert!(seen.values().all(|times| *times == 1), "round {round}: {seen:?}");
    assert!(seen.keys().all(|id| known.contains(id)), "round {round}: what came later is shown");
    let missed: Vec<_> = before.intersection(&after).filter(|id| !seen.contains_key(id)).collect();
    assert!(missed.is_empty(), "round {round}: {missed:?}");
}

/// A restart now and then, and a rebalance where it may be.
pub(super) async fn upset(world: &World, queue: &QueueName, dice: &mut Dice) {
    if dice.below(40) == 0 {
        world.restart().await;
    }
    if dice.below(10) == 0 {
        let partitions = 1 + dice.below(4) as u32;
        let _refused_while_one_drains = world.engine().rebalance(queue, partitions).await;
    }
}

async fn a_walk_shows_what_was_there_before_and_still_matches_exactly_once(world: &World) {
    let settings = Settings { retention_max_items: 50, ..Settings::default() };
    let queue = world.queue("q", 3, settings).await;
    let mut dice = Dice(23);
    let mut hands = Vec::new();
    for round in 0..30 {
        for _ in 0..40 {
            some_deed(world, &queue, &mut hands, &mut dice).await;
        }
        let find = match round % 4 {
            0 => Find::default(),
            1 => in_phases([Phase::Waiting, Phase::Leased]),
            2 => in_phases([Phase::Completed, Phase::Failed, Phase::Cancelled]),
            _ => Find { kinds: Some(BTreeSet::from(["kind 1".into(), "kind 2".into()])), ..Find::default() },
        };
        let order = if round % 2 == 0 { FindOrder::Newest } else { FindOrder::Oldest };
        let wanted = Search { order, payloads: round % 3 == 0, ..search(find, 7) };
        check_walk(world, &queue, &wanted, round, async || {
            some_deed(world, &queue, &mut hands, &mut dice).await;
            upset(world, &queue, &mut dice).await;
        })
        .await;
    }
}

async fn partitions_are_merged_by_the_time_of_production(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    for _ in 0..40 {
        world.produce(&queue, items(3)).await;
        world.env.advance(Duration::from_millis(1));
    }
    for (order, limit) in [(FindOrder::Newest, 7), (FindOrder::Oldest, 50)] {
        let search = Search { order, ..search(Find::default(), limit) };
        let (mut walk, mut seen) = (None, Vec::new());
        loop {
            let page = page(world, &queue, &search, walk.as_ref()).await;
            assert!(page.walk.is_none() || page.items.len() == limit, "pages are full but for the last");
            seen.extend(page.items.iter().map(|view| view.item.created_at));
            match page.walk {
                Some(next) => walk = Some(next),
                None => break,
            }
        }
        let in_order = match order {
            FindOrder::Newest => seen.is_sorted_by(|one, next| one >= next),
            FindOrder::Oldest => seen.is_sorted(),
        };
        assert!(in_order && seen.len() == 120, "{seen:?}");
    }
}

pub(crate) fn with_facts(facts: &str) -> NewItem {
    NewItem { facts: Some(Bytes::copy_from_slice(facts.as_bytes())), ..item("x") }
}

pub(crate) fn by_facts(facts: &'static str) -> Search {
    let verify = Verify(Arc::new(move |stored: &Bytes| *stored == facts));
    let find = Find { headers: [("name".into(), header_hash("name", facts))].into(), ..Find::default() };
    Search { verify: Some(verify), ..search(find, 1000) }
}

async fn a_filter_by_record_shows_only_items_whose_facts_have_it(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let mut wanted = Vec::new();
    for _ in 0..20 {
        world.produce(&queue, vec![item("none"), with_facts("no")]).await;
        wanted.extend(world.produce(&queue, vec![with_facts("yes")]).await);
    }
    let page = page(world, &queue, &by_facts("yes"), None).await;
    let found: BTreeSet<ItemId> = ids(&page.items).into_iter().collect();
    assert_eq!((found.len(), found), (page.items.len(), wanted.into_iter().collect()));
    assert!(page.items.iter().all(|view| view.facts.as_deref() == Some(b"yes") && view.payload.is_none()));
}

pub(super) async fn fail(world: &World, queue: &QueueName, code: Option<&str>, message: &str) -> ItemId {
    world.produce(queue, items(1)).await;
    let leased = world.lease(queue, 1).await.remove(0);
    let error = Some(ItemError { code: code.map(Into::into), message: message.into() });
    let retry = RetryItem { dead: true, error, ..retry_item(&leased) };
    world.engine().retry(queue, vec![retry]).await.expect("judged");
    world.env.advance(Duration::from_secs(1));
    leased.leased.id
}

async fn the_most_frequent_errors_are_told_with_the_latest_item(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    for number in 0..60 {
        fail(world, &queue, Some(&format!("code {number:02}")), "once").await;
    }
    fail(world, &queue, Some("often"), "first").await;
    let last = fail(world, &queue, Some("often"), "last").await;
    let nameless = [fail(world, &queue, None, "?").await, fail(world, &queue, None, "!").await];
    world.restart().await;
    let errors = world.engine().errors(&queue, 50).await.expect("counted");
    let told: Vec<_> =
        errors.iter().map(|error| (&*error.code, error.count, &*error.message, error.latest)).collect();
    assert_eq!(told[..2], [("", 2, "!", nameless[1]), ("often", 2, "last", last)]);
    assert_eq!((told.len(), told[2].0, told[49].0), (50, "code 00", "code 47"));
}

async fn all_queues_are_searched_for_the_newest(world: &World) {
    let mut failed = Vec::new();
    let mut queues = Vec::new();
    for number in 0..5 {
        queues.push(world.queue(&format!("q{number}"), 1 + number, Settings::default()).await);
    }
    for round in 0..30 {
        failed.push(fail(world, &queues[round % 4], Some("a"), "no").await);
    }
    failed.reverse();
    let found =
        world.engine().find_in_all_queues(&search(in_phases([Phase::Failed]), 20)).await.expect("found");
    assert_eq!((ids(&found.items).as_slice(), found.walk), (&failed[..20], None));
}

#[tokio::test]
async fn a_slice_looks_at_few_items_before_the_partition_serves_others() {
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("q", 1, Settings::default()).await;
    for _ in 0..12 {
        world.produce(&queue, items(1000)).await;
    }
    let before = looks(Looked::Items);
    let (engine, name) = (world.engine(), queue.clone());
    let none = Find { kinds: Some(BTreeSet::new()), cron: Some("none".into()), ..Find::default() };
    let walking =
        tokio::spawn(
            async move { engine.find(&name, &search(Find { kinds: None, ..none }, 100), None).await },
        );
    while looks(Looked::Items) == before {
        tokio::task::yield_now().await;
    }
    let mut most = 0;
    for _ in 0..5 {
        let begun = looks(Looked::Items);
        world.produce(&queue, items(1)).await;
        most = most.max(looks(Looked::Items) - begun);
    }
    assert!(most <= 1000, "a produce waited for {most} looks");
    let page = walking.await.expect("it ran").expect("found");
    assert_eq!((page.items.len(), page.scanned, looks(Looked::Items) - before), (0, 10_000, 10_000));
    let (name, search) = (queue, search(Find { cron: Some("none".into()), ..Find::default() }, 100));
    let rest = world.engine().find(&name, &search, page.walk.as_ref()).await.expect("found");
    assert_eq!((rest.scanned, rest.walk), (2000, None));
}
