use windlass_core::group::Member;
use windlass_core::id::ItemNumber;
use windlass_core::item::{Phase, State};
use windlass_core::news::{Ended, News};
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CancelGroup, Clear, CreateGroup, Delete, NewItem};

use crate::script::{RetryItem, Script, at_once, error, item, items, open_group};

const ALL: Clear = Clear { waiting: true, scheduled: true, leased: true, suspended: false };

fn ended(script: &Script) -> Vec<(ItemNumber, Phase)> {
    told(script).iter().map(|ended| (ended.item.number, ended.item.state.phase())).collect()
}

fn told(script: &Script) -> Vec<Ended> {
    let ended = |news: &News| if let News::Ended(ended) = news { Some((**ended).clone()) } else { None };
    script.news.iter().filter_map(ended).collect()
}

#[test]
fn the_end_of_a_watched_item_is_told_once_although_nothing_of_it_is_kept() {
    let mut script = Script::new();
    let made = script.produce(items(2));
    assert!(script.partition.watch(made[0]).is_some());
    let held = [script.lease_one(), script.lease_one()];
    script.complete(held[0], None).unwrap();
    assert_eq!(script.phase(made[0]), None);
    assert_eq!(ended(&script), [(made[0], Phase::Completed)]);
    script.complete(held[1], None).unwrap();
    assert_eq!(script.news, []);
}

#[test]
fn an_end_is_told_with_its_result_and_its_time() {
    let mut script = Script::with_settings(Settings { retention_max_items: 0, ..Settings::default() });
    let number = script.produce_one();
    script.partition.watch(number);
    let held = script.lease_one();
    script.pass(Span::from_secs(1));
    script.complete(held, Some("done")).unwrap();
    let told = told(&script).remove(0);
    assert_eq!(told.result.as_deref(), Some(&b"done"[..]));
    let State::Final(outcome) = told.item.state else { panic!("it ended") };
    assert_eq!((outcome.finished_at, outcome.has_result), (script.now, true));
}

#[test]
fn every_way_to_end_is_told() {
    let mut script = Script::with_settings(Settings { max_attempts: 2, ..Settings::default() });
    let made = script.produce(items(6));
    made.iter().for_each(|number| drop(script.partition.watch(*number)));
    let held: Vec<_> = (0..4).map(|_| script.lease_one()).collect();
    script.cancel(made[5]).unwrap();
    assert_eq!(ended(&script), [(made[5], Phase::Cancelled)]);
    script.apply(Delete(vec![made[4]])).unwrap();
    assert_eq!(ended(&script), [(made[4], Phase::Cancelled)]);
    let dead = script.retry(RetryItem { dead: true, ..at_once(held[3]) });
    assert!(dead.is_ok());
    assert_eq!(ended(&script), [(made[3], Phase::Failed)]);
    script.retry(at_once(held[2])).unwrap();
    assert_eq!(ended(&script), []);
    script.complete(held[1], None).unwrap();
    assert_eq!(ended(&script), [(made[1], Phase::Completed)]);
    assert_eq!(script.clear(ALL), 2);
    assert_eq!(ended(&script), [(made[0], Phase::Cancelled), (made[2], Phase::Cancelled)]);
    script.sweep();
    assert_eq!(script.news, []);
}

#[test]
fn members_of_a_cancelled_group_are_told_at_once_and_leased_ones_when_they_end() {
    let mut script = Script::new();
    let later = NewItem { enqueue_at: Some(script.now + Span::from_secs(9)), ..item("default") };
    let kept = NewItem { address: Some("a".into()), ..item("default") };
    let items = vec![item("default"), item("default"), kept, later];
    let create = CreateGroup { items, start: true, ..open_group("g") };
    let made = script.apply(create).unwrap().items;
    let members: Vec<_> = made.iter().map(|made| made.number).collect();
    let other = script.produce_one();
    members.iter().chain([&other]).for_each(|number| drop(script.partition.watch(*number)));
    let leased = [script.lease_one(), script.lease_one()];
    script.apply(CancelGroup("g".into())).unwrap();
    assert_eq!(ended(&script), [(members[2], Phase::Cancelled), (members[3], Phase::Cancelled)]);
    let member = Member { group: "g".into(), held: false };
    assert!(told(&script).iter().all(|told| told.member.as_ref() == Some(&member)));
    assert_eq!(told(&script)[0].item, script.get(members[2]), "as it is kept");

    script.sweep();
    assert_eq!(ended(&script), []);
    script.release(leased[0]).unwrap();
    assert_eq!(ended(&script), [(members[0], Phase::Cancelled)]);
    script.complete(leased[1], None).unwrap();
    assert_eq!(ended(&script), [(members[1], Phase::Completed)]);
    assert_eq!(told(&script)[0].member.as_ref(), Some(&member));
    assert!(script.partition.watch(other).is_some(), "it lives");
}

#[test]
fn a_held_member_that_is_cancelled_by_itself_is_told() {
    let mut script = Script::new();
    let create = CreateGroup { items: items(1), ..open_group("g") };
    script.apply(create).unwrap();
    let number = script.produce([NewItem { group: Some("g".into()), ..item("default") }])[0];
    script.partition.watch(number);
    assert_eq!(script.cancel(number), Ok(Phase::Cancelled));
    let told = told(&script).remove(0);
    assert_eq!(told.item.state.phase(), Phase::Cancelled);
    assert_eq!(told.member, Some(Member { group: "g".into(), held: false }));
}

#[test]
fn a_cleared_item_with_an_error_is_told_as_it_is_kept() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.retry(RetryItem { error: Some(error("broken")), ..at_once(held) }).unwrap();
    script.lease_one();
    script.partition.watch(number);
    script.clear(ALL);
    assert_eq!(told(&script)[0].item, script.get(number));
}

#[test]
fn what_has_ended_or_is_not_watched_any_more_is_not_told() {
    let mut script = Script::new();
    let made = script.produce(items(2));
    script.partition.watch(made[0]);
    script.partition.unwatch(made[0]);
    script.cancel(made[0]).unwrap();
    assert_eq!(script.news, []);
    assert_eq!(script.partition.watch(made[0]), None);
}
