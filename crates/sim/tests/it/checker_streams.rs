//! Bad histories of streams, one for each rule, and good ones that come close.

use windlass_core::id::Permit;
use windlass_engine::EndReason;
use windlass_sim::history::{Emitted, Followed, Op, Outcome, Verdict, Why};

use crate::story::{Story, after_events, given, id, story};

/// One item, leased.
fn leased() -> Story {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    story
}

fn emit_as(story: &mut Story, serials: &[u64], outcome: Outcome) {
    story.call(Op::Emit { id: id(1), permit: Permit(11), events: serials.to_vec() }, outcome);
}

fn emit(story: &mut Story, serials: &[u64], first_seq: u64) {
    let last_seq = first_seq + serials.len() as u64 - 1;
    emit_as(story, serials, Outcome::Emitted(Emitted { first_seq, last_seq }));
}

fn follow(story: &mut Story, after: u64, events: &[(u64, u64)], is_final: bool) {
    let followed = Followed {
        events: events.to_vec(),
        end: is_final.then_some(EndReason::Final),
        ..Followed::default()
    };
    story.call(Op::Follow { id: id(1), after, is_subscribed: false, micros: 1 }, Outcome::Followed(followed));
}

/// Nothing else is wrong with it.
fn verdict(mut story: Story) -> Option<&'static str> {
    story.complete(1, 11, Verdict::Done);
    story.verdict()
}

#[test]
fn one_sequence_for_all_is_fine() {
    let mut story = leased();
    emit(&mut story, &[101, 102], 1);
    emit_as(&mut story, &[103], Outcome::Unknown(Why::Crashed));
    follow(&mut story, 0, &[(1, 101), (2, 102), (3, 103)], false);
    emit(&mut story, &[104], 4);
    story.complete(1, 11, Verdict::Done);
    follow(&mut story, 3, &[(4, 104)], true);
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_number_given_twice_is_found() {
    let mut story = leased();
    emit(&mut story, &[101, 102], 1);
    emit(&mut story, &[103], 2);
    assert_eq!(verdict(story), Some("stream"));
}

/// One item with two events, given back, and leased as one that has so many.
fn leased_again_with(event_count: u64) -> Option<&'static str> {
    let mut story = leased();
    emit(&mut story, &[101, 102], 1);
    story.release(1, 11, Verdict::Done);
    story.lease(vec![after_events(event_count, given(1, 12, 1))]);
    story.complete(1, 12, Verdict::Done);
    story.verdict()
}

#[test]
fn a_lease_tells_how_many_events_there_are() {
    assert_eq!(leased_again_with(2), None);
    assert_eq!(leased_again_with(1), Some("stream"));
    assert_eq!(leased_again_with(3), Some("stream"));
}

#[test]
fn a_number_left_out_in_a_stream_is_found() {
    let mut story = leased();
    emit(&mut story, &[101, 102], 1);
    follow(&mut story, 0, &[(2, 102)], false);
    assert_eq!(verdict(story), Some("stream"));
}

#[test]
fn an_event_shown_twice_is_found() {
    let mut story = leased();
    emit(&mut story, &[101], 1);
    follow(&mut story, 0, &[(1, 101), (1, 101)], false);
    assert_eq!(verdict(story), Some("stream"));
}

#[test]
fn an_event_that_was_refused_and_is_shown_is_found() {
    let mut story = leased();
    emit_as(&mut story, &[101], Outcome::TooLarge);
    follow(&mut story, 0, &[(1, 101)], false);
    assert_eq!(verdict(story), Some("stream"));
}

#[test]
fn two_who_see_different_events_are_found() {
    let mut story = leased();
    emit_as(&mut story, &[101], Outcome::Unknown(Why::Crashed));
    emit_as(&mut story, &[102], Outcome::Unknown(Why::Crashed));
    follow(&mut story, 0, &[(1, 101)], false);
    follow(&mut story, 0, &[(1, 102)], false);
    assert_eq!(verdict(story), Some("stream"));
}

#[test]
fn a_stream_that_ends_without_what_was_acknowledged_is_found() {
    let mut story = leased();
    emit(&mut story, &[101, 102], 1);
    story.complete(1, 11, Verdict::Done);
    follow(&mut story, 0, &[(1, 101)], true);
    assert_eq!(story.verdict(), Some("stream"));
}
