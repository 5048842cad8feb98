//! Items that were moved: each once, from where it says, and only after it had ended there. And what ended where its
//! queue always sends the dead to another arrives there.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::item::{MoveReason, Phase};

use super::damage;
use super::ends::stays_ended;
use super::facts::{Facts, ItemFacts, Maker, violation};
use crate::fault::Fault;
use crate::group::{LastWord, Word};
use crate::history::{Call, ManyOp, Op, Origin, Outcome, QueueIndex, Violation};
use crate::plan::queue_name;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        if let Some(origin) = item.origin {
            came_from_where_it_says(facts, item, origin)?;
        }
    }
    arrived_once(facts)?;
    facts.items.iter().try_for_each(|item| arrived_at_all(facts, item))
}

fn came_from_where_it_says(
    facts: &Facts<'_>,
    item: &ItemFacts<'_>,
    origin: &Origin,
) -> Result<(), Violation> {
    let wrong = |what: &str| {
        let text = format!("item {} came to q{} with {what}: {origin:?}", item.made.serial, item.queue);
        Err(violation("origin", text))
    };
    let Some(source) = (0..facts.queues()).find(|queue| queue_name(*queue).name == origin.queue) else {
        return wrong("a queue that never was");
    };
    let had_cause = match origin.reason {
        MoveReason::Redrive => facts.redrives(source).any(|redrive| redrives(redrive, item)),
        MoveReason::Rerun => {
            source == item.queue && facts.history.calls.iter().any(|call| reruns(call, source, origin))
        }
        MoveReason::GroupEnd => is_sent_by_group(item, origin, source, Word::End),
        MoveReason::GroupAbort => is_sent_by_group(item, origin, source, Word::Abort),
        MoveReason::Attempts | MoveReason::Dead | MoveReason::Expired => {
            facts.settings(source).any(|settings| settings.dead_queue == Some(queue_name(item.queue).name))
        }
    };
    if !had_cause {
        return wrong("nobody to send it");
    }
    let Some(before) = origin.id.and_then(|id| facts.by_id.get(&id)).map(|index| &facts.items[*index]) else {
        return Ok(());
    };
    if before.made.serial != item.made.serial || before.queue != source {
        return wrong("an id of something else");
    }
    ended_like_that(before, origin).or_else(|()| wrong("another end than it had"))?;
    let seen = item.grants.iter().map(|grant| grant.call).min_by_key(|call| call.end);
    seen.map_or(Ok(()), |seen| stays_ended(before, seen, "moved"))
}

/// Whether somebody gave it to the group that it says to come from, to be made here at such an end.
fn is_sent_by_group(item: &ItemFacts<'_>, origin: &Origin, source: QueueIndex, word: Word) -> bool {
    let op = &item.produce.op;
    let of_group =
        op.group().is_some_and(|op| op.queue == source && Some(&op.group) == origin.group.as_ref());
    let is_it = |(given, last): (Word, &LastWord)| {
        given == word && last.made.serial == item.made.serial && last.queue == item.queue
    };
    of_group && item.maker == Maker::Group && op.last_words().any(is_it)
}

/// Whether a redrive may have sent an item to where it is now.
fn redrives(redrive: &Call, item: &ItemFacts<'_>) -> bool {
    let Op::Redrive { to, kind, .. } = &redrive.op else { return false };
    to.is_none_or(|to| to == item.queue) && kind.as_ref().is_none_or(|kind| *kind == item.made.kind)
}

/// Whether a rerun may have made an item of such an origin.
fn reruns(call: &Call, source: QueueIndex, origin: &Origin) -> bool {
    let among_many = |op: &ManyOp| op.reruns() && op.queue == source && call.outcome.is_unknown();
    call.op.many().is_some_and(among_many)
        || call.outcome.is_possible()
            && call.op.rerun_of().is_some_and(|id| origin.id.is_none_or(|of| of == id))
}

fn ended_like_that(before: &ItemFacts<'_>, origin: &Origin) -> Result<(), ()> {
    for (_, view) in before.shown() {
        let same = origin.attempts == Some(view.attempts) && origin.error == view.error;
        let is_rerun = origin.reason == MoveReason::Rerun && same;
        let fits = match view.phase {
            phase if phase.is_final() && is_rerun => true,
            Phase::Failed => matches!(origin.reason, MoveReason::Attempts | MoveReason::Dead) && same,
            Phase::Expired => origin.reason == MoveReason::Expired && same,
            // Whoever waited for it is told that it was taken away.
            Phase::Cancelled => origin.reason == MoveReason::Redrive && same,
            Phase::Completed => false,
            Phase::Held | Phase::Scheduled | Phase::Waiting | Phase::Leased | Phase::Suspended => true,
        };
        if !fits {
            return Err(());
        }
    }
    Ok(())
}

