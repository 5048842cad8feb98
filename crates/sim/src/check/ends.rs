//! Nothing comes back after its acknowledged end.

use windlass_core::verbs::{Clear, Retried};

use super::facts::{Facts, ItemFacts, Verb, violation};
use crate::history::{Call, Op, Outcome, Verdict, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        for (end, how) in acknowledged_ends(facts, item) {
            stays_ended(item, end, how)?;
        }
    }
    Ok(())
}

/// An item that nobody can have ended and that is not there was lost, as it may be where not everything is synced.
/// But then its production is undone for good: nothing of what is undone ever shows again.
pub(super) fn check_undone(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        if let Some(undone) = undone(facts, item) {
            stays_ended(item, undone, "undone")?;
        }
    }
    Ok(())
}

/// The first look that did not find the item although nobody can have ended it.
pub(super) fn undone<'a>(facts: &Facts<'a>, item: &ItemFacts<'a>) -> Option<&'a Call> {
    let is_undone =
        |get: &&Call| matches!(get.outcome, Outcome::Refused(_)) && !may_have_ended_by(facts, item, get);
    item.gets.iter().copied().find(is_undone)
}

fn may_have_ended_by(facts: &Facts<'_>, item: &ItemFacts<'_>, get: &Call) -> bool {
    let ended = item.verdicts.iter().any(|judged| {
        judged.verb.ends_lease() && judged.verdict.is_possible() && judged.call.begin < get.end
    });
    let cancelled = item.cancels.iter().any(|cancel| cancel.begin < get.end);
    let swept = facts.sweeping_calls(item.queue).any(|sweep| sweep.begin < get.end);
    // An item that fails leaves something to see, where everything is kept.
    let failed = !facts.history.keeps_everything
        && (item.grants.iter().any(|grant| grant.call.begin < get.end)
            || facts.ghosts(item).any(|ghost| ghost.begin < get.end));
    let expired = !facts.history.keeps_everything && facts.may_expire(item);
    let redriven = facts.redrives(item.queue).any(|redrive| redrive.begin < get.end);
    let with_group = facts.group_cancels(item).any(|cancel| cancel.begin < get.end);
    let gone = ended || cancelled || swept || with_group;
    gone || failed || expired || redriven || item.produce.end > get.begin
}

/// Every call whose answer said, or implied, that the item is no more.
pub(super) fn acknowledged_ends<'a>(
    facts: &Facts<'a>,
    item: &ItemFacts<'a>,
) -> Vec<(&'a Call, &'static str)> {
    let mut ends = Vec::new();
    for judged in &item.verdicts {
        match (judged.verb, &judged.verdict) {
            (Verb::Complete { .. }, Verdict::Done) => ends.push((judged.call, "completed")),
            (Verb::Retry(_), Verdict::Retried(Retried::Ended(_))) => {
                ends.push((judged.call, "ended by retry"))
            }
            _ => {}
        }
    }
    for cancel in &item.cancels {
        if matches!(cancel.outcome, Outcome::Cancelled(phase) if phase.is_final()) {
            ends.push((*cancel, "cancelled"));
        }
    }
    ends.extend(item.shown().filter(|(_, view)| view.phase.is_final()).map(|(call, _)| (call, "final")));
    let ends_stream =
        |call: &&Call| matches!(&call.outcome, Outcome::Followed(followed) if followed.is_final());
    ends.extend(item.follows.iter().copied().filter(ends_stream).map(|call| (call, "final in its stream")));
    // What was moved, or made by a group, may have come after the sweep.
    let there = item.is_acknowledged();
    for cancel in facts.group_cancels(item).filter(|cancel| there && item.produce.end < cancel.begin) {
        // Another member of the name may have been meant, and who is leased may go on.
        if item.groups.len() == 1
            && matches!(cancel.outcome, Outcome::Group(_))
            && !may_be_leased(facts, item, cancel)
        {
            ends.push((cancel, "cancelled with its group"));
        }
    }
    for sweep in facts.sweeping_calls(item.queue).filter(|sweep| there && item.produce.end < sweep.begin) {
        if takes_away(facts, item, sweep) {
            ends.push((sweep, "cleared"));
        }
    }
    ends
}

/// Whether the item cannot have escaped an acknowledged clear or delete.
fn takes_away(facts: &Facts<'_>, item: &ItemFacts<'_>, sweep: &Call) -> bool {
    match (&sweep.op, &sweep.outcome) {
        (Op::Delete { .. }, Outcome::Deleted) => true,
        (
            Op::Clear { clear: Clear { waiting: true, scheduled: true, leased, suspended }, .. },
            Outcome::Cleared(_),
        ) => {
            (*leased || !may_be_leased(facts, item, sweep)) && (*suspended || !may_be_suspended(item, sweep))
        }
        _ => false,
    }
}

fn may_be_leased(facts: &Facts<'_>, item: &ItemFacts<'_>, by: &Call) -> bool {
    item.grants.iter().any(|grant| grant.call.begin < by.end)
        || facts.ghosts(item).any(|ghost| ghost.begin < by.end)
}

fn may_be_suspended(item: &ItemFacts<'_>, by: &Call) -> bool {
    item.suspends().any(|judged| judged.call.begin < by.end)
}

pub(super) fn stays_ended(item: &ItemFacts<'_>, end: &Call, how: &str) -> Result<(), Violation> {
    let serial = item.made.serial;
    if let Some(grant) = item.grants.iter().find(|grant| grant.call.begin > end.end) {
        let text = format!("item {serial}, {how} at {}, was leased at {}", end.end, grant.call.begin);
        return Err(violation("back", text));
    }
    let alive = item.shown().find(|(call, view)| call.begin > end.end && !view.phase.is_final());
    if let Some((call, view)) = alive {
        let phase = view.phase;
        let text = format!("item {serial}, {how} at {}, was {phase:?} at {}", end.end, call.begin);
        return Err(violation("back", text));
    }
    let worked = item.verdicts.iter().find(|judged| judged.verdict.is_ok() && judged.call.begin > end.end);
    if let Some(judged) = worked {
        let text =
            format!("item {serial}, {how} at {}, took {:?} at {}", end.end, judged.verb, judged.call.begin);
        return Err(violation("back", text));
    }
    Ok(())
}
