//! What each filter of a search finds, and how many items it looks at for that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::id::ItemId;
use windlass_core::item::{ItemError, Phase};
use windlass_core::partition::{Between, Find, FindOrder};
use windlass_core::row::QueueName;
use windlass_core::settings::{Keep, RetainPayload, Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_core::verbs::{LeaseItems, NewItem, RetryItem, SuspendItem, UpdateItem, UpdateQueue};
use windlass_engine::env::Env;
use windlass_engine::{Action, Search, Walk};

use super::addresses::at;
use super::crons::{cron, named};
use super::dead_queues::{all_moved, fail_all, to_dead};
use super::find::{all, fail, ids, in_phases, page, search};
use super::find_walks::with_header;
use super::groups::group;
use super::rebalance::rebalance;
use super::retry_item;
use crate::world::{World, completion_with, held, item, items, lease};

on_every_store!(
    each_filter_finds_what_it_names,
    a_filter_on_states_looks_only_at_items_of_these_states,
    members_and_items_of_an_address_are_found_without_a_look_at_others,
    an_indexed_header_is_answered_from_the_index_after_a_restart_and_a_rebalance,
    a_change_of_the_indexed_headers_counts_for_later_items_and_updated_ones,
    items_on_their_way_are_found_as_they_ended,
    a_call_looks_at_no_more_than_10_000_items,
    a_page_ends_before_its_bodies_come_to_more_than_16_mib,
    payloads_and_results_are_shown_only_if_asked_for,
    all_queues_are_searched_for_suspended_and_expired_items,
    error_codes_count_the_items_that_are_still_kept,
    beyond_a_thousand_error_codes_the_rest_is_other,
);

fn set(ids: impl IntoIterator<Item = ItemId>) -> BTreeSet<ItemId> {
    ids.into_iter().collect()
}

async fn found(world: &World, queue: &QueueName, find: Find) -> BTreeSet<ItemId> {
    set(ids(&all(world, queue, &search(find, 1000)).await))
}

/// What is found on the only page, and how many items were looked at.
async fn scanned(world: &World, queue: &QueueName, wanted: &Search) -> (BTreeSet<ItemId>, usize) {
    let page = page(world, queue, &Search { limit: 1000, ..wanted.clone() }, None).await;
    assert_eq!(page.walk, None);
    (set(ids(&page.items)), page.scanned)
}

fn by_client(client: &str) -> Find {
    Find { client_id: Some(client.into()), ..Find::default() }
}

async fn each_filter_finds_what_it_names(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let engine = world.engine();
    engine.create_cron(&queue, cron("tick", "@yearly")).await.expect("a cron is made");
    let of_cron = engine.trigger_cron(&named("tick")).await.expect("triggered").value.id;
    world.env.advance(Duration::from_secs(10));
    let early = world.env.wall();
    engine.create_group(&queue, group("g")).await.expect("a group is made");
    let member = world.produce(&queue, vec![NewItem { group: Some("g".into()), ..item("m") }]).await[0];
    let addressed = world.produce(&queue, vec![at("here")]).await[0];
    world.env.advance(Duration::from_secs(10));
    let late = world.env.wall();
    let mail = world.produce(&queue, vec![NewItem { kind: "mail".into(), ..item("x") }]).await[0];

    let of_other = LeaseItems { client_id: "other".into(), ..lease(10) };
    let first = engine.lease(&queue, of_other, Span::ZERO).await.expect("leased").accept();
    assert_eq!(set(first.iter().map(|granted| granted.leased.id)), set([of_cron, addressed, mail]));
    let three = set([of_cron, addressed, mail]);
    assert_eq!(found(world, &queue, by_client("other")).await, three);
    engine.release(&queue, held(&first)).await.expect("judged");
    world.env.advance(Duration::from_secs(10));
    let second = world.lease(&queue, 10).await;
    assert_eq!(found(world, &queue, by_client("other")).await, set([]), "the latest lease counts");
    assert_eq!(found(world, &queue, by_client("worker")).await, three);
    let dead = |granted| {
        let error = Some(ItemError { code: Some("smtp".into()), message: "no".into() });
        RetryItem { dead: true, error, ..retry_item(granted) }
    };
    let of_mail: Vec<_> = second.iter().filter(|granted| granted.leased.id == mail).map(dead).collect();
    engine.retry(&queue, of_mail).await.expect("judged");
    let ended = world.env.wall();

    for _ in ["before", "after a restart"] {
        let between = |from, until| Between { from, until };
        let created = |from, until| Find { created: between(from, until), ..Find::default() };
        let changed = |from, until| Find { changed: between(from, until), ..Find::default() };
        let expected = [
            (Find::default(), vec![of_cron, member, addressed, mail]),
            (Find { kinds: Some(BTreeSet::from(["mail".into()])), ..Find::default() }, vec![mail]),
            (Find { group: Some("g".into()), ..Find::default() }, vec![member]),
            (Find { group: Some("h".into()), ..Find::default() }, vec![]),
            (Find { address: Some("here".into()), ..Find::default() }, vec![addressed]),
            (Find { cron: Some("tick".into()), ..Find::default() }, vec![of_cron]),
            (Find { error_code: Some("smtp".into()), ..Find::default() }, vec![mail]),
            (Find { error_code: Some("smt".into()), ..Find::default() }, vec![]),
            (by_client("worker"), vec![of_cron, addressed, mail]),
            (created(Some(early), None), vec![member, addressed, mail]),
            (created(Some(early), Some(late)), vec![member, addressed]),
            (created(None, Some(early)), vec![of_cron]),
            (changed(Some(ended), None), vec![of_cron, addressed, mail]),
            (changed(None, Some(ended)), vec![member]),
            (in_phases([Phase::Held, Phase::Failed]), vec![member, mail]),
            (in_phases([]), vec![]),
            (Find { group: Some("g".into()), ..in_phases([Phase::Failed]) }, vec![]),
        ];
        for (find, ids) in expected {
            assert_eq!(found(world, &queue, find.clone()).await, set(ids), "{find:?}");
        }
        world.restart().await;
    }
}

async fn a_filter_on_states_looks_only_at_items_of_these_states(world: &World) {
    let queue = world.queue("q", 2, Settings { keep: Keep::All, ..Settings::default() }).await;
    let failed = fail(world, &queue, Some("a"), "no").await;
    world.produce(&queue, items(100)).await;
    world.produce(&queue, items(100)).await;
    let leased = world.lease(&queue, 4).await;
    let of = |at: usize| leased[at].leased.id;
    world.engine().cancel(of(0)).await.expect("asked");
    world.engine().release(&queue, held(&leased[..1])).await.expect("judged");
    let done = completion_with(leased[1].held(), "done");
    world.engine().complete(&queue, vec![done]).await.expect("judged");
    let suspend = SuspendItem { held: leased[2].held(), reason: None };
    world.engine().suspend(&queue, vec![suspend]).await.expect("judged");
    for _ in ["before", "after a restart"] {
        let expected = [
            (vec![Phase::Failed], vec![failed]),
            (vec![Phase::Cancelled], vec![of(0)]),
            (vec![Phase::Completed], vec![of(1)]),
            (vec![Phase::Suspended], vec![of(2)]),
            (vec![Phase::Leased], vec![of(3)]),
            (vec![Phase::Expired], vec![]),
            (vec![Phase::Failed, Phase::Suspended, Phase::Leased], vec![failed, of(2), of(3)]),
        ];
        for (phases, ids) in expected {
            let wanted = search(in_phases(phases.clone()), 1000);
            let count = ids.len();
            assert_eq!(scanned(world, &queue, &wanted).await, (set(ids), count), "{phases:?}");
        }
        let walked = scanned(world, &queue, &search(in_phases([Phase::Waiting]), 1000)).await;
        assert_eq!((walked.0.len(), walked.1), (196, 201), "waiting items are walked");
        world.restart().await;
    }
}

async fn members_and_items_of_an_address_are_found_without_a_look_at_others(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.engine().create_group(&queue, group("g")).await.expect("a group is made");
    let member = || NewItem { group: Some("g".into()), ..item("m") };
    let members = world.produce(&queue, vec![member(), member(), member()]).await;
    world.produce(&queue, items(50)).await;
    let addressed = world.produce(&queue, vec![at("here"), at("there")]).await;
    for _ in ["before", "after a restart"] {
        let in_group = search(Find { group: Some("g".into()), ..Find::default() }, 1000);
        assert_eq!(scanned(world, &queue, &in_group).await, (set(members.clone()), 3));
        let here = search(Find { address: Some("here".into()), ..Find::default() }, 1000);
        assert_eq!(scanned(world, &queue, &here).await, (set([addressed[0]]), 1));
        world.restart().await;
    }
}

fn with_facts(facts: &str) -> NewItem {
    NewItem { facts: Some(Bytes::copy_from_slice(facts.as_bytes())), ..item("x") }
}

fn indexing(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

async fn an_indexed_header_is_answered_from_the_index_after_a_restart_and_a_rebalance(world: &World) {
    let settings = Settings { indexed_headers: indexing(&["tenant"]), ..Settings::default() };
    let queue = world.queue("q", 2, settings).await;
    let mut wanted = BTreeSet::new();
    for _ in 0..4 {
        world.produce(&queue, vec![with_facts("tenant=b,trace=x"), item("none")]).await;
        wanted.extend(world.produce(&queue, vec![with_facts("trace=x,tenant=a")]).await);
    }
    let tenant = with_header("tenant", "a");
    assert_eq!(scanned(world, &queue, &tenant).await, (wanted.clone(), 4));
    world.restart().await;
    assert_eq!(scanned(world, &queue, &tenant).await, (wanted.clone(), 4));
    for partitions in [4, 1] {
        rebalance(world, &queue, partitions).await;
        for _ in 0..4 {
            wanted.extend(world.produce(&queue, vec![with_facts("tenant=a")]).await);
        }
        world.restart().await;
        assert_eq!(scanned(world, &queue, &tenant).await, (wanted.clone(), wanted.len()));
    }
    let (of_trace, looked) = scanned(world, &queue, &with_header("trace", "x")).await;
    assert_eq!((of_trace.len(), looked), (8, 20), "this one is not indexed");
}

async fn a_change_of_the_indexed_headers_counts_for_later_items_and_updated_ones(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let old = world.produce(&queue, vec![with_facts("tenant=a"), with_facts("tenant=b"), item("x")]).await;
    let index = async |names: &[&str]| {
        let indexed_headers = Some(indexing(names));
        let change = SettingsChange { indexed_headers, ..SettingsChange::default() };
        world.engine().update_queue(UpdateQueue::new(queue.clone(), change)).await.expect("updated");
    };
    index(&["tenant"]).await;
    let new = world.produce(&queue, vec![with_facts("tenant=a"), with_facts("tenant=b")]).await;
    let (of_a, of_b) = (with_header("tenant", "a"), with_header("tenant", "b"));
    for _ in ["before", "after a restart"] {
        assert_eq!(scanned(world, &queue, &of_a).await, (set([old[0], new[0]]), 4), "older ones are scanned");
        world.restart().await;
    }
    let rewrite = |_, _| Ok((Bytes::from_static(b"x"), Some(Bytes::from_static(b"tenant=b"))));
    let update = UpdateItem::new(new[0].number);
    world.engine().update(new[0], update, Some(Box::new(rewrite))).await.expect("updated");
    assert_eq!(scanned(world, &queue, &of_a).await, (set([old[0]]), 3));
    assert_eq!(scanned(world, &queue, &of_b).await, (set([old[1], new[0], new[1]]), 5));
    index(&[]).await;
    assert_eq!(scanned(world, &queue, &of_b).await, (set([old[1], new[0], new[1]]), 5));
}

async fn items_on_their_way_are_found_as_they_ended(world: &World) {
    let queue = world.queue("q", 2, to_dead()).await;
    world.produce(&queue, items(5)).await;
    let failed = set(fail_all(world, &queue).await.iter().map(|item| item.leased.id));
    let none_yet = in_phases([Phase::Failed]);
    for _ in ["before", "after a restart"] {
        assert_eq!(world.stats(&queue).await.moving, 5, "the dead queue is not there yet");
        assert_eq!(scanned(world, &queue, &search(none_yet.clone(), 10)).await, (failed.clone(), 5));
        world.restart().await;
    }
    let dead = world.queue("dead", 1, Settings::default()).await;
    all_moved(world, &queue).await;
    let shown = all(world, &queue, &search(none_yet, 10)).await;
    assert_eq!(set(ids(&shown)), failed);
    assert!(shown.iter().all(|view| view.item.extras.as_ref().is_some_and(|some| some.moved_to.is_some())));
    assert_eq!(found(world, &dead, Find::default()).await.len(), 5);
}

async fn a_call_looks_at_no_more_than_10_000_items(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    for _ in 0..11 {
        world.produce(&queue, items(1000)).await;
    }
    let none = Find { cron: Some("none".into()), ..Find::default() };
    let first = page(world, &queue, &search(none.clone(), 10), None).await;
    assert_eq!((first.items.len(), first.scanned), (0, 10_000));
    let walk: Walk = first.walk.expect("the end was not reached");
    world.restart().await;
    let rest = page(world, &queue, &search(none, 10), Some(&walk)).await;
    assert_eq!((rest.items.len(), rest.scanned, rest.walk), (0, 1000, None));
}

async fn a_page_ends_before_its_bodies_come_to_more_than_16_mib(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let payload = "x".repeat(400_000);
    let mut made = Vec::new();
    for _ in 0..45 {
        made.extend(world.produce(&queue, vec![item(&payload)]).await);
    }
    let wanted = Search { payloads: true, order: FindOrder::Oldest, ..search(Find::default(), 100) };
    let first = page(world, &queue, &wanted, None).await;
    assert_eq!(ids(&first.items), made[..41]);
    let rest = page(world, &queue, &wanted, first.walk.as_ref()).await;
    assert_eq!((ids(&rest.items).as_slice(), rest.walk), (&made[41..], None));
    assert_eq!(page(world, &queue, &Search { payloads: false, ..wanted }, None).await.items.len(), 45);
}

async fn payloads_and_results_are_shown_only_if_asked_for(world: &World) {
    let settings = Settings { retain_payload: RetainPayload::All, ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    fail(world, &queue, Some("a"), "no").await;
    world.produce(&queue, vec![with_facts("facts")]).await;
    let leased = world.lease(&queue, 1).await;
    let done = completion_with(leased[0].held(), "done");
    world.engine().complete(&queue, vec![done]).await.expect("judged");
    for payloads in [false, true] {
        let wanted = Search { payloads, order: FindOrder::Oldest, ..search(Find::default(), 10) };
        let page = page(world, &queue, &wanted, None).await;
        let [failed, completed] = &page.items[..] else { panic!("{page:?}") };
        assert_eq!((failed.payload.is_some(), completed.payload.is_some()), (payloads, payloads));
        assert_eq!(completed.result.is_some(), payloads);
        assert_eq!(completed.facts.as_deref(), Some(&b"facts"[..]));
        let error = failed.item.extras.as_ref().and_then(|extras| extras.error.as_ref());
        assert_eq!(error.map(|error| &*error.message), Some("no"));
    }
}

async fn all_queues_are_searched_for_suspended_and_expired_items(world: &World) {
    let (mut suspended, mut expired) = (Vec::new(), Vec::new());
    for name in ["a", "b", "c"] {
        let queue = world.queue(name, 2, Settings::default()).await;
        world.produce(&queue, items(1)).await;
        let held = world.lease(&queue, 1).await[0].held();
        suspended.push(held.id);
        let suspend = SuspendItem { held, reason: None };
        world.engine().suspend(&queue, vec![suspend]).await.expect("judged");
        let dying = NewItem { dead_timeout: Some(Span::from_secs(30)), ..item("x") };
        expired.extend(world.produce(&queue, vec![dying]).await);
        world.produce(&queue, items(3)).await;
        world.env.advance(Duration::from_secs(1));
    }
    world.env.advance(Duration::from_secs(60));
    suspended.reverse();
    expired.reverse();
    let engine = world.engine();
    let in_all = async |phases: Vec<Phase>| {
        let page = engine.find_in_all_queues(&search(in_phases(phases), 10)).await.expect("found");
        assert_eq!(page.walk, None);
        ids(&page.items)
    };
    while in_all(vec![Phase::Expired]).await.len() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(in_all(vec![Phase::Expired]).await, expired);
    assert_eq!(in_all(vec![Phase::Suspended]).await, suspended);
    assert_eq!(
        set(in_all(vec![Phase::Suspended, Phase::Expired]).await),
        set(suspended.into_iter().chain(expired))
    );
}

async fn error_codes_count_the_items_that_are_still_kept(world: &World) {
    let queue =
        world.queue("q", 2, Settings { retention: Span::from_secs(100), ..Settings::default() }).await;
    let told = async || -> Vec<(String, u64)> {
        let errors = world.engine().errors(&queue, 50).await.expect("counted");
        errors.iter().map(|error| (error.code.to_string(), error.count)).collect()
    };
    let as_told = |expected: &[(&str, u64)]| -> Vec<(String, u64)> {
        expected.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect()
    };
    let gone = fail(world, &queue, Some("a"), "no").await;
    for code in [Some("b"), Some("a"), Some("none"), None, Some("a")] {
        fail(world, &queue, code, "no").await;
    }
    let all = as_told(&[("a", 3), ("", 1), ("b", 1), ("none", 1)]);
    assert_eq!(told().await, all, "a worker's own `none` is not the lack of a code");
    world.restart().await;
    assert_eq!(told().await, all);
    let oldest = search(Find { error_code: Some("a".into()), ..Find::default() }, 1);
    let oldest = Search { order: FindOrder::Oldest, ..oldest };
    let deleted = world.engine().change_items(&queue, &oldest, None, Action::Delete, false).await;
    assert_eq!(deleted.expect("deleted").results[0].0, gone);
    assert_eq!(told().await, as_told(&[("a", 2), ("", 1), ("b", 1), ("none", 1)]));
    world.env.advance(Duration::from_secs(200));
    while !told().await.is_empty() {
        tokio::task::yield_now().await;
    }
}

async fn beyond_a_thousand_error_codes_the_rest_is_other(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let mut number = 0;
    for _ in 0..2 {
        world.produce(&queue, items(510)).await;
        let leased = world.lease(&queue, 1000).await;
        let dead = |granted| {
            number += 1;
            let error =
                Some(ItemError { code: Some(format!("code {number:04}").into()), message: "no".into() });
            RetryItem { dead: true, error, ..retry_item(granted) }
        };
        world.engine().retry(&queue, leased.iter().map(dead).collect()).await.expect("judged");
    }
    fail(world, &queue, Some("often"), "no").await;
    fail(world, &queue, Some("often"), "no").await;
    for _ in ["before", "after a restart"] {
        let errors = world.engine().errors(&queue, 50).await.expect("counted");
        let told: Vec<_> = errors.iter().map(|error| (&*error.code, error.count)).collect();
        assert_eq!(told[..3], [("other", 21), ("often", 2), ("code 0001", 1)]);
        assert_eq!(told.len(), 50);
        world.restart().await;
    }
}
