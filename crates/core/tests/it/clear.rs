use windlass_core::command::{Clear, Filter, NewItem, Refusal};
use windlass_core::item::{LeaseEnd, Phase};
use windlass_core::partition::Counts;
use windlass_core::row::{Change, Cleared, Numbers, Row};
use windlass_core::time::{Span, Timestamp};

use crate::script::{START, Script, held, item, items, kinds};

const WAITING: Clear = Clear { waiting: true, scheduled: false, leased: false };
const SCHEDULED: Clear = Clear { waiting: false, scheduled: true, leased: false };
const LEASED: Clear = Clear { waiting: false, scheduled: false, leased: true };
const ALL: Clear = Clear { waiting: true, scheduled: true, leased: true };

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
    assert_eq!(script.partition.counts(), Counts { scheduled: 1, waiting: 0, leased: 0 });
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
fn a_cleared_leases_permit_is_lost() {
    let mut script = Script::new();
    script.produce(items(2));
    let leased = script.lease(1);
    assert_eq!(script.clear(LEASED), 1);
    let lost = Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Cancelled) });
    assert_eq!(script.complete(held(&leased[0]), None), lost);
    assert_eq!(script.release(held(&leased[0])), lost);
    script.pass(Span::from_secs(100));
    assert_eq!(script.sweep(), 1);
    assert_eq!(script.complete(held(&leased[0]), None), Err(Refusal::NotFound));
    assert_eq!(script.partition.counts(), Counts { scheduled: 0, waiting: 1, leased: 0 });
}

#[test]
fn states_that_were_not_chosen_are_left_alone() {
    let mut script = Script::new();
    let made = script.produce([item("a"), item("b"), later()]);
    let leased = script.lease(1);
    assert_eq!(script.clear(WAITING), 1);
    script.release(held(&leased[0])).unwrap();
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
    assert_eq!(script.partition.counts(), Counts { scheduled: 1, waiting: 1, leased: 0 });
    assert_eq!(script.order(), [made[0]]);
    script.sweep();
    assert_eq!(script.partition.counts(), Counts { scheduled: 1, waiting: 0, leased: 1 });
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
            Row::Item(_) | Row::Settings(_) | Row::Taken(_) | Row::Queue(_) | Row::Partitions(_) => {}
        }
    }
}
