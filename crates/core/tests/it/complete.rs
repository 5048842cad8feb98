use windlass_core::item::{End, LeaseEnd, Phase, State};
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Key, Part};
use windlass_core::verbs::{Complete, Completion, NewItem};

use crate::script::{RetryItem, Script, at_once, error, item};

#[test]
fn an_item_with_nothing_to_show_is_forgotten_at_once() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    assert_eq!(script.changes, [Change::Remove(Key::Item(number))]);
    assert_eq!(script.phase(number), None);
    assert_eq!(script.complete(held, None), Err(Refusal::NotFound));
    assert_eq!((script.partition.counts(), script.partition.retained()), (Counts::default(), 0));
}

#[test]
fn a_result_is_kept_in_place_of_the_payload() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.complete(held, Some("four")).unwrap();
    assert_eq!(
        script.changes[1..],
        [
            Change::RemoveBody { number, part: Part::Payload },
            Change::PutBody { number, part: Part::Result, body: "four".into() }
        ]
    );
    let State::Final(outcome) = script.get(number).state else { panic!("it is completed") };
    assert_eq!((outcome.end, outcome.kept_bytes, outcome.has_result), (End::Completed, 4, true));
    assert_eq!(outcome.finished_at, script.now);
    assert_eq!((script.partition.counts(), script.partition.retained()), (Counts::default(), 1));
}

#[test]
fn facts_are_written_beside_the_payload_and_outlive_it() {
    let mut script = Script::new();
    let number = script.produce([NewItem { facts: Some("order 7".into()), ..item("default") }])[0];
    let written = Change::PutBody { number, part: Part::Facts, body: "order 7".into() };
    assert_eq!(script.changes.iter().filter(|change| **change == written).count(), 1);
    let held = script.lease_one();
    script.complete(held, Some("four")).unwrap();
    let gone = script.changes.iter().filter(|change| matches!(change, Change::RemoveBody { .. }));
    assert_eq!(gone.collect::<Vec<_>>(), [&Change::RemoveBody { number, part: Part::Payload }]);
    let State::Final(outcome) = script.get(number).state else { panic!("it is completed") };
    assert_eq!(outcome.kept_bytes, 4 + 7, "what is kept of it counts");
}

#[test]
fn facts_alone_are_nothing_to_show() {
    let mut script = Script::new();
    let number = script.produce([NewItem { facts: Some("order 7".into()), ..item("default") }])[0];
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    assert_eq!((&script.changes[..], script.phase(number)), (&[Change::Remove(Key::Item(number))][..], None));
}

#[test]
fn a_second_complete_of_a_kept_item_hears_that_the_first_one_counted() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.complete(held, Some("done")).unwrap();
    let lost = Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Completed) });
    assert_eq!(script.complete(held, None), lost);
    assert_eq!(script.changes, []);
}

#[test]
fn an_error_of_an_earlier_attempt_is_something_to_show() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.retry(RetryItem { error: Some(error("no luck")), ..at_once(held) }).unwrap();
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    assert_eq!(script.phase(number), Some(Phase::Completed));
    assert_eq!(script.get(number).extras.unwrap().error, Some(error("no luck")));
}

#[test]
fn each_item_of_a_batch_is_judged_by_itself() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    let completion = Completion { held, result: None };
    let other = Completion { held: crate::script::stranger(held), result: None };
    let reply = script.apply(Complete(vec![other, completion.clone(), completion]));
    let lost = Err(Refusal::LeaseLost { reason: None });
    assert_eq!(reply, Ok(vec![lost, Ok(()), Err(Refusal::NotFound)]));
}
