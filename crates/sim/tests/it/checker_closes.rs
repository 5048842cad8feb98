//! Bad histories of streams that begin with a snapshot or are closed, one for each rule, and good ones that come close.

use windlass_core::id::Permit;
use windlass_core::item::Phase;
use windlass_core::limits::Invalid;
use windlass_core::refusal::Refusal;
use windlass_engine::{CloseMode, EndReason};
use windlass_sim::fault::Fault;
use windlass_sim::history::{Emitted, Followed, Moment, Op, Outcome, ShownItem, Verdict, Why};

use crate::story::{LEASE, SECOND, Story, after_events, given, id, shown, story};

use CloseMode::{Graceful, Immediate};

/// One item, leased, with one event.
fn leased() -> Story {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    emit(&mut story, 101, 1);
    story
}

fn emit(story: &mut Story, serial: u64, seq: u64) {
    let emitted = Emitted { first_seq: seq, last_seq: seq };
    let op = Op::Emit { id: id(1), permit: Permit(11), events: vec![serial] };
    story.call(op, Outcome::Emitted(emitted));
}

/// Nothing else is wrong with it.
fn verdict(mut story: Story) -> Option<&'static str> {
    story.complete(1, 11, Verdict::Done);
    story.verdict()
}

/// When the last call was over.
fn last_end(story: &Story) -> Moment {
    story.history.calls.last().expect("a call").end
}

fn subscribe_as(story: &mut Story, phase: Phase, attempts: u32, event_count: u64, last_seq: u64) {
    let view = Box::new(ShownItem { event_count, ..shown(1, phase, attempts) });
    story.call(Op::Subscribe(id(1)), Outcome::Subscribed { view, last_seq });
}

fn subscribe(story: &mut Story, event_count: u64, last_seq: u64) {
    subscribe_as(story, Phase::Leased, 1, event_count, last_seq);
}

/// Opened at a moment of before, and over now.
fn follow(story: &mut Story, opened: Moment, after: u64, followed: Followed) {
    let op = Op::Follow { id: id(1), after, is_subscribed: after > 0, micros: 1 };
    story.call(op, Outcome::Followed(Followed { asked: opened, opened, ..followed }));
    story.history.calls.last_mut().expect("a call").begin = opened;
}

fn seen(events: &[(u64, u64)], end: Option<EndReason>) -> Followed {
    Followed { events: events.to_vec(), end, ..Followed::default() }
}

fn closed(events: &[(u64, u64)]) -> Followed {
    seen(events, Some(EndReason::Closed))
}

fn close(story: &mut Story, mode: CloseMode, outcome: Outcome) {
    story.call(Op::Close { id: id(1), mode }, outcome);
}

#[test]
fn a_snapshot_and_what_follows_it_pass() {
    let mut story = leased();
    subscribe(&mut story, 1, 1);
    let opened = last_end(&story);
    emit(&mut story, 102, 2);
    follow(&mut story, opened, 1, seen(&[(2, 102)], None));
    assert_eq!(verdict(story), None);
}

#[test]
fn a_snapshot_with_a_number_that_is_not_its_own_is_caught() {
    for last_seq in [0, 2] {
        let mut story = leased();
        subscribe(&mut story, 1, last_seq);
        assert_eq!(verdict(story), Some("stream"));
    }
}

#[test]
fn a_snapshot_without_what_was_said_before_or_with_more_than_was_said_is_caught() {
    for (count, rule) in [(0, Some("stream")), (1, None), (2, Some("stream"))] {
        let mut story = leased();
        subscribe(&mut story, count, count);
        emit(&mut story, 102, 2);
        assert_eq!(verdict(story), rule);
    }
}

#[test]
fn an_event_lost_or_shown_again_after_a_snapshot_is_caught() {
    for (events, rule) in [
        (vec![(2, 102), (3, 103)], None),
        (vec![(3, 103)], Some("stream")),
        (vec![(1, 101), (2, 102)], Some("stream")),
    ] {
        let mut story = leased();
        subscribe(&mut story, 1, 1);
        let opened = last_end(&story);
        emit(&mut story, 102, 2);
        emit(&mut story, 103, 3);
        follow(&mut story, opened, 1, seen(&events, None));
        assert_eq!(verdict(story), rule);
    }
}

#[test]
fn a_number_that_a_snapshot_told_and_that_is_gone_is_caught() {
    let mut story = leased();
    story.call(
        Op::Emit { id: id(1), permit: Permit(11), events: vec![102] },
        Outcome::Unknown(Why::Abandoned),
    );
    subscribe(&mut story, 2, 2);
    subscribe(&mut story, 1, 1);
    assert_eq!(verdict(story), Some("stream"));
}

#[test]
fn a_snapshot_with_too_few_or_too_many_attempts_is_caught() {
    for (attempts, rule) in [(0, Some("attempts")), (1, None), (2, Some("attempts"))] {
        let mut story = leased();
        subscribe_as(&mut story, Phase::Leased, attempts, 1, 1);
        assert_eq!(verdict(story), rule);
    }
}

#[test]
fn a_snapshot_of_before_the_lease_is_caught() {
    for (past, rule) in [(0, Some("look")), (LEASE.0 + SECOND, None)] {
        let mut story = leased();
        story.pass(past);
        subscribe_as(&mut story, Phase::Waiting, 1, 1, 1);
        if past == 0 {
            story.complete(1, 11, Verdict::Done);
        } else {
            story.lease(vec![after_events(1, given(1, 12, 2))]).complete(1, 12, Verdict::Done);
        }
        assert_eq!(story.verdict(), rule);
    }
}

