//! What time brings to crons. An item is made and the cron goes on to its next time in one step, so a time never makes two.

use std::sync::Arc;

use crate::cron::{CatchUp, Cron, CronRefusal, LATE_MAX, Overlap, Schedule};
use crate::footprint::Footprint;
use crate::id::ItemNumber;
use crate::item::{CronRun, Extras};
use crate::mutant::{self, Mutant};
use crate::partition::create::{Bodies, Draft};
use crate::partition::groups::end::ITEM_BYTES;
use crate::partition::{Output, Partition};
use crate::refusal::Refusal;
use crate::row::Row;
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};
use crate::verbs::Produced;

/// Makes the item of a cron now, whatever its schedule says and whether or not it is paused.
#[derive(Clone, Debug)]
pub struct TriggerCron(pub Arc<str>);

/// Once the items made by one sweep have come to so many bytes, the next crons run with the next sweep: many missed times may
/// come at once, and callers wait for the batch that has them.
const MADE_BYTES_MAX: u64 = 256 << 10;

/// The schedule that was read last: many times of one cron may come at once, and reading takes longer than anything else here.
#[derive(Default)]
pub(in crate::partition) struct LastRead(Option<(Arc<str>, Arc<str>, Timestamp, Schedule)>);

impl LastRead {
    fn of(&mut self, cron: &Cron) -> Option<&Schedule> {
        let same = |(schedule, timezone, from, _): &(Arc<str>, Arc<str>, Timestamp, Schedule)| {
            *schedule == cron.schedule && *timezone == cron.timezone && *from == cron.created_at
        };
        if !self.0.as_ref().is_some_and(same) {
            let read = cron.read_schedule().ok()?;
            let (schedule, timezone) = (Arc::clone(&cron.schedule), Arc::clone(&cron.timezone));
            self.0 = Some((schedule, timezone, cron.created_at, read));
        }
        self.0.as_ref().map(|(.., schedule)| schedule)
    }
}

/// Missed times counted per catch-up: counting takes time linear in their number.
const MISSED_COUNTED_MAX: usize = 100;

/// What comes of a time, or of several.
struct Turn {
    /// The time that runs, if any does.
    runs: Option<Timestamp>,
    next_at: Option<Timestamp>,
    /// How many times were passed over: see [`MISSED_COUNTED_MAX`].
    missed: u64,
}

impl Verb for TriggerCron {
    type Reply = Produced;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.trigger_cron(now, &self.0, out)
    }
}

impl Partition {
    /// No cron runs before then. An input like time, and in no row: a store without room must not be filled up by what nobody
    /// asked for.
    pub fn hold_crons_until(&mut self, at: Timestamp) {
        self.crons_held_until = at;
    }

    /// When the next cron is to run.
    pub(in crate::partition) fn next_cron(&self) -> Option<Timestamp> {
        self.first_due_cron().map(|(at, _)| at.max(self.crons_held_until))
    }

    fn first_due_cron(&self) -> Option<(Timestamp, &Arc<str>)> {
        // One that an item with its address keeps here again has its times here.
        let leaves = |name: &Arc<str>| {
            let is_to_leave = || self.crons.get(name).is_some_and(|cron| self.is_to_leave(cron));
            self.crons_leaving.contains(name) && is_to_leave()
        };
        self.crons.due().find(|(_, name)| !leaves(name))
    }

    pub(in crate::partition) fn run_next_cron(&mut self, now: Timestamp, out: &mut Output) -> bool {
        let due = self.next_cron().is_some_and(|at| at <= now);
        if !due || out.made_bytes >= self.own_bytes_max.min(MADE_BYTES_MAX) {
            return false;
        }
        let (due_at, name) = self.first_due_cron().expect("one is due");
        let mut cron = self.crons.get(name).expect("those that are due are there").clone();
        if self.is_to_leave(&cron) {
            // The other crons do not wait for it.
            self.crons_leaving.insert(Arc::clone(&cron.name));
            out.outgoing = true;
            return true;
        }
        // Only a version that wrote other schedules may have left one that cannot be read: it waits for that version.
        let turn = self.schedules.of(&cron).map(|schedule| turn(schedule, cron.catch_up, due_at, now));
        let Turn { runs, next_at, missed } = turn.unwrap_or(Turn { runs: None, next_at: None, missed: 0 });
        out.totals.cron_missed += missed;
        if let Some(at) = runs {
            cron.last_at = Some(at);
            self.run_cron(now, at, &mut cron, out);
        }
        if !(runs.is_some() && mutant::active(Mutant::RunAgain)) {
            cron.next_at = next_at;
        }
        out.made_bytes += ITEM_BYTES;
        self.record(Row::Cron(Box::new(cron)), out);
        true
    }

