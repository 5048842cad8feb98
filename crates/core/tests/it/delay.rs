//! Items that are due so long after the command, group's end or run of a cron that makes them.

use windlass_core::cron::{CatchUp, Overlap};
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::{Phase, State};
use windlass_core::limits::{DELAY_MAX, Invalid};
use windlass_core::refusal::Refusal;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{
    CreateGroup, Departing, Departure, NewCron, NewEnd, NewItem, Produce, Retried, Retry, TriggerCron,
};

use crate::script::{RetryItem, START, Script, again, item, items, open_group};

const MINUTE: Span = Span::from_secs(60);

fn delayed(delay: Span) -> NewItem {
    NewItem { delay: Some(delay), ..item("default") }
}

fn due(script: &Script, number: ItemNumber) -> Option<Timestamp> {
    match script.get(number).state {
        State::Scheduled { due_at } => Some(due_at),
        State::Waiting { .. } | State::Leased(_) | State::Suspended(_) | State::Final(_) => None,
    }
}

fn group(end: NewEnd) -> CreateGroup {
    CreateGroup { end: Some(end), items: items(1), start: true, ..open_group("g") }
}

#[test]
fn a_new_item_is_due_its_delay_after_the_command() {
    let mut script = Script::new();
    script.pass(Span::from_secs(5));
    let numbers = script.produce([delayed(MINUTE), delayed(Span::ZERO)]);
    assert_eq!(due(&script, numbers[0]), Some(START + Span::from_secs(65)));
    assert_eq!(script.phase(numbers[1]), Some(Phase::Waiting));
}

#[test]
fn a_retry_is_due_its_delay_after_the_command() {
    let mut script = Script::new();
    script.produce(items(1));
    let held = script.lease_one();
    script.pass(Span::from_secs(5));
    let retried = script.retry(RetryItem { delay: Some(MINUTE), ..again(held) });
    assert_eq!(retried, Ok(Retried::Again { due_at: START + Span::from_secs(65) }));
}

#[test]
fn an_end_item_is_due_its_delay_after_the_end_of_its_group() {
    let mut script = Script::new();
    let end = NewEnd { queue: None, item: NewItem { delay: Some(MINUTE), ..item("end") } };
    script.apply(group(end)).unwrap();
    script.pass(Span::from_secs(5));
    let member = script.lease_one();
    script.pass(Span::from_secs(5));
    script.complete(member, None).unwrap();
    assert_eq!(script.partition.counts().scheduled, 1);
    assert_eq!(script.partition.next_due(), Some(START + Span::from_secs(70)));
}

#[test]
fn an_end_item_for_another_queue_takes_its_time_along() {
    let mut script = Script::new();
    let end = NewEnd { queue: Some("other".into()), item: delayed(MINUTE) };
    script.apply(group(end)).unwrap();
    script.pass(Span::from_secs(5));
    let member = script.lease_one();
    script.complete(member, None).unwrap();
    let taker = PartitionId(9);
    script.assign("other", taker, 9);
    let departures = script.partition.departures(taker, 10);
    let [Departure { what: Departing::Item(departing), .. }] = &departures[..] else {
        panic!("{departures:?}")
    };
    assert_eq!(departing.enqueue_at, Some(START + Span::from_secs(65)));
}

#[test]
fn an_item_of_a_cron_is_due_its_delay_after_the_run_or_trigger() {
    let mut script = Script::new();
    let new = NewCron {
        name: "tick".into(),
        schedule: "@every 10s".into(),
        timezone: "UTC".into(),
        item: delayed(MINUTE),
        catch_up: CatchUp::Skip,
        overlap: Overlap::Allow,
    };
    script.apply(new).unwrap();
    script.pass(Span::from_secs(5));
    script.apply(TriggerCron("tick".into())).unwrap();
    let triggered = script.partition.cron("tick", script.now, 0).unwrap().cron.last_item.unwrap();
    assert_eq!(due(&script, triggered), Some(START + Span::from_secs(65)));
    script.pass(Span::from_secs(5));
    script.sweep();
    let made = script.partition.cron("tick", script.now, 0).unwrap().cron.last_item.unwrap();
    assert_ne!(made, triggered);
    assert_eq!(due(&script, made), Some(START + Span::from_secs(70)));
}

#[test]
fn a_delay_beside_a_time_and_one_without_bounds_are_refused() {
    let mut script = Script::new();
    let beside = Refusal::Invalid(Invalid { field: "delay", rule: "unset where there is an `enqueue_at`" });
    let too_long = Refusal::Invalid(Invalid { field: "delay", rule: "at most 36500d" });
    let endless = delayed(Span(DELAY_MAX.0 + 1));
    let both = NewItem { enqueue_at: Some(START), ..delayed(MINUTE) };
    for (item, refusal) in [(both, beside), (endless, too_long.clone())] {
        let produce = Produce { items: vec![item.clone()] };
        assert_eq!(script.apply(produce), Err(refusal.clone()));
        let end = NewEnd { queue: None, item };
        assert_eq!(script.apply(group(end)), Err(refusal));
    }
    assert_eq!(script.produced([delayed(DELAY_MAX)])[0].phase, Phase::Scheduled);
    script.produce(items(1));
    let held = script.lease_one();
    let retry = |retry_at, delay| Retry(vec![RetryItem { retry_at, delay: Some(delay), ..again(held) }]);
    let beside = Refusal::Invalid(Invalid { field: "delay", rule: "unset where there is a `retry_at`" });
    assert_eq!(script.apply(retry(Some(START), MINUTE)), Err(beside));
    assert_eq!(script.apply(retry(None, Span(DELAY_MAX.0 + 1))), Err(too_long));
}
