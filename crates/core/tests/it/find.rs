//! Items found by what they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::effort::{Looked, looks};
use windlass_core::group::Member;
use windlass_core::id::ItemNumber;
use windlass_core::item::Phase;
use windlass_core::partition::{Between, Find, FindOrder, FindSlice, Found};
use windlass_core::settings::{Keep, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::{
    CancelGroup, Clear, CreateGroup, DeleteGroup, NewEnd, NewItem, Rerun, StartGroup,
};

use crate::script::{
    RetryItem, START, Script, again, assert_same, error, item, items, member, open_group, rebuilt,
};

const ALL: Clear = Clear { waiting: true, scheduled: true, leased: true, suspended: true };

fn slice(script: &Script, find: &Find, order: FindOrder) -> FindSlice {
    FindSlice {
        find: Arc::new(find.clone()),
        order,
        after: None,
        until: script.partition.find_until(),
        matches_max: usize::MAX,
        looks_max: usize::MAX,
    }
}

fn numbers(found: &Found) -> Vec<ItemNumber> {
    found.items.iter().map(|found| found.item.number).collect()
}

fn find(script: &Script, find: &Find) -> Vec<ItemNumber> {
    numbers(&script.partition.find(&slice(script, find, FindOrder::Oldest)))
}

/// What is found, and how many items were looked at.
fn find_counted(script: &Script, find: &Find) -> (Vec<ItemNumber>, u64) {
    let before = looks(Looked::Items);
    let found = script.partition.find(&slice(script, find, FindOrder::Newest));
    let looked = looks(Looked::Items) - before;
    assert_eq!(found.looked as u64, looked);
    (numbers(&found), looked)
}

fn in_phases(phases: &[Phase]) -> Find {
    Find { phases: Some(phases.iter().copied().collect()), ..Find::default() }
}

fn of_kinds(kinds: &[&str]) -> Find {
    let kinds = kinds.iter().map(|kind| Arc::from(*kind)).collect();
    Find { kinds: Some(kinds), ..Find::default() }
}

fn in_group(group: &str) -> Find {
    Find { group: Some(group.into()), ..Find::default() }
}

fn at_address(address: &str) -> NewItem {
    NewItem { address: Some(address.into()), ..item("default") }
}

fn fail_one(script: &mut Script, code: Option<&str>) -> ItemNumber {
    let held = script.lease_one();
    let error = code.map(|code| windlass_core::item::ItemError { code: Some(code.into()), ..error("no") });
    script.retry(RetryItem { dead: true, error, ..again(held) }).unwrap();
    held.id.number
}

#[test]
fn a_find_without_filters_shows_every_item_in_the_order_of_production() {
    let mut script = Script::new();
    let mut made = script.produce(items(3));
    script.pass(Span::from_secs(1));
    made.extend(script.produce([NewItem { priority: 0, ..item("other") }]));
    fail_one(&mut script, None);
    assert_eq!(find(&script, &Find::default()), made);
    let newest = script.partition.find(&slice(&script, &Find::default(), FindOrder::Newest));
    made.reverse();
    assert_eq!(numbers(&newest), made);
    assert_eq!((newest.looked, newest.after), (4, None));
}

#[test]
fn pages_follow_one_another_and_the_last_one_says_so() {
    let mut script = Script::new();
    let made = script.produce(items(5));
    for order in [FindOrder::Newest, FindOrder::Oldest] {
        let mut slice = FindSlice { matches_max: 2, ..slice(&script, &Find::default(), order) };
        let (mut seen, mut pages) = (Vec::new(), 0);
        loop {
            let found = script.partition.find(&slice);
            seen.extend(numbers(&found));
            pages += 1;
            slice.after = found.after;
            if found.after.is_none() {
                break;
            }
        }
        seen.sort_unstable();
        assert_eq!((pages, &seen), (3, &made), "{order:?}");
    }
}

#[test]
fn a_page_that_ends_with_the_last_match_says_that_it_is_the_last() {
    let mut script = Script::new();
    script.produce(items(4));
    let slice = FindSlice { matches_max: 4, ..slice(&script, &Find::default(), FindOrder::Newest) };
    assert_eq!(script.partition.find(&slice).after, None);
}

#[test]
fn a_slice_looks_at_no_more_items_than_it_may() {
    let mut script = Script::new();
    let made = script.produce(items(10));
    let find = of_kinds(&["other", "default"]);
    let none = Find { error_code: Some("none".into()), ..find.clone() };
    let slice = FindSlice { looks_max: 3, ..slice(&script, &none, FindOrder::Oldest) };
    let found = script.partition.find(&slice);
    assert_eq!((found.items.len(), found.looked, found.after), (0, 3, Some(made[2])));
    let found = script.partition.find(&FindSlice { after: Some(made[8]), ..slice });
    assert_eq!((found.looked, found.after), (1, None));
}

#[test]
fn a_walk_does_not_show_what_was_produced_after_it_began() {
    let mut script = Script::new();
    let made = script.produce(items(2));
    let walk = FindSlice { matches_max: 1, ..slice(&script, &Find::default(), FindOrder::Oldest) };
    let first = script.partition.find(&walk);
    script.produce(items(2));
    let second = script.partition.find(&FindSlice { after: first.after, matches_max: 10, ..walk });
    assert_eq!((numbers(&first), numbers(&second)), (vec![made[0]], vec![made[1]]));
    assert_eq!(second.after, None);
}

#[test]
fn each_filter_takes_what_it_says() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    let first = script.produce([at_address("here")])[0];
    let held = script.lease_one();
    script.complete(held, Some("done")).unwrap();
    script.pass(Span::from_secs(10));
    let second = script.produce([item("mail")])[0];
    fail_one(&mut script, Some("smtp"));
    script.pass(Span::from_secs(10));
    let third = script.produce([NewItem { delay: Some(Span::from_secs(60)), ..item("mail") }])[0];
    let at = |secs| START + Span::from_secs(secs);
    let created = |from, until| Find { created: Between { from, until }, ..Find::default() };
    let changed = |from, until| Find { changed: Between { from, until }, ..Find::default() };
    for (filter, expected) in [
        (in_phases(&[Phase::Completed]), vec![first]),
        (in_phases(&[Phase::Failed, Phase::Scheduled]), vec![second, third]),
        (in_phases(&[]), vec![]),
        (of_kinds(&["mail"]), vec![second, third]),
        (of_kinds(&["nothing"]), vec![]),
        (of_kinds(&[]), vec![]),
        (Find { address: Some("here".into()), ..Find::default() }, vec![first]),
        (Find { address: Some("there".into()), ..Find::default() }, vec![]),
        (Find { client_id: Some("worker".into()), ..Find::default() }, vec![first, second]),
        (Find { client_id: Some("nobody".into()), ..Find::default() }, vec![]),
        (Find { error_code: Some("smtp".into()), ..Find::default() }, vec![second]),
        (created(Some(at(10)), None), vec![second, third]),
        (created(None, Some(at(10))), vec![first]),
        (changed(Some(at(0)), Some(at(20))), vec![first, second]),
        (changed(Some(at(20)), Some(at(21))), vec![third]),
        (Find { kinds: of_kinds(&["mail"]).kinds, ..in_phases(&[Phase::Failed]) }, vec![second]),
    ] {
        assert_eq!(find(&script, &filter), expected, "{filter:?}");
    }
}

