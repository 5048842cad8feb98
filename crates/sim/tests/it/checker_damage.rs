//! What the checker says of runs in which stored bytes rotted.

use bytes::Bytes;
use windlass_core::id::PartitionId;
use windlass_core::refusal::Refusal;
use windlass_sim::fault::Fault;
use windlass_sim::history::{Damage, Loss, Moment, Op, Outcome, Teller, Verdict};

use crate::story::{Story, given, id, story};

const LATE: Moment = Moment { order: 1_000, micros: 0 };

fn with_rot() -> Story {
    let mut story = story();
    story.history.faults.push((Moment::default(), Fault::Rot));
    story
}

fn tell(story: &mut Story, by: Teller) {
    let text = "00000001.seg: damaged at byte 80".to_owned();
    story.history.damage.push(Damage { at: LATE, by, text });
}

/// An item that was acknowledged, and that nobody can have ended, is not there.
fn lose_an_item(story: &mut Story) {
    story.produce(&[1]).call(Op::Get(id(1)), Outcome::Refused(Refusal::NotFound));
}

#[test]
fn an_item_that_rot_took_without_a_word_is_lost() {
    let mut story = with_rot();
    lose_an_item(&mut story);
    assert_eq!(story.verdict(), Some("lost"));
}

/// Somebody looked at the logs, and counted what is missing from the partition of all items.
fn count(story: &mut Story, loss: Loss) {
    tell(story, Teller::Inspect);
    story.history.losses.add(PartitionId(1), loss);
}

#[test]
fn an_item_that_rot_took_may_be_missing_if_it_was_counted() {
    let mut story = with_rot();
    lose_an_item(&mut story);
    count(&mut story, Loss { items: 1, may_be_more: false });
    assert_eq!(story.verdict(), None);
}

#[test]
fn more_items_than_were_counted_are_lost() {
    let mut story = with_rot();
    lose_an_item(&mut story);
    story.produce(&[2]).call(Op::Get(id(2)), Outcome::Refused(Refusal::NotFound));
    count(&mut story, Loss { items: 1, may_be_more: false });
    assert_eq!(story.verdict(), Some("lost"));
    count(&mut story, Loss { items: 1, may_be_more: true });
    assert_eq!(story.verdict(), None);
}

#[test]
fn damage_that_costs_no_items_excuses_no_missing_item() {
    for by in [Teller::Start, Teller::Inspect, Teller::Salvage] {
        let mut story = with_rot();
        lose_an_item(&mut story);
        tell(&mut story, by);
        assert_eq!(story.verdict(), Some("lost"), "{by:?}");
    }
}

#[test]
fn an_error_that_speaks_of_damage_is_told_damage() {
    // Rot of a later frame may bring back the row that an earlier one put.
    let mut story = with_rot();
    story.produce(&[1]).lease(vec![given(1, 1, 1)]).complete(1, 1, Verdict::Done).lease(vec![given(1, 2, 2)]);
    assert_eq!(story.verdict(), Some("back"));
    let reason = "partition 1 is faulty: 00000001.seg: damaged at byte 80: frame 3 cannot be read".to_owned();
    story.call(Op::Get(id(1)), Outcome::NotApplied(reason));
    assert_eq!(story.verdict(), None);
}

#[test]
fn damage_told_without_rot_excuses_nothing() {
    let mut story = story();
    lose_an_item(&mut story);
    tell(&mut story, Teller::Inspect);
    assert_eq!(story.verdict(), Some("lost"));
}

#[test]
fn a_server_that_misses_a_body_on_sound_disks_is_wrong() {
    let mut story = story();
    story.produce(&[1]).lease(vec![given(1, 1, 1)]).complete(1, 1, Verdict::Done);
    story.history.lost_bodies.insert(id(1).to_string());
    assert_eq!(story.verdict(), Some("damage"));
    story.history.faults.push((Moment::default(), Fault::Rot));
    assert_eq!(story.verdict(), None);
}

#[test]
fn commits_that_a_start_was_told_to_cut_are_missing_only_after_a_start() {
    let mut story = with_rot();
    lose_an_item(&mut story);
    tell(&mut story, Teller::Inspect);
    story.history.losses.at_start.insert(PartitionId(1));
    assert_eq!(story.verdict(), Some("lost"));
    story.history.losses.start();
    assert_eq!(story.verdict(), None);
}

#[test]
fn another_payload_than_was_produced_is_never_excused() {
    let mut story = with_rot();
    tell(&mut story, Teller::Start);
    let mut other = given(1, 1, 1);
    other.body = Bytes::from_static(b"1:bbbbbbbbbbbbbbbbbz");
    story.produce(&[1]).lease(vec![other]);
    assert_eq!(story.verdict(), Some("body"));
}
