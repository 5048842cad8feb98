//! Whether there is a cron of a name, and which.

use windlass_core::cron::CronRefusal;
use windlass_core::refusal::Refusal;

use super::super::facts::violation;
use super::{Asked, Crons, Shown, may_fall_between};
use crate::cron::CronAsk;
use crate::history::{Op, Outcome, QueueIndex, Violation};
use crate::plan::queue_name;

pub(super) fn check(crons: &Crons<'_, '_>) -> Result<(), Violation> {
    crons.asks.iter().try_for_each(|asked| one_of_a_name(crons, asked))?;
    crons.asks.iter().try_for_each(|asked| is_there_or_not(crons, asked))?;
    crons.views.iter().try_for_each(|shown| is_as_asked(crons, shown))?;
    lists_each_once(crons)
}

fn wrong(what: String) -> Violation {
    violation("cron", what)
}

/// No two creates of a name succeed without something in between that may have ended the first.
fn one_of_a_name(crons: &Crons<'_, '_>, second: &Asked<'_>) -> Result<(), Violation> {
    if second.queue().is_none() || !second.is_sure() {
        return Ok(());
    }
    let name = &second.op.name;
    let earlier = crons.creates(name).filter(|first| first.is_sure() && first.call.end < second.call.end);
    let Some(first) = earlier.max_by_key(|first| first.call.end) else { return Ok(()) };
    let from = first.call.begin;
    if crons.ends(name, first.queue()).any(|end| may_fall_between(end, from, second.call.end)) {
        return Ok(());
    }
    let text = format!("{name} was made at {} and again at {}", first.call.end, second.call.end);
    Err(wrong(text))
}

/// A cron that was made and that nobody can have ended is found; one that was deleted and not made anew is not.
fn is_there_or_not(crons: &Crons<'_, '_>, asked: &Asked<'_>) -> Result<(), Violation> {
    let name = &asked.op.name;
    if matches!(asked.op.ask, CronAsk::Create { .. }) {
        return Ok(());
    }
    if matches!(asked.call.outcome, Outcome::Refused(Refusal::Cron(CronRefusal::NotFound))) {
        return is_not_lost(crons, asked);
    }
    let deletes = crons.of_name(name).filter(|other| {
        matches!(other.op.ask, CronAsk::Delete) && other.is_sure() && other.call.end < asked.call.begin
    });
    let Some(delete) = deletes.max_by_key(|delete| delete.call.end).filter(|_| asked.is_sure()) else {
        return Ok(());
    };
    if crons.creates(name).any(|create| may_fall_between(create.call, delete.call.begin, asked.call.end)) {
        return Ok(());
    }
    let text = format!("{name}, deleted at {}, took part at {}", delete.call.end, asked.call.begin);
    Err(wrong(text))
}

/// Somebody was told that there is no such cron.
fn is_not_lost(crons: &Crons<'_, '_>, asked: &Asked<'_>) -> Result<(), Violation> {
    match surely_there(crons, asked) {
        None => Ok(()),
        Some(create) => {
            let (made, missed) = (create.call.end, asked.call.begin);
            Err(wrong(format!("{}, made at {made}, was not found at {missed}", asked.op.name)))
        }
    }
}

/// The create, if it was answered before the call and nothing can have ended the cron by the end of that.
fn surely_there<'a>(crons: &Crons<'_, 'a>, asked: &Asked<'_>) -> Option<Asked<'a>> {
    let name = &asked.op.name;
    let before = |create: &Asked<'_>| create.is_sure() && create.call.end < asked.call.begin;
    let create = crons.creates(name).filter(before).max_by_key(|create| create.call.end)?;
    // A queue of another name does not take the cron with it.
    let mut ends = crons.ends(name, create.queue());
    let ended = ends.any(|end| may_fall_between(end, create.call.begin, asked.call.end));
    (!ended).then_some(create)
}

/// A cron is shown as a call made or changed it, and not as it was before a change that was acknowledged.
fn is_as_asked(crons: &Crons<'_, '_>, shown: &Shown<'_>) -> Result<(), Violation> {
    let name = &shown.info.name;
    let Some(serial) = shown.serial() else { return Ok(()) };
    let has_serial = |asked: &Asked<'_>| asked.op.spec().is_some_and(|spec| spec.made.serial == serial);
    let by = crons.of_name(name).find(|asked| has_serial(asked) && asked.call.outcome.is_possible());
    let Some(by) = by else {
        return Err(wrong(format!("{name} is shown at {} as nobody said: {serial}", shown.call.end)));
    };
    let is_elsewhere = |queue: QueueIndex| shown.info.queue != queue_name(queue).name;
    if by.queue().is_some_and(is_elsewhere) {
        return Err(wrong(format!("{name} is shown at {} in another queue", shown.call.end)));
    }
    let is_over = |asked: &Asked<'_>| {
        let is_between = by.call.end < asked.call.begin && asked.call.end < shown.call.begin;
        asked.op.spec().is_some() && asked.is_sure() && is_between && !by.call.outcome.is_unknown()
    };
    match crons.of_name(name).find(is_over) {
        None => Ok(()),
        Some(later) => {
            let text = format!("{name}, changed at {}, is as before at {}", later.call.end, shown.call.begin);
            Err(wrong(text))
        }
    }
}

fn lists_each_once(crons: &Crons<'_, '_>) -> Result<(), Violation> {
    for call in crons.facts.history.calls.iter().filter(|call| matches!(call.op, Op::Crons)) {
        let names: Vec<&str> = call.outcome.crons().iter().map(|info| &*info.name).collect();
        if !names.is_sorted_by(|first, second| first < second) {
            return Err(wrong(format!("listed at {}: {names:?}", call.end)));
        }
    }
    Ok(())
}
