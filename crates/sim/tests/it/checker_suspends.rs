//! Bad histories of items that were suspended, one for each rule, and good ones that come close.

use windlass_core::id::Permit;
use windlass_core::item::{LeaseEnd, Phase};
use windlass_core::refusal::Refusal;
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, Filter};
use windlass_engine::EndReason;
use windlass_sim::fault::Fault;
use windlass_sim::history::{
    Emitted, Followed, Given, Made, Moment, Op, Outcome, Process, ShownItem, ShownState, SuspendOp, Verdict,
    Why, input_body,
};

use crate::story::{LEASE, SECOND, Story, after_events, given, id, made, shown, story};

const REASON: u64 = 500;
const ANSWER: u64 = 600;

fn suspend(story: &mut Story, permit: u64, reason: u64, verdict: Verdict) {
    let items = vec![SuspendOp { id: id(1), permit: Permit(permit), reason: Some(reason) }];
    story.call(Op::Suspend { queue: 0, items }, Outcome::Judged(vec![verdict]));
}

fn resume(story: &mut Story, input: Option<u64>, outcome: Outcome) {
    story.call(Op::Resume { id: id(1), input }, outcome);
}

/// The answer is an event.
fn given_with(permit: u64, attempts: u32, input: u64) -> Given {
    Given { input: Some(input_body(input)), event_count: 1, ..given(1, permit, attempts) }
}

/// One item, leased and suspended.
fn suspended() -> Story {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    suspend(&mut story, 11, REASON, Verdict::Done);
    story
}

/// Leased, suspended, and resumed with an answer.
fn answered() -> Story {
    let mut story = suspended();
    resume(&mut story, Some(ANSWER), Outcome::Resumed);
    story
}

/// Nothing else is wrong with it.
fn verdict(mut story: Story, permit: u64) -> Option<&'static str> {
    story.complete(1, permit, Verdict::Done);
    story.verdict()
}

fn lease_lost() -> Verdict {
    Verdict::Refused(Refusal::LeaseLost { reason: Some(LeaseEnd::Suspended) })
}

fn get(story: &mut Story, view: ShownItem) {
    story.call(Op::Get(id(1)), Outcome::Shown(Box::new(view)));
}

fn is_suspended(reason: u64, attempts: u32, event_count: u64) -> ShownItem {
    ShownItem { reason: Some(reason), event_count, ..shown(1, Phase::Suspended, attempts) }
}

#[test]
fn items_suspended_and_answered_pass() {
    let mut story = answered();
    story.lease(vec![given_with(12, 1, ANSWER)]).release(1, 12, Verdict::Done);
    story.lease(vec![given_with(13, 1, ANSWER)]);
    suspend(&mut story, 13, 501, Verdict::Done);
    get(&mut story, is_suspended(501, 0, 1));
    resume(&mut story, None, Outcome::Resumed);
    resume(&mut story, None, Outcome::Refused(Refusal::NotSuspended));
    story.lease(vec![after_events(1, given(1, 14, 1))]);
    assert_eq!(verdict(story, 14), None);
}

#[test]
fn a_permit_that_works_after_a_suspend_is_caught() {
    for (answer, rule) in [(lease_lost(), None), (Verdict::Done, Some("holder"))] {
        let mut story = suspended();
        story.release(1, 11, answer);
        resume(&mut story, None, Outcome::Resumed);
        story.lease(vec![given(1, 12, 1)]);
        assert_eq!(verdict(story, 12), rule);
    }
}

#[test]
fn an_event_emitted_after_a_suspend_is_caught() {
    let mut story = suspended();
    let emitted = Outcome::Emitted(Emitted { first_seq: 1, last_seq: 1 });
    story.call(Op::Emit { id: id(1), permit: Permit(11), events: vec![101] }, emitted);
    resume(&mut story, None, Outcome::Resumed);
    story.lease(vec![given(1, 12, 1)]);
    assert_eq!(verdict(story, 12), Some("holder"));
}

#[test]
fn a_suspended_attempt_that_counts_is_caught() {
    let mut story = suspended();
    resume(&mut story, None, Outcome::Resumed);
    story.lease(vec![given(1, 12, 2)]);
    assert_eq!(verdict(story, 12), Some("attempts"));
}

