//! Histories made by hand: a sound one to begin with, told call by call.

use bytes::Bytes;
use windlass_core::id::{ItemId, ItemNumber, PartitionId, Permit};
use windlass_core::item::Phase;
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::Filter;
use windlass_sim::check::check;
use windlass_sim::history::{Call, Given, History, Made, Moment, Op, Outcome, Process, ShownItem, Verdict};

/// Where the story's clock begins: engine time is virtual time plus this.
const START: u64 = 1_000_000_000;
pub(crate) const SECOND: u64 = 1_000_000;
/// Every lease in a story.
pub(crate) const LEASE: Span = Span::from_secs(10);

pub(crate) struct Story {
    pub(crate) history: History,
    order: u64,
    micros: u64,
}

/// One process that serves, and one queue `q0` with at most three attempts that keeps everything.
pub(crate) fn story() -> Story {
    let mut story = Story { history: History::default(), order: 0, micros: 0 };
    story.history.keeps_everything = true;
    let begin = story.tick();
    story.history.processes.push(Process { begin, opened: Some(begin), ..Process::default() });
    let create = Op::Create { queue: 0, settings: Settings::default(), partitions: 1 };
    story.call(create, Outcome::NotApplied("not of interest".to_owned()));
    // The service rule must not trip over how the story begins.
    story.history.calls[0].outcome = Outcome::Deleted;
    story
}

pub(crate) fn id(number: u64) -> ItemId {
    ItemId { partition: PartitionId(1), number: ItemNumber(number) }
}

pub(crate) fn made(serial: u64) -> Made {
    Made {
        serial,
        len: 20,
        kind: "mail".into(),
        priority: 0,
        enqueue_at: None,
        max_attempts: None,
        dead_timeout: None,
        address: None,
        group: None,
    }
}

pub(crate) fn given(serial: u64, permit: u64, attempts: u32) -> Given {
    Given {
        kind: "mail".into(),
        attempts,
        created_at: Timestamp(START),
        body: made(serial).body(),
        ..Given::of(id(serial), Permit(permit))
    }
}

pub(crate) fn after_events(event_count: u64, item: Given) -> Given {
    Given { event_count, ..item }
}

/// An item of `q0`, as a get shows it.
pub(crate) fn shown(serial: u64, phase: Phase, attempts: u32) -> ShownItem {
    ShownItem {
        kind: "mail".into(),
        created_at: Timestamp(START),
        attempts,
        finished_at: phase.is_final().then_some(Timestamp(0)),
        // An item that failed always has one.
        error: (phase == Phase::Failed).then(|| "it did not work".into()),
        payload: (phase != Phase::Completed).then(|| made(serial).body()),
        ..ShownItem::of(id(serial), phase)
    }
}

impl Story {
    fn tick(&mut self) -> Moment {
        self.order += 1;
        Moment { order: self.order, micros: self.micros }
    }

    /// One more moment, now.
    pub(crate) fn moment(&mut self) -> Moment {
        self.tick()
    }

    pub(crate) fn pass(&mut self, micros: u64) -> &mut Self {
        self.micros += micros;
        self
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(START + self.micros)
    }

    pub(crate) fn call(&mut self, op: Op, outcome: Outcome) -> &mut Self {
        let begin = self.tick();
        let end = self.tick();
        let process = self.history.processes.len() - 1;
        let latest = self.now();
        self.history.calls.push(Call { client: 0, process, begin, end, latest, op, outcome, turn: None });
        self
    }

    /// Makes one turn of the last `count` calls.
    pub(crate) fn as_turn(&mut self, count: usize) -> &mut Self {
        let calls = &mut self.history.calls;
        let first = calls.len() - count;
        let (begin, end) = (calls[first].begin, calls[calls.len() - 1].end);
        for call in &mut calls[first..] {
            (call.turn, call.begin, call.end) = (Some(begin.order), begin, end);
        }
        self
    }

    /// Items are known by their serial: it is their number, too.
    pub(crate) fn produce(&mut self, serials: &[u64]) -> &mut Self {
        let produced = serials.iter().map(|serial| (id(*serial), Phase::Waiting)).collect();
        self.produce_as(serials.iter().map(|serial| made(*serial)).collect(), Outcome::Produced(produced))
    }

    pub(crate) fn produce_as(&mut self, items: Vec<Made>, outcome: Outcome) -> &mut Self {
        self.call(Op::Produce { queue: 0, items }, outcome)
    }

    /// Grants, each good for [`LEASE`] from now.
    pub(crate) fn lease(&mut self, items: Vec<Given>) -> &mut Self {
        self.lease_as(items, 10, Filter::ANY)
    }

    pub(crate) fn lease_as(&mut self, mut items: Vec<Given>, batch_size: usize, filter: Filter) -> &mut Self {
        let deadline = self.now() + LEASE;
        items.iter_mut().for_each(|item| item.deadline = deadline);
        let op = Op::Lease { queue: 0, batch_size, timeout: Some(LEASE), filter, wait: Span::ZERO };
        self.call(op, Outcome::Granted { items, accepted: true })
    }

    pub(crate) fn complete(&mut self, serial: u64, permit: u64, verdict: Verdict) -> &mut Self {
        self.complete_with(serial, permit, None, verdict)
    }

    pub(crate) fn complete_with(
        &mut self,
        serial: u64,
        permit: u64,
        result: Option<Bytes>,
        verdict: Verdict,
    ) -> &mut Self {
        let items = vec![(id(serial), Permit(permit), result)];
        self.call(Op::Complete { queue: 0, items }, Outcome::Judged(vec![verdict]))
    }

    pub(crate) fn release(&mut self, serial: u64, permit: u64, verdict: Verdict) -> &mut Self {
        let items = vec![(id(serial), Permit(permit))];
        self.call(Op::Release { queue: 0, items }, Outcome::Judged(vec![verdict]))
    }

    pub(crate) fn revoke(&mut self, serial: u64, permit: u64, verdict: Verdict) -> &mut Self {
        let items = vec![(id(serial), Permit(permit))];
        self.call(Op::Revoke { queue: 0, items }, Outcome::Judged(vec![verdict]))
    }

    /// The rule that is broken, if any.
    pub(crate) fn verdict(&self) -> Option<&'static str> {
        check(&self.history).err().map(|violation| violation.rule)
    }
}