#[test]
fn a_find_tells_what_was_moved_from_what_was_not() {
    let mut script = Script::new();
    script.produce(items(2));
    let failed = [fail_one(&mut script, None), fail_one(&mut script, None)];
    let rerun = Rerun { number: failed[0], queue: "q".into(), delay: None };
    let anew = script.apply(rerun).unwrap().number;
    let moved = |moved| Find { moved: Some(moved), ..Find::default() };
    assert_eq!(find(&script, &moved(true)), [failed[0]]);
    assert_eq!(find(&script, &moved(false)), [failed[1], anew]);
}

#[test]
fn an_item_on_its_way_to_another_queue_is_found_as_it_ended() {
    let settings = Settings { dead_queue: Some("dead".into()), ..Settings::default() };
    let mut script = Script::with_settings(settings);
    script.produce(items(1));
    let failed = fail_one(&mut script, Some("broken"));
    assert_eq!(script.partition.moving(), 1);
    assert_eq!(find(&script, &in_phases(&[Phase::Failed])), [failed]);
}

#[test]
fn an_item_of_which_only_the_move_is_left_is_not_found() {
    let mut script = Script::new();
    let end = Some(NewEnd { queue: Some("other".into()), item: item("end") });
    script.apply(CreateGroup { end, items: vec![item("default")], start: true, ..open_group("g") }).unwrap();
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    assert_eq!(script.partition.moving(), 1);
    assert_eq!(find(&script, &Find::default()), []);
    assert_eq!(find_counted(&script, &in_group("g")), (vec![], 0));
}

#[test]
fn members_are_found_by_the_name_that_they_show() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    script.apply(open_group("g")).unwrap();
    let held = script.produce([member("g"), member("g")]);
    script.produce(items(50));
    assert_eq!(find(&script, &in_phases(&[Phase::Held])), held);
    assert_eq!(find_counted(&script, &in_group("g")), (vec![held[1], held[0]], 2));
    script.apply(StartGroup("g".into())).unwrap();
    script.apply(CancelGroup("g".into())).unwrap();
    script.apply(DeleteGroup("g".into())).unwrap();
    script.apply(open_group("g")).unwrap();
    let again = script.produce([member("g")])[0];
    assert_eq!(find(&script, &in_group("g")), [held[0], held[1], again], "all show this name");
    script.sweep();
    assert_eq!(find(&script, &in_group("g")), [held[0], held[1], again]);
    assert_eq!(find_counted(&script, &in_group("g")).1, 3);
    assert_eq!(find(&script, &in_group("h")), []);
    let found = script.partition.find(&slice(&script, &in_group("g"), FindOrder::Newest));
    assert_eq!(found.items[0].member, Some(Member { group: "g".into(), held: true }));
    assert_eq!(found.items[1].member, Some(Member { group: "g".into(), held: false }));
}

