//! Items on their way to a queue that does not exist, and that fall back into their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::{MoveNumber, MoveReason, Origin, Outcome, Phase, State};
use windlass_core::news::News;
use windlass_core::row::{Change, Key};
use windlass_core::settings::{RetainPayload, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::{
    Arriving, ArrivingItem, Configure, DeleteAny, FallBack, Move, NewItem, Redrive, RedriveTo, Rerun, Take,
};

use crate::script::{RetryItem, START, Script, again, events, item};

const PAYLOAD: usize = 1000;

fn settings(retention_max_bytes: u64) -> Settings {
    Settings {
        dead_queue: Some("dead".into()),
        retention_max_bytes,
        retain_payload: RetainPayload::None,
        ..Settings::default()
    }
}

fn fail_with_events(script: &mut Script, count: usize) -> ItemNumber {
    let body = Bytes::from(vec![b'x'; PAYLOAD]);
    let number = script.produce([NewItem { body, ..item("default") }])[0];
    let held = script.lease_one();
    if count > 0 {
        script.emit(held, events(count)).unwrap();
    }
    script.retry(RetryItem { dead: true, ..again(held) }).unwrap();
    number
}

fn outcome(script: &Script, number: ItemNumber) -> Outcome {
    match script.get(number).state {
        State::Final(outcome) => *outcome,
        other => panic!("{other:?}"),
    }
}

fn fall_back(queue: &str) -> FallBack {
    FallBack { queue: queue.into(), limit: 100 }
}

fn rerun(number: ItemNumber) -> Rerun {
    Rerun { number, queue: "q".into(), delay: None }
}

#[test]
fn what_waits_for_a_queue_that_does_not_exist_falls_back_beyond_its_bytes() {
    let mut script = Script::with_settings(settings(2500));
    let numbers: Vec<ItemNumber> = (0..4).map(|_| fail_with_events(&mut script, 0)).collect();
    assert!(script.partition.overflows("dead"));
    script.pass(Span::from_secs(7));
    assert_eq!(script.apply(fall_back("dead")), Ok(2));
    assert!(!script.partition.overflows("dead"));
    assert_eq!(script.apply(fall_back("dead")), Ok(0));
    assert_eq!(script.partition.moving(), 2);
    let first = outcome(&script, numbers[0]);
    assert_eq!((first.payload_kept, first.finished_at), (true, script.now), "the oldest, as if it ended now");
    assert!(script.apply(rerun(numbers[0])).is_ok());
}

#[test]
fn an_item_that_was_deleted_on_its_way_does_not_come_back() {
    let mut script = Script::with_settings(settings(1));
    let number = fail_with_events(&mut script, 3);
    script.apply(DeleteAny(vec![number])).unwrap();
    assert_eq!((script.phase(number), script.partition.moving()), (None, 1));
    assert_eq!(script.apply(fall_back("dead")), Ok(1));
    assert!(script.changes.contains(&Change::Remove(Key::Item(number))), "{:?}", script.changes);
    assert_eq!((script.phase(number), script.partition.moving(), script.partition.retained()), (None, 0, 0));
}

#[test]
fn an_item_that_was_forgotten_on_its_way_comes_back_without_its_events() {
    let mut script = Script::with_settings(settings(1));
    let number = fail_with_events(&mut script, 3);
    script.pass(Span(Settings::default().retention.0 + 1));
    script.sweep();
    assert_eq!((script.phase(number), script.partition.moving()), (None, 1));
    assert_eq!(script.apply(fall_back("dead")), Ok(1));
    assert_eq!((script.phase(number), script.partition.moving()), (Some(Phase::Failed), 0));
    let (without_events, extras) = (outcome(&script, number), script.get(number).extras.unwrap());
    assert_eq!((extras.event_count, extras.event_bytes), (0, 0));
    assert_eq!((without_events.finished_at, without_events.payload_kept), (script.now, true));

    let plain = fail_with_events(&mut script, 0);
    script.apply(fall_back("dead")).unwrap();
    assert_eq!(outcome(&script, plain).kept_bytes, without_events.kept_bytes);
    script.apply(rerun(number)).unwrap();
}

#[test]
fn events_stay_with_an_item_that_falls_back_before_it_is_forgotten() {
    let mut script = Script::with_settings(settings(1));
    let number = fail_with_events(&mut script, 3);
    script.apply(fall_back("dead")).unwrap();
    let Settings { retention, .. } = Settings::default();
    assert_eq!(script.get(number).extras.unwrap().event_count, 3);
    script.pass(Span(retention.0 + 1));
    script.sweep();
    assert_eq!((script.phase(number), script.partition.retained()), (None, 0));
}

#[test]
fn a_letter_that_was_redriven_to_a_queue_that_is_gone_falls_back() {
    let mut script = Script::with_settings(settings(1));
    let origin = Origin {
        queue: "gone".into(),
        id: None,
        group: None,
        address: None,
        attempts: Some(3),
        reason: MoveReason::Dead,
        error: None,
        moved_at: START,
        unknown: Vec::new(),
    };
    let letter = ArrivingItem {
        kind: "mail".into(),
        priority: 0,
        origin,
        cron: None,
        address: None,
        address_taken: false,
        enqueue_at: None,
        max_attempts: None,
        dead_timeout: None,
        hashes: Hashes::Unknown,
    };
    let letter = Move {
        number: MoveNumber(1),
        what: Arriving::Item(Box::new(letter)),
        body: Some(Bytes::from(vec![b'x'; PAYLOAD])),
        facts: None,
        attempts: Vec::new(),
    };
    let taken = script.apply(Take { source: PartitionId(9), moves: vec![letter] }).unwrap();
    let number = taken.items[&MoveNumber(1)];
    let to = RedriveTo::Origins(Arc::new(["gone".into()].into()));
    let redrive = Redrive { to, kind: None, limit: 10, from: None, asked: BTreeMap::new() };
    assert_eq!(script.apply(redrive).unwrap().count, 1);
    assert_eq!(script.apply(fall_back("gone")), Ok(1));
    let left = script.get(number);
    assert_eq!((left.state.phase(), left.state.outgoing()), (Phase::Cancelled, None));
    assert_eq!(left.extras.unwrap().moved_to, None);
    assert!(outcome(&script, number).payload_kept);
    script.apply(rerun(number)).unwrap();
}

#[test]
fn what_may_wait_is_looked_at_again_when_the_queue_keeps_less() {
    let mut script = Script::with_settings(settings(5000));
    fail_with_events(&mut script, 0);
    assert!(!script.partition.overflows("dead"));
    script.apply(Configure(Settings { version: 2, ..settings(1) })).unwrap();
    assert_eq!(script.news, [News::Outgoing]);
    assert!(script.partition.overflows("dead"));
}
