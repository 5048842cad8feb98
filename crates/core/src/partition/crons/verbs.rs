//! Crons made, changed, paused and deleted. Each verb writes the one row of the cron. How crons move to other partitions is
//! in [`crate::partition::moves::crons`].

use std::sync::Arc;

use crate::cron::{CatchUp, Cron, CronRefusal, CronView, Overlap, Schedule};
use crate::footprint::Footprint;
use crate::limits::{Invalid, check_cron_item, check_name};
use crate::partition::groups::verbs::{remove_bodies, template};
use crate::partition::{Output, Partition};
use crate::refusal::Refusal;
use crate::row::{Key, Row};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};
use crate::verbs::NewItem;

#[derive(Clone, Debug)]
pub struct UpdateCron {
    pub name: Arc<str>,
    pub change: CronChange,
}

#[derive(Clone, Debug)]
pub struct DeleteCron(pub Arc<str>);

#[derive(Clone, Debug)]
pub struct PauseCron(pub Arc<str>);

#[derive(Clone, Debug)]
pub struct ResumeCron(pub Arc<str>);

#[derive(Clone, Debug)]
pub struct NewCron {
    pub name: Arc<str>,
    pub schedule: Arc<str>,
    pub timezone: Arc<str>,
    /// Without a group, and due at once.
    pub item: NewItem,
    pub catch_up: CatchUp,
    pub overlap: Overlap,
}

/// Changes of a cron. A field that is unset stays as it is.
#[derive(Clone, Debug, Default)]
pub struct CronChange {
    pub schedule: Option<Arc<str>>,
    pub timezone: Option<Arc<str>>,
    /// All of it.
    pub item: Option<NewItem>,
    pub catch_up: Option<CatchUp>,
    pub overlap: Option<Overlap>,
}

impl Verb for NewCron {
    type Reply = CronView;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_name("cron", &self.name)?;
        check_cron_item(&self.item)
    }

    fn body_bytes(&self) -> usize {
        self.item.bytes()
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.create_cron(now, self, out)
    }
}

impl Verb for UpdateCron {
    type Reply = CronView;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        self.change.item.as_ref().map_or(Ok(()), check_cron_item)
    }

    fn body_bytes(&self) -> usize {
        self.change.item.as_ref().map_or(0, NewItem::bytes)
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.update_cron(now, self, out)
    }
}

impl Verb for DeleteCron {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, partition: &mut Partition, _now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.delete_cron(&self.0, out)
    }
}

impl Verb for PauseCron {
    type Reply = CronView;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.pause_cron(now, &self.0, out)
    }
}

impl Verb for ResumeCron {
    type Reply = CronView;
    const FOOTPRINT: Footprint = Footprint::Rewrites;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.resume_cron(now, &self.0, out)
    }
}

impl Partition {
    fn create_cron(&mut self, now: Timestamp, new: NewCron, out: &mut Output) -> Result<CronView, Refusal> {
        if self.crons.get(&new.name).is_some() {
            return Err(Refusal::Cron(CronRefusal::Exists));
        }
        let schedule = Schedule::parse(&new.schedule, &new.timezone, now).map_err(bad_schedule)?;
        self.check_kinds_left([&*new.item.kind].into_iter())?;
        self.check_numbers_left(now, 2)?;
        let number = self.issue_number(now, out).0;
        let address = new.item.address.clone();
        let cron = Cron {
            name: new.name,
            number,
            created_at: now,
            schedule: new.schedule,
            timezone: new.timezone,
            catch_up: new.catch_up,
            overlap: new.overlap,
            template: template(self.issue_number(now, out), None, new.item, out),
            address,
            paused: false,
            next_at: schedule.next_after(now),
            last_at: None,
            last_item: None,
            last_item_elsewhere: None,
            leaves: None,
            unknown: Vec::new(),
        };
        let name = Arc::clone(&cron.name);
        let reply = self.write_cron(now, cron, out);
        self.look_whether_to_leave(&name, out);
        Ok(reply)
    }

