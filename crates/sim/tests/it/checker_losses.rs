//! Histories of servers that may lose the newest: what is lost is the newest alone, and for good.

use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_sim::fault::Fault;
use windlass_sim::history::{Op, Outcome, Process, Promise, Verdict};

use crate::story::{LEASE, SECOND, Story, given, id, made, shown, story};

/// A story of a server that syncs now and then.
fn relaxed() -> Story {
    let mut story = story();
    story.history.promise = Promise::MayRollBack;
    story
}

/// The power goes, takes something with it, and another process begins.
fn crash(story: &mut Story) {
    let at = story.moment();
    story.history.processes.last_mut().expect("one began").end = Some(at);
    story.history.faults.push((at, Fault::LostWrite));
    let begin = story.moment();
    story.history.processes.push(Process { begin, opened: Some(begin), ..Process::default() });
}

fn fault(story: &mut Story, fault: Fault) {
    let at = story.moment();
    story.history.faults.push((at, fault));
}

fn gone(story: &mut Story, serial: u64) {
    story.call(Op::Get(id(serial)), Outcome::Refused(Refusal::NotFound));
}

fn waits(story: &mut Story, serial: u64) {
    story.call(Op::Get(id(serial)), Outcome::Shown(Box::new(shown(serial, Phase::Waiting, 0))));
}

fn end(story: &mut Story) {
    let at = story.moment();
    story.history.processes.last_mut().expect("one began").end = Some(at);
}

#[test]
fn an_item_that_is_lost_while_a_later_one_survived_is_caught() {
    let mut story = relaxed();
    story.produce(&[1]).produce(&[2]);
    crash(&mut story);
    gone(&mut story, 1);
    waits(&mut story, 2);
    assert_eq!(story.verdict(), Some("suffix"));
}

#[test]
fn the_newest_item_may_be_lost_alone() {
    let mut story = relaxed();
    story.produce(&[1]).produce(&[2]);
    crash(&mut story);
    waits(&mut story, 1);
    gone(&mut story, 2);
    assert_eq!(story.verdict(), None);
}

#[test]
fn items_of_one_call_or_of_calls_at_once_have_no_order() {
    let mut story = relaxed();
    story.produce(&[1, 2]);
    crash(&mut story);
    gone(&mut story, 1);
    waits(&mut story, 2);
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_item_produced_after_the_loss_is_no_survivor() {
    let mut story = relaxed();
    story.produce(&[1]);
    crash(&mut story);
    story.produce(&[2]);
    gone(&mut story, 1);
    waits(&mut story, 2);
    end(&mut story);
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_completion_that_is_undone_while_a_later_item_survived_is_caught() {
    let tell = |survives: bool| {
        let mut story = relaxed();
        story.produce(&[1]).lease(vec![given(1, 11, 1)]).complete(1, 11, Verdict::Done).produce(&[2]);
        story.pass(LEASE.0 + SECOND);
        crash(&mut story);
        waits(&mut story, 1);
        if survives {
            waits(&mut story, 2)
        } else {
            gone(&mut story, 2)
        }
        story.verdict()
    };
    assert_eq!(tell(true), Some("suffix"));
    assert_eq!(tell(false), None);
}

#[test]
fn a_server_that_takes_back_more_than_the_newest_is_caught() {
    let mut story = relaxed();
    story.produce(&[1]).produce(&[2]);
    waits(&mut story, 1);
    fault(&mut story, Fault::SyncError);
    gone(&mut story, 1);
    waits(&mut story, 2);
    end(&mut story);
    assert_eq!(story.verdict(), Some("suffix"));
}

#[test]
fn a_server_that_took_something_back_goes_on_with_new_items() {
    let mut story = relaxed();
    story.produce(&[1]);
    waits(&mut story, 1);
    fault(&mut story, Fault::SyncError);
    story.produce(&[2]);
    gone(&mut story, 1);
    waits(&mut story, 2);
    end(&mut story);
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_item_that_was_taken_back_and_shows_again_after_a_restart_is_caught() {
    let mut story = relaxed();
    story.produce(&[1]);
    fault(&mut story, Fault::SyncError);
    gone(&mut story, 1);
    crash(&mut story);
    waits(&mut story, 1);
    assert_eq!(story.verdict(), Some("back"));
}

#[test]
fn a_number_given_again_after_its_item_was_lost_is_caught() {
    let mut story = relaxed();
    story.produce(&[1]);
    crash(&mut story);
    story.produce_as(vec![made(2)], Outcome::Produced(vec![(id(1), Phase::Waiting)]));
    assert_eq!(story.verdict(), Some("unique"));
}

#[test]
fn a_permit_given_again_after_its_lease_was_lost_is_caught() {
    let tell = |permit: u64| {
        let mut story = relaxed();
        story.produce(&[1, 2]).lease(vec![given(1, 11, 1)]);
        crash(&mut story);
        story.pass(LEASE.0 + SECOND).lease(vec![given(2, permit, 1)]);
        story.verdict()
    };
    assert_eq!(tell(11), Some("unique"));
    assert_eq!(tell(10), Some("unique"), "a permit grows, whatever was lost");
    assert_eq!(tell(12), None);
}
