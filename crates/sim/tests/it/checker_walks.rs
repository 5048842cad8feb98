//! Walks through a queue: what must be on their pages, and what must not.

use windlass_core::item::Phase;
use windlass_sim::history::{FindFilter, FindOp, FoundItem, FoundPage, Op, Outcome, Verdict, Why};

use crate::story::{Story, given, id, made, story};

#[test]
fn a_walk_may_show_everything_once() {
    let mut story = story();
    story.produce(&[1, 2, 3]);
    page(&mut story, 0, &[1, 2], true);
    page(&mut story, 1, &[3], false);
    complete_all(&mut story, &[1, 2, 3]);
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_skipped_item_is_found() {
    let mut story = story();
    story.produce(&[1, 2, 3]);
    page(&mut story, 0, &[1], true);
    page(&mut story, 1, &[3], false);
    complete_all(&mut story, &[1, 2, 3]);
    assert_eq!(story.verdict(), Some("walk"));
}

#[test]
fn an_item_that_ends_during_a_walk_by_states_may_be_on_no_page() {
    let mut story = story();
    story.produce(&[1, 2]);
    find(&mut story, 0, by_phase(Phase::Waiting), &[(1, Phase::Waiting)], true);
    story.lease(vec![given(1, 10, 1), given(2, 11, 1)]);
    find(&mut story, 1, by_phase(Phase::Waiting), &[], false);
    story.complete(1, 10, Verdict::Done).complete(2, 11, Verdict::Done);
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_item_shown_twice_is_found() {
    let mut story = story();
    story.produce(&[1, 2]);
    page(&mut story, 0, &[1, 2], true);
    page(&mut story, 1, &[2], false);
    complete_all(&mut story, &[1, 2]);
    assert_eq!(story.verdict(), Some("walk"));
}

#[test]
fn an_item_produced_after_the_first_page_is_on_none() {
    let mut story = story();
    story.produce(&[1]);
    page(&mut story, 0, &[1], true);
    story.produce(&[2]);
    page(&mut story, 1, &[2], false);
    complete_all(&mut story, &[1, 2]);
    assert_eq!(story.verdict(), Some("walk"));
}

#[test]
fn an_item_of_a_state_that_was_not_asked_for_is_found() {
    let mut story = story();
    story.produce(&[1]);
    find(&mut story, 0, by_phase(Phase::Leased), &[(1, Phase::Waiting)], false);
    complete_all(&mut story, &[1]);
    assert_eq!(story.verdict(), Some("walk"));
}

#[test]
fn a_page_that_nobody_was_told_of_may_have_shown_what_is_missing() {
    let mut story = story();
    story.produce(&[1, 2, 3]);
    page(&mut story, 0, &[1], true);
    story.call(op(1, FindFilter::default()), Outcome::Unknown(Why::Crashed));
    page(&mut story, 2, &[3], false);
    complete_all(&mut story, &[1, 2, 3]);
    assert_eq!(story.verdict(), None);
}

/// A page that shows items which wait.
fn page(story: &mut Story, place: u32, serials: &[u64], has_next: bool) {
    let items: Vec<_> = serials.iter().map(|serial| (*serial, Phase::Waiting)).collect();
    find(story, place, FindFilter::default(), &items, has_next);
}

fn find(story: &mut Story, page: u32, filter: FindFilter, items: &[(u64, Phase)], has_next: bool) {
    let item = |(serial, phase): &(u64, Phase)| FoundItem {
        id: id(*serial),
        kind: made(*serial).kind,
        phase: *phase,
        address: None,
    };
    let items = items.iter().map(item).collect();
    story.call(op(page, filter), Outcome::Found(FoundPage { items, has_next }));
}

fn op(page: u32, filter: FindFilter) -> Op {
    Op::Find(Box::new(FindOp { walk: 1, page, queue: 0, filter, newest_first: false, limit: 2 }))
}

fn by_phase(phase: Phase) -> FindFilter {
    FindFilter { phases: Some([phase].into()), ..FindFilter::default() }
}

fn complete_all(story: &mut Story, serials: &[u64]) {
    for serial in serials {
        story.lease(vec![given(*serial, 100 + serial, 1)]).complete(*serial, 100 + serial, Verdict::Done);
    }
}
