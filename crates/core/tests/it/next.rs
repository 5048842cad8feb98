//! One turn of a worker: it settles and leases in one verb, and as the verbs would one after the other.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;
use windlass_core::footprint::Footprint;
use windlass_core::id::ItemNumber;
use windlass_core::item::{LeaseEnd, Phase, State};
use windlass_core::limits::Invalid;
use windlass_core::news::News;
use windlass_core::partition::Partition;
use windlass_core::refusal::{Each, Refusal};
use windlass_core::row::Row;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verb::Verb;
use windlass_core::verbs::{
    Complete, Completion, CreateGroup, Extend, ExtendItem, Filter, Held, LeaseItems, LeaseOthers, Leased,
    NewEnd, Next, NextDone, Release, Retried, Retry, RetryItem, Settle, Settled, Suspend, SuspendItem,
};

use crate::history::{History, settings, steps};
use crate::script::{
    START, Script, again, assert_same, at_once, error, item, items, kinds, open_group, rebuilt, stranger,
};

fn complete(held: Held) -> Settle {
    Settle::Complete(Completion { held, result: None })
}

fn suspend(held: Held) -> Settle {
    Settle::Suspend(SuspendItem { held, reason: None })
}

fn extend(held: Held) -> Settle {
    Settle::Extend(ExtendItem { held, lease_timeout: None })
}

fn lease_of(batch_size: usize, filter: Filter) -> LeaseItems {
    LeaseItems { client_id: "worker".into(), batch_size, lease_timeout: None, filter }
}

fn turn(script: &mut Script, items: Vec<Settle>, batch_size: usize) -> NextDone {
    script.apply(Next { items, lease: Some(lease_of(batch_size, Filter::ANY)) }).expect("a sound turn")
}

fn numbers(leased: &[Leased]) -> Vec<ItemNumber> {
    leased.iter().map(|leased| leased.id.number).collect()
}

fn helds(leased: &[Leased]) -> Vec<Held> {
    leased.iter().map(Leased::held).collect()
}

#[test]
fn a_turn_settles_by_every_verb_and_leases_what_comes_next() {
    let mut script = Script::new();
    let made = script.produce(items(7));
    let held = helds(&script.lease(5));
    let own_timeout = ExtendItem { held: held[4], lease_timeout: Some(Span::from_secs(9)) };
    let settles = vec![
        complete(held[0]),
        Settle::Retry(RetryItem { error: Some(error("broken")), ..again(held[1]) }),
        Settle::Release(held[2]),
        suspend(held[3]),
        Settle::Extend(own_timeout),
    ];
    let NextDone { settled, leased } = turn(&mut script, settles, 10);
    assert_eq!(settled[0], Ok(Settled::Completed));
    assert!(matches!(settled[1], Ok(Settled::Retried(Retried::Again { due_at })) if due_at > script.now));
    assert_eq!(settled[2], Ok(Settled::Released));
    assert_eq!(settled[3], Ok(Settled::Suspended));
    assert!(
        matches!(&settled[4], Ok(Settled::Extended(extended)) if extended.deadline == script.now + Span::from_secs(9))
    );
    assert_eq!(numbers(&leased), made[5..]);
    let phases: Vec<_> = made.iter().map(|number| script.phase(*number)).collect();
    let expected =
        [Phase::Scheduled, Phase::Waiting, Phase::Suspended, Phase::Leased, Phase::Leased, Phase::Leased];
    assert_eq!(phases[0], None, "completed, and nothing to show");
    assert_eq!(phases[1..], expected.map(Some));
}

#[test]
fn a_turn_does_not_lease_what_it_gave_back_and_the_next_one_does() {
    let mut script = Script::new();
    let made = script.produce(items(3));
    let held = helds(&script.lease(2));
    let back = vec![Settle::Release(held[0]), Settle::Retry(at_once(held[1]))];
    let done = turn(&mut script, back, 10);
    assert_eq!(numbers(&done.leased), made[2..], "those given back stand first");
    assert_eq!(script.order(), made[..2]);
}