#[test]
fn a_suspend_of_unknown_outcome_may_count_or_not() {
    for attempts in [1, 2] {
        let mut story = story();
        story.history.faults.push((story.history.processes[0].begin, Fault::SyncError));
        story.produce(&[1]).lease(vec![given(1, 11, 1)]);
        suspend(&mut story, 11, REASON, Verdict::Unknown);
        resume(&mut story, Some(ANSWER), Outcome::Unknown(Why::Told));
        let (input, past) = if attempts == 1 { (Some(ANSWER), 0) } else { (None, LEASE.0 + SECOND) };
        let input = input.map(input_body);
        story.pass(past).lease(vec![Given { input, ..given(1, 12, attempts) }]);
        assert_eq!(verdict(story, 12), None);
    }
}

#[test]
fn a_suspended_item_that_is_leased_is_caught() {
    let mut story = suspended();
    story.lease(vec![given(1, 12, 1)]);
    assert_eq!(verdict(story, 12), Some("suspended"));
}

#[test]
fn a_resume_of_before_does_not_count() {
    let mut story = answered();
    story.lease(vec![given_with(12, 1, ANSWER)]);
    suspend(&mut story, 12, 501, Verdict::Done);
    story.lease(vec![after_events(1, given(1, 13, 1))]);
    assert_eq!(verdict(story, 13), Some("suspended"));
}

#[test]
fn a_suspended_item_that_is_shown_as_waiting_is_caught() {
    for (resumed, rule) in [(Outcome::Unknown(Why::Abandoned), None), (Outcome::TooLarge, Some("suspended"))]
    {
        let mut story = suspended();
        resume(&mut story, None, resumed);
        get(&mut story, shown(1, Phase::Waiting, 0));
        resume(&mut story, None, Outcome::Unknown(Why::Abandoned));
        story.lease(vec![given(1, 12, 1)]);
        assert_eq!(verdict(story, 12), rule);
    }
}

#[test]
fn an_item_that_stays_suspended_although_it_was_resumed_is_caught() {
    let mut story = answered();
    get(&mut story, is_suspended(REASON, 0, 1));
    story.lease(vec![given_with(12, 1, ANSWER)]);
    assert_eq!(verdict(story, 12), Some("suspended"));
}

#[test]
fn a_reason_that_nobody_gave_is_caught() {
    let mut story = suspended();
    get(&mut story, is_suspended(REASON + 1, 0, 0));
    resume(&mut story, None, Outcome::Resumed);
    story.lease(vec![given(1, 12, 1)]);
    assert_eq!(verdict(story, 12), Some("suspended"));
}

#[test]
fn a_suspended_item_that_cannot_be_resumed_is_caught() {
    let mut story = suspended();
    resume(&mut story, None, Outcome::Refused(Refusal::NotSuspended));
    resume(&mut story, None, Outcome::Resumed);
    story.lease(vec![given(1, 12, 1)]);
    assert_eq!(verdict(story, 12), Some("suspended"));
}

#[test]
fn an_item_resumed_twice_is_caught() {
    let mut story = answered();
    resume(&mut story, None, Outcome::Resumed);
    story.lease(vec![after_events(1, given(1, 12, 1))]);
    assert_eq!(verdict(story, 12), Some("resumed"));
}

#[test]
fn a_lost_answer_is_caught() {
    let mut story = answered();
    story.lease(vec![after_events(1, given(1, 12, 1))]);
    assert_eq!(verdict(story, 12), Some("input"));
}

#[test]
fn an_answer_lost_after_the_first_lease_is_caught() {
    let mut story = answered();
    story.lease(vec![given_with(12, 1, ANSWER)]).release(1, 12, Verdict::Done);
    story.lease(vec![after_events(1, given(1, 13, 1))]);
    assert_eq!(verdict(story, 13), Some("input"));
}

#[test]
fn an_answer_to_an_earlier_question_is_caught() {
    for (input, events) in [(None, 1), (Some(601), 2)] {
        let mut story = answered();
        story.lease(vec![given_with(12, 1, ANSWER)]);
        suspend(&mut story, 12, 501, Verdict::Done);
        resume(&mut story, input, Outcome::Resumed);
        story.lease(vec![after_events(events, given_with(13, 1, ANSWER))]);
        assert_eq!(verdict(story, 13), Some("input"));
    }
}

#[test]
fn an_answer_that_nobody_gave_is_caught() {
    let mut story = story();
    story.produce(&[1]).lease(vec![after_events(0, given_with(11, 1, ANSWER))]);
    assert_eq!(verdict(story, 11), Some("input"));
}

#[test]
fn an_answer_that_is_newer_than_its_lease_passes() {
    let mut story = answered();
    story.lease(vec![given_with(12, 1, 601)]);
    let slow = story.history.calls.len() - 1;
    story.pass(LEASE.0 + SECOND).lease(vec![given_with(13, 2, ANSWER)]);
    suspend(&mut story, 13, 501, Verdict::Done);
    resume(&mut story, Some(601), Outcome::Resumed);
    // It was leased before all that, and its bodies were read after it.
    story.history.calls[slow].end = story.history.calls.last().expect("a call").end;
    story.lease(vec![after_events(2, given_with(14, 2, 601))]);
    assert_eq!(verdict(story, 14), None);
}

