//! Bad histories of crons, one for each rule, and good ones that come close.

use windlass_core::cron::{CatchUp, CronRefusal, Overlap};
use windlass_core::refusal::Refusal;
use windlass_core::time::{Span, Timestamp};
use windlass_sim::cron::{CronAsk, CronOp, CronSpec};
use windlass_sim::fault::Fault;
use windlass_sim::history::{Given, Op, Outcome, ShownCron, Verdict, Why};
use windlass_sim::plan::queue_name;

use crate::story::{SECOND, Story, given, id, made, story};

const NAME: &str = "tick";
const EVERY: u64 = 10 * SECOND;

fn spec(serial: u64, catch_up: CatchUp) -> CronSpec {
    CronSpec { made: made(serial), every: Span(EVERY), catch_up, overlap: Overlap::Allow }
}

fn ask(story: &mut Story, ask: CronAsk, outcome: Outcome) {
    story.call(Op::Cron(Box::new(CronOp { name: NAME.into(), ask })), outcome);
}

/// The cron as a view of it shows it, made at that moment.
fn info(born: Timestamp, serial: u64, last_at: Option<Timestamp>) -> ShownCron {
    ShownCron {
        queue: queue_name(0).name,
        name: NAME.into(),
        created_at: born,
        schedule: "@every 10s".into(),
        paused: false,
        next_at: None,
        last_at,
        serial: Some(serial),
    }
}

fn shown(born: Timestamp, serial: u64) -> Outcome {
    Outcome::Cron(Box::new(info(born, serial, None)))
}

/// A cron whose items bear the serial 100, and when it was made.
fn with_cron(catch_up: CatchUp) -> (Story, Timestamp) {
    let mut story = story();
    let born = story.now();
    ask(&mut story, CronAsk::Create { queue: 0, spec: spec(100, catch_up) }, shown(born, 100));
    (story, born)
}

/// An item that the cron made now: leased and completed.
fn makes(story: &mut Story, serial: u64, number: u64) {
    let item = Given {
        id: id(number),
        created_at: story.now(),
        body: made(serial).body(),
        ..given(number, number, 1)
    };
    story.lease(vec![item]);
    story.complete(number, number, Verdict::Done);
}

fn not_found() -> Outcome {
    Outcome::Refused(Refusal::Cron(CronRefusal::NotFound))
}