#[test]
fn a_number_that_was_shown_and_cannot_be_followed_from_is_caught() {
    for (after, rule) in [(1, Some("stream")), (2, None)] {
        let mut story = leased();
        let refusal = Refusal::Invalid(Invalid { field: "after", rule: "reached" });
        let op = Op::Follow { id: id(1), after, is_subscribed: false, micros: 1 };
        story.call(op, Outcome::Refused(refusal));
        assert_eq!(verdict(story), rule);
    }
}

/// Somebody follows, an event more is said, and the streams are closed.
fn closed_story(mode: CloseMode, count: usize, followed: Followed) -> Story {
    let mut story = leased();
    let opened = last_end(&story);
    emit(&mut story, 102, 2);
    close(&mut story, mode, Outcome::Closed(count));
    follow(&mut story, opened, 0, followed);
    story
}

#[test]
fn a_stream_closed_gracefully_without_what_was_said_before_is_caught() {
    for (mode, events, rule) in [
        (Graceful, vec![(1, 101), (2, 102)], None),
        (Graceful, vec![(1, 101)], Some("closed")),
        (Graceful, vec![], Some("closed")),
        (Immediate, vec![], None),
    ] {
        assert_eq!(verdict(closed_story(mode, 1, closed(&events))), rule);
    }
}

#[test]
fn a_graceful_close_owes_nothing_where_something_else_may_have_closed_the_stream() {
    let mut troubled = closed_story(Graceful, 1, closed(&[]));
    troubled.history.faults.push((troubled.history.processes[0].begin, Fault::SyncError));
    assert_eq!(verdict(troubled), None);

    let mut story = leased();
    let opened = last_end(&story);
    close(&mut story, Immediate, Outcome::Unknown(Why::Abandoned));
    emit(&mut story, 102, 2);
    close(&mut story, Graceful, Outcome::Closed(0));
    follow(&mut story, opened, 0, closed(&[]));
    assert_eq!(verdict(story), None);
}

#[test]
fn a_graceful_close_owes_all_whatever_came_after_it() {
    let mut story = leased();
    let opened = last_end(&story);
    close(&mut story, Graceful, Outcome::Closed(1));
    close(&mut story, Immediate, Outcome::Unknown(Why::Abandoned));
    follow(&mut story, opened, 0, closed(&[]));
    assert_eq!(verdict(story), Some("closed"));
}

#[test]
fn a_closed_stream_that_goes_on_is_caught() {
    for mode in [Graceful, Immediate] {
        let mut story = leased();
        let opened = last_end(&story);
        close(&mut story, mode, Outcome::Closed(1));
        emit(&mut story, 102, 2);
        follow(&mut story, opened, 0, closed(&[(1, 101), (2, 102)]));
        assert_eq!(verdict(story), Some("closed"));
    }
}

#[test]
fn a_closed_stream_that_does_not_end_is_caught() {
    for (past, rule) in [(SECOND, None), (4 * SECOND, Some("closed"))] {
        let mut story = leased();
        let opened = last_end(&story);
        close(&mut story, Graceful, Outcome::Closed(1));
        story.pass(past);
        follow(&mut story, opened, 0, seen(&[(1, 101)], None));
        assert_eq!(verdict(story), rule);
    }
}

#[test]
fn a_stream_closed_at_once_that_shows_more_is_caught() {
    for (mode, rule) in [(Graceful, None), (Immediate, Some("closed"))] {
        let mut story = leased();
        let opened = last_end(&story);
        close(&mut story, mode, Outcome::Closed(1));
        story.call(Op::Stats(0), Outcome::Unknown(Why::Abandoned));
        let shown_until = last_end(&story);
        follow(&mut story, opened, 0, Followed { shown_until, ..closed(&[(1, 101)]) });
        assert_eq!(verdict(story), rule);
    }
}

#[test]
fn a_wrong_number_of_closed_streams_is_caught() {
    let all = [(1, 101), (2, 102)];
    for (count, rule) in [(0, Some("closed")), (1, None), (2, Some("closed"))] {
        assert_eq!(verdict(closed_story(Graceful, count, seen(&all, None))), rule);
    }
}

#[test]
fn who_subscribes_meanwhile_may_be_counted_or_not() {
    for count in [0, 1] {
        let mut story = leased();
        close(&mut story, Graceful, Outcome::Closed(count));
        let begin = story.history.calls.last().expect("a call").begin;
        subscribe(&mut story, 1, 1);
        story.history.calls.last_mut().expect("a call").begin = begin;
        assert_eq!(verdict(story), None);
    }
}

#[test]
fn a_stream_that_is_closed_needs_a_close_that_reached_it() {
    for (outcome, rule) in [
        (Outcome::Closed(1), None),
        (Outcome::Unknown(Why::Abandoned), None),
        (Outcome::Refused(Refusal::NotFound), Some("service")),
    ] {
        let mut story = leased();
        let opened = last_end(&story);
        close(&mut story, Immediate, outcome);
        follow(&mut story, opened, 0, closed(&[]));
        assert_eq!(verdict(story), rule);
    }
}

#[test]
fn a_close_of_before_does_not_close_who_comes_again() {
    let mut story = closed_story(Graceful, 1, closed(&[(1, 101), (2, 102)]));
    let opened = last_end(&story);
    follow(&mut story, opened, 0, closed(&[(1, 101), (2, 102)]));
    assert_eq!(verdict(story), Some("service"));
}
