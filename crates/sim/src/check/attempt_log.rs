//! The attempt log holds the newest ten attempts that did not complete, in the order in which they ended, and goes on where an
//! item is moved or rerun.

use windlass_core::attempt::{AttemptEnd, LOGGED_MAX};
use windlass_core::verbs::Retried;

use super::facts::{Facts, ItemFacts, Judgement, Verb, violation};
use crate::fault::Fault;
use crate::history::{Call, LoggedAttempt, Verdict, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let faults = &facts.history.faults;
    // Partitions follow a clock that is set each in its own time, so that attempts may stand in another order after a move.
    let is_steady = !faults.iter().any(|(_, fault)| matches!(fault, Fault::ClockForward | Fault::ClockBack));
    for item in &facts.items {
        for (look, log) in logs(item) {
            let wrong = |what: String| {
                let text = format!("item {}, shown at {}, {what}: {log:?}", item.made.serial, look.begin);
                Err(violation("attempt log", text))
            };
            if log.len() > LOGGED_MAX as usize || !log.is_sorted_by_key(|logged| logged.ended_at) {
                return wrong("has too many attempts, or out of order".to_owned());
            }
            if let Some(missing) = missing(item, look, log) {
                return wrong(format!("lacks the attempt that ended at {}", missing.call.begin));
            }
            if let Some(logged) = log.iter().find(|logged| !had_cause(facts, item, look, logged)) {
                return wrong(format!("has {logged:?}, which nobody brought about"));
            }
            if is_steady && !goes_on(facts, item, log) {
                return wrong("does not go on with the log of the item that it was".to_owned());
            }
        }
    }
    Ok(())
}

fn logs<'f, 'a>(
    item: &'f ItemFacts<'a>,
) -> impl Iterator<Item = (&'a Call, &'a [LoggedAttempt])> + use<'f, 'a> {
    item.shown().filter_map(|(call, view)| Some((call, view.attempt_log.as_deref()?)))
}

/// An attempt that surely ended before the look with a word of its worker or an operator, and is not among ten newer ones.
fn missing<'f, 'a>(item: &'f ItemFacts<'a>, look: &Call, log: &[LoggedAttempt]) -> Option<&'f Judgement<'a>> {
    if log.len() == LOGGED_MAX as usize {
        return None;
    }
    item.verdicts.iter().filter(|judged| judged.call.end < look.begin).find(|judged| {
        let grant = item.grants.iter().find(|grant| grant.given.permit == judged.permit);
        let Some((end, grant)) = logged_end(judged).zip(grant) else { return false };
        !log.iter().any(|logged| logged.attempt == grant.given.attempts && logged.end == end)
    })
}

/// How the log tells of an attempt that this surely ended. A cancel that was asked for ends it otherwise.
fn logged_end(judged: &Judgement<'_>) -> Option<AttemptEnd> {
    match (judged.verb, &judged.verdict) {
        (Verb::Retry(_), Verdict::Retried(Retried::Again { .. })) => Some(AttemptEnd::Retried),
        (
            Verb::Retry(_)
            | Verb::Complete { .. }
            | Verb::Extend(_)
            | Verb::Emit
            | Verb::Release
            | Verb::Revoke
            | Verb::Suspend { .. },
            _,
        ) => None,
    }
}

/// Whether the attempt may have ended like that, here or before the item came here.
fn had_cause(facts: &Facts<'_>, item: &ItemFacts<'_>, look: &Call, logged: &LoggedAttempt) -> bool {
    if item.origin.is_some() || item.is_rerun() {
        return true;
    }
    let before = |judged: &&Judgement<'_>| judged.verdict.is_possible() && judged.call.begin < look.end;
    let mut judged = item.verdicts.iter().filter(before).map(|judged| judged.verb);
    match logged.end {
        AttemptEnd::Retried | AttemptEnd::Dead => judged.any(|verb| matches!(verb, Verb::Retry(_))),
        AttemptEnd::Revoked => judged.any(|verb| verb == Verb::Revoke),
        AttemptEnd::Expired => {
            item.grants.iter().any(|grant| grant.call.begin < look.end) || facts.ghosts(item).next().is_some()
        }
        AttemptEnd::Cancelled => {
            !item.cancels.is_empty()
                || facts.group_cancels(item).next().is_some()
                || facts.sweeping_calls(item.queue).next().is_some()
        }
    }
}

/// Whether the log begins with the newest attempts of the item that this one was, as that was shown after its end.
fn goes_on(facts: &Facts<'_>, item: &ItemFacts<'_>, log: &[LoggedAttempt]) -> bool {
    let before = item.origin.and_then(|origin| origin.id).and_then(|id| facts.by_id.get(&id));
    let Some(before) = before.map(|index| &facts.items[*index]) else { return true };
    // What is forgotten while somebody looks is shown in part.
    let is_kept =
        facts.history.keeps_everything && !facts.is_deleted(before.queue) && !facts.is_deleted(item.queue);
    let ended = before.ended().find_map(|(_, view)| view.attempt_log.as_deref());
    let Some(ended) = ended.filter(|_| is_kept) else { return true };
    let is_full = log.len() == LOGGED_MAX as usize;
    (0..=ended.len()).any(|from| log.starts_with(&ended[from..]) && (from == 0 || is_full))
}
