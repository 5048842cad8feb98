//! One bad history for each rule, and good ones that come close.

use bytes::Bytes;
use windlass_core::id::Permit;
use windlass_core::item::Phase;
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Clear, Filter, Retried};
use windlass_sim::fault::Fault;
use windlass_sim::history::{
    Moment, Op, Outcome, PartitionCounts, PartitionState, Process, Promise, QueueCounts, RetryOp, Verdict,
    Why,
};

use crate::story::{LEASE, SECOND, Story, given, id, made, shown, story};

fn expired() -> Verdict {
    Verdict::Refused(Refusal::LeaseLost { reason: None })
}

fn get(story: &mut Story, serial: u64, outcome: Outcome) {
    story.call(Op::Get(id(serial)), outcome);
}

fn get_shown(story: &mut Story, phase: Phase, attempts: u32) {
    get(story, 1, Outcome::Shown(Box::new(shown(1, phase, attempts))));
}

#[test]
fn a_sound_history_passes() {
    let mut story = story();
    story.produce(&[1, 2, 3]).lease(vec![given(1, 11, 1), given(2, 12, 1)]);
    story.complete(1, 11, Verdict::Done).release(2, 12, Verdict::Done);
    story.lease(vec![given(2, 13, 1), given(3, 14, 1)]).complete(3, 14, Verdict::Done);
    story.pass(LEASE.0 + SECOND).complete(2, 13, expired());
    story.lease(vec![given(2, 15, 2)]).complete(2, 15, Verdict::Done);
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_id_of_two_items_is_caught() {
    let mut story = story();
    story.produce(&[1]).produce_as(vec![made(2)], Outcome::Produced(vec![(id(1), Phase::Waiting)]));
    assert_eq!(story.verdict(), Some("unique"));
}

#[test]
fn an_item_produced_twice_is_caught() {
    let mut story = story();
    let mut twin = given(1, 12, 1);
    twin.id = id(2);
    story.produce_as(vec![made(1)], Outcome::Unknown(Why::Told));
    story.lease(vec![given(1, 11, 1), twin]);
    assert_eq!(story.verdict(), Some("unique"));
}

#[test]
fn a_permit_given_twice_is_caught() {
    let mut story = story();
    story.produce(&[1, 2]).lease(vec![given(1, 11, 1), given(2, 11, 1)]);
    assert_eq!(story.verdict(), Some("unique"));
}

#[test]
fn a_number_that_falls_is_caught() {
    let mut story = story();
    story.produce(&[2]).produce(&[1]);
    assert_eq!(story.verdict(), Some("unique"));
}

#[test]
fn a_body_nobody_sent_is_caught() {
    let mut story = story();
    let mut garbled = given(1, 11, 1);
    garbled.body = Bytes::from_static(b"1:nonsense");
    story.produce(&[1]).lease(vec![garbled]);
    assert_eq!(story.verdict(), Some("body"));
}

#[test]
fn an_item_that_was_not_applied_and_shows_is_caught() {
    let mut story = story();
    story.history.faults.push((story.history.processes[0].begin, Fault::WriteError));
    story.produce_as(vec![made(1)], Outcome::NotApplied("full".to_owned())).lease(vec![given(1, 11, 1)]);
    assert_eq!(story.verdict(), Some("not applied"));
}

#[test]
fn more_than_was_asked_for_is_caught() {
    let mut story = story();
    story.produce(&[1, 2]).lease_as(vec![given(1, 11, 1), given(2, 12, 1)], 1, Filter::ANY);
    assert_eq!(story.verdict(), Some("batch size"));
}

#[test]
fn what_was_not_asked_for_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease_as(vec![given(1, 11, 1)], 1, Filter::new(Some(vec!["index".into()]), 255));
    assert_eq!(story.verdict(), Some("filter"));
}

#[test]
fn two_permits_at_once_are_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]).pass(LEASE.0 / 2).lease(vec![given(1, 12, 2)]);
    assert_eq!(story.verdict(), Some("two permits"));
}

