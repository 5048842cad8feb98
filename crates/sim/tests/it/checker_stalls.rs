//! Bad histories beside a store that does not answer, and good ones that come close.

use windlass_core::id::PartitionId;
use windlass_core::rule::Stop;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::Filter;
use windlass_sim::check::check;
use windlass_sim::history::{Call, Op, Outcome, QueueIndex, ShownQueue, Stall};

use crate::story::{SECOND, Story, story};

const STALL: u64 = 100 * SECOND;

/// `q1` is made in that store, and then `store1` does not answer for a while.
fn stalled(store: &str) -> Story {
    let mut story = story();
    let partition = PartitionId(2);
    let queue = ShownQueue { partitions: vec![partition], homes: vec![(partition, Some(store.into()))] };
    let create = Op::Create { queue: 1, settings: Settings::default(), partitions: 1 };
    story.call(create, Outcome::Queue(Box::new(queue)));
    let begin = story.moment();
    let until_micros = begin.micros + STALL;
    story.history.stalls.push(Stall { store: "store1".into(), process: 0, begin, until_micros });
    story
}

/// A call that begins now and is answered after so long.
fn slow(story: &mut Story, op: Op, outcome: Outcome, micros: u64) {
    let (begin, latest) = (story.moment(), story.now());
    story.pass(micros);
    let end = story.moment();
    story.history.calls.push(Call { client: 0, process: 0, begin, end, latest, op, outcome, turn: None });
}

fn pause(queue: QueueIndex) -> Op {
    Op::Stop { queue, kind: None, stop: Stop::Pause, until: None }
}

fn verdict(story: &Story) -> Option<&'static str> {
    check(&story.history).err().map(|violation| violation.rule)
}

#[test]
fn a_call_that_waits_for_a_store_it_wants_nothing_of_is_caught() {
    for (store, micros, rule) in
        [("store2", SECOND, None), ("store2", 20 * SECOND, Some("stalled")), ("store1", 20 * SECOND, None)]
    {
        let mut story = stalled(store);
        slow(&mut story, pause(1), Outcome::Ruled, micros);
        assert_eq!(verdict(&story), rule, "{store} {micros}");
    }
}

#[test]
fn a_lease_waits_as_long_as_it_asked_for() {
    for (wait, rule) in [(30, None), (5, Some("stalled"))] {
        let mut story = stalled("store2");
        let lease = Op::Lease {
            queue: 1,
            batch_size: 1,
            timeout: None,
            filter: Filter::ANY,
            wait: Span::from_secs(wait),
        };
        slow(&mut story, lease, Outcome::Granted { items: Vec::new(), accepted: true }, 20 * SECOND);
        assert_eq!(verdict(&story), rule, "{wait}");
    }
}

#[test]
fn a_call_is_not_held_to_stores_once_all_of_them_answer() {
    let mut story = stalled("store2");
    story.pass(STALL + SECOND);
    slow(&mut story, pause(1), Outcome::Ruled, 20 * SECOND);
    assert_eq!(verdict(&story), None);
}

#[test]
fn a_shutdown_that_outlasts_the_stall_by_far_is_caught() {
    for (micros, rule) in [(SECOND, None), (200 * SECOND, Some("stalled"))] {
        let mut story = stalled("store1");
        let closing = story.moment();
        story.pass(STALL + micros);
        let closed = story.moment();
        // Clients that think for long are no part of the shutdown.
        story.pass(1000 * SECOND);
        let end = story.moment();
        let process = &mut story.history.processes[0];
        (process.closing, process.closed, process.end) = (Some(closing), Some(closed), Some(end));
        assert_eq!(verdict(&story), rule, "{micros}");
        story.history.processes[0].closed = None;
        assert_eq!(verdict(&story), Some("stalled"), "a process that crashed had not closed by then");
    }
}
