//! Items that end because their time has come: they ended when they were due, whenever the sweep comes by.

use windlass_core::id::ItemNumber;
use windlass_core::item::{Outcome, Phase, State};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Import, ImportItem, NewItem, StartGroup, Update, UpdateItem};

use crate::script::{START, Script, at_once, import_item, item, open_group};

const TIMEOUT: Span = Span::from_secs(7);
/// How late the sweep comes by.
const LATE: Span = Span::from_secs(3600);

fn mortal() -> NewItem {
    NewItem { dead_timeout: Some(TIMEOUT), ..item("default") }
}

fn outcome(script: &Script, number: ItemNumber) -> Outcome {
    match script.get(number).state {
        State::Final(outcome) => *outcome,
        other => panic!("{other:?}"),
    }
}

/// Sweeps late. The item is kept from then on.
fn assert_ended(script: &mut Script, number: ItemNumber, phase: Phase, at: Timestamp) {
    script.pass(LATE);
    script.sweep();
    assert_eq!((script.phase(number), script.get(number).changed_at()), (Some(phase), at));
    assert_eq!(outcome(script, number).finished_at, script.now);
}

#[test]
fn an_item_that_expired_while_nobody_held_it_changed_when_it_was_due() {
    let mut script = Script::new();
    script.apply(open_group("g")).expect("a new name");
    let suspended = script.produce([mortal()])[0];
    let held = script.lease_one();
    script.suspend(held, None).expect("the permit holds");
    let later = NewItem { enqueue_at: Some(START + LATE + LATE), ..mortal() };
    let others = script.produce([mortal(), later, NewItem { group: Some("g".into()), ..mortal() }]);
    script.pass(LATE);
    script.sweep();
    for number in others.into_iter().chain([suspended]) {
        assert_eq!(script.get(number).changed_at(), START + TIMEOUT);
        assert_eq!(outcome(&script, number).finished_at, script.now, "it is kept from now on");
    }
}

#[test]
fn a_last_lease_that_ran_out_failed_its_item_at_the_deadline() {
    let mut script = Script::with_settings(Settings { max_attempts: 1, ..Settings::default() });
    let number = script.produce_one();
    let deadline = script.lease(1)[0].deadline;
    assert_ended(&mut script, number, Phase::Failed, deadline);
}

#[test]
fn a_lease_that_ran_out_after_a_cancel_request_cancelled_its_item_at_the_deadline() {
    let mut script = Script::new();
    let number = script.produce([NewItem { address: Some("a".into()), ..item("default") }])[0];
    let deadline = script.lease(1)[0].deadline;
    script.cancel(number).expect("asked to stop");
    assert_ended(&mut script, number, Phase::Cancelled, deadline);
}

#[test]
fn an_overdue_item_that_was_leased_expired_when_its_lease_ended() {
    let mut script = Script::new();
    let number = script.produce([mortal()])[0];
    let deadline = script.lease(1)[0].deadline;
    assert!(deadline > START + TIMEOUT);
    assert_ended(&mut script, number, Phase::Expired, deadline);
}

#[test]
fn an_item_whose_lease_ended_before_its_time_expired_at_its_time() {
    let mut script = Script::with_settings(Settings { max_attempts: 0, ..Settings::default() });
    let timeout = Some(Span::from_secs(90));
    let number = script.produce([NewItem { dead_timeout: timeout, ..item("default") }])[0];
    assert_eq!(script.lease(1)[0].deadline, START + Span::from_secs(60));
    assert_ended(&mut script, number, Phase::Expired, START + Span::from_secs(90));
}

#[test]
fn no_item_expired_before_its_own_latest_change() {
    let mut script = Script::new();
    script.apply(open_group("g")).expect("a new name");
    let member = script.produce([NewItem { group: Some("g".into()), ..mortal() }])[0];
    script.pass(LATE);
    script.apply(StartGroup("g".into())).expect("it is open");
    let started_at = script.now;
    assert_ended(&mut script, member, Phase::Expired, started_at);
}

#[test]
fn an_item_that_is_given_up_or_updated_after_its_time_expires_at_that_moment() {
    let mut script = Script::new();
    let numbers = script.produce([mortal(), NewItem { address: Some("a".into()), ..item("default") }]);
    let held = script.lease_one();
    script.pass(TIMEOUT);
    script.retry(at_once(held)).expect("the permit holds");
    let shorter = UpdateItem { dead_timeout: Some(Span::from_secs(1)), ..UpdateItem::new(numbers[1]) };
    script.apply(Update(vec![shorter])).expect("applied").remove(0).expect("it waits");
    for number in numbers {
        assert_eq!(
            (script.phase(number), script.get(number).changed_at()),
            (Some(Phase::Expired), script.now)
        );
    }
}

#[test]
fn an_item_that_ended_late_is_kept_for_the_whole_retention() {
    let retention = Span::from_secs(60);
    let settings = Settings { max_attempts: 1, retention, ..Settings::default() };
    let mut script = Script::with_settings(settings);
    let number = script.produce([mortal()])[0];
    script.pass(LATE);
    script.sweep();
    script.pass(Span(retention.0 - 1));
    script.sweep();
    assert_eq!(script.phase(number), Some(Phase::Expired));
    script.pass(Span(1));
    script.sweep();
    assert_eq!(script.phase(number), None);
}

#[test]
fn an_imported_item_that_was_due_before_it_was_made_waits_since_it_was_made() {
    let mut script = Script::new();
    let due_at = Some(Timestamp(START.0 - 1_000_000));
    let import = |created_at| ImportItem { due_at, created_at, ..import_item("default") };
    let earlier = Timestamp(START.0 - 2_000_000);
    let items = vec![import(None), import(Some(earlier))];
    let imported = script.apply(Import { items }).expect("taken");
    let changed_at = |script: &Script, index: usize| {
        let produced = imported[index].as_ref().expect("taken");
        script.get(produced.number).changed_at()
    };
    assert_eq!([changed_at(&script, 0), changed_at(&script, 1)], [START, earlier]);
    script.sweep();
    assert_eq!([Some(changed_at(&script, 0)), Some(changed_at(&script, 1))], [Some(START), due_at]);
}
