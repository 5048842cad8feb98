use windlass_core::id::{ItemId, ItemNumber, NUMBER_MAX, PartitionId};
use windlass_core::item::{Item, LeaseEnd, Phase, State};
use windlass_core::partition::{Counts, Head, Partition};
use windlass_core::refusal::Refusal;
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Cancel, Cancelled, Complete, Filter, Held, LeaseItems, NewItem};

use crate::script::{START, Script, item, items, kinds, stranger};

fn ranked(kind: &str, priority: u8) -> NewItem {
    NewItem { priority, ..item(kind) }
}

#[test]
fn items_come_by_priority_and_then_in_the_order_given() {
    let mut script = Script::new();
    let made =
        script.produce([ranked("a", 5), ranked("b", 0), ranked("a", 0), ranked("b", 5), ranked("c", 255)]);
    assert_eq!(script.order(), [made[1], made[2], made[0], made[3], made[4]]);
}

#[test]
fn several_kinds_come_in_one_order_and_others_stay() {
    let mut script = Script::new();
    let made =
        script.produce([ranked("a", 1), item("b"), ranked("c", 1), item("a"), item("c"), ranked("a", 1)]);
    let got: Vec<_> =
        script.lease_with(10, kinds(&["c", "a", "unknown"])).iter().map(|got| got.id.number).collect();
    assert_eq!(got, [made[3], made[4], made[0], made[2], made[5]]);
    assert_eq!(script.order(), [made[1]]);
}

#[test]
fn a_kind_named_twice_counts_once() {
    let mut script = Script::new();
    script.produce(items(3));
    let twice = Filter { kinds: Some(["default".into(), "default".into()].into()), max_priority: u8::MAX };
    let got = script.lease_with(3, twice);
    assert_eq!(got.len(), 3);
    assert!(got.windows(2).all(|pair| pair[0].id.number < pair[1].id.number));
}

#[test]
fn max_priority_is_inclusive_and_stops_at_the_first_beyond() {
    let mut script = Script::new();
    let made = script.produce([ranked("a", 3), ranked("b", 2), ranked("a", 1)]);
    let filter = |kinds: Option<&str>, max| Filter::new(kinds.map(|kind| vec![kind.into()]), max);
    assert_eq!(script.partition.head(&filter(Some("b"), 1)), None);
    assert_eq!(script.partition.head(&filter(None, 0)), None);
    assert_eq!(script.partition.head(&filter(None, 1)), Some(Head { priority: 1, place: made[2].0 }));
    let got: Vec<_> = script.lease_with(10, filter(None, 2)).iter().map(|got| got.id.number).collect();
    assert_eq!(got, [made[2], made[1]]);
    assert_eq!(script.lease_with(10, filter(Some("a"), 2)), []);
    assert_eq!(script.lease_with(10, filter(Some("a"), 3)).len(), 1);
}

#[test]
fn a_lease_has_a_permit_a_deadline_and_costs_an_attempt() {
    let mut script = Script::new();
    let made = script.produce(items(2));
    script.pass(Span::from_secs(5));
    let got = script.lease(2);
    assert_eq!((got[0].id.number, got[0].attempts, got[0].created_at), (made[0], 1, START));
    assert_eq!(got[0].deadline, script.now + Span::from_secs(60));
    assert!(got[0].permit < got[1].permit);
    let State::Leased(lease) = script.get(made[0]).state else { panic!("it was leased") };
    assert_eq!((lease.permit, &*lease.client_id, lease.leased_at), (got[0].permit, "worker", script.now));
    assert_eq!(
        script.partition.counts(),
        Counts { held: 0, scheduled: 0, waiting: 0, leased: 2, suspended: 0 }
    );
    assert_eq!(script.partition.next_due(), Some(got[0].deadline));
}

#[test]
fn a_lease_takes_its_own_timeout_before_the_queues() {
    let mut script =
        Script::with_settings(Settings { lease_timeout: Span::from_secs(7), ..Settings::default() });
    script.produce(items(2));
    assert_eq!(script.lease(1)[0].deadline, START + Span::from_secs(7));
    let own = LeaseItems {
        client_id: "worker".into(),
        batch_size: 1,
        lease_timeout: Some(Span::from_secs(2)),
        filter: Filter::ANY,
    };
    let got = script.apply(own).expect("a lease is never refused");
    assert_eq!(got[0].deadline, START + Span::from_secs(2));
}

