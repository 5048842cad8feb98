//! Changes of many items: each item as the call for it alone would leave it.

use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_engine::Action;
use windlass_sim::history::{FindFilter, ManyOp, ManyPage, Op, Outcome, Verdict, Why};

use crate::story::{Story, given, id, shown, story};

#[test]
fn items_may_be_cancelled_by_a_change_of_many() {
    let mut story = story();
    story.produce(&[1, 2]);
    many(&mut story, Action::Cancel, &[(1, Verdict::Done), (2, Verdict::Done)]);
    get(&mut story, 1, Phase::Cancelled);
    get(&mut story, 2, Phase::Cancelled);
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_dry_run_that_cancels_is_found() {
    let mut story = story();
    story.produce(&[1]);
    let op = ManyOp { dry_run: true, ..op(Action::Cancel) };
    story.call(Op::ChangeMany(Box::new(op)), done(&[(1, Verdict::Done)]));
    get(&mut story, 1, Phase::Cancelled);
    assert_eq!(story.verdict(), Some("end"));
}

#[test]
fn a_cancel_of_many_that_leaves_an_item_waiting_is_found() {
    let mut story = story();
    story.produce(&[1]);
    many(&mut story, Action::Cancel, &[(1, Verdict::Done)]);
    story.lease(vec![given(1, 11, 1)]).complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("many"));
}

#[test]
fn an_unknown_change_of_many_may_have_cancelled_any_item() {
    let mut story = story();
    story.produce(&[1, 2]);
    story.call(Op::ChangeMany(Box::new(op(Action::Cancel))), Outcome::Unknown(Why::Crashed));
    get(&mut story, 1, Phase::Cancelled);
    story.lease(vec![given(2, 11, 1)]).complete(2, 11, Verdict::Done);
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_item_that_two_changes_of_many_run_again_is_found() {
    let mut story = story();
    story.produce(&[1]).call(Op::Cancel(id(1)), Outcome::Cancelled(Phase::Cancelled));
    many(&mut story, Action::Rerun, &[(1, Verdict::Done)]);
    many(&mut story, Action::Rerun, &[(1, Verdict::Done)]);
    assert_eq!(story.verdict(), Some("rerun twice"));
}

#[test]
fn a_rerun_refused_for_an_item_that_is_over_is_found() {
    let mut story = story();
    story.produce(&[1]).call(Op::Cancel(id(1)), Outcome::Cancelled(Phase::Cancelled));
    many(&mut story, Action::Rerun, &[(1, Verdict::Refused(Refusal::NotEnded))]);
    assert_eq!(story.verdict(), Some("rerun"));
}

#[test]
fn a_deleted_item_that_is_leased_is_found() {
    let mut story = story();
    story.produce(&[1]);
    many(&mut story, Action::Delete, &[(1, Verdict::Done)]);
    story.lease(vec![given(1, 11, 1)]).complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("many"));
}

#[test]
fn an_item_of_another_priority_than_a_change_of_many_gave_it_is_found() {
    let mut story = story();
    story.produce(&[1]);
    many(&mut story, Action::SetPriority(7), &[(1, Verdict::Done)]);
    story.lease(vec![given(1, 11, 1)]).complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("update"));
}

fn many(story: &mut Story, action: Action, results: &[(u64, Verdict)]) {
    story.call(Op::ChangeMany(Box::new(op(action))), done(results));
}

fn op(action: Action) -> ManyOp {
    ManyOp { queue: 0, filter: FindFilter::default(), action, dry_run: false, limit: 10 }
}

fn done(results: &[(u64, Verdict)]) -> Outcome {
    let results = results.iter().map(|(serial, verdict)| (id(*serial), verdict.clone())).collect();
    Outcome::ManyChanged(ManyPage { results, has_next: false })
}

fn get(story: &mut Story, serial: u64, phase: Phase) {
    story.call(Op::Get(id(serial)), Outcome::Shown(Box::new(shown(serial, phase, 0))));
}
