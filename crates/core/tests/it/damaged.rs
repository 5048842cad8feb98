use bytes::Bytes;
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::{ItemError, LeaseEnd, MoveNumber, MoveReason, Origin, Phase, State};
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Part};
use windlass_core::settings::Settings;
use windlass_core::time::Timestamp;
use windlass_core::verbs::{
    Arriving, ArrivingItem, Damaged, FailDamaged, Held, List, Move, Moved, Rerun, Take,
};

use crate::script::{RetryItem, Script, arrived, at_once, error, items};

fn fail(script: &mut Script, held: Held) -> Result<(), Refusal> {
    fail_as(script, Damaged { held, payload_lost: true })
}

fn fail_as(script: &mut Script, damaged: Damaged) -> Result<(), Refusal> {
    script.apply(FailDamaged(vec![damaged])).unwrap().remove(0)
}

fn error_of(script: &Script, number: ItemNumber) -> Option<ItemError> {
    script.get(number).extras.and_then(|extras| extras.error)
}

fn to_dead() -> Settings {
    Settings { dead_queue: Some("dead".into()), ..Settings::default() }
}

fn code(error: Option<ItemError>) -> Option<String> {
    error?.code.map(|code| code.to_string())
}

/// An item that lost its payload on its way here, or before.
pub(crate) fn take_without_payload(script: &mut Script, moves: u64) {
    let origin = || Origin {
        queue: "elsewhere".into(),
        id: None,
        group: None,
        address: None,
        attempts: Some(1),
        reason: MoveReason::Attempts,
        error: Some(error("no worker could do it")),
        moved_at: Timestamp(5),
        unknown: Vec::new(),
    };
    let moved = |number| Move {
        number: MoveNumber(number),
        what: Arriving::Item(Box::new(ArrivingItem {
            kind: "default".into(),
            priority: 0,
            origin: origin(),
            cron: None,
            address: None,
            address_taken: false,
            enqueue_at: None,
            max_attempts: None,
            dead_timeout: None,
            hashes: Hashes::Unknown,
        })),
        body: None,
        facts: Some(Bytes::from_static(b"facts")),
        attempts: Vec::new(),
    };
    let take = Take { source: PartitionId(9), moves: (1..=moves).map(moved).collect() };
    script.apply(take).unwrap();
}

#[test]
fn a_damaged_item_fails_with_its_own_error_and_no_attempt_counted() {
    let mut script = Script::new();
    let number = script.produce_one();
    let first = script.lease_one();
    script.retry(RetryItem { error: Some(error("the worker's word")), ..at_once(first) }).unwrap();
    let second = script.lease_one();
    fail(&mut script, second).unwrap();
    let item = script.get(number);
    assert_eq!((item.state.phase(), item.attempts), (Phase::Failed, 1));
    assert_eq!(code(error_of(&script, number)).as_deref(), Some("damaged"));
    assert_eq!((script.totals.damaged, script.totals.failed), (1, 1));
    let lost = Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Released) });
    assert_eq!(script.complete(second, None), lost);
}

#[test]
fn the_error_of_a_damaged_item_names_the_body_that_is_lost() {
    for (payload_lost, named) in [(true, "payload"), (false, "input")] {
        let mut script = Script::new();
        let number = script.produce_one();
        let held = script.lease_one();
        fail_as(&mut script, Damaged { held, payload_lost }).unwrap();
        let message = error_of(&script, number).unwrap().message;
        assert!(message.contains(&format!("the stored {named} ")), "{message}");
    }
}

#[test]
fn only_the_holder_of_the_lease_fails_an_item_as_damaged() {
    let mut script = Script::new();
    script.produce_one();
    let first = script.lease_one();
    script.release(first).unwrap();
    script.lease_one();
    fail(&mut script, first).unwrap_err();
    assert_eq!((script.changes.len(), script.totals.damaged), (0, 0));
}

#[test]
fn a_damaged_item_that_somebody_wants_cancelled_is() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.cancel(number).unwrap();
    fail(&mut script, held).unwrap();
    assert_eq!((script.phase(number), script.totals.cancelled, script.totals.failed), (None, 1, 0));
}

#[test]
fn a_damaged_item_leaves_for_the_dead_queue_and_says_that_its_payload_is_lost() {
    let mut script = Script::with_settings(to_dead());
    let number = script.produce_one();
    let held = script.lease_one();
    fail(&mut script, held).unwrap();
    let state = script.get(number).state;
    assert_eq!(state.outgoing().map(|outgoing| outgoing.reason), Some(MoveReason::Dead));
    assert!(script.get(number).extras.is_some_and(|extras| extras.payload_lost));
}

#[test]
fn an_item_that_came_without_payload_is_never_granted_and_ends_where_it_is() {
    let mut script = Script::with_settings(to_dead());
    take_without_payload(&mut script, 1);
    let put = |change: &&Change| matches!(change, Change::PutBody { part: Part::Payload, .. });
    assert_eq!(script.changes.iter().filter(put).count(), 0);
    let number = script.partition.list(List::Queue, None, 1).unwrap()[0].number;
    script.produce(items(1));
    let leased = script.lease(2);
    assert_eq!(leased.len(), 1, "the lease goes on with the next");
    assert_ne!(leased[0].id.number, number);
    assert_eq!(script.get(number).state.outgoing(), None, "no dead queue takes it");
    assert_eq!(code(error_of(&script, number)).as_deref(), Some("damaged"));
    assert_eq!((script.phase(number), script.totals.damaged), (Some(Phase::Failed), 0));
    script.release(leased[0].held()).unwrap();
}

#[test]
fn one_lease_ends_no_more_than_a_hundred_items_without_payload() {
    let mut script = Script::new();
    take_without_payload(&mut script, 150);
    script.produce(items(1));
    assert_eq!(script.lease(1).len(), 0);
    assert_eq!(script.totals.failed, 100);
    assert_eq!(script.lease(1).len(), 1);
    assert_eq!(script.totals.failed, 150);
}

#[test]
fn a_damaged_item_is_shown_moved_and_deleted_without_its_payload_and_not_rerun() {
    for settings in [Settings::default(), to_dead()] {
        let mut script = Script::with_settings(settings);
        let number = script.produce_one();
        let held = script.lease_one();
        fail(&mut script, held).unwrap();
        let item = script.get(number);
        let extras = item.extras.unwrap();
        assert_eq!((item.state.phase(), code(extras.error)), (Phase::Failed, Some("damaged".into())));
        assert_eq!((item.attempts, extras.payload_lost), (0, true));
        let State::Final(outcome) = item.state else { panic!("it has ended") };
        assert!(!outcome.payload_kept);
        if outcome.outgoing.is_some() {
            script.assign("dead", PartitionId(9), 1);
            let departure = script.partition.departures(PartitionId(9), 1).pop().unwrap();
            assert!(departure.payload_lost);
            let arrived = arrived(departure.number);
            script.apply(Moved { partition: PartitionId(9), arrived }).unwrap();
        }
        let rerun = Rerun { number, queue: "q".into(), delay: None };
        assert_eq!(script.apply(rerun), Err(Refusal::NoPayload { lost: true }));
    }
}
