//! What items tell and keep once something has become of them: times, attempts, payloads, and where they went on.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use windlass_core::attempt::{self, Attempt, AttemptEnd};
use windlass_core::effort::{Looked, looks};
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::item::{Item, MoveReason, Outcome, PayloadSize, Phase, State};
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Intake, Part};
use windlass_core::settings::{Keep, RetainPayload, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::{
    Arrived, Arriving, ArrivingItem, Asked, Assign, CancelGroup, Clear, Configure, CreateGroup, Delete,
    DeleteAny, Departing, FallBack, Held, Move, Moved, NewItem, Redrive, RedriveTo, Rerun, RerunElsewhere,
    Route, StartGroup, Take,
};

use crate::script::{RetryItem, START, Script, again, at_once, error, item, items, open_group, rebuilt};

const DEAD: PartitionId = PartitionId(9);

fn outcome(script: &Script, number: ItemNumber) -> Outcome {
    match script.get(number).state {
        State::Final(outcome) => *outcome,
        other => panic!("{other:?}"),
    }
}

fn fail(script: &mut Script, held: Held) {
    script.retry(RetryItem { dead: true, ..again(held) }).unwrap();
}

fn fail_one(script: &mut Script) -> ItemNumber {
    let number = script.produce_one();
    let held = script.lease_one();
    fail(script, held);
    number
}

fn clear_all() -> Clear {
    Clear { waiting: true, scheduled: true, leased: true, suspended: true }
}

/// The attempt that the last verb logged.
fn logged(script: &Script) -> Attempt {
    let bodies: Vec<&Bytes> = script.changes.iter().filter_map(attempt_body).collect();
    let [body] = bodies[..] else { panic!("{:?}", script.changes) };
    Attempt::decode(body).unwrap()
}

fn attempt_body(change: &Change) -> Option<&Bytes> {
    match change {
        Change::PutBody { part: Part::Attempt(_), body, .. } => Some(body),
        _ => None,
    }
}

fn rerun(number: ItemNumber) -> Rerun {
    Rerun { number, queue: "q".into(), delay: None }
}

proptest! {
    #[test]
    fn a_payload_size_is_rounded_up_by_at_most_an_eighth(bytes in 0_u64..1 << 33) {
        let told = PayloadSize::of(bytes).bytes();
        prop_assert!(bytes <= told && told - bytes <= bytes / 8);
    }
}

#[test]
fn changed_at_is_when_the_state_became_another() {
    let mut script = Script::new();
    let number = script.produce_one();
    let changed_at = |script: &Script| script.get(number).changed_at();
    assert_eq!(changed_at(&script), script.now);
    script.pass(Span::from_secs(1));
    let held = script.lease_one();
    let leased_at = script.now;
    assert_eq!(changed_at(&script), leased_at);
    script.pass(Span::from_secs(1));
    script.extend(held, None).unwrap();
    assert_eq!(changed_at(&script), leased_at, "an extend changes no state");
    script.release(held).unwrap();
    assert_eq!(changed_at(&script), script.now);
    script.pass(Span::from_secs(1));
    let held = script.lease_one();
    let due_at = script.now + Span::from_secs(10);
    script.retry(RetryItem { retry_at: Some(due_at), ..again(held) }).unwrap();
    assert_eq!(changed_at(&script), script.now, "scheduled by a retry");
    script.pass(Span::from_secs(15));
    script.sweep();
    assert_eq!((script.phase(number), changed_at(&script)), (Some(Phase::Waiting), due_at));
    let held = script.lease_one();
    script.suspend(held, None).unwrap();
    let suspended_at = script.now;
    script.pass(Span::from_secs(1));
    assert_eq!(changed_at(&script), suspended_at);
    script.resume(number, None).unwrap();
    assert_eq!(changed_at(&script), script.now);
    script.pass(Span::from_secs(1));
    let held = script.lease_one();
    fail(&mut script, held);
    assert_eq!(changed_at(&script), script.now);
}

#[test]
fn the_start_of_a_group_changes_all_that_it_held() {
    let mut script = Script::new();
    script.apply(open_group("g")).unwrap();
    let number = script.produce([NewItem { group: Some("g".into()), ..item("default") }])[0];
    script.pass(Span::from_secs(5));
    script.apply(StartGroup("g".into())).unwrap();
    let started_at = script.now;
    script.pass(Span::from_secs(5));
    assert_eq!(script.get(number).changed_at(), started_at);
    let held = script.lease_one();
    script.release(held).unwrap();
    assert_eq!(script.get(number).changed_at(), script.now);
}

#[test]
fn the_latest_lease_is_told_in_every_state() {
    let mut script = Script::new();
    let number = script.produce_one();
    let started = |script: &Script| script.get(number).started().map(|(at, client)| (at, client.to_string()));
    assert_eq!(started(&script), None);
    let held = script.lease_one();
    let first = Some((script.now, "worker".to_owned()));
    assert_eq!(started(&script), first);
    script.pass(Span::from_secs(1));
    script.release(held).unwrap();
    assert_eq!(started(&script), first, "also of a lease that was given back");
    let held = script.lease_one();
    let second = Some((script.now, "worker".to_owned()));
    script.pass(Span::from_secs(1));
    fail(&mut script, held);
    assert_eq!(started(&script), second);
}

#[test]
fn every_attempt_that_does_not_complete_is_logged_with_how_its_lease_ended() {
    let mut script = Script::with_settings(Settings { max_attempts: 0, ..Settings::default() });
    let number = script.produce_one();
    let held = script.lease_one();
    let leased_at = script.now;
    script.pass(Span::from_secs(2));
    let told = error("told");
    script.retry(RetryItem { error: Some(told.clone()), ..at_once(held) }).unwrap();
    let retried = Attempt {
        attempt: 1,
        client_id: "worker".into(),
        leased_at,
        ended_at: script.now,
        end: AttemptEnd::Retried,
        error: Some(told),
    };
    assert_eq!(logged(&script), retried);
    script.lease_one();
    script.pass(Span::from_secs(61));
    script.sweep();
    let expired = logged(&script);
    assert_eq!((expired.attempt, expired.end, expired.error), (2, AttemptEnd::Expired, None));
    let held = script.lease_one();
    script.revoke(held).unwrap();
    assert_eq!((logged(&script).attempt, logged(&script).end), (3, AttemptEnd::Revoked));
    let held = script.lease_one();
    script.release(held).unwrap();
    assert!(!script.changes.iter().any(|change| attempt_body(change).is_some()), "a release is no attempt");
    let held = script.lease_one();
    fail(&mut script, held);
    assert_eq!((logged(&script).attempt, logged(&script).end), (4, AttemptEnd::Dead));
    assert_eq!(script.get(number).extras.unwrap().attempts_logged, 4);
}

#[test]
fn the_last_attempt_says_how_its_lease_ended_and_not_what_became_of_the_item() {
    let mut script = Script::with_settings(Settings { max_attempts: 1, ..Settings::default() });
    script.produce(items(3));
    let [expires, revoked, retried] = script.lease(3).try_into().unwrap();
    script.revoke(revoked.held()).unwrap();
    assert_eq!(logged(&script).end, AttemptEnd::Revoked);
    script.retry(again(retried.held())).unwrap();
    assert_eq!(logged(&script).end, AttemptEnd::Dead);
    script.pass(Span::from_secs(61));
    script.sweep();
    assert_eq!(logged(&script).end, AttemptEnd::Expired);
    assert_eq!(script.phase(expires.id.number), Some(Phase::Failed));
}

#[test]
fn whatever_ends_a_lease_after_a_cancel_request_the_attempt_was_cancelled() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    script.produce(items(5));
    let leased = script.lease(5);
    for leased in &leased {
        script.cancel(leased.id.number).unwrap();
    }
    let [a, b, c, d, _expires] = leased.try_into().unwrap();
    script.retry(again(a.held())).unwrap();
    assert_eq!(logged(&script).end, AttemptEnd::Cancelled);
    script.release(b.held()).unwrap();
    assert_eq!(logged(&script).end, AttemptEnd::Cancelled);
    script.suspend(c.held(), None).unwrap();
    assert_eq!(logged(&script).end, AttemptEnd::Cancelled);
    script.revoke(d.held()).unwrap();
    assert_eq!(logged(&script).end, AttemptEnd::Cancelled);
    script.pass(Span::from_secs(61));
    script.sweep();
    assert_eq!(logged(&script).end, AttemptEnd::Cancelled);
}

