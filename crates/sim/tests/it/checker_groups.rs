//! Bad histories of groups, one for each rule, and good ones that come close.

use windlass_core::group::{Ended, GroupState};
use windlass_core::id::{ItemId, ItemNumber, PartitionId, Permit};
use windlass_core::item::{MoveReason, Phase};
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::settings::Settings;
use windlass_core::time::Timestamp;
use windlass_core::verbs::Filter;
use windlass_sim::group::{Ends, GroupAsk, GroupOp, LastWord};
use windlass_sim::history::{
    Extended, Given, Made, OPERATOR, Op, Origin, Outcome, QueueCounts, ShownGroup, ShownItem, Verdict, Why,
};

use crate::story::{SECOND, Story, given, id, made, shown, story};

/// The serials of what is to be made at the end of every group in here.
const END: u64 = 100;
const ABORT: u64 = 200;

const OPEN: GroupState = GroupState::Open;
const STARTED: GroupState = GroupState::Started;

fn member(serial: u64) -> Made {
    Made { group: Some("g".into()), ..made(serial) }
}

fn given_member(serial: u64, permit: u64, attempts: u32) -> Given {
    Given { group: Some("g".into()), ..given(serial, permit, attempts) }
}

fn word(serial: u64) -> Option<LastWord> {
    Some(LastWord { queue: 0, made: made(serial) })
}

fn view(state: GroupState) -> ShownGroup {
    let created_at = Timestamp(1);
    ShownGroup { name: "g".into(), created_at, state, live: Counts::default(), ended: Ended::default() }
}

fn held(held: u64) -> ShownGroup {
    ShownGroup { live: Counts { held, ..Counts::default() }, ..view(OPEN) }
}

fn waiting(waiting: u64) -> ShownGroup {
    ShownGroup { live: Counts { waiting, ..Counts::default() }, ..view(STARTED) }
}

fn leased(state: GroupState, leased: u64) -> ShownGroup {
    ShownGroup { live: Counts { leased, ..Counts::default() }, ..view(state) }
}

fn completed(completed: u64, view: ShownGroup) -> ShownGroup {
    ShownGroup { ended: Ended { completed, ..view.ended }, ..view }
}

fn lost(cancelled: u64, view: ShownGroup) -> ShownGroup {
    ShownGroup { ended: Ended { cancelled, ..view.ended }, ..view }
}

fn done(story: &Story) -> ShownGroup {
    view(GroupState::Done { at: story.now() })
}

fn cancelled(story: &Story) -> GroupState {
    GroupState::Cancelled { at: story.now() }
}

fn ask(story: &mut Story, ask: GroupAsk, outcome: Outcome) {
    story.call(Op::Group(Box::new(GroupOp { queue: 0, group: "g".into(), ask })), outcome);
}

fn tell(story: &mut Story, what: GroupAsk, view: ShownGroup) {
    ask(story, what, Outcome::Group(Box::new(view)));
}

fn create(story: &mut Story, serials: &[u64], start: bool) {
    let phase = if start { Phase::Waiting } else { Phase::Held };
    let members = serials.len() as u64;
    let view = if start { waiting(members) } else { held(members) };
    let items = serials.iter().map(|serial| member(*serial)).collect();
    let made = serials.iter().map(|serial| (id(*serial), phase)).collect();
    let ends = Ends { end: word(END), abort: word(ABORT) };
    ask(story, GroupAsk::Create { ends, items, start }, Outcome::GroupMade(Box::new(view), made));
}

fn join(story: &mut Story, serial: u64, phase: Phase) {
    story.produce_as(vec![member(serial)], Outcome::Produced(vec![(id(serial), phase)]));
}

/// The end item, or the abort item, as it is leased.
fn last_word(story: &mut Story, serial: u64, permit: u64) {
    last_word_as(story, serial, serial, permit);
}

fn last_word_as(story: &mut Story, serial: u64, number: u64, permit: u64) {
    let created_at = story.now();
    story.lease(vec![Given { id: id(number), created_at, ..given(serial, permit, 1) }]);
    let items = vec![(id(number), Permit(permit), None)];
    story.call(Op::Complete { queue: 0, items }, Outcome::Judged(vec![Verdict::Done]));
}

