//! When crons make items. An item does not tell the time that it was made for: so items are counted, and a stretch of time
//! has only so many times of a schedule.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::cron::{CatchUp, LATE_MAX, Overlap};
use windlass_core::time::{Span, Timestamp};

use super::super::facts::violation;
use super::{Asked, Crons, MadeItem, Shown, may_fall_between};
use crate::cron::{CronAsk, CronSpec};
use crate::history::{Call, Outcome, ShownCron, Violation};

pub(super) fn check(crons: &Crons<'_, '_>) -> Result<(), Violation> {
    crons.items.iter().try_for_each(|made| is_made_by_a_cron_that_is_there(crons, made))?;
    if !crons.is_steady() {
        return Ok(());
    }
    crons.items.iter().try_for_each(|made| is_made_by_a_cron_that_runs(crons, made))?;
    crons.views.iter().try_for_each(|shown| goes_on(crons, shown))?;
    no_time_makes_two(crons)?;
    every_time_makes_one(crons)
}

fn wrong(made: &MadeItem<'_, '_>, what: String) -> Violation {
    let (name, id, at) = (&made.by.op.name, made.item.id, made.made_at.0);
    violation("cron", format!("{name} made {id:?} at {at} {what}"))
}

/// Nothing is made after a delete was answered, of what was there before that began.
fn is_made_by_a_cron_that_is_there(crons: &Crons<'_, '_>, made: &MadeItem<'_, '_>) -> Result<(), Violation> {
    let was_there = !made.by.call.outcome.is_unknown();
    let deleted = |call: &&Call| {
        let is_done = matches!(call.outcome, Outcome::CronDone | Outcome::Deleted);
        is_done && made.by.call.end < call.begin && made.made_at > call.latest
    };
    let queue = Some(made.item.queue);
    match crons.ends(&made.by.op.name, queue).filter(|_| was_there).find(deleted) {
        None => Ok(()),
        Some(delete) => Err(wrong(made, format!("after it was deleted at {}", delete.end))),
    }
}

/// Nothing is made between the answer to a pause and a resume.
fn is_made_by_a_cron_that_runs(crons: &Crons<'_, '_>, made: &MadeItem<'_, '_>) -> Result<(), Violation> {
    let name = &made.by.op.name;
    let pauses =
        crons.of_name(name).filter(|asked| matches!(asked.op.ask, CronAsk::Pause) && asked.is_sure());
    let before = |pause: &Asked<'_>| pause.call.latest < made.made_at && made.by.call.end < pause.call.begin;
    let Some(pause) = pauses.filter(before).max_by_key(|pause| pause.call.end) else { return Ok(()) };
    let may_go_on = |asked: Asked<'_>| {
        let goes_on = match asked.op.ask {
            CronAsk::Resume | CronAsk::Create { .. } | CronAsk::Trigger => true,
            CronAsk::Update(_) | CronAsk::Pause | CronAsk::Delete | CronAsk::Info => false,
        };
        let is_possible = asked.call.outcome.is_possible();
        let is_later = asked.call.outcome.is_unknown() || asked.call.end > pause.call.begin;
        goes_on && is_possible && is_later && began_at(asked.call) <= made.made_at
    };
    // A cron of the name may be another by now.
    let mut ends = crons.ends(name, None);
    let is_ended = ends.any(|end| may_fall_between(end, pause.call.begin, made.seen_by));
    if is_ended || made.by.call.outcome.is_unknown() || crons.of_name(name).any(may_go_on) {
        return Ok(());
    }
    Err(wrong(made, format!("while it was paused, at {}", pause.call.end)))
}

/// What the clock showed when a call began, where nobody set it.
fn began_at(call: &Call) -> Timestamp {
    Timestamp(call.latest.0 - (call.end.micros - call.begin.micros))
}

/// The last time that ran is never an earlier one than before.
fn goes_on(crons: &Crons<'_, '_>, shown: &Shown<'_>) -> Result<(), Violation> {
    let cron = shown.info;
    let is_earlier = |other: &&Shown<'_>| {
        let before = other.info;
        before.name == cron.name && before.created_at == cron.created_at && other.call.end < shown.call.begin
    };
    match crons.views.iter().filter(is_earlier).find(|other| other.info.last_at > cron.last_at) {
        None => Ok(()),
        Some(before) => {
            let (last, now) = (before.info.last_at, cron.last_at);
            let text = format!(
                "{} had run {last:?} at {}, and {now:?} at {}",
                cron.name, before.call.end, shown.call.begin
            );
            Err(violation("cron", text))
        }
    }
}

/// Items of one cron with one schedule: by name, creation as far as it was shown, and span.
type Schedules<'g, 'f, 'a> = BTreeMap<(&'g Arc<str>, Birth, Span), Vec<&'g MadeItem<'f, 'a>>>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Birth {
    At(Timestamp),
    /// Nobody saw the cron as this serial made it: it may be any of its name.
    Unseen(u64),
}

fn no_time_makes_two(crons: &Crons<'_, '_>) -> Result<(), Violation> {
    let births: BTreeMap<u64, Timestamp> =
        crons.views.iter().filter_map(|shown| Some((shown.serial()?, shown.info.created_at))).collect();
    let mut schedules = Schedules::new();
    for made in &crons.items {
        let serial = made.spec.made.serial;
        let birth = births.get(&serial).map_or(Birth::Unseen(serial), |at| Birth::At(*at));
        schedules.entry((&made.by.op.name, birth, made.spec.every)).or_default().push(made);
    }
    for ((name, birth, every), mut items) in schedules {
        items.sort_by_key(|made| made.made_at);
        let unseen = crons.of_name(name).filter(|asked| may_have_triggered(asked)).count();
        if let Some(late_max) = late_max(&items, every) {
            in_every_stretch(&items, every, late_max, unseen)?;
        } else if let Birth::At(birth) = birth {
            since(&items, every, birth, unseen)?;
        }
    }
    Ok(())
}