#[test]
fn a_lease_that_was_cleared_is_logged_once_the_sweep_has_come_by() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    let number = script.produce_one();
    script.lease_one();
    script.clear(clear_all());
    let cleared_at = script.now;
    script.pass(Span::from_secs(3));
    script.sweep();
    let attempt = logged(&script);
    assert_eq!((attempt.end, attempt.ended_at), (AttemptEnd::Cancelled, cleared_at));
    assert_eq!(script.phase(number), Some(Phase::Cancelled));
}

#[test]
fn the_newest_ten_attempts_are_kept_in_their_order() {
    let mut script = Script::with_settings(Settings { max_attempts: 0, ..Settings::default() });
    let number = script.produce_one();
    let mut bodies = BTreeMap::new();
    for _ in 0..25 {
        let held = script.lease_one();
        script.retry(at_once(held)).unwrap();
        for change in &script.changes {
            if let Change::PutBody { part: part @ Part::Attempt(_), body, .. } = change {
                bodies.insert(*part, Attempt::decode(body).unwrap().attempt);
            }
        }
    }
    let logged = script.get(number).extras.unwrap().attempts_logged;
    let kept: Vec<u32> = attempt::parts(logged).map(|part| bodies[&part]).collect();
    assert_eq!((logged, kept), (25, (16..=25).collect()));
}