/// Only where the queue it had gone to was deleted may it come again.
fn arrived_once(facts: &Facts<'_>) -> Result<(), Violation> {
    let mut arrivals = BTreeMap::new();
    for item in &facts.items {
        let Some(from) = item.origin.and_then(|origin| origin.id) else { continue };
        let Some(other): Option<&ItemFacts<'_>> = arrivals.insert(from, item) else { continue };
        if !facts.is_deleted(item.queue) && !facts.is_deleted(other.queue) {
            let text = format!("item {} came twice: {:?} and {:?}", item.made.serial, other.id, item.id);
            return Err(violation("moved twice", text));
        }
    }
    Ok(())
}

fn arrived_at_all(facts: &Facts<'_>, item: &ItemFacts<'_>) -> Result<(), Violation> {
    let targets = targets(facts, item);
    if facts.is_deleted_by_force_since(item.queue, item.produce.begin) || damage::is_body_lost(facts, item) {
        return Ok(());
    }
    let is_seen_there = targets.iter().all(|target| shows_all(facts, *target, &mut BTreeSet::new()));
    if targets.is_empty() || !is_seen_there || lives_on(facts, item) {
        return Ok(());
    }
    let text = format!("item {} left q{} and never arrived in {targets:?}", item.made.serial, item.queue);
    Err(violation("lost on the way", text))
}

/// Where the item must have gone; empty if it may have ended for good.
fn targets(facts: &Facts<'_>, item: &ItemFacts<'_>) -> Vec<QueueIndex> {
    let died = item.shown().any(|(_, view)| matches!(view.phase, Phase::Failed | Phase::Expired));
    if died {
        return facts.only_dead_queue(item.queue).into_iter().collect();
    }
    let is_gone = facts.history.keeps_everything
        && item.gets.last().is_some_and(|get| matches!(get.outcome, Outcome::Refused(_)));
    if !is_gone || super::lost::may_have_ended_here(facts, item) {
        return Vec::new();
    }
    let from = item.origin.and_then(|origin| facts.queue_named(&origin.queue));
    let to = |redrive: &Call| if let Op::Redrive { to, .. } = redrive.op { to.or(from) } else { None };
    facts.redrives(item.queue).filter_map(to).collect()
}

/// Whether everything that comes to a queue is seen by somebody in the end, there or where it goes on to.
fn shows_all(facts: &Facts<'_>, queue: QueueIndex, seen: &mut BTreeSet<QueueIndex>) -> bool {
    if !seen.insert(queue) {
        return true;
    }
    if facts.sweeping_calls(queue).next().is_some() || !facts.is_there_at_the_end(queue) {
        return false;
    }
    let never_ends =
        facts.settings(queue).all(|settings| settings.max_attempts == 0 && settings.dead_timeout.0 == 0);
    let mut onward: BTreeSet<QueueIndex> = BTreeSet::new();
    for redrive in facts.redrives(queue) {
        let named = if let Op::Redrive { to, .. } = redrive.op { to } else { None };
        match named {
            Some(to) => drop(onward.insert(to)),
            None => onward.extend(0..facts.queues()),
        }
    }
    // Asked only where it matters: whatever does not show all says so for the whole chain.
    let goes_on = never_ends || facts.only_dead_queue(queue).is_some_and(|dead| shows_all(facts, dead, seen));
    goes_on && onward.into_iter().all(|next| shows_all(facts, next, seen))
}

/// Whether it was seen again in another queue.
fn lives_on(facts: &Facts<'_>, item: &ItemFacts<'_>) -> bool {
    let made_at = |item: &ItemFacts<'_>| {
        let granted = item.grants.iter().map(|grant| grant.given.created_at);
        granted.chain(item.shown().map(|(_, view)| view.created_at)).next()
    };
    // Partitions follow a clock that is set each in its own time.
    let faults = &facts.history.faults;
    let clock_was_set =
        faults.iter().any(|(_, fault)| matches!(fault, Fault::ClockForward | Fault::ClockBack));
    facts.items.iter().any(|other| {
        other.made.serial == item.made.serial
            && !std::ptr::eq(other, item)
            && other.origin.is_some()
            && (item.origin.is_none()
                || other.origin.and_then(|origin| origin.id) == item.id
                || clock_was_set
                || made_at(other) >= made_at(item))
    })
}
