//! Bad histories of items that were moved or grew too old, one for each rule, and good ones that come close.

use windlass_core::id::{ItemId, ItemNumber, PartitionId, Permit};
use windlass_core::item::{MoveReason, Phase};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::Clear;
use windlass_sim::fault::Fault;
use windlass_sim::history::{Given, Moment, Op, Origin, Outcome, QueueCounts, Verdict};

use crate::story::{SECOND, Story, given, id, shown, story};

fn there(number: u64) -> ItemId {
    ItemId { partition: PartitionId(2), number: ItemNumber(number) }
}

/// The item as it is leased in the dead queue.
fn moved(serial: u64, number: u64, permit: u64) -> Given {
    let origin = Origin {
        group: None,
        queue: "q0".into(),
        id: Some(id(serial)),
        attempts: Some(1),
        reason: MoveReason::Dead,
        error: None,
        moved_at: Timestamp(0),
    };
    Given { id: there(number), origin: Some(Box::new(origin)), ..given(serial, permit, 1) }
}

/// Two queues, the dead of the first of which go to the second; and one item that was given up.
fn one_dead() -> Story {
    let mut story = story();
    story.history.calls.clear();
    let dead = Settings { dead_queue: Some("q1".into()), ..Settings::default() };
    // Whose dead go back, of which there are none.
    let grave = Settings { max_attempts: 0, dead_queue: Some("q0".into()), ..Settings::default() };
    story.call(Op::Create { queue: 0, settings: dead, partitions: 1 }, Outcome::Deleted);
    story.call(Op::Create { queue: 1, settings: grave, partitions: 1 }, Outcome::Deleted);
    story.produce(&[1]).lease(vec![given(1, 11, 1)]);
    story
}

fn give_up(story: &mut Story) {
    use windlass_core::verbs::Retried;
    use windlass_sim::history::RetryOp;
    let retry = RetryOp { id: id(1), permit: Permit(11), retry_at: None, dead: true };
    let verdict = Verdict::Retried(Retried::Ended(Phase::Failed));
    story.call(Op::Retry { queue: 0, items: vec![retry] }, Outcome::Judged(vec![verdict]));
}

fn lease_there(story: &mut Story, items: Vec<Given>) {
    story.lease(items);
    let last = story.history.calls.last_mut().expect("it was just made");
    let Op::Lease { queue, .. } = &mut last.op else { panic!("a lease") };
    *queue = 1;
}

fn complete_there(story: &mut Story, number: u64, permit: u64) {
    let items = vec![(there(number), Permit(permit), None)];
    story.call(Op::Complete { queue: 1, items }, Outcome::Judged(vec![Verdict::Done]));
}

#[test]
fn an_item_that_goes_on_elsewhere_passes() {
    let mut story = one_dead();
    give_up(&mut story);
    lease_there(&mut story, vec![moved(1, 5, 21)]);
    complete_there(&mut story, 5, 21);
    story.call(Op::Stats(1), Outcome::Counted(Box::default()));
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_item_that_arrives_twice_is_found() {
    let mut story = one_dead();
    give_up(&mut story);
    lease_there(&mut story, vec![moved(1, 5, 21), moved(1, 6, 22)]);
    complete_there(&mut story, 5, 21);
    complete_there(&mut story, 6, 22);
    assert_eq!(story.verdict(), Some("moved twice"));
}

#[test]
fn an_item_that_is_leased_where_it_left_is_found() {
    let mut story = one_dead();
    lease_there(&mut story, vec![moved(1, 5, 21)]);
    story.complete(1, 11, Verdict::Done);
    complete_there(&mut story, 5, 21);
    assert_eq!(story.verdict(), Some("back"));
}

/// One item that was given up, and of which nothing was seen afterwards.
fn one_gone() -> Story {
    let mut story = one_dead();
    give_up(&mut story);
    story.call(Op::Get(id(1)), Outcome::Shown(Box::new(shown(1, Phase::Failed, 1))));
    story
}

#[test]
fn an_item_that_was_sent_back_and_cleared_is_not_missed() {
    let mut story = one_gone();
    story.call(Op::Redrive { queue: 1, to: None, kind: None, limit: None }, Outcome::Redriven(1));
    let clear = Clear { waiting: true, scheduled: true, leased: false, suspended: false };
    story.call(Op::Clear { queue: 0, clear }, Outcome::Cleared(1));
    story.call(Op::Stats(0), Outcome::Counted(Box::default()));
    story.call(Op::Stats(1), Outcome::Counted(Box::default()));
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_item_on_its_way_goes_with_the_queue_it_left_if_that_is_deleted_by_force() {
    for (force, rule) in [(true, None), (false, Some("lost on the way"))] {
        let mut story = one_gone();
        story.call(Op::Delete { queue: 0, force }, Outcome::Deleted);
        story.call(Op::Stats(1), Outcome::Counted(Box::default()));
        assert_eq!(story.verdict(), rule);
    }
}

#[test]
fn an_item_that_left_and_never_arrived_is_found() {
    let mut story = one_gone();
    assert_eq!(story.verdict(), None, "the dead queue may not be there");
    story.call(Op::Stats(1), Outcome::Counted(Box::<QueueCounts>::default()));
    assert_eq!(story.verdict(), Some("lost on the way"));
}

#[test]
fn an_item_that_was_told_to_have_lost_its_payload_is_not_missed_where_it_went() {
    let mut story = one_gone();
    story.call(Op::Stats(1), Outcome::Counted(Box::<QueueCounts>::default()));
    story.history.faults.push((Moment::default(), Fault::Rot));
    assert_eq!(story.verdict(), Some("lost on the way"));
    story.history.lost_bodies.insert(id(1).to_string());
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_origin_that_nobody_can_have_sent_it_from_is_found() {
    let mut story = one_dead();
    give_up(&mut story);
    let mut stray = moved(1, 5, 21);
    stray.origin.as_mut().expect("moved").reason = MoveReason::Redrive;
    lease_there(&mut story, vec![stray]);
    complete_there(&mut story, 5, 21);
    assert_eq!(story.verdict(), Some("origin"));
}

#[test]
fn an_item_that_is_handed_out_after_its_time_is_found() {
    let mut story = story();
    let mortal = Some(Span::from_secs(5));
    let made = windlass_sim::history::Made { dead_timeout: mortal, ..crate::story::made(1) };
    let produced = vec![(id(1), windlass_core::item::Phase::Waiting)];
    story.produce_as(vec![made], Outcome::Produced(produced));
    story.pass(6 * SECOND).lease(vec![Given { dead_timeout: mortal, ..given(1, 11, 1) }]);
    story.complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("overdue"));
}