#[test]
fn nothing_of_an_attempt_is_left_of_an_item_that_is_not_kept() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.retry(at_once(held)).unwrap();
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    // The script compares all bodies with all rows after each verb.
    assert_eq!(script.phase(number), None);
    let number = script.produce_one();
    let held = script.lease_one();
    script.retry(at_once(held)).unwrap();
    script.apply(Delete(vec![number])).unwrap();
    assert_eq!(script.phase(number), None);
}

#[test]
fn the_payload_of_what_failed_expired_or_was_cancelled_is_kept_by_default() {
    for (retain_payload, failed, completed) in [
        (RetainPayload::Failed, true, false),
        (RetainPayload::All, true, true),
        (RetainPayload::None, false, false),
    ] {
        let mut script = Script::with_settings(Settings { retain_payload, ..Settings::default() });
        let number = fail_one(&mut script);
        assert_eq!(outcome(&script, number).payload_kept, failed, "{retain_payload:?}");
        let number = script.produce([NewItem { address: Some("a".into()), ..item("default") }])[0];
        script.cancel(number).unwrap();
        assert_eq!(outcome(&script, number).payload_kept, failed, "{retain_payload:?}");
        let number = script.produce_one();
        let held = script.lease_one();
        script.complete(held, Some("result")).unwrap();
        assert_eq!(outcome(&script, number).payload_kept, completed, "{retain_payload:?}");
    }
}

#[test]
fn a_kept_payload_is_by_itself_nothing_to_show_and_counts_among_the_bytes_kept() {
    let mut script =
        Script::with_settings(Settings { retain_payload: RetainPayload::All, ..Settings::default() });
    let number = script.produce_one();
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    assert_eq!(script.phase(number), None);
    let body = Bytes::from(vec![b'x'; 1000]);
    let number = script.produce([NewItem { address: Some("a".into()), body, ..item("default") }])[0];
    script.cancel(number).unwrap();
    let kept = outcome(&script, number).kept_bytes;
    assert!((1001..=1126).contains(&kept), "{kept}");
}

#[test]
fn with_keep_all_whatever_ends_is_kept_but_what_is_deleted() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    let completed = script.produce_one();
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    let cancelled = script.produce_one();
    script.cancel(cancelled).unwrap();
    let deleted = script.produce_one();
    script.apply(Delete(vec![deleted])).unwrap();
    let phases = [completed, cancelled, deleted].map(|number| script.phase(number));
    assert_eq!(phases, [Some(Phase::Completed), Some(Phase::Cancelled), None]);
}

#[test]
fn with_keep_all_what_was_cleared_is_kept_and_counted_before_and_after_the_sweep() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    let numbers = script.produce(items(3));
    script.clear(clear_all());
    assert_eq!(script.partition.retained(), 3);
    let seen: Vec<Item> = numbers.iter().map(|number| script.get(*number)).collect();
    let shown = Settings { version: 9, keep: Keep::Shown, ..Settings::default() };
    script.apply(Configure(shown)).unwrap();
    assert_eq!(script.partition.retained(), 3, "they ended before that");
    script.sweep();
    assert_eq!(numbers.iter().map(|number| script.get(*number)).collect::<Vec<_>>(), seen);
    script.produce(items(2));
    script.clear(clear_all());
    script.sweep();
    assert_eq!(script.partition.retained(), 3, "what ended after that is not kept");
}