#[test]
fn a_cron_that_runs_is_paused_triggered_changed_and_deleted_passes() {
    let (mut story, born) = with_cron(CatchUp::Skip);
    story.pass(EVERY);
    makes(&mut story, 100, 1);
    story.pass(EVERY);
    makes(&mut story, 100, 2);
    ask(&mut story, CronAsk::Trigger, Outcome::Triggered(id(3)));
    makes(&mut story, 100, 3);
    ask(&mut story, CronAsk::Pause, shown(born, 100));
    story.pass(3 * EVERY);
    ask(&mut story, CronAsk::Update(spec(101, CatchUp::One)), shown(born, 101));
    ask(&mut story, CronAsk::Resume, Outcome::CronDone);
    story.pass(EVERY);
    makes(&mut story, 101, 4);
    ask(&mut story, CronAsk::Delete, Outcome::CronDone);
    ask(&mut story, CronAsk::Info, not_found());
    let again = story.now();
    ask(&mut story, CronAsk::Create { queue: 0, spec: spec(102, CatchUp::Skip) }, shown(again, 102));
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_time_that_makes_two_items_is_caught() {
    for (apart, rule) in [(EVERY, None), (SECOND, Some("cron")), (0, Some("cron"))] {
        let (mut story, _) = with_cron(CatchUp::Skip);
        story.pass(EVERY);
        makes(&mut story, 100, 1);
        story.pass(apart);
        makes(&mut story, 100, 2);
        assert_eq!(story.verdict(), rule, "{apart}");
    }
}

#[test]
fn a_time_that_makes_two_items_before_and_after_a_change_is_caught() {
    let (mut story, born) = with_cron(CatchUp::Skip);
    story.pass(EVERY);
    makes(&mut story, 100, 1);
    ask(&mut story, CronAsk::Update(spec(101, CatchUp::Skip)), shown(born, 101));
    makes(&mut story, 101, 2);
    assert_eq!(story.verdict(), Some("cron"));
}

#[test]
fn more_items_than_there_were_times_are_caught_where_all_are_made_up_for() {
    for (items, rule) in [(3, None), (4, Some("cron"))] {
        let (mut story, _) = with_cron(CatchUp::All);
        story.pass(3 * EVERY);
        (1..=items).for_each(|number| makes(&mut story, 100, number));
        assert_eq!(story.verdict(), rule, "{items}");
    }
}

#[test]
fn a_trigger_of_unknown_outcome_may_have_made_one_more() {
    let (mut story, _) = with_cron(CatchUp::Skip);
    ask(&mut story, CronAsk::Trigger, Outcome::Unknown(Why::Told));
    story.history.faults.push((story.history.processes[0].begin, Fault::SyncError));
    story.pass(EVERY);
    makes(&mut story, 100, 1);
    makes(&mut story, 100, 2);
    assert_eq!(story.verdict(), None);
    makes(&mut story, 100, 3);
    assert_eq!(story.verdict(), Some("cron"));
}

#[test]
fn items_are_not_counted_by_a_clock_that_was_set() {
    let (mut story, _) = with_cron(CatchUp::Skip);
    let at = story.moment();
    story.history.faults.push((at, Fault::ClockForward));
    story.pass(EVERY);
    makes(&mut story, 100, 1);
    makes(&mut story, 100, 2);
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_item_of_a_deleted_cron_is_caught() {
    let with_queue = Op::Delete { queue: 0, force: true };
    let alone = Op::Cron(Box::new(CronOp { name: NAME.into(), ask: CronAsk::Delete }));
    for (delete, outcome) in [(alone, Outcome::CronDone), (with_queue, Outcome::Deleted)] {
        let (mut story, _) = with_cron(CatchUp::All);
        story.call(delete, outcome);
        story.pass(EVERY);
        makes(&mut story, 100, 1);
        assert_eq!(story.verdict(), Some("cron"));
    }
}

#[test]
fn an_item_made_just_before_the_delete_passes() {
    let (mut story, _) = with_cron(CatchUp::Skip);
    story.pass(EVERY);
    let item = Given { created_at: story.now(), body: made(100).body(), ..given(1, 1, 1) };
    story.pass(1);
    ask(&mut story, CronAsk::Delete, Outcome::CronDone);
    story.lease(vec![item]).complete(1, 1, Verdict::Done);
    assert_eq!(story.verdict(), None);
}

#[test]
fn an_item_of_a_paused_cron_is_caught() {
    for (resume, rule) in [(true, None), (false, Some("cron"))] {
        let (mut story, born) = with_cron(CatchUp::All);
        ask(&mut story, CronAsk::Pause, shown(born, 100));
        story.pass(EVERY);
        if resume {
            ask(&mut story, CronAsk::Resume, Outcome::CronDone);
            story.pass(EVERY);
        }
        makes(&mut story, 100, 1);
        assert_eq!(story.verdict(), rule);
    }
}

#[test]
fn a_name_of_two_crons_is_caught() {
    for (delete, rule) in [(true, None), (false, Some("cron"))] {
        let (mut story, _) = with_cron(CatchUp::Skip);
        if delete {
            ask(&mut story, CronAsk::Delete, Outcome::CronDone);
        }
        let again = CronAsk::Create { queue: 0, spec: spec(101, CatchUp::Skip) };
        let born = story.now();
        ask(&mut story, again, shown(born, 101));
        assert_eq!(story.verdict(), rule);
    }
}

#[test]
fn a_cron_that_is_lost_is_caught() {
    let (mut story, _) = with_cron(CatchUp::Skip);
    ask(&mut story, CronAsk::Info, not_found());
    assert_eq!(story.verdict(), Some("cron"));
}

#[test]
fn a_cron_that_may_have_gone_with_its_queue_need_not_be_found() {
    let (mut story, _) = with_cron(CatchUp::Skip);
    story.call(Op::Delete { queue: 0, force: true }, Outcome::Unknown(Why::Crashed));
    ask(&mut story, CronAsk::Info, not_found());
    assert_eq!(story.verdict(), None);
}

#[test]
fn a_deleted_cron_that_answers_is_caught() {
    let (mut story, born) = with_cron(CatchUp::Skip);
    ask(&mut story, CronAsk::Delete, Outcome::CronDone);
    ask(&mut story, CronAsk::Info, shown(born, 100));
    assert_eq!(story.verdict(), Some("cron"));
}

#[test]
fn a_change_that_is_undone_is_caught() {
    for (serial, rule) in [(101, None), (100, Some("cron")), (777, Some("cron"))] {
        let (mut story, born) = with_cron(CatchUp::Skip);
        ask(&mut story, CronAsk::Update(spec(101, CatchUp::Skip)), shown(born, 101));
        ask(&mut story, CronAsk::Info, shown(born, serial));
        assert_eq!(story.verdict(), rule, "{serial}");
    }
}

#[test]
fn a_last_time_that_goes_back_is_caught() {
    let (mut story, born) = with_cron(CatchUp::Skip);
    let at = |times: u64| Outcome::Cron(Box::new(info(born, 100, Some(born + Span(times * EVERY)))));
    for (times, rule) in [(2, None), (3, None), (2, Some("cron"))] {
        ask(&mut story, CronAsk::Info, at(times));
        assert_eq!(story.verdict(), rule, "{times}");
    }
}

#[test]
fn a_name_that_is_listed_twice_is_caught() {
    for (count, rule) in [(1, None), (2, Some("cron"))] {
        let (mut story, born) = with_cron(CatchUp::Skip);
        let listed: Vec<ShownCron> = (0..count).map(|_| info(born, 100, None)).collect();
        story.call(Op::Crons, Outcome::Crons(listed));
        assert_eq!(story.verdict(), rule);
    }
}

#[test]
fn an_item_of_a_cron_that_is_leased_and_then_nowhere_is_caught() {
    let (mut story, _) = with_cron(CatchUp::Skip);
    story.pass(EVERY);
    let item = Given { created_at: story.now(), body: made(100).body(), ..given(1, 1, 1) };
    story.lease(vec![item]);
    assert_eq!(story.verdict(), Some("lost"));
}

#[test]
fn a_time_that_makes_nothing_is_caught_where_all_are_made_up_for() {
    for (items, rule) in [(2, None), (1, Some("cron")), (3, Some("cron"))] {
        let (mut story, born) = with_cron(CatchUp::All);
        let listed = |next: u64, last: Option<u64>| {
            let mut listed = info(born, 100, last.map(|times| born + Span(times * EVERY)));
            listed.next_at = Some(born + Span(next * EVERY));
            Outcome::Crons(vec![listed])
        };
        story.pass(10 * EVERY - 1);
        story.call(Op::Crons, listed(10, None)).pass(EVERY + 1);
        (1..=items).for_each(|number| makes(&mut story, 100, number));
        story.call(Op::Crons, listed(12, Some(11)));
        assert_eq!(story.verdict(), rule, "{items}");
    }
}
