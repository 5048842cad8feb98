//! Moves, one partition at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::headers::Hashes;
use windlass_core::id::PartitionId;
use windlass_core::item::{MoveNumber, MoveReason, Origin, Phase};
use windlass_core::limits::KINDS_MAX;
use windlass_core::news::News;
use windlass_core::partition::Target;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Part};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{
    Arriving, ArrivingItem, Assign, Departing, Departure, Move, Moved, Redrive, RedriveTo, Redriven, Take,
};

use crate::script::{RetryItem, Script, again, arrived, item, items};

const TAKER: PartitionId = PartitionId(9);
const SOURCE: PartitionId = PartitionId(3);

fn with_dead_queue() -> Script {
    Script::with_settings(Settings { dead_queue: Some("dead".into()), ..Settings::default() })
}

fn fail_one(script: &mut Script) -> windlass_core::id::ItemNumber {
    let number = script.produce_one();
    let held = script.lease_one();
    script.retry(RetryItem { dead: true, ..again(held) }).unwrap();
    number
}

fn moved(number: u64) -> Move {
    let origin = Origin {
        queue: "elsewhere".into(),
        id: None,
        group: None,
        address: None,
        attempts: Some(2),
        reason: MoveReason::Dead,
        error: None,
        moved_at: Timestamp(5),
        unknown: Vec::new(),
    };
    Move {
        number: MoveNumber(number),
        what: Arriving::Item(Box::new(ArrivingItem {
            kind: "mail".into(),
            priority: 3,
            origin,
            cron: None,
            address: None,
            address_taken: false,
            enqueue_at: None,
            max_attempts: None,
            dead_timeout: None,
            hashes: Hashes::Unknown,
        })),
        body: Some(Bytes::from_static(b"payload")),
        facts: Some(Bytes::from_static(b"facts")),
        attempts: Vec::new(),
    }
}

fn take(script: &mut Script, numbers: impl IntoIterator<Item = u64>) -> usize {
    let moves = numbers.into_iter().map(moved).collect();
    let before = script.partition.counts().live();
    script.apply(Take { source: SOURCE, moves }).unwrap();
    (script.partition.counts().live() - before) as usize
}

#[test]
fn an_item_that_fails_stays_with_its_payload_until_it_has_arrived() {
    let mut script = with_dead_queue();
    let number = fail_one(&mut script);
    assert_eq!(script.news, [News::Outgoing]);
    let removes_payload = |change: &Change| matches!(change, Change::RemoveBody { part: Part::Payload, .. });
    assert!(!script.changes.iter().any(removes_payload));
    assert_eq!((script.phase(number), script.partition.moving()), (Some(Phase::Failed), 1));
    assert_eq!(script.partition.targets(), [Target { queue: "dead".into(), partition: None }]);
    assert_eq!(script.assign("dead", TAKER, 10), 1);
    assert_eq!(script.partition.targets(), [Target { queue: "dead".into(), partition: Some(TAKER) }]);
    let departure = script.partition.departures(TAKER, 10).pop().unwrap();
    let Departure { body, what: Departing::Item(item), .. } = departure.clone() else {
        panic!("{departure:?}")
    };
    assert_eq!((body, item.number, item.attempts), (number, number, 1));
    assert_eq!((item.reason, item.left_at), (MoveReason::Dead, script.now));
    let last = MoveNumber(departure.number.0 - 1);
    assert_eq!(script.apply(Moved { partition: TAKER, arrived: arrived(last) }), Ok(0));
    assert_eq!(script.apply(Moved { partition: TAKER, arrived: arrived(departure.number) }), Ok(1));
    assert!(script.changes.iter().any(removes_payload));
    assert_eq!((script.phase(number), script.partition.moving()), (Some(Phase::Failed), 0));
}

#[test]
fn an_item_that_is_forgotten_on_its_way_is_seen_by_nobody_and_still_arrives() {
    let mut script = with_dead_queue();
    let number = fail_one(&mut script);
    script.pass(Span::from_secs(48 * 3600));
    script.sweep();
    assert_eq!((script.phase(number), script.partition.retained(), script.partition.moving()), (None, 0, 1));
    assert_eq!(script.cancel(number), Err(Refusal::NotFound));
    script.assign("dead", TAKER, 10);
    let last = script.partition.departures(TAKER, 10)[0].number;
    script.apply(Moved { partition: TAKER, arrived: arrived(last) }).unwrap();
    assert_eq!(script.changes[0], Change::Remove(windlass_core::row::Key::Item(number)));
    assert_eq!(script.phase(number), None);
}

