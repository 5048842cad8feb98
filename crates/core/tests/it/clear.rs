use windlass_core::id::ItemNumber;
use windlass_core::item::{LeaseEnd, Phase, State};
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Cleared, Numbers, Part, Row};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Clear, Filter, Held, NewItem};

use crate::script::{RetryItem, START, Script, again, at_once, error, item, items, kinds};

const WAITING: Clear = Clear { waiting: true, scheduled: false, leased: false, suspended: false };
const SCHEDULED: Clear = Clear { waiting: false, scheduled: true, leased: false, suspended: false };
const LEASED: Clear = Clear { waiting: false, scheduled: false, leased: true, suspended: false };
const ALL: Clear = Clear { waiting: true, scheduled: true, leased: true, suspended: false };

fn later() -> NewItem {
    NewItem { enqueue_at: Some(START + Span::from_secs(5)), ..item("later") }
}

#[test]
fn a_clear_is_one_row_whatever_the_backlog_and_counts_exactly() {
    let mut script = Script::new();
    script.produce(items(500));
    script.produce([item("other"), later()]);
    assert_eq!(script.clear(WAITING), 501);
    assert!(matches!(script.changes[..], [Change::Put(Row::Cleared(_))]), "{:?}", script.changes);
    assert_eq!(
        script.partition.counts(),
        Counts { held: 0, scheduled: 1, waiting: 0, leased: 0, suspended: 0 }
    );
    assert_eq!(script.clear(WAITING), 0);
    assert_eq!(script.changes, []);
}

#[test]
fn what_was_cleared_is_gone_for_everybody_before_the_sweep() {
    let mut script = Script::new();
    let made = script.produce([item("a"), later()]);
    assert_eq!(script.clear(Clear { leased: false, ..ALL }), 2);
    for number in made {
        assert_eq!(script.phase(number), None);
        assert_eq!(script.cancel(number), Err(Refusal::NotFound));
    }
    assert_eq!(script.partition.head(&Filter::ANY), None);
    assert_eq!(script.lease(10), []);
    assert_eq!(script.lease_with(10, kinds(&["a"])), []);
    assert!(script.partition.kind_counts().is_empty());
    assert!(script.partition.waiting_by_priority().is_empty());
    assert_eq!(script.partition.oldest_waiting(), None);
}

#[test]
fn the_sweep_removes_cleared_items_in_slices() {
    let mut script = Script::new();
    script.produce(items(10));
    script.produce([later(), later()]);
    script.clear(ALL);
    assert_eq!(script.partition.next_due(), Some(Timestamp(0)));
    assert_eq!(script.sweep_some(5), 5);
    assert_eq!(script.partition.next_due(), Some(Timestamp(0)));
    assert_eq!(script.sweep_some(100), 7);
    assert_eq!(script.partition.next_due(), None);
    assert_eq!(script.partition.rows().filter(|row| matches!(row, Row::Item(_))).count(), 0);
}

#[test]
fn a_cleared_lease_with_nothing_to_show_is_forgotten_with_its_item() {
    let mut script = Script::new();
    script.produce(items(2));
    let leased = script.lease(1);
    assert_eq!(script.clear(LEASED), 1);
    assert_eq!(script.complete(leased[0].held(), None), Err(Refusal::NotFound));
    assert_eq!(script.release(leased[0].held()), Err(Refusal::NotFound));
    script.pass(Span::from_secs(100));
    assert_eq!(script.sweep(), 1);
    assert_eq!(script.complete(leased[0].held(), None), Err(Refusal::NotFound));
    assert_eq!(
        script.partition.counts(),
        Counts { held: 0, scheduled: 0, waiting: 1, leased: 0, suspended: 0 }
    );
}

#[test]
fn states_that_were_not_chosen_are_left_alone() {
    let mut script = Script::new();
    let made = script.produce([item("a"), item("b"), later()]);
    let leased = script.lease(1);
    assert_eq!(script.clear(WAITING), 1);
    script.release(leased[0].held()).unwrap();
    assert_eq!(script.phase(made[0]), Some(Phase::Waiting));
    assert_eq!(script.clear(LEASED), 0);
    script.pass(Span::from_secs(5));
    script.sweep();
    assert_eq!(script.order(), [made[0], made[2]]);
}

#[test]
fn what_comes_after_a_clear_is_there() {
    let mut script = Script::new();
    for _ in 0..3 {
        script.produce(items(2));
        assert_eq!(script.clear(WAITING), 2);
        script.produce([later()]);
        assert_eq!(script.clear(SCHEDULED), 1);
    }
    let made = script.produce([item("default"), later()]);
    assert_eq!(
        script.partition.counts(),
        Counts { held: 0, scheduled: 1, waiting: 1, leased: 0, suspended: 0 }
    );
    assert_eq!(script.order(), [made[0]]);
    script.sweep();
    assert_eq!(
        script.partition.counts(),
        Counts { held: 0, scheduled: 1, waiting: 0, leased: 1, suspended: 0 }
    );
}

#[test]
fn what_a_newer_version_wrote_of_clears_and_numbers_outlives_their_change() {
    let mut script = Script::new();
    script.partition.put(Row::Cleared(Cleared { unknown: vec![80, 1], ..Cleared::default() }));
    script.partition.put(Row::Numbers(Numbers { unknown: vec![82, 2], ..Numbers::default() }));
    script.produce(items(1));
    script.clear(WAITING);
    for row in script.partition.rows() {
        match row {
            Row::Cleared(cleared) => assert_eq!((cleared.waiting_before, cleared.unknown), (1, vec![80, 1])),
            Row::Numbers(numbers) => assert_eq!((numbers.item > 0, numbers.unknown), (true, vec![82, 2])),
            _ => {}
        }
    }
}