    /// If the new address is at home in another partition, the cron moves there once it is free to.
    fn update_cron(
        &mut self,
        now: Timestamp,
        UpdateCron { name, change }: UpdateCron,
        out: &mut Output,
    ) -> Result<CronView, Refusal> {
        let mut cron = self.present_cron(&name)?.clone();
        let before = (Arc::clone(&cron.schedule), Arc::clone(&cron.timezone));
        cron.schedule = change.schedule.unwrap_or(cron.schedule);
        cron.timezone = change.timezone.unwrap_or(cron.timezone);
        if before != (Arc::clone(&cron.schedule), Arc::clone(&cron.timezone)) {
            let schedule = cron.read_schedule().map_err(bad_schedule)?;
            cron.next_at = schedule.next_after(now).filter(|_| !cron.paused);
        }
        cron.catch_up = change.catch_up.unwrap_or(cron.catch_up);
        cron.overlap = change.overlap.unwrap_or(cron.overlap);
        if let Some(item) = change.item {
            self.check_kinds_left([&*item.kind].into_iter())?;
            self.check_numbers_left(now, 1)?;
            cron.address = item.address.clone();
            let new = template(self.issue_number(now, out), None, item, out);
            remove_bodies(&std::mem::replace(&mut cron.template, new), out);
        }
        let name = Arc::clone(&cron.name);
        let reply = self.write_cron(now, cron, out);
        self.look_whether_to_leave(&name, out);
        Ok(reply)
    }

    fn delete_cron(&mut self, name: &Arc<str>, out: &mut Output) -> Result<(), Refusal> {
        self.present_cron(name)?;
        self.erase_cron(name, out);
        Ok(())
    }

    fn pause_cron(&mut self, now: Timestamp, name: &str, out: &mut Output) -> Result<CronView, Refusal> {
        let cron = self.present_cron(name)?.clone();
        if cron.paused {
            return Ok(view(cron, now, 0));
        }
        Ok(self.write_cron(now, Cron { paused: true, next_at: None, ..cron }, out))
    }

    /// Times that passed meanwhile were not missed: it goes on with the next one.
    fn resume_cron(&mut self, now: Timestamp, name: &str, out: &mut Output) -> Result<CronView, Refusal> {
        let cron = self.present_cron(name)?.clone();
        if !cron.paused {
            return Ok(view(cron, now, 0));
        }
        let next_at = cron.read_schedule().ok().and_then(|schedule| schedule.next_after(now));
        Ok(self.write_cron(now, Cron { paused: false, next_at, ..cron }, out))
    }

    /// A cron that no other partition is to take.
    pub(in crate::partition) fn present_cron(&self, name: &str) -> Result<&Cron, Refusal> {
        let cron = self.crons.get(name).ok_or(Refusal::Cron(CronRefusal::NotFound))?;
        if cron.leaves.is_some() { Err(Refusal::Cron(CronRefusal::Leaves)) } else { Ok(cron) }
    }

    fn write_cron(&mut self, now: Timestamp, cron: Cron, out: &mut Output) -> CronView {
        self.record(Row::Cron(Box::new(cron.clone())), out);
        view(cron, now, 0)
    }

    pub(in crate::partition) fn erase_cron(&mut self, name: &Arc<str>, out: &mut Output) {
        self.crons_leaving.remove(name);
        if let Some(cron) = self.crons.get(name) {
            remove_bodies(&cron.template, out);
        }
        self.erase_row(Key::Cron(Arc::clone(name)), out);
    }

    /// A cron as it can be seen, with so many of its next times.
    pub fn cron(&self, name: &str, now: Timestamp, times: usize) -> Option<CronView> {
        self.crons.get(name).map(|cron| view(cron.clone(), now, times))
    }

    /// All of them, by name.
    pub fn crons(&self) -> impl Iterator<Item = &Cron> {
        self.crons.iter()
    }
}

/// A paused cron waits for nothing, but its schedule says when it would run: so that is shown.
fn view(mut cron: Cron, now: Timestamp, times: usize) -> CronView {
    let schedule = cron.read_schedule().ok();
    let next_times = match (&schedule, cron.next_at) {
        (Some(schedule), Some(next_at)) if !cron.paused => {
            std::iter::once(next_at).chain(schedule.times_after(next_at)).take(times).collect()
        }
        (Some(schedule), _) => schedule.times_after(now).take(times).collect(),
        (None, _) => Vec::new(),
    };
    if cron.paused {
        cron.next_at = schedule.and_then(|schedule| schedule.next_after(now));
    }
    CronView { cron, next_times }
}

pub(in crate::partition) fn bad_schedule(error: crate::cron::ScheduleError) -> Refusal {
    Refusal::Cron(CronRefusal::Schedule(error))
}
