//! Crons made, changed, stopped and handed over. Each writes the one row of the cron.

use std::sync::Arc;

use super::group::{remove_bodies, template};
use super::produce::put_bodies;
use super::{Output, Partition};
use crate::command::{Refusal, Reply};
use crate::cron::{Cron, CronChange, CronCommand, CronRefusal, CronView, NewCron, Schedule, TakeCron};
use crate::group::Template;
use crate::id::PartitionId;
use crate::row::{Change, Key, Row};
use crate::time::Timestamp;

impl Partition {
    pub(super) fn cron_command(
        &mut self,
        now: Timestamp,
        command: CronCommand,
        out: &mut Output,
    ) -> Result<Reply, Refusal> {
        match command {
            CronCommand::Create(new) => self.create_cron(now, new, out),
            CronCommand::Update(change) => self.update_cron(now, change, out),
            CronCommand::Delete(name) => self.delete_cron(&name, out),
            CronCommand::Pause(name) => self.pause_cron(now, &name, out),
            CronCommand::Resume(name) => self.resume_cron(now, &name, out),
            CronCommand::Trigger(name) => self.trigger_cron(now, &name, out),
            CronCommand::GiveUp { name, to } => self.give_cron_up(&name, to, out),
            CronCommand::Take(take) => self.take_cron(now, *take, out),
            CronCommand::Forget(name) => self.forget_cron(&name, out),
            CronCommand::Name(name) => self.name_cron(name, out),
            CronCommand::Unname { name, partition } => Ok(self.unname_cron(&name, partition, out)),
        }
    }

    fn create_cron(&mut self, now: Timestamp, new: NewCron, out: &mut Output) -> Result<Reply, Refusal> {
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
            leaves_to: None,
            unknown: Vec::new(),
        };
        Ok(self.write_cron(now, cron, out))
    }

    fn update_cron(
        &mut self,
        now: Timestamp,
        change: CronChange,
        out: &mut Output,
    ) -> Result<Reply, Refusal> {
        let mut cron = self.present_cron(&change.name)?.clone();
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
        Ok(self.write_cron(now, cron, out))
    }

    fn delete_cron(&mut self, name: &Arc<str>, out: &mut Output) -> Result<Reply, Refusal> {
        // Also one that leaves: whoever would take it over asks here first.
        let cron = self.crons.get(name).ok_or(Refusal::Cron(CronRefusal::NotFound))?;
        remove_bodies(&cron.template, out);
        self.erase_cron(name, out);
        Ok(Reply::Configured)
    }

    fn pause_cron(&mut self, now: Timestamp, name: &str, out: &mut Output) -> Result<Reply, Refusal> {
        let cron = self.present_cron(name)?.clone();
        if cron.paused {
            return Ok(Reply::Cron(Box::new(view(cron, now, 0))));
        }
        Ok(self.write_cron(now, Cron { paused: true, next_at: None, ..cron }, out))
    }

    /// Times that passed meanwhile were not missed: it goes on with the next one.
    fn resume_cron(&mut self, now: Timestamp, name: &str, out: &mut Output) -> Result<Reply, Refusal> {
        let cron = self.present_cron(name)?.clone();
        if !cron.paused {
            return Ok(Reply::Cron(Box::new(view(cron, now, 0))));
        }
        let next_at = cron.read_schedule().ok().and_then(|schedule| schedule.next_after(now));
        Ok(self.write_cron(now, Cron { paused: false, next_at, ..cron }, out))
    }

    fn give_cron_up(&mut self, name: &str, to: PartitionId, out: &mut Output) -> Result<Reply, Refusal> {
        let cron = self.crons.get(name).ok_or(Refusal::Cron(CronRefusal::NotFound))?;
        if cron.leaves_to == Some(to) {
            // Once more: who asked may not have heard.
            return Ok(Reply::CronGivenUp(Box::new(cron.clone())));
        }
        // To another: who was to have it before is gone, and never had it.
        if let Some(item) = self.overlapped(cron) {
            return Err(Refusal::Cron(CronRefusal::Busy { item }));
        }
        let leaving = Cron { leaves_to: Some(to), ..cron.clone() };
        self.record(Row::Cron(Box::new(leaving.clone())), out);
        Ok(Reply::CronGivenUp(Box::new(leaving)))
    }

    fn take_cron(&mut self, now: Timestamp, take: TakeCron, out: &mut Output) -> Result<Reply, Refusal> {
        let TakeCron { cron, body, facts } = take;
        match self.crons.get(&cron.name) {
            // Taken before.
            Some(known) if known.number == cron.number => {
                return Ok(Reply::Cron(Box::new(view(known.clone(), now, 0))));
            }
            Some(_) => return Err(Refusal::Cron(CronRefusal::Exists)),
            None => {}
        }
        self.check_kinds_left([&*cron.template.kind].into_iter())?;
        self.check_numbers_left(now, 1)?;
        let number = self.issue_number(now, out);
        put_bodies(number, body, facts, out);
        let template = Template { body: number, ..cron.template };
        // Its last item is one of another partition, and has ended if it ever mattered.
        Ok(self.write_cron(now, Cron { template, last_item: None, leaves_to: None, ..cron }, out))
    }

    fn forget_cron(&mut self, name: &Arc<str>, out: &mut Output) -> Result<Reply, Refusal> {
        match self.crons.get(name) {
            Some(cron) if cron.leaves_to.is_some() => self.delete_cron(name, out),
            // Forgotten before, or it stays.
            Some(_) | None => Ok(Reply::Configured),
        }
    }

    /// A cron that is here to stay.
    pub(super) fn present_cron(&self, name: &str) -> Result<&Cron, Refusal> {
        let cron = self.crons.get(name).ok_or(Refusal::Cron(CronRefusal::NotFound))?;
        if cron.leaves_to.is_some() { Err(Refusal::Cron(CronRefusal::Leaves)) } else { Ok(cron) }
    }

    fn write_cron(&mut self, now: Timestamp, cron: Cron, out: &mut Output) -> Reply {
        self.record(Row::Cron(Box::new(cron.clone())), out);
        Reply::Cron(Box::new(view(cron, now, 0)))
    }

    fn erase_cron(&mut self, name: &Arc<str>, out: &mut Output) {
        let key = Key::Cron(Arc::clone(name));
        self.remove(&key);
        out.changes.push(Change::Remove(key));
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

pub(super) fn bad_schedule(error: crate::cron::ScheduleError) -> Refusal {
    Refusal::Cron(CronRefusal::Schedule(error))
}
