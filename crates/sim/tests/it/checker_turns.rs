//! Turns of workers: told as the calls that they stand for, at one time.

use windlass_core::item::LeaseEnd;
use windlass_core::refusal::Refusal;
use windlass_sim::history::Verdict;

use crate::story::{given, story};

#[test]
fn a_turn_may_lease_what_others_gave_back_and_what_is_new() {
    let mut story = story();
    story.produce(&[1, 2]).lease(vec![given(1, 11, 1)]);
    story.complete(1, 11, Verdict::Done).lease(vec![given(2, 12, 1)]).as_turn(2);
    story.release(2, 12, Verdict::Done).lease(vec![]).as_turn(2);
    story.lease(vec![given(2, 13, 1)]).complete(2, 13, Verdict::Done);
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_turn_that_leases_what_it_gave_back_is_found() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    story.release(1, 11, Verdict::Done).lease(vec![given(1, 12, 1)]).as_turn(2);
    story.complete(1, 12, Verdict::Done);
    assert_eq!(story.verdict(), Some("turn"));
}

#[test]
fn a_turn_may_lease_an_item_whose_old_permit_it_was_refused() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 11, 1)]).release(1, 11, Verdict::Done);
    let lost = Verdict::Refused(Refusal::LeaseLost { reason: Some(LeaseEnd::Released) });
    story.release(1, 11, lost).lease(vec![given(1, 12, 1)]).as_turn(2);
    story.complete(1, 12, Verdict::Done);
    assert_eq!(story.verdict(), None);
}