#[test]
fn a_permit_that_was_never_given_and_works_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]).complete(1, 99, Verdict::Done);
    assert_eq!(story.verdict(), Some("holder"));
}

#[test]
fn a_stale_permit_that_works_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]).pass(LEASE.0 + SECOND).lease(vec![given(1, 12, 2)]);
    story.complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("holder"));
}

#[test]
fn a_permit_that_works_twice_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    story.release(1, 11, Verdict::Done).complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("holder"));
}

#[test]
fn a_permit_that_works_past_its_deadline_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]).pass(LEASE.0 + SECOND).complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("deadline"));
}

#[test]
fn a_lease_lost_before_its_deadline_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]).pass(SECOND).complete(1, 11, expired());
    assert_eq!(story.verdict(), Some("lease lost"));
}

#[test]
fn an_item_back_after_its_end_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]).complete(1, 11, Verdict::Done);
    get_shown(&mut story, Phase::Waiting, 1);
    assert_eq!(story.verdict(), Some("back"));
}

#[test]
fn an_item_back_after_a_clear_is_caught() {
    let mut story = story();
    let clear = Clear { waiting: true, scheduled: true, leased: false, suspended: false };
    story.produce(&[1]).call(Op::Clear { queue: 0, clear }, Outcome::Cleared(1)).lease(vec![given(1, 11, 1)]);
    assert_eq!(story.verdict(), Some("back"));
}

#[test]
fn an_item_leased_while_its_queue_is_stopped_is_caught() {
    use windlass_core::rule::Stop;
    let mut story = story();
    let stop = Op::Stop { queue: 0, kind: None, stop: Stop::Pause, until: None };
    story.produce(&[1]).call(stop.clone(), Outcome::Ruled).lease(vec![given(1, 11, 1)]);
    story.complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("stopped"));
    let mut lifted = crate::story::story();
    lifted.produce(&[1]).call(stop, Outcome::Ruled);
    lifted
        .call(Op::Go { queue: 0, kind: None, stop: Stop::Pause }, Outcome::Ruled)
        .lease(vec![given(1, 11, 1)]);
    lifted.complete(1, 11, Verdict::Done);
    assert_eq!(lifted.verdict(), None);
}

#[test]
fn an_empty_lease_of_a_queue_that_may_be_stopped_is_none_of_a_fault() {
    use windlass_core::rule::Stop;
    for (op, verdict) in [(None, Some("forgotten lease")), (Some(Stop::Block), None)] {
        let mut story = story();
        story.produce(&[1]);
        if let Some(stop) = op {
            story.call(Op::Stop { queue: 0, kind: None, stop, until: None }, Outcome::Ruled);
        }
        story.lease(vec![]);
        if let Some(stop) = op {
            story.call(Op::Go { queue: 0, kind: None, stop }, Outcome::Ruled);
        }
        story.lease(vec![given(1, 11, 1)]).complete(1, 11, Verdict::Done);
        assert_eq!(story.verdict(), verdict);
    }
}

#[test]
fn an_undone_item_that_shows_again_is_caught_even_where_the_newest_may_be_lost() {
    let mut story = story();
    story.history.promise = Promise::MayRollBack;
    story.history.faults.push((story.history.processes[0].begin, Fault::LostWrite));
    story.produce(&[1]);
    get(&mut story, 1, Outcome::Refused(Refusal::NotFound));
    assert_eq!(story.verdict(), None);
    story.lease(vec![given(1, 11, 1)]);
    assert_eq!(story.verdict(), Some("back"));
}

#[test]
fn an_attempt_that_was_not_counted_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]).pass(LEASE.0 + SECOND).lease(vec![given(1, 12, 1)]);
    assert_eq!(story.verdict(), Some("attempts"));
}

#[test]
fn an_attempt_that_nobody_made_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 2)]);
    assert_eq!(story.verdict(), Some("attempts"));
}

#[test]
fn a_released_lease_that_was_charged_is_caught() {
    let mut story = story();
    story
        .produce(&[1])
        .lease(vec![given(1, 11, 1)])
        .release(1, 11, Verdict::Done)
        .lease(vec![given(1, 12, 2)]);
    assert_eq!(story.verdict(), Some("attempts"));
}

