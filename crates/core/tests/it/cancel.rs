use windlass_core::id::ItemNumber;
use windlass_core::item::{End, Item, Outcome, Phase, State};
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Key};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{NewItem, Retried};

use crate::script::{RetryItem, Script, again, at_once, error, item};

#[test]
fn what_nobody_works_on_ends_at_once() {
    let mut script = Script::new();
    let later = NewItem { enqueue_at: Some(Timestamp(u64::MAX)), ..item("default") };
    for number in script.produce([item("default"), later]) {
        assert_eq!(script.cancel(number), Ok(Phase::Cancelled));
        assert_eq!(script.changes, [Change::Remove(Key::Item(number))]);
        assert_eq!(script.cancel(number), Err(Refusal::NotFound));
    }
    assert_eq!(script.partition.counts(), Counts::default());
    assert_eq!(script.cancel(ItemNumber(5)), Err(Refusal::NotFound));
}

#[test]
fn a_cancel_tells_the_item_as_it_ended_although_nothing_of_it_is_kept() {
    let mut script = Script::new();
    let number = script.produce([NewItem { max_attempts: Some(9), ..item("mail") }])[0];
    let before = script.get(number);
    script.pass(Span::from_secs(5));
    let told = script.cancelled(number).unwrap();
    let outcome = Outcome {
        end: End::Cancelled,
        changed_at: script.now,
        finished_at: script.now,
        kept_bytes: before.payload_size.bytes(),
        has_result: false,
        payload_kept: true,
        outgoing: None,
    };
    assert_eq!(told, Item { state: State::Final(Box::new(outcome)), ..before });
    assert_eq!(script.phase(number), None);
}

#[test]
fn a_cancel_of_what_is_leased_or_final_tells_the_item_as_it_is_shown() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    for _ in 0..2 {
        assert_eq!(script.cancelled(number), Ok(script.get(number)));
        assert!(matches!(&script.get(number).state, State::Leased(lease) if lease.cancel_requested));
    }
    script.complete(held, Some("done all the same")).unwrap();
    assert_eq!(script.cancelled(number), Ok(script.get(number)));
}

#[test]
fn a_cancelled_item_with_an_error_to_show_is_kept() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.retry(RetryItem { error: Some(error("so far")), ..again(held) }).unwrap();
    assert_eq!(script.cancel(number), Ok(Phase::Cancelled));
    assert_eq!(script.phase(number), Some(Phase::Cancelled));
    assert_eq!(script.cancel(number), Ok(Phase::Cancelled));
    assert_eq!(script.changes, []);
    assert_eq!(script.partition.next_due(), Some(script.now + Span::from_secs(48 * 3600)));
}

#[test]
fn a_worker_may_still_complete_what_was_cancelled() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    assert_eq!(script.cancel(number), Ok(Phase::Leased));
    assert_eq!(script.cancel(number), Ok(Phase::Leased));
    assert_eq!(script.changes, []);
    script.complete(held, Some("done all the same")).unwrap();
    assert_eq!(script.phase(number), Some(Phase::Completed));
}

#[test]
fn given_up_in_any_way_a_cancelled_item_is_cancelled() {
    type GiveUp = fn(&mut Script, windlass_core::verbs::Held);
    let ways: [GiveUp; 4] = [
        |script, held| assert_eq!(script.retry(at_once(held)), Ok(Retried::Ended(Phase::Cancelled))),
        |script, held| {
            let dead = RetryItem { dead: true, ..again(held) };
            assert_eq!(script.retry(dead), Ok(Retried::Ended(Phase::Cancelled)));
        },
        |script, held| assert_eq!(script.release(held), Ok(())),
        |script, _| {
            script.pass(Span::from_secs(60));
            assert_eq!(script.sweep(), 1);
        },
    ];
    for give_up in ways {
        let mut script = Script::new();
        let number = script.produce_one();
        let held = script.lease_one();
        script.cancel(number).unwrap();
        give_up(&mut script, held);
        assert_eq!(script.phase(number), None);
        assert_eq!(script.lease(1), []);
    }
}