    /// Neither is its address taken, nor must its previous item end first.
    pub(in crate::partition) fn is_free(&self, cron: &Cron) -> bool {
        self.overlapped(cron).is_none() && self.check_address_free(cron.address.as_ref()).is_ok()
    }

    /// Nothing while the previous item must end first, or its address is taken: the time has run all the same.
    fn run_cron(&mut self, now: Timestamp, scheduled_at: Timestamp, cron: &mut Cron, out: &mut Output) {
        if !self.is_free(cron) {
            out.totals.cron_skipped += 1;
            return;
        }
        out.totals.cron_runs += 1;
        out.totals.cron_late_ms += (now - scheduled_at).0 / 1000;
        let made = self.make_of_cron(now, scheduled_at, cron, out);
        cron.made(made.number);
    }

    /// By hand: whatever its schedule and its previous item.
    fn trigger_cron(&mut self, now: Timestamp, name: &str, out: &mut Output) -> Result<Produced, Refusal> {
        let mut cron = self.present_cron(name)?.clone();
        self.check_address_free(cron.address.as_ref())?;
        self.check_may_run(&cron)?;
        self.check_numbers_left(now, 1)?;
        let made = self.make_of_cron(now, now, &cron, out);
        cron.made(made.number);
        self.record(Row::Cron(Box::new(cron)), out);
        Ok(made)
    }

    /// A cron that its previous item keeps in a partition that drains runs there. Where its address is not at home it cannot run.
    fn check_may_run(&self, cron: &Cron) -> Result<(), Refusal> {
        let belongs = cron.address.as_ref().map_or(Ok(()), |address| self.check_at_home(address));
        match self.overlapped(cron) {
            None => self.check_open().and(belongs),
            Some(item) => belongs.map_err(|_moved| CronRefusal::Busy { item }.into()),
        }
    }

    /// The cron's last item, if it must end before the next is made.
    pub(in crate::partition) fn overlapped(&self, cron: &Cron) -> Option<ItemNumber> {
        let lives =
            |number: &ItemNumber| self.visible(*number).is_some_and(|entry| !entry.state.phase().is_final());
        match cron.overlap {
            Overlap::Allow => None,
            Overlap::Skip => cron.last_item.filter(lives),
        }
    }

    /// `max_items` does not count here, as it does not for what is moved: the time was promised.
    fn make_of_cron(
        &mut self,
        now: Timestamp,
        scheduled_at: Timestamp,
        cron: &Cron,
        out: &mut Output,
    ) -> Produced {
        let template = &cron.template;
        let run = CronRun { name: Arc::clone(&cron.name), scheduled_at };
        let extras = Extras {
            max_attempts: template.max_attempts,
            dead_timeout: self.dead_timeout(template.dead_timeout),
            address: cron.address.clone(),
            cron: Some(Box::new(run)),
            ..Extras::default()
        };
        out.totals.produced += 1;
        out.made_bytes += template.body_bytes + template.facts_bytes;
        let bodies = Bodies::CopiedFrom(template);
        let draft = Draft {
            priority: template.priority,
            extras,
            hashes: template.hashes.clone(),
            ..Draft::new(now, &template.kind, template.due_at(now), bodies)
        };
        self.create(now, draft, out)
    }
}

fn turn(schedule: &Schedule, catch_up: CatchUp, due_at: Timestamp, now: Timestamp) -> Turn {
    // What comes before this was missed.
    let on_time = Timestamp(now.0.saturating_sub(LATE_MAX.0));
    let runs = match catch_up {
        _ if due_at >= on_time => due_at,
        CatchUp::All => due_at,
        CatchUp::One => schedule.last_before(on_time, due_at),
        CatchUp::Skip => {
            let next_at = schedule.next_after(Timestamp(on_time.0.saturating_sub(1)));
            return Turn { runs: None, next_at, missed: times_before(schedule, due_at, on_time) };
        }
    };
    let missed = times_before(schedule, due_at, runs);
    Turn { runs: Some(runs), next_at: schedule.next_after(runs), missed }
}

/// How many times there are from `first`, itself one, to before `end`.
fn times_before(schedule: &Schedule, first: Timestamp, end: Timestamp) -> u64 {
    let times = std::iter::once(first).chain(schedule.times_after(first));
    times.take_while(|at| *at < end).take(MISSED_COUNTED_MAX).count() as u64
}

impl From<CronRefusal> for Refusal {
    fn from(refusal: CronRefusal) -> Self {
        Self::Cron(refusal)
    }
}