#[test]
fn a_revoked_lease_that_was_not_charged_is_caught() {
    let mut story = story();
    story
        .produce(&[1])
        .lease(vec![given(1, 11, 1)])
        .revoke(1, 11, Verdict::Done)
        .lease(vec![given(1, 12, 1)]);
    assert_eq!(story.verdict(), Some("attempts"));
}

#[test]
fn too_many_attempts_are_caught() {
    let mut story = story();
    story.produce(&[1]);
    for attempt in 1..=4 {
        story.lease(vec![given(1, 10 + u64::from(attempt), attempt)]).pass(LEASE.0 + SECOND);
    }
    assert_eq!(story.verdict(), Some("attempts"));
}

#[test]
fn an_item_that_failed_with_attempts_left_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]).pass(LEASE.0 + SECOND);
    get_shown(&mut story, Phase::Failed, 1);
    assert_eq!(story.verdict(), Some("attempts"));
    story.history.faults.push((Moment::default(), Fault::Rot));
    assert_eq!(story.verdict(), Some("attempts"));
    story.history.lost_bodies.insert(id(1).to_string());
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_scheduled_item_that_starts_early_is_caught() {
    let mut story = story();
    let mut later = made(1);
    later.enqueue_at = Some(Timestamp(story.now().0 + SECOND));
    story.produce_as(vec![later], Outcome::Produced(vec![(id(1), Phase::Scheduled)]));
    story.pass(SECOND - 1).lease(vec![given(1, 11, 1)]);
    assert_eq!(story.verdict(), Some("early"));
}

#[test]
fn a_retry_that_starts_early_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    let due_at = Timestamp(story.now().0 + SECOND);
    let retry = RetryOp { id: id(1), permit: Permit(11), retry_at: None, dead: false };
    let again = Outcome::Judged(vec![Verdict::Retried(Retried::Again { due_at })]);
    story.call(Op::Retry { queue: 0, items: vec![retry] }, again).lease(vec![given(1, 12, 2)]);
    assert_eq!(story.verdict(), Some("early"));
}

#[test]
fn a_clock_ahead_of_all_clocks_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    let call = story.history.calls.last_mut().expect("it works");
    call.latest = Timestamp(call.latest.0 - 1);
    assert_eq!(story.verdict(), Some("time"));
}

#[test]
fn an_item_that_jumps_the_queue_is_caught() {
    let mut story = story();
    story.produce(&[1, 2]).lease_as(vec![given(2, 11, 1)], 1, Filter::ANY).lease(vec![given(1, 12, 1)]);
    assert_eq!(story.verdict(), Some("order"));
}

#[test]
fn a_released_item_that_lost_its_place_is_caught() {
    let mut story = story();
    story.produce(&[1, 2]).lease_as(vec![given(1, 11, 1)], 1, Filter::ANY).release(1, 11, Verdict::Done);
    story.lease_as(vec![given(2, 12, 1)], 1, Filter::ANY).lease(vec![given(1, 13, 1)]);
    assert_eq!(story.verdict(), Some("order"));
}

#[test]
fn a_revoked_item_that_lost_its_place_is_caught() {
    let mut story = story();
    story.produce(&[1, 2]).lease_as(vec![given(1, 11, 1)], 1, Filter::ANY).revoke(1, 11, Verdict::Done);
    story.lease_as(vec![given(2, 12, 1)], 1, Filter::ANY).lease(vec![given(1, 13, 2)]);
    assert_eq!(story.verdict(), Some("order"));
}

/// Begun before the item was completed, and answered so long after.
fn completed_while_somebody_waits(micros: u64) -> Story {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    let begin = story.history.calls.last().expect("a call").end;
    story.complete(1, 11, Verdict::Done).pass(micros);
    let wait = Span::from_secs(60);
    story.call(Op::Wait { id: id(1), wait }, Outcome::Shown(Box::new(shown(1, Phase::Completed, 1))));
    story.history.calls.last_mut().expect("a call").begin = begin;
    story
}

