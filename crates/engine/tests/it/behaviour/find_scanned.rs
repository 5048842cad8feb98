//! How many items a search looks at that several indexes could answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::headers::header_hash;
use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::partition::{Find, FindOrder};
use windlass_core::row::QueueName;
use windlass_core::settings::{Keep, Settings, SettingsChange};
use windlass_core::verbs::{Clear, NewItem, RetryItem, UpdateItem, UpdateQueue};
use windlass_engine::{Search, Verify};

use super::addresses::at;
use super::dead_queues::to_dead;
use super::find::{ids, in_phases, page, search};
use super::groups::group;
use super::{retry_item, until};
use crate::world::{World, headers_of, item, items};

on_every_store!(
    a_filter_on_states_looks_only_at_items_of_these_states_beside_a_header_or_a_group,
    of_several_indexed_filters_the_narrowest_bounds_what_is_looked_at,
    what_a_clear_keeps_is_found_before_and_after_it_is_swept_up,
    an_update_without_headers_takes_the_item_out_of_the_index,
    items_on_their_way_are_found_by_headers_address_and_kinds,
    no_item_is_looked_at_where_none_can_match,
);

const NEVER_INDEXED: &[(&str, &str)] = &[("other", "1")];

fn indexing(names: &[&str]) -> Settings {
    Settings { indexed_headers: names.iter().map(|name| Arc::from(*name)).collect(), ..Settings::default() }
}

fn with_facts(facts: &str) -> NewItem {
    NewItem { facts: Some(Bytes::copy_from_slice(facts.as_bytes())), ..item("x") }
}

fn in_group(new: NewItem) -> NewItem {
    NewItem { group: Some("g".into()), ..new }
}

/// A search for items that have all of the headers, and match the filter.
fn with_headers(headers: &'static [(&'static str, &'static str)], find: Find) -> Search {
    let has_it = |facts: &Bytes| {
        let has = headers_of(facts);
        headers.iter().all(|(name, value)| has.contains(&((*name).to_owned(), (*value).to_owned())))
    };
    let hashes = headers.iter().map(|(name, value)| (Arc::from(*name), header_hash(name, value)));
    let find = Find { headers: hashes.collect(), ..find };
    Search { verify: Some(Verify(Arc::new(has_it))), ..search(find, 1000) }
}

/// What is found on the only page, in either order, and how many items were looked at.
async fn scanned(world: &World, queue: &QueueName, wanted: &Search) -> (BTreeSet<ItemId>, usize) {
    let mut both = Vec::new();
    for order in [FindOrder::Newest, FindOrder::Oldest] {
        let page = page(world, queue, &Search { order, limit: 1000, ..wanted.clone() }, None).await;
        assert_eq!(page.walk, None);
        let found: BTreeSet<ItemId> = ids(&page.items).into_iter().collect();
        assert_eq!(found.len(), page.items.len(), "each item once");
        both.push((found, page.scanned));
    }
    assert_eq!(both[0], both[1], "the order does not matter");
    both.remove(0)
}

/// Leases and fails the first waiting item.
async fn fail_first(world: &World, queue: &QueueName) -> ItemId {
    let leased = world.lease(queue, 1).await.remove(0);
    let dead = RetryItem { dead: true, ..retry_item(&leased) };
    world.engine().retry(queue, vec![dead]).await.expect("judged");
    leased.leased.id
}

async fn a_filter_on_states_looks_only_at_items_of_these_states_beside_a_header_or_a_group(world: &World) {
    let queue = world.queue("q", 1, indexing(&["tenant"])).await;
    world.produce(&queue, vec![with_facts("tenant=x")]).await;
    let failed = fail_first(world, &queue).await;
    world.engine().create_group(&queue, group("g")).await.expect("a group is made");
    world.produce(&queue, vec![in_group(item("x")), in_group(item("y"))]).await;
    world.engine().start_group(&queue, &"g".into()).await.expect("started");
    let member = fail_first(world, &queue).await;
    for _ in 0..3 {
        world.produce(&queue, (0..50).map(|_| with_facts("tenant=x")).collect()).await;
        world.produce(&queue, (0..50).map(|_| in_group(item("x"))).collect()).await;
    }
    for _ in ["before", "after a restart"] {
        let tenant = |phases: &[Phase]| with_headers(&[("tenant", "x")], in_phases(phases.iter().copied()));
        let group = |phases: &[Phase]| {
            search(Find { group: Some("g".into()), ..in_phases(phases.iter().copied()) }, 1000)
        };
        let ended = [Phase::Failed, Phase::Leased, Phase::Suspended];
        assert_eq!(scanned(world, &queue, &tenant(&ended)).await, ([failed].into(), 1));
        assert_eq!(scanned(world, &queue, &group(&ended)).await, ([member].into(), 1));
        for nothing in [tenant(&[Phase::Expired]), group(&[Phase::Expired]), tenant(&[]), group(&[])] {
            assert_eq!(scanned(world, &queue, &nothing).await, ([].into(), 0));
        }
        let everywhere = world.engine().find_in_all_queues(&tenant(&[Phase::Failed])).await.expect("found");
        assert_eq!((ids(&everywhere.items), everywhere.scanned), (vec![failed], 1));
        world.restart().await;
    }
}

