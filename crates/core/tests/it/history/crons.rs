//! Crons in random histories: what must be true of each of their times, said with nothing but arithmetic.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::script::arrived;
use bytes::Bytes;
use proptest::prelude::*;
use windlass_core::cron::{CatchUp, Cron, CronRefusal, Overlap};
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::CronRun;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Key, Part, Row};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verb::Verb;
use windlass_core::verbs::{
    Arriving, AssignCrons, CronChange, DeleteCron, Departing, Move, Moved, NewCron, NewItem, PauseCron,
    ResumeCron, Take, TriggerCron, UpdateCron,
};

use super::{History, Step, address_name, kind_name};

#[derive(Clone, Debug)]
pub(crate) enum CronStep {
    /// Which, seconds between its times, what becomes of missed ones, of overlapping ones, its address.
    Create(u8, u64, u8, bool, Option<u8>),
    Update(u8, u64),
    Pause(u8),
    Resume(u8),
    Trigger(u8),
    Delete(u8),
    /// To another partition and back again.
    HandOver(u8),
}

/// Seconds between times of which a day has few.
const RARE: std::ops::Range<u64> = 40_000..80_000;

pub(super) fn step() -> impl Strategy<Value = Step> {
    let secs = || prop_oneof![2..60u64, RARE];
    let address = prop::option::weighted(0.3, 0..3u8);
    prop_oneof![
        4 => (0..3u8, secs(), 0..3u8, any::<bool>(), address).prop_map(|(which, secs, catch_up, overlap, address)| {
            // Not so many items in a night that a lease finds nothing but what is overdue.
            let secs = if catch_up == 2 { secs.max(RARE.start) } else { secs };
            CronStep::Create(which, secs, catch_up, overlap, address)
        }),
        1 => (0..3u8, RARE).prop_map(|(which, secs)| CronStep::Update(which, secs)),
        1 => (0..3u8).prop_map(CronStep::Pause),
        2 => (0..3u8).prop_map(CronStep::Resume),
        2 => (0..3u8).prop_map(CronStep::Trigger),
        1 => (0..3u8).prop_map(CronStep::Delete),
        1 => (0..3u8).prop_map(CronStep::HandOver),
    ]
    .prop_map(Step::Cron)
}

fn name(cron: u8) -> Arc<str> {
    ["hourly", "daily", "tick"][usize::from(cron)].into()
}

fn new(which: u8, secs: u64, catch_up: u8, skip: bool, address: Option<u8>) -> NewCron {
    NewCron {
        name: name(which),
        schedule: format!("@every {secs}s").into(),
        timezone: "UTC".into(),
        item: NewItem {
            kind: kind_name(1),
            priority: 1,
            group: None,
            enqueue_at: None,
            delay: None,
            max_attempts: Some(2),
            dead_timeout: None,
            address: address.map(address_name),
            body: Bytes::from_static(b"the time has come"),
            facts: Some(Bytes::from_static(b"facts")),
            hashes: Hashes::Unknown,
        },
        catch_up: [CatchUp::Skip, CatchUp::One, CatchUp::All][usize::from(catch_up)],
        overlap: if skip { Overlap::Skip } else { Overlap::Allow },
    }
}

/// Between its times.
fn span(cron: &Cron) -> Span {
    let secs = cron.schedule.trim_start_matches("@every ").trim_end_matches('s');
    Span::from_secs(secs.parse().unwrap())
}

impl History {
    pub(super) fn cron_step(&mut self, step: &CronStep) {
        match *step {
            CronStep::Create(which, secs, catch_up, skip, address) => {
                let known = self.crons.contains_key(&name(which));
                let reply = self.apply(new(which, secs, catch_up, skip, address));
                assert_eq!(reply.is_err(), known, "{reply:?}");
            }
            CronStep::Update(which, secs) => {
                let change = CronChange {
                    schedule: Some(format!("@every {secs}s").into()),
                    timezone: None,
                    item: Some(new(which, secs, 0, false, None).item),
                    catch_up: None,
                    overlap: None,
                };
                let before = self.crons.get(&name(which)).cloned();
                let reply = self.apply(UpdateCron { name: name(which), change });
                assert_eq!(reply.is_ok(), before.is_some());
                if let Some(before) = before {
                    self.assert_body_removed(before.template.body);
                }
            }
            CronStep::Pause(which) => self.expect_known(which, PauseCron(name(which))),
            CronStep::Resume(which) => {
                self.expect_known(which, ResumeCron(name(which)));
                if let Some(view) = self.partition.cron(&name(which), self.now, 3) {
                    let next = view.cron.next_at.expect("there is always a next time");
                    assert_eq!(
                        view.next_times,
                        [0, 1, 2].map(|times| next + Span(times * span(&view.cron).0))
                    );
                }
            }
            CronStep::Trigger(which) => self.trigger(which),
            CronStep::Delete(which) => {
                let before = self.crons.get(&name(which)).cloned();
                self.expect_known(which, DeleteCron(name(which)));
                if let Some(before) = before {
                    self.assert_body_removed(before.template.body);
                }
            }
            CronStep::HandOver(which) => self.hand_over(which),
        }
    }

    fn expect_known(&mut self, which: u8, verb: impl Verb) {
        let known = self.crons.contains_key(&name(which));
        let reply = self.apply(verb);
        assert_eq!(reply.is_ok(), known, "{reply:?}");
    }