#[test]
fn an_empty_lease_changes_nothing() {
    let mut script = Script::new();
    assert_eq!(script.lease(10), []);
    assert_eq!(script.changes, []);
}

#[test]
fn only_the_very_permit_is_the_right_to_an_item() {
    let mut script = Script::new();
    let number = script.produce_one();
    let mine = script.lease_one();
    let lost = Err(Refusal::LeaseLost { reason: None });
    assert_eq!(script.complete(stranger(mine), None), lost);
    assert_eq!(script.release(stranger(mine)), lost);
    assert_eq!(script.phase(number), Some(Phase::Leased));
    let next = ItemId { number: ItemNumber(number.0 + 1), ..mine.id };
    let elsewhere = ItemId { partition: PartitionId(mine.id.partition.0 + 1), ..mine.id };
    for id in [next, elsewhere] {
        assert_eq!(script.complete(Held { id, ..mine }, None), Err(Refusal::NotFound));
    }
    assert_eq!(script.complete(mine, None), Ok(()));
}

#[test]
fn past_its_deadline_a_lease_is_lost_before_any_sweep() {
    let mut script = Script::new();
    script.produce(items(2));
    let [early, late] = [script.lease_one(), script.lease_one()];
    script.now = Timestamp(START.0 + 59_999_999);
    assert_eq!(script.complete(early, None), Ok(()));
    script.pass(Span::from_micros(1));
    assert_eq!(script.complete(late, None), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Expired) }));
    assert_eq!(script.extend(late, None), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Expired) }));
}

#[test]
fn an_ended_lease_costs_its_attempt_and_the_item_returns_to_its_place() {
    let mut script = Script::new();
    let made = script.produce(items(3));
    let lost = script.lease_one();
    script.pass(Span::from_secs(60));
    assert_eq!(script.partition.next_due(), Some(script.now));
    assert_eq!(script.sweep(), 1);
    assert_eq!(script.complete(lost, None), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Expired) }));
    let got = script.lease(3);
    assert_eq!(got.iter().map(|got| got.id.number).collect::<Vec<_>>(), made);
    assert_eq!((got[0].attempts, got[1].attempts), (2, 1));
    assert_eq!(script.complete(lost, None), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Expired) }));
    assert_eq!(script.complete(got[0].held(), None), Ok(()));
}

#[test]
fn an_item_fails_when_its_last_lease_ends_and_says_so() {
    let mut script = Script::with_settings(Settings { max_attempts: 2, ..Settings::default() });
    let number = script.produce_one();
    for phase in [Phase::Waiting, Phase::Failed] {
        script.lease_one();
        script.pass(Span::from_secs(60));
        script.sweep();
        assert_eq!(script.phase(number), Some(phase));
    }
    let error = script.get(number).extras.unwrap().error.unwrap();
    assert_eq!(error.code.as_deref(), Some("lease_expired"));
    assert!(error.message.contains("attempt 2"), "{}", error.message);
    assert_eq!(script.lease(1), []);
}

#[test]
fn without_a_limit_attempts_never_run_out() {
    let mut script = Script::with_settings(Settings { max_attempts: 0, ..Settings::default() });
    let number = script.produce_one();
    for _ in 0..20 {
        script.lease_one();
        script.pass(Span::from_secs(60));
        script.sweep();
    }
    assert_eq!((script.phase(number), script.get(number).attempts), (Some(Phase::Waiting), 20));
}

#[test]
fn an_items_own_limit_goes_before_the_queues() {
    let mut script = Script::new();
    let once = script.produce([NewItem { max_attempts: Some(1), ..item("default") }])[0];
    let without_limit = script.produce([NewItem { max_attempts: Some(0), ..item("default") }])[0];
    for _ in 0..4 {
        script.lease(2);
        script.pass(Span::from_secs(60));
        script.sweep();
    }
    assert_eq!(script.phase(once), Some(Phase::Failed));
    assert_eq!(script.phase(without_limit), Some(Phase::Waiting));
}