async fn of_several_indexed_filters_the_narrowest_bounds_what_is_looked_at(world: &World) {
    let queue = world.queue("q", 1, indexing(&["common"])).await;
    let indexed_headers = Some(indexing(&["common", "rare"]).indexed_headers);
    let change = SettingsChange { indexed_headers, ..SettingsChange::default() };
    world.engine().update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
    world.engine().create_group(&queue, group("g")).await.expect("a group is made");
    let many = || (0..100).map(|_| in_group(with_facts("common=x,rare=no"))).collect::<Vec<_>>();
    world.produce(&queue, many()).await;
    let wanted = world.produce(&queue, vec![in_group(with_facts("common=x,rare=yes"))]).await[0];
    world.produce(&queue, many()).await;
    for _ in ["before", "after a restart"] {
        let one = ([wanted].into(), 1);
        let both = with_headers(&[("common", "x"), ("rare", "yes")], Find::default());
        assert_eq!(scanned(world, &queue, &both).await, one, "the one that is indexed for less long");
        let in_group = Find { group: Some("g".into()), ..Find::default() };
        let rare = with_headers(&[("rare", "yes")], in_group.clone());
        assert_eq!(scanned(world, &queue, &rare).await, one);
        let none = with_headers(&[("common", "x"), ("rare", "?")], in_group);
        assert_eq!(scanned(world, &queue, &none).await, ([].into(), 0));
        let beside = with_headers(&[("rare", "yes"), ("other", "1")], Find::default());
        assert_eq!(scanned(world, &queue, &beside).await, ([].into(), 1));
        world.restart().await;
    }
}

async fn what_a_clear_keeps_is_found_before_and_after_it_is_swept_up(world: &World) {
    let queue = world.queue("q", 1, Settings { keep: Keep::All, ..Settings::default() }).await;
    let made: BTreeSet<ItemId> = world.produce(&queue, items(400)).await.into_iter().collect();
    let clear = Clear { waiting: true, scheduled: true, leased: false, suspended: false };
    world.engine().clear(&queue, clear).await.expect("cleared");
    world.produce(&queue, items(100)).await;
    let cancelled = search(in_phases([Phase::Cancelled]), 1000);
    until(async || {
        let page = page(world, &queue, &cancelled, None).await;
        assert_eq!(ids(&page.items).into_iter().collect::<BTreeSet<_>>(), made);
        assert!(page.walk.is_none() && (400..=500).contains(&page.scanned), "{}", page.scanned);
        page.scanned == 400
    })
    .await;
    world.restart().await;
    assert_eq!(scanned(world, &queue, &cancelled).await, (made, 400));
}

async fn an_update_without_headers_takes_the_item_out_of_the_index(world: &World) {
    let queue = world.queue("q", 1, indexing(&["tenant", "trace"])).await;
    let made =
        world.produce(&queue, vec![with_facts("tenant=x,trace=1"), with_facts("tenant=x,trace=1")]).await;
    let (tenant, trace) =
        (with_headers(&[("tenant", "x")], Find::default()), with_headers(&[("trace", "1")], Find::default()));
    let update = async |facts: Option<&'static str>| {
        let facts = facts.map(|facts| Bytes::from_static(facts.as_bytes()));
        let rewrite = move |_, _| Ok((Bytes::from_static(b"x"), facts));
        let update = UpdateItem::new(made[0].number);
        world.engine().update(made[0], update, Some(Box::new(rewrite))).await.expect("updated");
    };
    let (both, other) = ((made.iter().copied().collect(), 2), ([made[1]].into(), 1));
    assert_eq!(scanned(world, &queue, &tenant).await, both);
    update(Some("trace=1")).await;
    assert_eq!(scanned(world, &queue, &tenant).await, other);
    assert_eq!(scanned(world, &queue, &trace).await, both);
    update(None).await;
    for _ in ["before", "after a restart"] {
        assert_eq!(scanned(world, &queue, &tenant).await, other);
        assert_eq!(scanned(world, &queue, &trace).await, other);
        world.restart().await;
    }
}

async fn items_on_their_way_are_found_by_headers_address_and_kinds(world: &World) {
    let queue = world
        .queue("q", 1, Settings { indexed_headers: indexing(&["tenant"]).indexed_headers, ..to_dead() })
        .await;
    let facts = Some(Bytes::from_static(b"tenant=x,other=1"));
    let moving = world.produce(&queue, vec![NewItem { kind: "mail".into(), facts, ..at("here") }]).await[0];
    assert_eq!(fail_first(world, &queue).await, moving);
    world.produce(&queue, items(20)).await;
    for _ in ["before", "after a restart"] {
        assert_eq!(world.stats(&queue).await.moving, 1);
        let of_mail = Find { kinds: Some(["mail".into()].into()), ..Find::default() };
        let expected = [
            (with_headers(&[("tenant", "x")], Find::default()), 1),
            (search(Find { address: Some("here".into()), ..Find::default() }, 10), 1),
            (search(of_mail, 10), 21),
            (with_headers(NEVER_INDEXED, Find::default()), 21),
        ];
        for (wanted, looked) in expected {
            assert_eq!(scanned(world, &queue, &wanted).await, ([moving].into(), looked), "{wanted:?}");
        }
        let everywhere = with_headers(&[("tenant", "x")], in_phases([Phase::Failed]));
        let everywhere = world.engine().find_in_all_queues(&everywhere).await.expect("found");
        assert_eq!(ids(&everywhere.items), [moving]);
        world.restart().await;
    }
}

async fn no_item_is_looked_at_where_none_can_match(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(5)).await;
    let of_no_kind = Find { kinds: Some(BTreeSet::new()), ..Find::default() };
    let of_unknown_kind = Find { kinds: Some(["unknown".into()].into()), ..Find::default() };
    for find in [of_no_kind, of_unknown_kind, in_phases([])] {
        assert_eq!(scanned(world, &queue, &search(find, 10)).await, ([].into(), 0));
    }
}