#[test]
fn a_lease_after_the_turn_passes_over_what_the_turn_gave_back() {
    let mut script = Script::new();
    let made = script.produce(items(3));
    let held = script.lease_one();
    script.apply(Next { items: vec![Settle::Release(held)], lease: None }).unwrap();
    let others = |given_back| LeaseOthers { lease: lease_of(1, kinds(&["default"])), given_back };
    assert_eq!(numbers(&script.apply(others(vec![made[0]])).unwrap()), made[1..2]);
    assert_eq!(numbers(&script.apply(others(vec![])).unwrap()), made[..1]);
}

#[test]
fn what_is_given_back_is_there_for_others_that_wait() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    turn(&mut script, vec![Settle::Release(held)], 1);
    assert_eq!(script.news, [News::Available]);
    assert_eq!(script.partition.take_moved_kinds(), ["default".into()]);
}

#[test]
fn a_stale_permit_is_refused_by_itself_and_its_item_may_be_leased() {
    let mut script = Script::new();
    let made = script.produce(items(2));
    let (stale, held) = (script.lease_one(), script.lease_one());
    script.release(stale).unwrap();
    let done = turn(&mut script, vec![complete(held), Settle::Release(stale)], 5);
    let lost = Refusal::LeaseLost { reason: Some(LeaseEnd::Released) };
    assert_eq!(done.settled, [Ok(Settled::Completed), Err(lost)]);
    assert_eq!(numbers(&done.leased), made[..1]);
}

#[test]
fn the_end_item_of_a_group_is_leased_by_the_turn_that_completes_its_last_member() {
    let mut script = Script::new();
    let end = NewEnd { queue: None, item: item("end") };
    let group = CreateGroup { end: Some(end), items: items(1), start: true, ..open_group("g") };
    script.apply(group).unwrap();
    let member = script.lease_one();
    let done = turn(&mut script, vec![complete(member)], 5);
    assert_eq!(done.leased.iter().map(|leased| &*leased.kind).collect::<Vec<_>>(), ["end"]);
}

#[test]
fn items_are_settled_in_the_order_of_verbs_and_answered_in_the_order_given() {
    let mut script = Script::new();
    let group = |name| CreateGroup {
        end: Some(NewEnd { queue: None, item: item(name) }),
        items: items(1),
        start: true,
        ..open_group(name)
    };
    script.apply(group("first")).unwrap();
    script.apply(group("second")).unwrap();
    let held = helds(&script.lease(2));
    let dead = RetryItem { dead: true, ..again(held[0]) };
    let done = turn(&mut script, vec![Settle::Retry(dead), complete(held[1])], 5);
    assert_eq!(done.settled, [Ok(Settled::Retried(Retried::Ended(Phase::Failed))), Ok(Settled::Completed)]);
    // The completion came first, so the end item of its group stands first.
    assert_eq!(done.leased.iter().map(|leased| &*leased.kind).collect::<Vec<_>>(), ["second", "first"]);
}