#[test]
fn a_wait_that_outlasts_the_end_of_its_item_is_caught() {
    assert_eq!(completed_while_somebody_waits(SECOND).verdict(), None);
    assert_eq!(completed_while_somebody_waits(4 * SECOND).verdict(), Some("forgotten wait"));
}

#[test]
fn an_end_that_nobody_brought_about_is_caught() {
    for end in [Phase::Completed, Phase::Cancelled] {
        let mut story = story();
        story.produce(&[1]);
        let wait = Span::from_secs(60);
        story.call(Op::Wait { id: id(1), wait }, Outcome::Shown(Box::new(shown(1, end, 0))));
        assert_eq!(story.verdict(), Some("end"));
    }
}

#[test]
fn a_batch_out_of_order_is_caught() {
    let mut story = story();
    story.produce(&[1, 2]).lease(vec![given(2, 11, 1), given(1, 12, 1)]);
    assert_eq!(story.verdict(), Some("order"));
}

#[test]
fn a_lease_that_finds_nothing_where_something_waits_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(Vec::new()).lease(vec![given(1, 11, 1)]);
    assert_eq!(story.verdict(), Some("forgotten lease"));
}

#[test]
fn a_lost_item_is_caught() {
    let mut story = story();
    story.produce(&[1, 2]).lease(vec![given(1, 11, 1), given(2, 12, 1)]).complete(1, 11, Verdict::Done);
    story.complete(2, 12, Verdict::NotApplied);
    story.history.faults.push((story.history.processes[0].begin, Fault::WriteError));
    assert_eq!(story.verdict(), Some("lost"));
}

#[test]
fn an_item_that_went_with_its_queue_is_caught_unless_that_was_deleted_by_force() {
    for (force, verdict) in [(true, None), (false, Some("lost"))] {
        let mut story = story();
        story.produce(&[1]).call(Op::Delete { queue: 0, force }, Outcome::Deleted);
        assert_eq!(story.verdict(), verdict);
    }
}

#[test]
fn a_lost_item_is_forgiven_where_the_newest_may_be_lost() {
    let mut story = story();
    story.history.promise = Promise::MayRollBack;
    story.history.faults.push((story.history.processes[0].begin, Fault::LostWrite));
    story.produce(&[1]);
    assert_eq!(story.verdict(), None);
}

#[test]
fn half_a_batch_is_caught() {
    let mut story = story();
    story.history.faults.push((story.history.processes[0].begin, Fault::SyncError));
    story.produce_as(vec![made(1), made(2)], Outcome::Unknown(Why::Told));
    assert_eq!(story.verdict(), None);
    story.lease(vec![given(1, 11, 1)]).complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("lost"));
}

#[test]
fn a_result_that_is_gone_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    story.complete_with(1, 11, Some(Bytes::from_static(b"42")), Verdict::Done);
    get(&mut story, 1, Outcome::Refused(Refusal::NotFound));
    assert_eq!(story.verdict(), Some("result"));
}

fn stats(waiting: u64, by_kind: u64) -> Outcome {
    let counts = Counts { waiting, ..Counts::default() };
    let partition = given(1, 1, 1).id.partition;
    let kinds = [("mail".into(), Counts { waiting: by_kind, ..Counts::default() })];
    Outcome::Counted(Box::new(QueueCounts {
        counts,
        kinds: kinds.into_iter().collect(),
        priorities: [(0, waiting)].into_iter().collect(),
        partitions: vec![PartitionCounts {
            partition,
            state: PartitionState::Available,
            store: "default".into(),
            counts,
            drains: false,
        }],
        ..QueueCounts::default()
    }))
}

#[test]
fn counts_that_contradict_each_other_are_caught() {
    let mut story = story();
    story.call(Op::Stats(0), stats(2, 1));
    assert_eq!(story.verdict(), Some("counts"));
}