#[test]
fn with_keep_all_members_that_go_with_their_group_are_kept() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    let group = CreateGroup { start: true, items: items(2), ..open_group("g") };
    let numbers: Vec<ItemNumber> =
        script.apply(group).unwrap().items.iter().map(|produced| produced.number).collect();
    script.apply(CancelGroup("g".into())).unwrap();
    assert_eq!(script.partition.retained(), 2);
    script.sweep();
    assert_eq!(script.partition.retained(), 2);
    assert_eq!(script.phase(numbers[1]), Some(Phase::Cancelled));
}

fn retain(script: &mut Script, version: u64, retain_payload: RetainPayload) {
    let settings = Settings { version, retain_payload, keep: Keep::All, ..Settings::default() };
    script.apply(Configure(settings)).unwrap();
}

#[test]
fn the_payload_of_what_was_cleared_is_kept_as_the_queue_said_at_the_clear() {
    for (then, now, kept) in
        [(RetainPayload::None, RetainPayload::All, false), (RetainPayload::Failed, RetainPayload::None, true)]
    {
        let mut script = Script::new();
        retain(&mut script, 1, then);
        let cleared = script.produce_one();
        script.clear(clear_all());
        let group = CreateGroup { start: true, items: items(1), ..open_group("g") };
        let member = script.apply(group).unwrap().items[0].number;
        script.apply(CancelGroup("g".into())).unwrap();
        retain(&mut script, 2, now);
        for number in [cleared, member] {
            assert_eq!(outcome(&script, number).payload_kept, kept, "{then:?}, then {now:?}");
        }
        script.sweep();
        for number in [cleared, member] {
            assert_eq!(outcome(&script, number).payload_kept, kept, "{then:?}, then {now:?}, swept");
        }
    }
}

#[test]
fn a_clear_waits_for_members_that_went_with_their_group_by_another_rule() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    let group = CreateGroup { start: true, items: items(1), ..open_group("g") };
    let member = script.apply(group).unwrap().items[0].number;
    script.apply(CancelGroup("g".into())).unwrap();
    let ordinary = script.produce_one();
    script.apply(Configure(Settings { version: 2, ..Settings::default() })).unwrap();
    let refused = script.apply(clear_all());
    assert!(matches!(refused, Err(Refusal::TooMany { .. })), "{refused:?}");
    script.sweep();
    assert_eq!(script.apply(clear_all()), Ok(1));
    script.sweep();
    assert_eq!((script.phase(member), script.phase(ordinary)), (Some(Phase::Cancelled), None));
}

#[test]
fn the_attempt_that_a_clear_ended_is_known_before_the_sweep_logs_it() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    let number = script.produce_one();
    script.lease_one();
    script.pass(Span::from_secs(3));
    assert_eq!(script.partition.attempt_to_log(number), None);
    script.clear(clear_all());
    let to_log = script.partition.attempt_to_log(number).unwrap();
    assert_eq!((to_log.end, to_log.ended_at), (AttemptEnd::Cancelled, script.now));
    script.pass(Span::from_secs(3));
    script.sweep();
    assert_eq!(logged(&script), to_log);
    assert_eq!(script.partition.attempt_to_log(number), None);
}

#[test]
fn a_lease_carries_the_error_of_the_attempt_before_alone() {
    let mut script = Script::with_settings(Settings { max_attempts: 0, ..Settings::default() });
    let number = script.produce_one();
    let leased_with = |script: &mut Script| {
        let leased = script.lease(1).remove(0);
        (leased.error.clone(), leased.held())
    };
    let told = || error("told");
    let (none, held) = leased_with(&mut script);
    script.retry(RetryItem { error: Some(told()), ..at_once(held) }).unwrap();
    let (first, held) = leased_with(&mut script);
    script.release(held).unwrap();
    let (released, held) = leased_with(&mut script);
    assert_eq!((none, first, released), (None, Some(told()), Some(told())));
    script.revoke(held).unwrap();
    let (revoked, held) = leased_with(&mut script);
    script.release(held).unwrap();
    let (after_that, _held) = leased_with(&mut script);
    assert_eq!((revoked, after_that), (None, None), "a revoked attempt has no error");
    script.pass(Span::from_secs(3600));
    script.sweep();
    let (expired, held) = leased_with(&mut script);
    script.retry(RetryItem { error: Some(told()), ..at_once(held) }).unwrap();
    let (again_told, held) = leased_with(&mut script);
    script.retry(at_once(held)).unwrap();
    let (unsaid, _held) = leased_with(&mut script);
    assert_eq!((expired, again_told, unsaid), (None, Some(told()), None));
    assert_eq!(
        script.get(number).extras.unwrap().error,
        Some(told()),
        "the item tells the last word there was"
    );
}