    fn trigger(&mut self, which: u8) {
        let before = self.crons.get(&name(which)).cloned();
        let holder = before.as_ref().and_then(|cron| self.holders_of_addresses.get(cron.address.as_ref()?));
        let holder = holder.copied().filter(|number| self.is_live(*number));
        let last_item =
            before.as_ref().filter(|cron| cron.overlap == Overlap::Skip).and_then(|cron| cron.last_item);
        let kept_by = last_item.filter(|number| self.is_live(*number));
        let reply = self.apply(TriggerCron(name(which)));
        let at_home = |cron: &Cron| cron.address.as_deref().is_none_or(|address| self.is_at_home(address));
        match (before, holder, kept_by) {
            (None, ..) => assert_eq!(reply, Err(Refusal::Cron(CronRefusal::NotFound))),
            (Some(_), Some(number), _) => assert_eq!(reply, Err(Refusal::DuplicateAddress { number })),
            (Some(before), None, None) if !self.takes(None, before.address.as_deref()) => {
                assert_eq!(reply, Err(Refusal::Moved));
            }
            (Some(before), None, Some(item)) if !at_home(&before) => {
                assert_eq!(reply, Err(Refusal::Cron(CronRefusal::Busy { item })));
            }
            (Some(before), None, _) => {
                let made = reply.unwrap();
                assert!(self.is_live(made.number));
                let after = self.partition.crons().find(|cron| cron.name == before.name).cloned();
                let last_item = Some(made.number);
                assert_eq!(after, Some(Cron { last_item, last_item_elsewhere: None, ..before.clone() }));
                self.assert_made_by_cron(made.number, &before, self.now);
            }
        }
    }

    /// To another partition and back, if it belongs elsewhere.
    fn hand_over(&mut self, which: u8) {
        let taker = PartitionId(10);
        let strays = self.partition.stray_crons(usize::MAX);
        let is_stray = strays.iter().any(|stray| stray.name == name(which));
        let assign = AssignCrons { queue: "q".into(), crons: vec![(name(which), taker)] };
        let count = usize::from(is_stray);
        assert_eq!(self.apply(assign), Ok(count));
        let Some(departure) = self.partition.departures(taker, 1).pop() else { return assert!(!is_stray) };
        self.partition.audit().unwrap();
        let moved = Moved { partition: taker, arrived: arrived(departure.number) };
        assert_eq!(self.apply(moved), Ok(1));
        self.assert_body_removed(departure.body);
        let Departing::Cron(cron) = departure.what else { panic!("{:?}", departure.what) };
        let (body, facts) = (Some("the time has come".into()), Some("facts".into()));
        let takes = self.takes(None, cron.address.as_deref());
        let back =
            Move { number: departure.number, what: Arriving::Cron(cron), body, facts, attempts: Vec::new() };
        let last = back.number;
        let reply = self.apply(Take { source: taker, moves: vec![back] });
        let reply = reply.map(|arrived| arrived.last);
        assert_eq!(reply, if takes { Ok(last) } else { Err(Refusal::Moved) });
    }

    fn assert_made_by_cron(&self, item: ItemNumber, cron: &Cron, scheduled_at: Timestamp) {
        let told = self.partition.get(item).and_then(|item| item.extras?.cron);
        assert_eq!(told, Some(Box::new(CronRun { name: Arc::clone(&cron.name), scheduled_at })));
    }

    fn assert_body_removed(&self, body: ItemNumber) {
        let removed = Change::RemoveBody { number: body, part: Part::Payload };
        assert!(self.changes.contains(&removed), "a body that nobody needs is left behind");
    }

    /// Follows the rows that a step wrote.
    pub(super) fn check_crons(&mut self, step: &Step, changes_before: usize) {
        let mut crons = std::mem::take(&mut self.crons);
        for change in &self.changes[changes_before..] {
            match change {
                Change::Put(Row::Cron(after)) => {
                    if let (Some(before), Step::Sweep(_)) = (crons.get(&after.name), step) {
                        self.check_turn(before, after);
                    }
                    crons.insert(Arc::clone(&after.name), Cron::clone(after));
                }
                Change::Remove(Key::Cron(name)) => drop(crons.remove(name)),
                _ => {}
            }
        }
        let rows: BTreeMap<_, _> =
            self.partition.crons().map(|cron| (Arc::clone(&cron.name), cron.clone())).collect();
        assert_eq!(crons, rows);
        self.crons = crons;
    }

    /// What one time, or several that were missed, came to.
    fn check_turn(&self, before: &Cron, after: &Cron) {
        let (due_at, span) = (before.next_at.expect("it was due"), span(before));
        let on_time = Timestamp(self.now.0 - 5_000_000);
        let missed = due_at < on_time;
        assert!(due_at <= self.now, "it ran before its time");
        let next_at = after.next_at.expect("there is always a next time");
        assert_eq!((next_at - before.created_at).0 % span.0, 0);
        if after.last_at == before.last_at {
            assert!(missed && before.catch_up == CatchUp::Skip, "a time was passed over");
            assert!(next_at >= on_time && next_at.0 - span.0 < on_time.0);
            assert_eq!(after.last_item, before.last_item);
            return;
        }
        let ran_at = after.last_at.expect("it ran");
        assert_eq!(next_at, ran_at + span, "a time was passed over, or comes again");
        if missed && before.catch_up == CatchUp::One {
            assert!(ran_at >= due_at && ran_at < on_time && next_at >= on_time);
        } else {
            assert_eq!(ran_at, due_at);
            assert!(!missed || before.catch_up == CatchUp::All);
        }
        let skips = before.overlap == Overlap::Skip;
        let may_run = self.takes(None, before.address.as_deref());
        assert!(may_run || after.last_item == before.last_item, "it ran where it does not belong");
        if after.last_item != before.last_item {
            assert!(!skips || before.last_item.is_none_or(|previous| !self.is_live(previous)));
            let made = after.last_item.expect("it made an item");
            self.assert_made_by_cron(made, before, ran_at);
        } else {
            assert!(
                (skips && before.last_item.is_some()) || before.address.is_some(),
                "nothing came of a time"
            );
        }
    }
}
