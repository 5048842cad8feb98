//! Nothing that was acknowledged is lost: each item ended in a way that somebody brought about. And a batch with an
//! unknown outcome happened whole or not at all.

use bytes::Bytes;
use windlass_core::item::Phase;
use windlass_core::verbs::Retried;

use super::facts::{Facts, ItemFacts, Judgement, Maker, Verb, violation};
use crate::history::{Op, Outcome, Verdict, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        let outcome = &item.produce.outcome;
        let expected = if item.origin.is_some() {
            Some("moved here")
        } else if item.maker == Maker::Group {
            Some("made by its group")
        } else if item.maker == Maker::Cron {
            Some("made by its cron")
        } else if item.maker == Maker::Rerun {
            Some("made by a rerun")
        } else if item.is_acknowledged() {
            Some("acknowledged")
        } else if outcome.is_unknown() && a_sibling_was_seen(facts, item) {
            Some("part of a batch that is there")
        } else {
            None
        };
        if let Some(why) = expected
            && !may_have_ended(facts, item)
        {
            let text = format!("item {} ({why}, at {}) is nowhere", item.made.serial, item.produce.end);
            return Err(violation("lost", text));
        }
        kept_what_it_left(facts, item)?;
    }
    Ok(())
}

fn a_sibling_was_seen(facts: &Facts<'_>, item: &ItemFacts<'_>) -> bool {
    facts.items.iter().any(|other| std::ptr::eq(other.produce, item.produce) && other.id.is_some())
}

/// What was sent on must have arrived: another rule.
pub(super) fn may_have_ended(facts: &Facts<'_>, item: &ItemFacts<'_>) -> bool {
    facts.redrives(item.queue).next().is_some() || may_have_ended_here(facts, item)
}

/// The readout completes all that is left, so what is still there has ended too.
pub(super) fn may_have_ended_here(facts: &Facts<'_>, item: &ItemFacts<'_>) -> bool {
    let judged = item.verdicts.iter().any(|judged| match judged.verb {
        Verb::Complete { .. } | Verb::Retry(_) => judged.verdict.is_possible() && !goes_on(&judged.verdict),
        // The last attempt fails the item as an expired lease does: below.
        Verb::Extend(_) | Verb::Emit | Verb::Release | Verb::Revoke | Verb::Suspend { .. } => false,
    });
    let cancelled = item
        .cancels
        .iter()
        .any(|call| matches!(call.outcome, Outcome::Cancelled(_)) || call.outcome.is_unknown());
    // Without force only a queue goes in which everything has ended.
    let swept = facts
        .sweeping_calls(item.queue)
        .filter(|sweep| !matches!(sweep.op, Op::Delete { force: false, .. }))
        .any(|sweep| sweep.end > item.produce.begin || sweep.outcome.is_unknown());
    let shown = item.shown().any(|(_, view)| view.phase.is_final());
    let with_group = facts.group_cancels(item).next().is_some();
    judged || cancelled || swept || shown || with_group || may_have_failed_unseen(facts, item)
}

fn goes_on(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Retried(Retried::Again { .. }))
}

/// Where everything is kept a failed or expired item can be seen. Elsewhere it may be forgotten.
fn may_have_failed_unseen(facts: &Facts<'_>, item: &ItemFacts<'_>) -> bool {
    if facts.history.keeps_everything && item.id.is_some() {
        return false;
    }
    if facts.may_expire(item) {
        return true;
    }
    let charged = item.grants.iter().map(|grant| grant.given.attempts).max().unwrap_or(0);
    let unseen = facts.unseen_leases(item);
    facts.attempt_limits(item).into_iter().any(|limit| limit > 0 && charged + unseen >= limit)
}

/// A result that was acknowledged can be had as long as it is kept.
fn kept_what_it_left(facts: &Facts<'_>, item: &ItemFacts<'_>) -> Result<(), Violation> {
    let done = item
        .verdicts
        .iter()
        .find(|judged| judged.verb == Verb::Complete { with_result: true } && judged.verdict.is_ok());
    let Some(done) = done else { return Ok(()) };
    for get in item.gets.iter().filter(|get| get.begin > done.call.end) {
        let deleted = facts.sweeping_calls(item.queue).any(|sweep| sweep.op.forgets(item.queue));
        let right = match get.outcome.shown() {
            Some(view) => {
                let completed = view.phase == Phase::Completed;
                completed && (view.result == sent_result(item, done) || !facts.history.keeps_everything)
            }
            None => !matches!(get.outcome, Outcome::Refused(_)) || deleted || !facts.history.keeps_everything,
        };
        if !right {
            let text = format!(
                "item {}, completed at {}, was not so at {}",
                item.made.serial, done.call.end, get.begin
            );
            return Err(violation("result", text));
        }
    }
    Ok(())
}

fn sent_result(item: &ItemFacts<'_>, done: &Judgement<'_>) -> Option<Bytes> {
    let Op::Complete { items, .. } = &done.call.op else { return None };
    let sent = items.iter().find(|(id, permit, _)| Some(*id) == item.id && *permit == done.permit);
    sent.and_then(|(_, _, result)| result.clone())
}