#[test]
fn an_item_whose_lease_ran_out_waits_since_its_deadline() {
    let mut script = Script::new();
    let number = script.produce_one();
    let deadline = script.lease(1)[0].deadline;
    script.pass(Span::from_secs(3600));
    script.sweep();
    assert_eq!(logged(&script).ended_at, deadline);
    assert_eq!(script.get(number).changed_at(), deadline);
}

#[test]
fn partitions_share_what_the_queue_may_keep() {
    let mut script = Script::with_settings(Settings { retention_max_items: 8, ..Settings::default() });
    script.apply(Route(Intake { version: 1, shares: 4, ..Intake::default() })).unwrap();
    let numbers: Vec<_> = (0..5).map(|_| fail_one(&mut script)).collect();
    script.sweep();
    let phases: Vec<_> = numbers.iter().map(|number| script.phase(*number).is_some()).collect();
    assert_eq!(phases, [false, false, false, true, true]);
}

#[test]
fn a_rerun_is_a_new_item_and_the_old_one_tells_it() {
    let mut script = Script::new();
    let new = NewItem {
        address: Some("a".into()),
        max_attempts: Some(7),
        dead_timeout: Some(Span::from_secs(500)),
        priority: 3,
        facts: Some(Bytes::from_static(b"facts")),
        ..item("mail")
    };
    let old = script.produce([new])[0];
    let held = script.lease_one();
    let told = error("told");
    script.retry(RetryItem { dead: true, error: Some(told.clone()), ..again(held) }).unwrap();
    let before = outcome(&script, old);
    script.pass(Span::from_secs(9));
    let made = script.apply(rerun(old)).unwrap();
    assert_eq!(made.phase, Phase::Waiting);
    let (made, id) = (script.get(made.number), ItemId { partition: PartitionId(7), number: old });
    let extras = made.extras.clone().unwrap();
    assert_eq!((made.priority, made.attempts, made.created_at, &*made.kind), (3, 0, script.now, "mail"));
    assert_eq!((extras.max_attempts, extras.dead_timeout), (Some(7), Some(Span::from_secs(500))));
    assert_eq!((extras.address.as_deref(), extras.error), (Some("a"), None));
    let origin = extras.origin.unwrap();
    assert_eq!((origin.reason, origin.id, origin.error), (MoveReason::Rerun, Some(id), Some(told)));
    assert_eq!((origin.attempts, origin.moved_at), (Some(1), script.now));
    let copied: Vec<Part> = script.copies.iter().map(|copy| copy.part).collect();
    assert_eq!(copied, [Part::Payload, Part::Facts, Part::Attempt(0)]);
    let after = outcome(&script, old);
    assert_eq!((after.end, after.finished_at, after.payload_kept), (before.end, before.finished_at, false));
    let there = ItemId { partition: PartitionId(7), number: made.number };
    assert_eq!(script.get(old).extras.unwrap().moved_to.unwrap().id, there);
    assert_eq!(script.apply(rerun(old)), Err(Refusal::MovedOn { id: there }));
}

#[test]
fn only_a_final_item_whose_payload_is_kept_is_rerun() {
    let mut script = Script::new();
    assert_eq!(script.apply(rerun(ItemNumber(5))), Err(Refusal::NotFound));
    let number = script.produce_one();
    assert_eq!(script.apply(rerun(number)), Err(Refusal::NotEnded));
    let held = script.lease_one();
    script.complete(held, Some("result")).unwrap();
    assert_eq!(script.apply(rerun(number)), Err(Refusal::NoPayload { lost: false }));
    let address = || NewItem { address: Some("a".into()), ..item("default") };
    let old = script.produce([address()])[0];
    script.cancel(old).unwrap();
    let holder = script.produce([address()])[0];
    assert_eq!(script.apply(rerun(old)), Err(Refusal::DuplicateAddress { number: holder }));
}

#[test]
fn a_rerun_of_what_was_cleared_does_not_wait_for_the_sweep() {
    let mut script = Script::new();
    let number = script.produce([NewItem { address: Some("a".into()), ..item("default") }])[0];
    script.clear(clear_all());
    let made = script.apply(Rerun { delay: Some(Span::from_secs(5)), ..rerun(number) }).unwrap();
    assert_eq!(made.phase, Phase::Scheduled);
    assert_eq!((script.phase(number), script.partition.retained()), (Some(Phase::Cancelled), 1));
}