/// As the readout does it, when all has come out.
fn list(story: &mut Story, views: Vec<ShownGroup>) {
    story.call(Op::Stats(0), Outcome::Counted(Box::<QueueCounts>::default()));
    story.call(Op::Groups(0), Outcome::Groups(views));
    story.history.calls.last_mut().expect("it was just made").client = OPERATOR;
}

fn show(story: &mut Story, serial: u64, phase: Phase) {
    let view = ShownItem { group: Some("g".into()), ..shown(serial, phase, 0) };
    story.call(Op::Get(id(serial)), Outcome::Shown(Box::new(view)));
}

/// A started group of one, which is leased.
fn one_leased() -> Story {
    let mut story = story();
    create(&mut story, &[1], true);
    story.pass(SECOND).lease(vec![given_member(1, 11, 1)]).pass(SECOND);
    story
}

/// A group of one that has come to its end.
fn one_done() -> Story {
    let mut story = one_leased();
    story.complete(1, 11, Verdict::Done);
    let done = completed(1, done(&story));
    tell(&mut story, GroupAsk::Info, done);
    story
}

#[test]
fn a_group_that_is_held_started_joined_and_done_passes() {
    let mut story = story();
    create(&mut story, &[1], false);
    join(&mut story, 2, Phase::Held);
    tell(&mut story, GroupAsk::Start, waiting(2));
    story.pass(SECOND).lease(vec![given_member(1, 11, 1), given_member(2, 12, 1)]);
    story.complete(1, 11, Verdict::Done);
    tell(&mut story, GroupAsk::Info, completed(1, leased(STARTED, 1)));
    story.complete(2, 12, Verdict::Done);
    let done = completed(2, done(&story));
    last_word(&mut story, END, 13);
    list(&mut story, vec![done]);
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_group_that_is_cancelled_while_one_works_passes() {
    let mut story = story();
    create(&mut story, &[1, 2], true);
    story.pass(SECOND).lease_as(vec![given_member(1, 11, 1)], 1, Filter::ANY);
    let at = cancelled(&story);
    tell(&mut story, GroupAsk::Cancel, lost(1, leased(at, 1)));
    story.pass(SECOND).complete(1, 11, Verdict::Done);
    let GroupState::Cancelled { at: cancelled_at } = at else { panic!("it was cancelled") };
    let aborted = GroupState::Aborted { cancelled_at, at: story.now() };
    last_word(&mut story, ABORT, 13);
    list(&mut story, vec![lost(1, completed(1, view(aborted)))]);
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_member_leased_before_the_start_is_found() {
    let mut story = story();
    create(&mut story, &[1], false);
    story.lease(vec![given_member(1, 11, 1)]);
    tell(&mut story, GroupAsk::Start, leased(STARTED, 1));
    assert_eq!(story.verdict(), Some("held"));
}

#[test]
fn a_member_that_waits_before_the_start_is_found() {
    let mut story = story();
    create(&mut story, &[], false);
    join(&mut story, 1, Phase::Waiting);
    assert_eq!(story.verdict(), Some("held"));
}

#[test]
fn a_member_leased_before_the_start_is_found_also_where_the_newest_can_be_lost() {
    use windlass_sim::fault::Fault;
    use windlass_sim::history::Promise;
    let mut story = story();
    story.history.promise = Promise::MayRollBack;
    story.history.faults.push((story.history.processes[0].begin, Fault::LostWrite));
    create(&mut story, &[1], false);
    story.lease(vec![given_member(1, 11, 1)]);
    assert_eq!(story.verdict(), Some("held"));
}

#[test]
fn a_start_of_unknown_outcome_may_have_started_it() {
    let mut story = story();
    create(&mut story, &[1], false);
    ask(&mut story, GroupAsk::Start, Outcome::Unknown(Why::Abandoned));
    story.lease(vec![given_member(1, 11, 1)]).complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_member_of_another_group_is_found() {
    let mut story = story();
    create(&mut story, &[1], true);
    story.lease(vec![given(1, 11, 1)]);
    assert_eq!(story.verdict(), Some("member"));
}

#[test]
fn a_group_that_nobody_made_is_found() {
    let mut story = story();
    tell(&mut story, GroupAsk::Info, held(0));
    assert_eq!(story.verdict(), Some("group"));
}

#[test]
fn a_group_without_live_members_that_goes_on_is_found() {
    let mut story = one_leased();
    story.complete(1, 11, Verdict::Done);
    tell(&mut story, GroupAsk::Info, completed(1, waiting(0)));
    assert_eq!(story.verdict(), Some("group state"));
}

#[test]
fn a_done_group_that_is_started_again_is_found() {
    let mut story = one_done();
    tell(&mut story, GroupAsk::Info, completed(1, waiting(1)));
    assert_eq!(story.verdict(), Some("group state"));
}

#[test]
fn a_done_group_that_is_done_again_is_found() {
    let mut story = one_done();
    story.pass(SECOND);
    let done = completed(1, done(&story));
    tell(&mut story, GroupAsk::Info, done);
    assert_eq!(story.verdict(), Some("group state"));
}

#[test]
fn a_group_left_unfinished_is_found() {
    let mut story = story();
    create(&mut story, &[1], true);
    list(&mut story, vec![waiting(1)]);
    story.lease(vec![given_member(1, 11, 1)]).complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("group unfinished"));
}

#[test]
fn a_deleted_group_that_comes_back_is_found() {
    let mut story = one_done();
    let done = completed(1, done(&story));
    tell(&mut story, GroupAsk::Delete, done.clone());
    tell(&mut story, GroupAsk::Info, done);
    assert_eq!(story.verdict(), Some("group back"));
}

#[test]
fn a_group_that_is_lost_is_found() {
    let mut story = story();
    create(&mut story, &[], false);
    ask(&mut story, GroupAsk::Info, Outcome::Refused(Refusal::NoSuchGroup));
    assert_eq!(story.verdict(), Some("group lost"));
}

#[test]
fn a_group_that_is_not_listed_is_found() {
    let mut story = story();
    create(&mut story, &[], false);
    list(&mut story, Vec::new());
    assert_eq!(story.verdict(), Some("group lost"));
}

#[test]
fn a_member_taken_by_a_finished_group_is_found() {
    let mut story = one_done();
    join(&mut story, 2, Phase::Waiting);
    story.lease(vec![given_member(2, 12, 1)]).complete(2, 12, Verdict::Done);
    assert_eq!(story.verdict(), Some("group finished"));
}

#[test]
fn a_name_that_is_used_again_is_another_group() {
    let mut story = one_done();
    let done = completed(1, done(&story));
    tell(&mut story, GroupAsk::Delete, done);
    last_word(&mut story, END, 13);
    let again = ShownGroup { created_at: Timestamp(2), ..held(1) };
    let ends = Ends { end: word(END + 1), abort: None };
    let create = GroupAsk::Create { ends, items: vec![member(2)], start: false };
    ask(&mut story, create, Outcome::GroupMade(Box::new(again), vec![(id(102), Phase::Held)]));
    let refused = Outcome::Refused(Refusal::GroupNotOver);
    ask(&mut story, GroupAsk::Delete, refused);
    story.call(Op::Cancel(id(102)), Outcome::Cancelled(Phase::Cancelled));
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_refusal_without_a_reason_is_found() {
    for refusal in [Refusal::GroupExists, Refusal::GroupFinished] {
        let mut story = story();
        ask(&mut story, GroupAsk::Start, Outcome::Refused(refusal));
        assert_eq!(story.verdict(), Some("group refusal"));
    }
    let mut story = story();
    create(&mut story, &[], false);
    ask(&mut story, GroupAsk::Start, Outcome::Refused(Refusal::GroupFinished));
    assert_eq!(story.verdict(), Some("group refusal"));
}

/// Two members, one of them leased, and the group cancelled.
fn one_cancelled() -> Story {
    let mut story = story();
    create(&mut story, &[1, 2], true);
    story.pass(SECOND).lease_as(vec![given_member(1, 11, 1)], 1, Filter::ANY);
    let at = cancelled(&story);
    tell(&mut story, GroupAsk::Cancel, lost(1, leased(at, 1)));
    story.pass(SECOND);
    story
}

#[test]
fn a_member_leased_after_the_cancel_is_found() {
    let mut story = one_cancelled();
    story.lease(vec![given_member(2, 12, 1)]);
    story.complete(1, 11, Verdict::Done).complete(2, 12, Verdict::Done);
    assert_eq!(story.verdict(), Some("back"));
}

#[test]
fn a_member_that_was_leased_before_the_cancel_and_again_after_it_is_found() {
    let mut story = one_cancelled();
    story.pass(20 * SECOND).lease(vec![given_member(1, 12, 2)]).complete(1, 12, Verdict::Done);
    assert_eq!(story.verdict(), Some("cancelled"));
}

#[test]
fn a_member_seen_waiting_after_the_cancel_is_found() {
    let mut story = one_cancelled();
    story.release(1, 11, Verdict::Done);
    show(&mut story, 1, Phase::Waiting);
    assert_eq!(story.verdict(), Some("cancelled"));
}

#[test]
fn a_worker_who_is_not_asked_to_stop_is_found() {
    for (cancel_requested, verdict) in [(true, None), (false, Some("cancelled"))] {
        let mut story = one_cancelled();
        let deadline = story.now() + crate::story::LEASE;
        let extended = Verdict::Extended(Extended { deadline, cancel_requested });
        let op = Op::Extend { queue: 0, timeout: None, items: vec![(id(1), Permit(11))] };
        story.call(op, Outcome::Judged(vec![extended])).complete(1, 11, Verdict::Done);
        assert_eq!(story.verdict(), verdict);
    }
}

#[test]
fn an_end_item_that_comes_twice_is_found() {
    let mut story = one_done();
    last_word(&mut story, END, 13);
    last_word_as(&mut story, END, 101, 14);
    assert_eq!(story.verdict(), Some("last words"));
}

#[test]
fn an_end_item_and_an_abort_item_are_found() {
    let mut story = one_leased();
    ask(&mut story, GroupAsk::Cancel, Outcome::Unknown(Why::Abandoned));
    story.complete(1, 11, Verdict::Done);
    last_word(&mut story, END, 13);
    last_word(&mut story, ABORT, 14);
    assert_eq!(story.verdict(), Some("last words"));
}

#[test]
fn an_abort_item_of_a_done_group_is_found() {
    let mut story = one_leased();
    ask(&mut story, GroupAsk::Cancel, Outcome::Unknown(Why::Abandoned));
    story.complete(1, 11, Verdict::Done);
    let done = completed(1, done(&story));
    tell(&mut story, GroupAsk::Info, done);
    last_word(&mut story, ABORT, 13);
    assert_eq!(story.verdict(), Some("last word"));
}

#[test]
fn an_end_item_that_nobody_asked_for_is_found() {
    let mut story = story();
    create(&mut story, &[], false);
    last_word(&mut story, END, 13);
    assert_eq!(story.verdict(), Some("last word"));
}

#[test]
fn an_end_item_that_was_replaced_is_found() {
    let mut story = one_leased();
    let ends = Ends { end: word(END + 1), abort: None };
    tell(&mut story, GroupAsk::SetEnd(ends), leased(STARTED, 1));
    story.complete(1, 11, Verdict::Done);
    last_word(&mut story, END, 13);
    assert_eq!(story.verdict(), Some("last word"));
}

#[test]
fn an_end_item_before_the_last_member_ended_is_found() {
    let mut story = one_leased();
    last_word(&mut story, END, 13);
    story.complete(1, 11, Verdict::Done);
    assert_eq!(story.verdict(), Some("early end"));
}

#[test]
fn an_end_item_made_before_the_last_member_was_leased_is_found() {
    let mut story = story();
    create(&mut story, &[1], true);
    let made_at = story.now();
    story.pass(SECOND).lease(vec![given_member(1, 11, 1)]).complete(1, 11, Verdict::Done);
    story.lease(vec![Given { id: id(END), created_at: made_at, ..given(END, 13, 1) }]);
    story.complete(END, 13, Verdict::Done);
    assert_eq!(story.verdict(), Some("early end"));
}

#[test]
fn a_done_group_whose_end_item_is_nowhere_is_found() {
    let mut story = one_done();
    assert_eq!(story.verdict(), None, "it may be there still");
    let done = completed(1, done(&story));
    list(&mut story, vec![done]);
    assert_eq!(story.verdict(), Some("no last word"));
}

/// A group that is done, the end item of which was to go to another queue that is there, and is nowhere.
fn end_gone(mut story: Story) -> Story {
    let end = word(END).map(|end| LastWord { queue: 1, ..end });
    let create = GroupAsk::Create { ends: Ends { end, abort: None }, items: vec![member(1)], start: true };
    ask(&mut story, create, Outcome::GroupMade(Box::new(waiting(1)), vec![(id(1), Phase::Waiting)]));
    story.lease(vec![given_member(1, 11, 1)]).complete(1, 11, Verdict::Done);
    let done = completed(1, done(&story));
    tell(&mut story, GroupAsk::Info, done);
    let create = Op::Create { queue: 1, settings: Settings::default(), partitions: 1 };
    story.call(create, Outcome::Deleted);
    story.call(Op::Stats(1), Outcome::Counted(Box::<QueueCounts>::default()));
    story
}

#[test]
fn an_end_item_on_its_way_goes_with_the_queue_it_left_if_that_is_deleted_by_force() {
    for (force, rule) in [(true, None), (false, Some("no last word"))] {
        let mut story = end_gone(story());
        story.call(Op::Delete { queue: 0, force }, Outcome::Deleted);
        assert_eq!(story.verdict(), rule);
    }
}

#[test]
fn a_queue_deleted_before_there_was_the_group_takes_no_end_item_along() {
    let mut story = story();
    story.call(Op::Delete { queue: 0, force: true }, Outcome::Deleted);
    let create = Op::Create { queue: 0, settings: Settings::default(), partitions: 1 };
    story.call(create, Outcome::Deleted);
    assert_eq!(end_gone(story).verdict(), Some("no last word"));
}

#[test]
fn an_end_item_from_a_group_that_did_not_send_it_is_found() {
    for (group, verdict) in [("g", None), ("h", Some("origin"))] {
        let mut story = story();
        story.call(Op::Create { queue: 1, settings: Settings::default(), partitions: 1 }, Outcome::Deleted);
        let end = Some(LastWord { queue: 1, made: made(END) });
        let create = GroupAsk::Create { ends: Ends { end, abort: None }, items: Vec::new(), start: true };
        let done = done(&story);
        ask(&mut story, create, Outcome::GroupMade(Box::new(done), Vec::new()));
        let origin = Origin {
            queue: "q0".into(),
            id: None,
            group: Some(group.into()),
            attempts: None,
            reason: MoveReason::GroupEnd,
            error: None,
            moved_at: story.now(),
        };
        let there = ItemId { partition: PartitionId(2), number: ItemNumber(5) };
        story.lease(vec![Given { id: there, origin: Some(Box::new(origin)), ..given(END, 13, 1) }]);
        let Op::Lease { queue, .. } = &mut story.history.calls.last_mut().expect("it was just made").op
        else {
            panic!("a lease")
        };
        *queue = 1;
        let items = vec![(there, Permit(13), None)];
        story.call(Op::Complete { queue: 1, items }, Outcome::Judged(vec![Verdict::Done]));
        assert_eq!(story.verdict(), verdict);
    }
}

#[test]
fn a_member_that_is_not_counted_is_found() {
    let mut story = story();
    create(&mut story, &[1, 2], false);
    tell(&mut story, GroupAsk::Info, held(1));
    story.call(Op::Cancel(id(1)), Outcome::Cancelled(Phase::Cancelled));
    story.call(Op::Cancel(id(2)), Outcome::Cancelled(Phase::Cancelled));
    assert_eq!(story.verdict(), Some("group state"), "one less than before");
    let mut story = story_of_counts();
    tell(&mut story, GroupAsk::Info, held(3));
    assert_eq!(story.verdict(), Some("group counts"));
}

/// Two members, both cancelled.
fn story_of_counts() -> Story {
    let mut story = story();
    create(&mut story, &[1, 2], false);
    story.call(Op::Cancel(id(1)), Outcome::Cancelled(Phase::Cancelled));
    story.call(Op::Cancel(id(2)), Outcome::Cancelled(Phase::Cancelled));
    story
}

#[test]
fn a_member_that_is_counted_as_what_it_is_not_is_found() {
    let mut story = story_of_counts();
    tell(&mut story, GroupAsk::Info, lost(2, held(0)));
    assert_eq!(story.verdict(), None);
    let mut story = story_of_counts();
    tell(&mut story, GroupAsk::Info, lost(1, completed(1, held(0))));
    assert_eq!(story.verdict(), Some("group counts"));
}

#[test]
fn a_member_of_a_started_group_that_is_passed_over_is_found() {
    let mut story = story();
    create(&mut story, &[1], false);
    story.produce(&[2]);
    tell(&mut story, GroupAsk::Start, waiting(1));
    story.lease_as(vec![given(2, 12, 1)], 1, Filter::ANY);
    story.complete(2, 12, Verdict::Done);
    story.lease(vec![given_member(1, 13, 1)]).complete(1, 13, Verdict::Done);
    assert_eq!(story.verdict(), Some("order"));
}