#[test]
fn a_resumed_item_that_lost_its_place_is_caught() {
    let mut story = story();
    story.produce(&[1, 2]).lease_as(vec![given(1, 11, 1)], 1, Filter::ANY);
    suspend(&mut story, 11, REASON, Verdict::Done);
    resume(&mut story, None, Outcome::Resumed);
    story.lease_as(vec![given(2, 12, 1)], 1, Filter::ANY).lease(vec![given(1, 13, 1)]);
    assert_eq!(story.verdict(), Some("order"));
}

#[test]
fn an_empty_lease_while_all_is_suspended_is_none_of_a_fault() {
    for (resumes_first, rule) in [(false, None), (true, Some("forgotten lease"))] {
        let mut story = suspended();
        if resumes_first {
            resume(&mut story, None, Outcome::Resumed);
        }
        story.lease(Vec::new());
        if !resumes_first {
            resume(&mut story, None, Outcome::Resumed);
        }
        story.lease(vec![given(1, 12, 1)]);
        assert_eq!(verdict(story, 12), rule);
    }
}

#[test]
fn a_suspended_item_that_is_gone_is_caught() {
    let mut story = suspended();
    assert_eq!(story.verdict(), Some("lost"));
    resume(&mut story, None, Outcome::Resumed);
    assert_eq!(story.verdict(), Some("lost"));
    story.call(Op::Cancel(id(1)), Outcome::Cancelled(Phase::Cancelled));
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_suspended_item_outlives_a_clear_that_leaves_it() {
    for (clears, rule) in [(false, None), (true, Some("back"))] {
        let mut story = suspended();
        let clear = Clear { waiting: true, scheduled: true, leased: true, suspended: clears };
        story.call(Op::Clear { queue: 0, clear }, Outcome::Cleared(u64::from(clears)));
        resume(&mut story, None, Outcome::Resumed);
        story.lease(vec![given(1, 12, 1)]);
        assert_eq!(verdict(story, 12), rule);
    }
}

/// Opened as soon as it begins.
fn follow(story: &mut Story, followed: Followed) {
    let follow = Op::Follow { id: id(1), after: 0, is_subscribed: false, micros: 1 };
    story.call(follow, Outcome::Followed(followed.clone()));
    let call = story.history.calls.last_mut().expect("a call");
    call.outcome = Outcome::Followed(Followed { opened: call.begin, ..followed });
}

/// From the end of an earlier call on.
fn follow_since(story: &mut Story, begin: Moment, followed: Followed) {
    let follow = Op::Follow { id: id(1), after: 0, is_subscribed: false, micros: 1 };
    story.call(follow, Outcome::Followed(Followed { opened: begin, ..followed }));
    story.history.calls.last_mut().expect("a call").begin = begin;
}

fn seen(events: &[(u64, u64)], end: Option<EndReason>) -> Followed {
    Followed { events: events.to_vec(), end, ..Followed::default() }
}

#[test]
fn an_answer_that_is_not_in_the_stream_is_caught() {
    for (events, rule) in [(vec![(1, ANSWER)], None), (vec![], Some("stream"))] {
        let mut story = answered();
        story.lease(vec![given_with(12, 1, ANSWER)]).complete(1, 12, Verdict::Done);
        follow(&mut story, seen(&events, Some(EndReason::Final)));
        assert_eq!(story.verdict(), rule);
    }
}

#[test]
fn an_answer_that_is_not_counted_once_is_caught() {
    for (count, rule) in [(0, Some("stream")), (1, None), (2, Some("stream"))] {
        let mut story = answered();
        get(&mut story, ShownItem { event_count: count, ..shown(1, Phase::Waiting, 0) });
        follow(&mut story, seen(&[], None));
        story.lease(vec![given_with(12, 1, ANSWER)]);
        assert_eq!(verdict(story, 12), rule);
    }
}

#[test]
fn an_answer_numbered_before_what_came_before_it_is_caught() {
    for (order, rule) in [([1, 2], None), ([2, 1], Some("stream"))] {
        let mut story = answered();
        story.lease(vec![given_with(12, 1, ANSWER)]);
        suspend(&mut story, 12, 501, Verdict::Done);
        resume(&mut story, Some(601), Outcome::Resumed);
        let mut events = vec![(order[0], ANSWER), (order[1], 601)];
        events.sort_unstable();
        follow(&mut story, seen(&events, None));
        story.lease(vec![after_events(2, given_with(13, 1, 601))]);
        assert_eq!(verdict(story, 13), rule);
    }
}

/// Somebody follows an item from its beginning to its end. It has said something, is suspended, and answered.
fn followed(states: &[ShownState], end: Option<EndReason>) -> Story {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    let begin = story.history.calls.last().expect("a call").end;
    let emitted = Outcome::Emitted(Emitted { first_seq: 1, last_seq: 1 });
    story.call(Op::Emit { id: id(1), permit: Permit(11), events: vec![101] }, emitted);
    suspend(&mut story, 11, REASON, Verdict::Done);
    resume(&mut story, Some(ANSWER), Outcome::Resumed);
    story.lease(vec![after_events(2, given_with(12, 1, ANSWER))]).complete(1, 12, Verdict::Done);
    let events = vec![(1, 101), (2, ANSWER)];
    follow_since(&mut story, begin, Followed { states: states.to_vec(), ..seen(&events, end) });
    story
}

fn state(after_seq: u64, reason: u64) -> ShownState {
    ShownState { after_seq, phase: Phase::Suspended, reason: Some(reason) }
}

#[test]
fn a_suspend_that_is_not_shown_to_who_follows_is_caught() {
    for end in [None, Some(EndReason::Final)] {
        assert_eq!(followed(&[state(1, REASON)], end).verdict(), None);
        assert_eq!(followed(&[], end).verdict(), Some("live"));
    }
}

#[test]
fn a_suspend_shown_in_the_wrong_place_is_caught() {
    assert_eq!(followed(&[state(0, REASON)], None).verdict(), Some("live"));
    assert_eq!(followed(&[state(2, REASON)], None).verdict(), Some("live"));
}

#[test]
fn a_suspend_shown_as_nobody_said_is_caught() {
    assert_eq!(followed(&[state(1, REASON), state(1, 501)], None).verdict(), Some("live"));
}

#[test]
fn a_suspend_need_not_be_shown_to_who_goes_away_or_where_it_ends_the_item() {
    for (waits, cancels, rule) in
        [(0, false, None), (4 * SECOND, false, Some("live")), (4 * SECOND, true, None)]
    {
        let mut story = story();
        story.produce(&[1]).lease(vec![given(1, 11, 1)]);
        let begin = story.history.calls.last().expect("a call").end;
        if cancels {
            story.call(Op::Cancel(id(1)), Outcome::Cancelled(Phase::Leased));
        }
        suspend(&mut story, 11, REASON, Verdict::Done);
        story.pass(waits);
        follow_since(&mut story, begin, seen(&[], None));
        if !cancels {
            resume(&mut story, None, Outcome::Unknown(Why::Abandoned));
            story.call(Op::Cancel(id(1)), Outcome::Cancelled(Phase::Cancelled));
        }
        assert_eq!(story.verdict(), rule);
    }
}

#[test]
fn a_stream_that_ends_as_if_a_suspended_item_were_final_is_caught() {
    let mut story = suspended();
    follow(&mut story, seen(&[], Some(EndReason::Final)));
    resume(&mut story, None, Outcome::Resumed);
    story.lease(vec![given(1, 12, 1)]);
    assert_eq!(verdict(story, 12), Some("back"));
}

#[test]
fn a_stream_that_is_closed_for_nothing_is_caught() {
    for (closing, rule) in [(true, None), (false, Some("service"))] {
        let mut story = suspended();
        if closing {
            let begin = story.history.processes[0].begin;
            story.history.processes[0] = Process { closing: Some(begin), ..story.history.processes[0] };
        }
        follow(&mut story, seen(&[], Some(EndReason::Closed)));
        resume(&mut story, None, Outcome::Resumed);
        story.lease(vec![given(1, 12, 1)]);
        assert_eq!(verdict(story, 12), rule);
    }
}

#[test]
fn a_suspended_item_that_may_have_expired_need_not_be_resumed() {
    let mut story = story();
    story.history.keeps_everything = false;
    let mortal = Made { dead_timeout: Some(Span::from_secs(1)), ..made(1) };
    story.produce_as(vec![mortal], Outcome::Produced(vec![(id(1), Phase::Waiting)]));
    story.lease(vec![Given { dead_timeout: Some(Span::from_secs(1)), ..given(1, 11, 1) }]);
    suspend(&mut story, 11, REASON, Verdict::Done);
    resume(&mut story, None, Outcome::Refused(Refusal::NotFound));
    assert_eq!(story.verdict(), None);
}