#[test]
fn a_rerun_in_a_partition_that_takes_nothing_goes_elsewhere() {
    let mut script = Script::new();
    let number = fail_one(&mut script);
    script.apply(Route(Intake { version: 1, closed: true, ..Intake::default() })).unwrap();
    assert_eq!(script.apply(rerun(number)), Err(Refusal::Moved));
    script.pass(Span::from_secs(9));
    script.apply(RerunElsewhere(rerun(number))).unwrap();
    let left_at = script.now;
    assert_eq!(script.partition.moving(), 1);
    script.pass(Span::from_secs(9));
    assert_eq!(script.apply(rerun(number)), Err(Refusal::Leaving));
    script.assign("q", DEAD, 10);
    let departure = script.partition.departures(DEAD, 10).pop().unwrap();
    assert_eq!(departure.attempts_logged, 1);
    let Departing::Item(item) = &departure.what else { panic!("{departure:?}") };
    assert_eq!(item.left_at, left_at, "not when the item ended, and not when it was assigned");
    let items = [(departure.number, ItemNumber(77))].into();
    let arrived = Arrived { last: departure.number, items, ..Arrived::default() };
    script.apply(Moved { partition: DEAD, arrived }).unwrap();
    let there = ItemId { partition: DEAD, number: ItemNumber(77) };
    assert_eq!(script.apply(rerun(number)), Err(Refusal::MovedOn { id: there }));
}