#[test]
fn after_an_acquire_workers_have_ten_seconds_or_their_timeout_to_get_in_touch() {
    let mut script = Script::new();
    script.produce(items(2));
    let short = LeaseItems {
        client_id: "worker".into(),
        batch_size: 1,
        lease_timeout: Some(Span::from_secs(2)),
        filter: Filter::ANY,
    };
    let short = script.apply(short).expect("a lease is never refused");
    let long = script.lease_one();
    let acquired_at = START + Span::from_secs(3600);
    // Loaded for a while before it was there to be asked.
    let mut anew = Partition::new(script.partition.id(), START);
    script.partition.rows().for_each(|row| anew.put(row));
    anew.acquired(acquired_at);
    anew.audit().unwrap();
    assert_eq!(anew.next_due(), Some(acquired_at + Span::from_secs(2)));
    let shown = |item: Item| match item.state {
        State::Leased(lease) => lease.deadline,
        other => panic!("{other:?}"),
    };
    for (number, grace) in [(short[0].id.number, 2), (long.id.number, 10)] {
        let in_force = acquired_at + Span::from_secs(grace);
        assert_eq!(shown(anew.get(number).unwrap()), in_force, "what is shown is what is in force");
        for _ in ["asked for back", "again"] {
            let Cancelled { item, member } = anew.apply(acquired_at, Cancel(number)).reply.unwrap();
            assert_eq!((shown(item), member), (in_force, None));
        }
    }
    let complete = |anew: &mut Partition, now, held| {
        let complete = Complete(vec![windlass_core::verbs::Completion { held, result: None }]);
        anew.apply(now, complete).reply.unwrap().pop().unwrap()
    };
    let late = complete(&mut anew, acquired_at + Span::from_secs(2), short[0].held());
    assert_eq!(late, Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Expired) }));
    assert_eq!(complete(&mut anew, acquired_at + Span::from_micros(9_999_999), long), Ok(()));
    anew.audit().unwrap();
}

#[test]
fn the_oldest_waiting_item_is_found_over_kinds_and_priorities() {
    let mut script = Script::new();
    assert_eq!(script.partition.oldest_waiting(), None);
    script.produce([ranked("a", 9)]);
    script.pass(Span::from_secs(1));
    script.produce([ranked("b", 0), ranked("a", 1)]);
    assert_eq!(script.partition.oldest_waiting(), Some(START));
    script.lease_with(10, kinds(&["a"]));
    assert_eq!(script.partition.oldest_waiting(), Some(script.now));
}

#[test]
fn an_item_that_falls_due_has_waited_since_then() {
    let mut script = Script::new();
    let due_at = script.now + Span::from_secs(10);
    script.produce([NewItem { enqueue_at: Some(due_at), ..item("default") }]);
    script.pass(Span::from_secs(5));
    script.produce_one();
    let produced_at = script.now;
    script.pass(Span::from_secs(5));
    script.sweep();
    assert_eq!(script.partition.oldest_waiting(), Some(produced_at));
    script.lease(1);
    assert_eq!(script.partition.oldest_waiting(), Some(due_at));
}

#[test]
fn priorities_and_kinds_are_counted() {
    let mut script = Script::new();
    script.produce([ranked("a", 9), ranked("a", 1), ranked("b", 9)]);
    script.lease_with(1, kinds(&["a"]));
    assert_eq!(script.partition.waiting_by_priority(), [(9, 2)].into());
    let counts = script.partition.kind_counts();
    assert_eq!(counts["a"], Counts { held: 0, scheduled: 0, waiting: 1, leased: 1, suspended: 0 });
    assert_eq!(counts["b"], Counts { held: 0, scheduled: 0, waiting: 1, leased: 0, suspended: 0 });
}

#[test]
fn the_largest_place_at_the_largest_priority_still_has_its_order() {
    let mut script = Script::new();
    script.now = Timestamp(NUMBER_MAX - 10);
    let made = script.produce([ranked("a", 255), ranked("a", 254), ranked("a", 255)]);
    assert_eq!(script.order(), [made[1], made[0], made[2]]);
}

#[test]
fn a_lease_tells_how_long_its_items_had_waited_in_their_state() {
    let mut script = Script::new();
    script.produce([NewItem { enqueue_at: Some(START + Span::from_secs(30)), ..item("due later") }]);
    script.produce_one();
    script.pass(Span::from_secs(40));
    script.sweep();
    script.lease(10);
    assert_eq!(script.waited, [40, 10].map(Span::from_secs), "an item that falls due waits from then on");
    script.produce_one();
    let held = script.lease_one();
    assert_eq!(script.waited, [Span::ZERO]);
    script.pass(Span::from_secs(5));
    script.release(held).unwrap();
    assert_eq!(script.waited, []);
    script.pass(Span::from_secs(2));
    script.lease(1);
    assert_eq!(script.waited, [Span::from_secs(2)], "the lease before does not count");
}