fn may_have_triggered(asked: &Asked<'_>) -> bool {
    matches!(asked.op.ask, CronAsk::Trigger) && asked.call.outcome.is_unknown()
}

/// How long after its time an item is made at most; unset where all times are made up for.
fn late_max(items: &[&MadeItem<'_, '_>], every: Span) -> Option<Span> {
    let late = |made: &&MadeItem<'_, '_>| match made.spec.catch_up {
        CatchUp::Skip => Some(LATE_MAX),
        CatchUp::One => Some(Span(LATE_MAX.0 + every.0)),
        CatchUp::All => None,
    };
    items.iter().map(late).collect::<Option<Vec<Span>>>()?.into_iter().max()
}

fn in_every_stretch(
    items: &[&MadeItem<'_, '_>],
    every: Span,
    late_max: Span,
    triggers: usize,
) -> Result<(), Violation> {
    for (from, first) in items.iter().enumerate() {
        for (to, last) in items.iter().enumerate().skip(from + 1) {
            let stretch = last.made_at.0 - first.made_at.0 + late_max.0;
            let times = stretch / every.0 + 1;
            let count = to - from + 1;
            if count as u64 > times + triggers as u64 {
                let text = format!("as one of {count} since {}, for {times} times", first.made_at.0);
                return Err(wrong(last, text));
            }
        }
    }
    Ok(())
}

fn since(
    items: &[&MadeItem<'_, '_>],
    every: Span,
    birth: Timestamp,
    triggers: usize,
) -> Result<(), Violation> {
    for (index, made) in items.iter().enumerate() {
        let times = made.made_at.0.saturating_sub(birth.0) / every.0;
        if index as u64 + 1 > times + triggers as u64 {
            return Err(wrong(made, format!("as number {} of {times} times since {}", index + 1, birth.0)));
        }
    }
    Ok(())
}

/// Between two lists of the last process a cron that makes up for all of its times makes one item for each of them: what is
/// there then is read out to the last item.
fn every_time_makes_one(crons: &Crons<'_, '_>) -> Result<(), Violation> {
    let history = crons.facts.history;
    let last = history.processes.len().saturating_sub(1);
    let is_list = |call: &&Call| matches!(call.outcome, Outcome::Crons(_)) && call.process == last;
    let lists: Vec<&Call> = history.calls.iter().filter(is_list).collect();
    for pair in lists.windows(2) {
        for info in pair[0].outcome.crons() {
            let shown = Shown { call: pair[0], info };
            let is_it = |after: &&ShownCron| after.created_at == info.created_at;
            let same_name = |after: &&ShownCron| after.name == info.name;
            let Some(after) = pair[1].outcome.crons().iter().filter(same_name).find(is_it) else { continue };
            made_one_each(crons, shown, Shown { call: pair[1], info: after })?;
        }
    }
    Ok(())
}

fn made_one_each(crons: &Crons<'_, '_>, before: Shown<'_>, after: Shown<'_>) -> Result<(), Violation> {
    let (first, last) = (before.info.next_at, after.info.last_at);
    let (Some(spec), Some(first), Some(last)) = (all_can_be_counted(crons, before, after), first, last)
    else {
        return Ok(());
    };
    let times = if last < first { 0 } else { (last.0 - first.0) / spec.every.0 + 1 };
    let is_between = |made: &&MadeItem<'_, '_>| {
        let is_of_cron = made.spec.made.serial == spec.made.serial;
        is_of_cron && made.made_at >= first && made.made_at <= after.call.latest
    };
    let count = crons.items.iter().filter(is_between).count() as u64;
    if count == times {
        return Ok(());
    }
    let (name, from, to) = (&before.info.name, before.call.end, after.call.begin);
    let text = format!("{name} made {count} items for {times} times from {from} to {to}");
    Err(violation("cron", text))
}

/// What the cron was all the while, if each of its times makes an item that somebody is shown in the end.
fn all_can_be_counted<'a>(
    crons: &Crons<'_, 'a>,
    before: Shown<'_>,
    after: Shown<'_>,
) -> Option<&'a CronSpec> {
    let cron = before.info;
    let serial = before.serial().filter(|serial| Some(*serial) == after.serial())?;
    let specs = crons.of_name(&cron.name).filter_map(|asked| asked.op.spec());
    let spec = specs.into_iter().find(|spec| spec.made.serial == serial)?;
    let counts =
        spec.catch_up == CatchUp::All && spec.overlap == Overlap::Allow && spec.made.address.is_none();
    let (from, to) = (before.call.begin, after.call.end);
    let is_asked = |asked: Asked<'_>| {
        let changes = !matches!(asked.op.ask, CronAsk::Info);
        changes && asked.call.outcome.is_possible() && may_fall_between(asked.call, from, to)
    };
    let paused = cron.paused || after.info.paused;
    let queue = crons.facts.queue_named(&before.info.queue)?;
    let is_swept = |call: &Call| call.end > from || call.outcome.is_unknown();
    let lives = match spec.made.dead_timeout {
        Some(own) => own == Span::ZERO,
        None => crons.facts.settings(queue).all(|settings| settings.dead_timeout == Span::ZERO),
    };
    let touched = crons.of_name(&cron.name).any(is_asked) || crons.facts.sweeping_calls(queue).any(is_swept);
    (counts && lives && !paused && !touched).then_some(spec)
}