#[test]
fn a_slice_looks_at_few_of_the_deleted_groups_that_had_a_name() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    let mut members = Vec::new();
    for _ in 0..100 {
        script.apply(open_group("g")).unwrap();
        let made = script.produce([member("g"), item("default"), member("g")]);
        members.extend([made[0], made[2]]);
        script.apply(StartGroup("g".into())).unwrap();
        script.apply(CancelGroup("g".into())).unwrap();
        script.apply(DeleteGroup("g".into())).unwrap();
        script.sweep();
    }
    for order in [FindOrder::Newest, FindOrder::Oldest] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let before = looks(Looked::Indexed);
            let whole = slice(&script, &in_group("g"), order);
            let found = script.partition.find(&FindSlice { after, matches_max: 3, ..whole });
            assert!(looks(Looked::Indexed) - before <= 4, "{order:?} after {after:?}");
            seen.extend(numbers(&found));
            after = found.after;
            if after.is_none() {
                break;
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, members, "{order:?}");
    }
}

#[test]
fn what_was_cleared_and_is_kept_is_found_before_and_after_the_sweep() {
    let mut script = Script::new();
    let kept = script.produce([at_address("a"), item("default"), at_address("b"), at_address("c")]);
    let kept = [kept[0], kept[2], kept[3]];
    script.clear(ALL);
    let cancelled = in_phases(&[Phase::Cancelled]);
    let walk = FindSlice { matches_max: 1, ..slice(&script, &cancelled, FindOrder::Oldest) };
    let first = script.partition.find(&walk);
    script.sweep_some(2);
    assert_eq!(find(&script, &cancelled), kept);
    let second = script.partition.find(&FindSlice { after: first.after, ..walk.clone() });
    script.sweep();
    let third = script.partition.find(&FindSlice { after: second.after, ..walk });
    let seen: Vec<_> = [first, second, third].iter().flat_map(numbers).collect();
    assert_eq!(seen, kept);
    assert_eq!(find(&script, &Find::default()), kept, "nothing else is left");
}

#[test]
fn a_cleared_item_without_anything_to_show_is_not_found() {
    let mut script = Script::new();
    script.produce(items(3));
    script.clear(ALL);
    assert_eq!(find(&script, &Find::default()), []);
}

#[test]
fn a_filter_on_states_that_have_an_order_looks_only_at_items_of_those_states() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    script.produce(items(8));
    let failed = fail_one(&mut script, Some("broken"));
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    let held = script.lease_one();
    script.suspend(held, None).unwrap();
    let suspended = held.id.number;
    let leased = script.lease_one().id.number;
    let (_, cancelled) = (script.cancel(script.partition.find_until()), script.partition.find_until());
    for (phases, found) in [
        (vec![Phase::Failed], vec![failed]),
        (vec![Phase::Suspended], vec![suspended]),
        (vec![Phase::Leased], vec![leased]),
        (vec![Phase::Cancelled, Phase::Failed], vec![cancelled, failed]),
        (vec![Phase::Leased, Phase::Suspended, Phase::Failed], vec![leased, suspended, failed]),
        (vec![Phase::Expired], vec![]),
    ] {
        let looked = found.len() as u64;
        assert_eq!(find_counted(&script, &in_phases(&phases)), (found, looked), "{phases:?}");
    }
    assert_eq!(find_counted(&script, &in_phases(&[Phase::Waiting])).1, 8, "others are walked");
}

#[test]
fn a_filter_on_an_address_looks_only_at_its_items() {
    let mut script = Script::new();
    script.produce(items(20));
    let made = script.produce([at_address("here"), at_address("there")]);
    let filter = Find { address: Some("here".into()), ..Find::default() };
    assert_eq!(find_counted(&script, &filter), (vec![made[0]], 1));
}

#[test]
fn a_rebuilt_partition_finds_the_same() {
    let mut script = Script::new();
    script.apply(open_group("g")).unwrap();
    script.produce([member("g"), at_address("here"), item("default")]);
    fail_one(&mut script, Some("broken"));
    let copy = rebuilt(&script.partition, START);
    assert_same(&copy, &script.partition);
    let kinds = BTreeSet::from([Arc::from("default")]);
    let filters = [
        Find::default(),
        in_group("g"),
        in_phases(&[Phase::Failed]),
        Find { kinds: Some(kinds), ..Find::default() },
    ];
    for filter in filters {
        let slice = slice(&script, &filter, FindOrder::Newest);
        assert_eq!(copy.find(&slice), script.partition.find(&slice));
    }
}