/// An item whose first attempt failed with an error: waiting, or scheduled if it is due later.
fn with_error(script: &mut Script, due_at: Option<Timestamp>) -> (ItemNumber, Held) {
    let number = script.produce_one();
    let held = script.lease_one();
    assert_eq!(held.id.number, number);
    let retry = RetryItem { error: Some(error("it broke")), ..at_once(held) };
    script.retry(RetryItem { retry_at: due_at.or(retry.retry_at), ..retry }).unwrap();
    (number, held)
}

fn finished_at(script: &Script, number: ItemNumber) -> Timestamp {
    let State::Final(outcome) = script.get(number).state else { panic!("it has not ended") };
    outcome.finished_at
}

fn marker(script: &Script) -> Cleared {
    let markers = script.partition.rows().filter_map(|row| match row {
        Row::Cleared(cleared) => Some(cleared),
        _ => None,
    });
    markers.last().expect("something was cleared")
}

fn assert_cancelled(script: &mut Script, number: ItemNumber) {
    let item = script.get(number);
    assert_eq!(item.state.phase(), Phase::Cancelled);
    assert_eq!(item.extras.as_ref().unwrap().error, Some(error("it broke")));
    assert_eq!(script.cancelled(number).unwrap(), item, "it is final");
    assert_eq!(script.changes, []);
}

#[test]
fn what_was_cleared_with_an_error_has_ended_as_cancelled_at_once_and_for_good() {
    let mut script = Script::new();
    let (leased, first) = with_error(&mut script, None);
    let second = script.lease_one();
    let (scheduled, _) = with_error(&mut script, Some(START + Span::from_secs(50)));
    let (waiting, over) = with_error(&mut script, None);
    script.produce(items(2));
    assert_eq!((script.clear(ALL), script.changes.len()), (5, 1));
    let cleared_at = script.now;
    script.pass(Span::from_secs(1));
    let seen = [leased, scheduled, waiting].map(|number| script.get(number));
    for swept in [false, true] {
        for number in [leased, scheduled, waiting] {
            assert_cancelled(&mut script, number);
            assert_eq!(finished_at(&script, number), cleared_at);
        }
        assert_eq!(script.partition.retained(), 3);
        assert_eq!(script.partition.counts(), Counts::default());
        let lost = |reason| Refusal::LeaseLost { reason };
        assert_eq!(script.complete(second, None), Err(lost(Some(LeaseEnd::Cancelled))));
        assert_eq!(script.extend(second, None), Err(lost(Some(LeaseEnd::Cancelled))));
        assert_eq!(script.release(second), Err(lost(Some(LeaseEnd::Cancelled))));
        assert_eq!(script.retry(again(second)), Err(lost(Some(LeaseEnd::Cancelled))));
        assert_eq!(script.complete(first, None), Err(lost(None)), "an older permit has no reason");
        assert_eq!(script.complete(over, None), Err(lost(Some(LeaseEnd::Retried))));
        if !swept {
            assert_eq!(script.sweep(), 5);
            for number in [leased, scheduled, waiting] {
                assert!(!script.changes.contains(&Change::RemoveBody { number, part: Part::Payload }));
            }
        }
    }
    assert_eq!([leased, scheduled, waiting].map(|number| script.get(number)), seen);
    assert_eq!(script.totals.cancelled, 5);
    assert_eq!(script.partition.next_due(), Some(cleared_at + Settings::default().retention));
}

#[test]
fn each_clear_has_its_own_time() {
    let mut script = Script::new();
    let mut cleared = Vec::new();
    for _ in 0..3 {
        let (number, _) = with_error(&mut script, None);
        assert_eq!(script.clear(WAITING), 1);
        cleared.push((number, script.now));
        script.pass(Span::from_secs(1));
    }
    for _ in ["before the sweep", "after it"] {
        assert!(cleared.iter().all(|(number, at)| finished_at(&script, *number) == *at));
        script.sweep();
    }
}

#[test]
fn the_marker_tells_times_only_while_the_sweep_needs_them() {
    let mut script = Script::new();
    script.produce(items(1));
    script.clear(WAITING);
    assert!(marker(&script).times.is_empty(), "nothing is kept of it");
    with_error(&mut script, None);
    script.clear(WAITING);
    assert_eq!(marker(&script).times.len(), 1);
    script.sweep();
    script.produce(items(1));
    script.clear(WAITING);
    assert!(marker(&script).times.is_empty(), "all of them are written down");
}

#[test]
fn a_clear_that_the_sweep_cannot_keep_up_with_is_refused_and_changes_nothing() {
    let mut script = Script::new();
    for _ in 0..100 {
        with_error(&mut script, None);
        assert_eq!(script.clear(WAITING), 1);
    }
    let (number, _) = with_error(&mut script, None);
    let refused = script.apply(WAITING);
    assert!(matches!(refused, Err(Refusal::TooMany { max: 100, .. })), "{refused:?}");
    assert_eq!(script.phase(number), Some(Phase::Waiting));
    script.sweep_some(4);
    assert_eq!(script.clear(WAITING), 1);
}

#[test]
fn among_too_many_the_oldest_go_first_those_cleared_included() {
    let mut script = Script::with_settings(Settings { retention_max_items: 1, ..Settings::default() });
    let (cleared, _) = with_error(&mut script, None);
    script.clear(WAITING);
    script.pass(Span::from_secs(1));
    let done = script.produce_one();
    let held = script.lease_one();
    script.complete(held, Some("done")).unwrap();
    for _ in 0..4 {
        script.sweep_some(1);
    }
    assert_eq!((script.phase(cleared), script.phase(done)), (None, Some(Phase::Completed)));
}