#[test]
fn numbers_of_moves_only_grow_also_for_those_assigned_anew() {
    let mut script = with_dead_queue();
    let all: Vec<_> = (0..3).map(|_| fail_one(&mut script)).collect();
    assert_eq!((script.assign("dead", TAKER, 2), script.assign("dead", TAKER, 2)), (2, 1));
    let before = script.partition.departures(TAKER, 10);
    assert_eq!(before.iter().map(|departure| departure.body).collect::<Vec<_>>(), all);
    assert!(before.is_sorted_by(|one, next| one.number < next.number));
    let queue = "dead".into();
    let to = Arc::clone(&queue);
    let anew = Assign {
        queue,
        to,
        partition: PartitionId(10),
        instead_of: Some(TAKER),
        limit: 10,
        addressed: Vec::new(),
    };
    assert_eq!(script.apply(anew), Ok(3));
    let after = script.partition.departures(PartitionId(10), 10);
    assert!(after.iter().all(|departure| departure.number > before[2].number));
    assert_eq!(script.partition.departures(TAKER, 10), []);
}

#[test]
fn what_was_taken_once_is_not_taken_again() {
    let mut script =
        Script::with_settings(Settings { dead_timeout: Span::from_secs(9), ..Settings::default() });
    assert_eq!(take(&mut script, [5, 7]), 2);
    assert_eq!(take(&mut script, [5, 7]), 0);
    assert_eq!(script.changes, []);
    assert_eq!(take(&mut script, [7, 8]), 1);
    assert_eq!(script.partition.last_taken(SOURCE), MoveNumber(8));
    assert_eq!((script.totals.moved_in, script.partition.counts().waiting), (3, 3));
    let leased = script.lease(1).pop().unwrap();
    assert_eq!((&*leased.kind, leased.priority, leased.attempts), ("mail", 3, 1));
    assert_eq!((leased.dead_timeout, leased.created_at), (Some(Span::from_secs(9)), script.now));
    assert_eq!(leased.origin.unwrap().attempts, Some(2));
}

#[test]
fn a_partition_with_too_many_kinds_takes_nothing_and_can_be_asked_again() {
    let mut script = Script::new();
    for slice in 0..KINDS_MAX / 1000 {
        script.partition.apply(
            script.now,
            windlass_core::verbs::Produce {
                items: (0..1000).map(|kind| item(&format!("{slice}/{kind}"))).collect(),
            },
        );
    }
    let refused = script.partition.apply(script.now, Take { source: SOURCE, moves: vec![moved(1)] });
    assert!(matches!(refused.reply, Err(Refusal::TooMany { .. })));
    assert_eq!(script.partition.last_taken(SOURCE), MoveNumber(0));
}

#[test]
fn a_redrive_goes_by_the_order_of_the_queue_and_ends_where_it_began() {
    let mut script = Script::new();
    take(&mut script, 1..=250);
    script.produce(items(1));
    let mut from = None;
    let mut count = 0;
    let mut rounds = 0;
    loop {
        let to = RedriveTo::Origins(Arc::new(["elsewhere".into()].into()));
        let redrive = Redrive { to, kind: None, limit: usize::MAX, from, asked: BTreeMap::new() };
        let Redriven { count: some, next, .. } = script.apply(redrive).expect("a redrive is never refused");
        count += some;
        rounds += 1;
        // What comes meanwhile is none of its business.
        take(&mut script, [1000 + rounds]);
        from = next;
        if from.is_none() {
            break;
        }
    }
    assert!(rounds > 2, "in slices");
    assert_eq!((count, script.partition.moving()), (250, 250));
    assert_eq!(script.partition.counts().waiting, 1 + rounds);
    assert_eq!(script.partition.targets(), [Target { queue: "elsewhere".into(), partition: None }]);
}