#[test]
fn a_malformed_turn_changes_nothing() {
    let mut script = Script::new();
    script.produce(items(2));
    let held = helds(&script.lease(2));
    let wrong = |script: &mut Script, items: Vec<Settle>, lease: Option<LeaseItems>, field: &str| {
        let refused = script.apply(Next { items, lease }).unwrap_err();
        assert!(
            matches!(refused, Refusal::Invalid(Invalid { field: named, .. }) if named == field),
            "{refused:?}"
        );
        assert_eq!(script.changes, []);
    };
    wrong(&mut script, vec![], None, "items");
    wrong(&mut script, vec![complete(held[0]), Settle::Release(held[0])], None, "items");
    wrong(&mut script, vec![complete(held[0]), extend(stranger(held[0]))], None, "items");
    let many = (0..1001).map(|number| {
        let mut held = held[0];
        held.id.number = ItemNumber(number);
        complete(held)
    });
    wrong(&mut script, many.collect(), None, "items");
    let timeout = ExtendItem { held: held[1], lease_timeout: Some(Span::ZERO) };
    wrong(&mut script, vec![complete(held[0]), Settle::Extend(timeout)], None, "lease_timeout");
    wrong(&mut script, vec![complete(held[0])], Some(lease_of(0, Filter::ANY)), "batch_size");
    let long = SuspendItem { held: held[1], reason: Some("x".repeat(513).into()) };
    wrong(&mut script, vec![complete(held[0]), Settle::Suspend(long)], None, "reason");
    let twice = RetryItem { delay: Some(Span::ZERO), ..at_once(held[1]) };
    wrong(&mut script, vec![complete(held[0]), Settle::Retry(twice)], None, "delay");
}

#[test]
fn only_a_turn_that_ends_all_it_names_and_leases_nothing_frees_room() {
    let mut script = Script::new();
    script.produce(items(2));
    let held = helds(&script.lease(2));
    let footprint = |items, lease| Next { items, lease }.footprint(&script.partition, script.now);
    let dead = || Settle::Retry(RetryItem { dead: true, ..again(held[1]) });
    assert_eq!(footprint(vec![complete(held[0]), dead()], None), Footprint::Frees);
    assert_eq!(footprint(vec![complete(held[0])], Some(lease_of(1, Filter::ANY))), Footprint::Rewrites);
    assert_eq!(footprint(vec![complete(held[0]), Settle::Retry(again(held[1]))], None), Footprint::Rewrites);
    assert_eq!(footprint(vec![complete(held[0]), extend(held[1])], None), Footprint::Rewrites);
}

/// One item of a turn to be: a permit counted back from the latest, a verb, and how the verb varies.
type Named = (usize, u8, u8);

fn settle_of(held: Held, verb: u8, how: u8, now: Timestamp) -> Settle {
    match verb {
        0 => {
            let result = how.is_multiple_of(2).then(|| Bytes::from_static(b"a result"));
            Settle::Complete(Completion { held, result })
        }
        1 => {
            let retry_at = (!how.is_multiple_of(3)).then(|| now + Span::from_secs(u64::from(how % 3) - 1));
            let error = how.is_multiple_of(2).then(|| error("it did not work"));
            Settle::Retry(RetryItem { retry_at, dead: how.is_multiple_of(5), error, ..again(held) })
        }
        2 => Settle::Release(held),
        3 => suspend(held),
        _ => {
            let lease_timeout = how.is_multiple_of(2).then(|| Span::from_secs(u64::from(how) + 1));
            Settle::Extend(ExtendItem { held, lease_timeout })
        }
    }
}

/// The items that are named, each once.
fn named_once(permits: &[Held], named: &[Named], now: Timestamp) -> Vec<Settle> {
    let mut seen = BTreeSet::new();
    let picked = named.iter().filter_map(|(back, verb, how)| {
        let at = permits.len().checked_sub(1 + back % permits.len().max(1))?;
        seen.insert(permits[at].id).then(|| settle_of(permits[at], *verb, *how, now))
    });
    picked.collect()
}

type Judged = Vec<(usize, Result<Settled, Refusal>)>;

/// Carries out, by one verb, the items that `of` picks.
fn by_one_verb<I, T, V: Verb<Reply = Each<T>>>(
    partition: &mut Partition,
    now: Timestamp,
    items: &[Settle],
    of: impl Fn(&Settle) -> Option<I>,
    verb: impl Fn(Vec<I>) -> V,
    settled: impl Fn(T) -> Settled,
) -> Judged {
    let picked = items.iter().enumerate().filter_map(|(index, item)| Some((index, of(item)?)));
    let (indexes, picked): (Vec<usize>, Vec<I>) = picked.unzip();
    if picked.is_empty() {
        return Vec::new();
    }
    let each = partition.apply(now, verb(picked)).reply.expect("each item is judged by itself");
    indexes.into_iter().zip(each.into_iter().map(|result| result.map(&settled))).collect()
}