fn letter(number: u64, address: Option<&str>) -> Move {
    let origin = windlass_core::item::Origin {
        queue: "work".into(),
        id: None,
        group: None,
        address: address.map(Into::into),
        attempts: Some(3),
        reason: MoveReason::Dead,
        error: None,
        moved_at: START,
        unknown: Vec::new(),
    };
    let item = ArrivingItem {
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
    Move {
        number: windlass_core::item::MoveNumber(number),
        what: Arriving::Item(Box::new(item)),
        body: Some(Bytes::from_static(b"payload")),
        facts: None,
        attempts: vec![Bytes::from_static(b"first"), Bytes::from_static(b"second")],
    }
}

fn redrive(asked: BTreeMap<ItemNumber, Asked>) -> Redrive {
    let to = RedriveTo::Origins(Arc::new(["work".into()].into()));
    Redrive { to, kind: None, limit: usize::MAX, from: None, asked }
}

#[test]
fn what_is_taken_is_told_again_until_the_source_has_forgotten_it() {
    let mut script = Script::new();
    let take = |moves: Vec<Move>| Take { source: DEAD, moves };
    let first = script.apply(take(vec![letter(1, None), letter(2, None)])).unwrap();
    assert_eq!(first.items.len(), 2);
    assert_eq!(script.apply(take(vec![letter(1, None), letter(2, None)])), Ok(first.clone()));
    let more = script.apply(take(vec![letter(2, None), letter(3, None)])).unwrap();
    assert_eq!(more.items.keys().map(|number| number.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(more.items.first_key_value(), first.items.last_key_value());
    let number = *more.items.first_key_value().unwrap().1;
    assert_eq!(script.get(number).extras.unwrap().attempts_logged, 2, "the attempt log travels");
}

#[test]
fn a_redriven_letter_is_kept_as_cancelled_and_tells_where_it_went() {
    let mut script = Script::new();
    let arrived = script.apply(Take { source: DEAD, moves: vec![letter(1, None)] }).unwrap();
    let number = *arrived.items.first_key_value().unwrap().1;
    assert_eq!(script.apply(redrive(BTreeMap::new())).unwrap().count, 1);
    assert_eq!(script.phase(number), Some(Phase::Cancelled));
    script.assign("work", DEAD, 10);
    let last = script.partition.departures(DEAD, 1)[0].number;
    let items = [(last, ItemNumber(5))].into();
    script.apply(Moved { partition: DEAD, arrived: Arrived { last, items, ..Arrived::default() } }).unwrap();
    let moved_to = script.get(number).extras.unwrap().moved_to.unwrap();
    assert_eq!((&*moved_to.queue, moved_to.id), ("work", ItemId { partition: DEAD, number: ItemNumber(5) }));
    assert!(!outcome(&script, number).payload_kept);
}

#[test]
fn a_redrive_gives_addresses_back_that_are_free() {
    let mut script = Script::new();
    let moves = vec![letter(1, None), letter(2, Some("a")), letter(3, Some("b"))];
    let arrived = script.apply(Take { source: DEAD, moves }).unwrap();
    let numbers: Vec<ItemNumber> = arrived.items.values().copied().collect();
    let letters = script.partition.addressed_letters(script.now, &redrive(BTreeMap::new()));
    assert_eq!(letters.iter().map(|letter| letter.number).collect::<Vec<_>>(), numbers[1..]);
    let unasked = script.apply(redrive(BTreeMap::new())).unwrap();
    assert_eq!((unasked.count, unasked.skipped), (1, 0), "it ends before a letter that was not asked about");
    let asked = [(numbers[1], Asked::Taken), (numbers[2], Asked::Free)].into();
    let done = script.apply(Redrive { from: unasked.next, ..redrive(asked) }).unwrap();
    assert_eq!((done.count, done.skipped, done.next), (1, 1, None));
    assert_eq!(script.phase(numbers[1]), Some(Phase::Waiting));
    assert_eq!(script.assign("work", DEAD, 10), 1, "one with an address waits for the home of that");
    let addressed = script.partition.addressed_departures("work", 10);
    assert_eq!(addressed, [(numbers[2], "b".into())]);
    script.assign_addressed("work", DEAD, vec![numbers[2]]);
    let departures = script.partition.departures(DEAD, 10);
    let Departing::Item(item) = &departures[1].what else { panic!("{departures:?}") };
    assert_eq!(item.address_there.as_deref(), Some("b"));
}

/// With so many items that are on their way to a queue with an address.
fn with_addressed_departures(count: u64) -> (Script, Vec<ItemNumber>) {
    let mut script = Script::new();
    let moves = (1..=count).map(|number| letter(number, Some(&format!("address {number}")))).collect();
    let arrived = script.apply(Take { source: DEAD, moves }).unwrap();
    let asked = arrived.items.values().map(|number| (*number, Asked::Free)).collect();
    assert_eq!(script.apply(redrive(asked)).unwrap().count, count);
    let addressed = script.partition.addressed_departures("work", usize::MAX);
    (script, addressed.into_iter().map(|(number, _)| number).collect())
}

#[test]
fn assigning_items_with_an_address_looks_at_those_alone() {
    let (mut script, numbers) = with_addressed_departures(100);
    let wanted = vec![numbers[70], numbers[3], ItemNumber(999_999), numbers[70]];
    let before = looks(Looked::Indexed);
    script.partition.apply(script.now, assign_addressed(wanted)).reply.unwrap();
    let looked = looks(Looked::Indexed) - before;
    assert!(looked <= 3, "{looked} looks");
    let bodies: Vec<_> = script.partition.departures(DEAD, 10).into_iter().map(|gone| gone.body).collect();
    assert_eq!(bodies, [numbers[3], numbers[70]], "in the order in which they left");
    let again = assign_addressed(vec![numbers[3]]);
    assert_eq!(script.apply(again), Ok(0), "it has a taker");
}

fn assign_addressed(addressed: Vec<ItemNumber>) -> Assign {
    let (queue, to) = ("work".into(), "work".into());
    Assign { queue, to, partition: DEAD, instead_of: None, limit: 10, addressed }
}

#[test]
fn a_move_with_an_address_that_is_put_behind_the_others_stays_with_its_taker() {
    let (mut script, numbers) = with_addressed_departures(2);
    script.apply(assign_addressed(numbers.clone())).unwrap();
    let put_behind = Assign { instead_of: Some(DEAD), limit: 1, ..assign_addressed(Vec::new()) };
    assert_eq!(script.apply(put_behind), Ok(1));
    let bodies: Vec<_> = script.partition.departures(DEAD, 10).into_iter().map(|gone| gone.body).collect();
    assert_eq!(bodies, [numbers[1], numbers[0]]);
    let another = PartitionId(10);
    let elsewhere = Assign { partition: another, instead_of: Some(DEAD), ..assign_addressed(Vec::new()) };
    assert_eq!(script.apply(elsewhere), Ok(2));
    assert_eq!(script.partition.departures(another, 10), [], "its home may be another one");
    assert_eq!(script.partition.addressed_departures("work", 10).len(), 2);
}

#[test]
fn an_address_that_was_taken_before_the_item_arrives_is_told_by_its_origin() {
    let mut script = Script::new();
    let with_address = |number| {
        let mut moved = letter(number, None);
        let Arriving::Item(item) = &mut moved.what else { unreachable!() };
        item.address = Some("a".into());
        moved
    };
    let arrived = script.apply(Take { source: DEAD, moves: vec![with_address(1), with_address(2)] }).unwrap();
    let extras: Vec<_> = arrived.items.values().map(|number| *script.get(*number).extras.unwrap()).collect();
    assert_eq!((extras[0].address.as_deref(), extras[1].address.as_deref()), (Some("a"), None));
    assert_eq!(extras[1].origin.as_ref().unwrap().address.as_deref(), Some("a"));
}

#[test]
fn a_rerun_whose_address_was_taken_before_it_arrives_is_turned_away() {
    let mut target = Script::new();
    let with_address = |number, address: &str, address_taken| {
        let mut moved = letter(number, None);
        let Arriving::Item(item) = &mut moved.what else { unreachable!() };
        (item.address, item.address_taken) = (Some(address.into()), address_taken);
        item.origin.reason = MoveReason::Rerun;
        moved
    };
    let moves = vec![with_address(1, "a", false), with_address(2, "a", false), with_address(3, "b", true)];
    let arrived = target.apply(Take { source: DEAD, moves: moves.clone() }).unwrap();
    assert_eq!(arrived.items.keys().map(|number| number.0).collect::<Vec<_>>(), [1]);
    assert_eq!(arrived.turned_away.iter().map(|number| number.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((target.totals.moved_in, target.partition.counts().waiting), (1, 1));
    target.partition = rebuilt(&target.partition, target.now);
    assert_eq!(target.apply(Take { source: DEAD, moves: moves[1..].to_vec() }).unwrap().turned_away.len(), 2);
    let next = target.apply(Take { source: DEAD, moves: vec![with_address(4, "c", false)] }).unwrap();
    assert_eq!((next.items.len(), next.turned_away.len()), (1, 0), "the source has forgotten those before");
}

#[test]
fn an_item_that_was_turned_away_stays_as_it_ended() {
    let mut script = Script::new();
    let numbers = [fail_one(&mut script), fail_one(&mut script)];
    let before = numbers.map(|number| script.get(number));
    for number in numbers {
        script.apply(RerunElsewhere(rerun(number))).unwrap();
    }
    script.apply(DeleteAny(vec![numbers[1]])).unwrap()[0].clone().unwrap();
    script.assign("q", DEAD, 10);
    let departures = script.partition.departures(DEAD, 10);
    let turned_away = departures.iter().map(|departure| departure.number).collect();
    let last = departures[1].number;
    script
        .apply(Moved { partition: DEAD, arrived: Arrived { last, turned_away, ..Arrived::default() } })
        .unwrap();
    assert_eq!((script.partition.moving(), script.totals.moved_out), (0, 0));
    assert_eq!(script.get(numbers[0]), before[0]);
    assert_eq!(script.phase(numbers[1]), None, "it was deleted on its way");
    assert!(script.apply(rerun(numbers[0])).is_ok());
}

#[test]
fn what_was_deleted_on_its_way_does_not_fall_back_and_what_was_only_forgotten_does() {
    let settings =
        Settings { dead_queue: Some("dead".into()), retention_max_bytes: 10, ..Settings::default() };
    let mut script = Script::with_settings(settings);
    let deleted = fail_one(&mut script);
    script.apply(DeleteAny(vec![deleted])).unwrap()[0].clone().unwrap();
    assert_eq!((script.phase(deleted), script.partition.moving()), (None, 1));
    let forgotten = fail_one(&mut script);
    script.pass(Span::from_secs(48 * 3600));
    script.sweep();
    assert_eq!((script.phase(forgotten), script.partition.moving()), (None, 2));
    let fall_back = FallBack { queue: "dead".into(), limit: 100 };
    assert_eq!(script.apply(fall_back), Ok(2));
    assert_eq!((script.phase(deleted), script.phase(forgotten)), (None, Some(Phase::Failed)));
    assert_eq!(script.partition.moving(), 0);
}

#[test]
fn what_was_deleted_on_its_way_still_arrives() {
    let mut script =
        Script::with_settings(Settings { dead_queue: Some("dead".into()), ..Settings::default() });
    let number = fail_one(&mut script);
    script.apply(DeleteAny(vec![number])).unwrap()[0].clone().unwrap();
    assert_eq!(script.assign("dead", DEAD, 10), 1);
    let departure = script.partition.departures(DEAD, 10).pop().unwrap();
    assert_eq!(departure.body, number);
    let arrived = Arrived { last: departure.number, ..Arrived::default() };
    script.apply(Moved { partition: DEAD, arrived }).unwrap();
    assert_eq!((script.phase(number), script.partition.moving()), (None, 0));
}