#[test]
fn counts_that_contradict_what_is_there_are_caught() {
    let read_out = |counted| {
        let mut story = story();
        story.produce(&[1]).call(Op::Stats(0), stats(counted, counted));
        get_shown(&mut story, Phase::Waiting, 0);
        story.call(Op::Stats(0), stats(counted, counted)).lease(vec![given(1, 11, 1)]);
        story.complete(1, 11, Verdict::Done);
        story.verdict()
    };
    assert_eq!(read_out(1), None);
    assert_eq!(read_out(2), Some("counts"));
}

#[test]
fn a_server_that_turns_callers_away_for_nothing_is_caught() {
    let mut story = story();
    story.produce_as(vec![made(1)], Outcome::NotApplied("no reason".to_owned()));
    assert_eq!(story.verdict(), Some("service"));
}

#[test]
fn a_server_that_closes_may_turn_callers_away() {
    let mut story = story();
    let begin = story.history.processes[0].begin;
    story.history.processes[0] = Process { closing: Some(begin), ..story.history.processes[0] };
    story.produce_as(vec![made(1)], Outcome::NotApplied("shutting down".to_owned()));
    assert_eq!(story.verdict(), None);
}

fn at_home(serial: u64) -> windlass_sim::history::Made {
    windlass_sim::history::Made { address: Some("home".into()), ..made(serial) }
}

fn produced(serial: u64) -> Outcome {
    Outcome::Produced(vec![(id(serial), Phase::Waiting)])
}

#[test]
fn an_address_of_two_items_at_once_is_caught() {
    let mut story = story();
    story.produce_as(vec![at_home(1)], produced(1)).produce_as(vec![at_home(2)], produced(2));
    story.lease(vec![given(2, 11, 1)]).complete(2, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("lost"), "the first may have ended, but nobody ended it");
    story.lease(vec![given(1, 12, 1)]).complete(1, 12, Verdict::Done);
    assert_eq!(story.verdict(), Some("address"));
}

#[test]
fn an_address_given_again_after_its_item_ended_passes() {
    let mut story = story();
    story.produce_as(vec![at_home(1)], produced(1));
    let taken = Outcome::Refused(Refusal::DuplicateAddress { number: id(1).number });
    story.produce_as(vec![at_home(2)], taken);
    story.lease(vec![given(1, 11, 1)]).complete(1, 11, Verdict::Done);
    story.produce_as(vec![at_home(3)], produced(3));
    story.lease(vec![given(3, 12, 1)]).complete(3, 12, Verdict::Done);
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_address_refused_for_an_item_that_is_done_is_caught() {
    let mut story = story();
    story.produce_as(vec![at_home(1)], produced(1));
    story.lease(vec![given(1, 11, 1)]).complete(1, 11, Verdict::Done);
    let taken = Outcome::Refused(Refusal::DuplicateAddress { number: id(1).number });
    story.produce_as(vec![at_home(2)], taken);
    assert_eq!(story.verdict(), Some("address"));
}

fn once(story: &mut Story, serial: u64, outcome: Outcome) {
    story.call(Op::ProduceOnce { queue: 0, items: vec![made(serial)] }, outcome);
}

#[test]
fn a_call_sent_again_until_it_is_answered_passes() {
    let mut story = story();
    once(&mut story, 1, Outcome::Unknown(Why::Told));
    story.produce(&[2]).lease(vec![given(1, 11, 1), given(2, 12, 1)]);
    story.complete(1, 11, Verdict::Done).complete(2, 12, Verdict::Done);
    once(&mut story, 1, produced(1));
    once(&mut story, 1, produced(1));
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_call_carried_out_twice_is_caught() {
    let mut story = story();
    once(&mut story, 1, produced(1));
    once(&mut story, 1, Outcome::Produced(vec![(id(2), Phase::Waiting)]));
    assert_eq!(story.verdict(), Some("repeat"));
}

#[test]
fn a_call_taken_for_another_is_caught() {
    let mut story = story();
    once(&mut story, 1, Outcome::Unknown(Why::Told));
    once(&mut story, 1, Outcome::Refused(Refusal::KeyTaken));
    assert_eq!(story.verdict(), Some("repeat"));
}