/// Carries the items out by the verbs that `Next` stands for, one verb after the other.
fn by_verbs(partition: &mut Partition, now: Timestamp, items: &[Settle]) -> Each<Settled> {
    let completion = |item: &Settle| if let Settle::Complete(it) = item { Some(it.clone()) } else { None };
    let retry = |item: &Settle| if let Settle::Retry(it) = item { Some(it.clone()) } else { None };
    let release = |item: &Settle| if let Settle::Release(it) = item { Some(*it) } else { None };
    let suspend = |item: &Settle| if let Settle::Suspend(it) = item { Some(it.clone()) } else { None };
    let mut done = by_one_verb(partition, now, items, completion, Complete, |()| Settled::Completed);
    done.extend(by_one_verb(partition, now, items, retry, Retry, Settled::Retried));
    done.extend(by_one_verb(partition, now, items, release, Release, |()| Settled::Released));
    done.extend(by_one_verb(partition, now, items, suspend, Suspend, |()| Settled::Suspended));
    for (index, item) in items.iter().enumerate() {
        let Settle::Extend(ExtendItem { held, lease_timeout }) = *item else { continue };
        let mut extended = partition.apply(now, Extend { lease_timeout, items: vec![held] }).reply.unwrap();
        done.push((index, extended.remove(0).map(Settled::Extended)));
    }
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Leases while the waiting items among `given_back` are not there at all.
fn lease_without(
    partition: &mut Partition,
    now: Timestamp,
    lease: LeaseItems,
    given_back: &BTreeSet<ItemNumber>,
) -> Vec<Leased> {
    let is_aside = |row: &Row| matches!(row, Row::Item(item) if given_back.contains(&item.number) && matches!(item.state, State::Waiting { .. }));
    let aside: Vec<Row> = partition.rows().filter(is_aside).collect();
    aside.iter().for_each(|row| partition.remove(&row.key()));
    let leased = partition.apply(now, lease).reply.unwrap();
    aside.into_iter().for_each(|row| partition.put(row));
    leased
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_turn_is_the_verbs_it_stands_for_one_after_the_other(
        settings in settings(), steps in steps(80), named in prop::collection::vec((0..8usize, 0..5u8, 0..20u8), 1..8),
        lease in prop::option::of((1..5usize, 0..3u8)),
    ) {
        let mut history = History::new(settings);
        steps.iter().for_each(|step| history.step(step));
        let now = history.now;
        let items = named_once(history.permits(), &named, now);
        prop_assume!(!items.is_empty());
        let lease = lease.map(|(batch_size, max_priority)| lease_of(batch_size, Filter::new(None, max_priority)));
        let mut at_once = rebuilt(&history.partition, START);
        let mut singly = rebuilt(&history.partition, START);

        let verb = Next { items: items.clone(), lease: lease.clone() };
        let done = at_once.apply(now, verb).reply.unwrap();
        at_once.audit().unwrap();

        let settled = by_verbs(&mut singly, now, &items);
        let is_back = |result: &Result<Settled, Refusal>| result.as_ref().is_ok_and(|settled| settled.is_given_back());
        let back = items.iter().zip(&settled).filter(|(_, result)| is_back(result));
        let back: BTreeSet<ItemNumber> = back.map(|(item, _)| item.held().id.number).collect();
        let leased = lease.map(|lease| lease_without(&mut singly, now, lease, &back)).unwrap_or_default();
        prop_assert_eq!(&done.settled, &settled);
        prop_assert_eq!(&done.leased, &leased);
        prop_assert!(leased.iter().all(|leased| !back.contains(&leased.id.number)));
        assert_same(&at_once, &singly);
    }
}
