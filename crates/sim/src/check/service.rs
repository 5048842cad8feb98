//! A server with a sound disk serves.

use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;

use super::closes;
use super::facts::{Facts, violation};
use crate::history::{Call, ManyOp, ManyPage, Moment, Op, Outcome, Verdict, Violation, Why};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for call in &facts.history.calls {
        if let Some(answer) = turned_away(call)
            && !may_turn_away(facts, call.process, call.end)
            && !closes::may_have_closed(facts, call)
            && !reruns_what_is_gone(facts, call)
        {
            let text = format!("{answer} at {} although nothing was wrong", call.end);
            return Err(violation("service", text));
        }
    }
    Ok(())
}

fn turned_away(call: &Call) -> Option<String> {
    let answers = |verdict| {
        let of_many = |page: &ManyPage| page.results.iter().any(|(_, given)| *given == verdict);
        matches!(&call.outcome, Outcome::Judged(verdicts) if verdicts.contains(&verdict))
            || call.outcome.many_changed().is_some_and(of_many)
    };
    if let Outcome::NotApplied(reason) = &call.outcome {
        return Some(format!("not applied ({reason})"));
    }
    if matches!(&call.outcome, Outcome::Followed(followed) if followed.is_closed()) {
        return Some("a stream was closed".to_owned());
    }
    if matches!(call.outcome, Outcome::Unknown(Why::Told)) || answers(Verdict::Unknown) {
        return Some("unknown".to_owned());
    }
    answers(Verdict::NotApplied).then(|| "not applied".to_owned())
}

/// Whether all that the call cannot tell is what became of reruns whose items are gone: where an item was rerun elsewhere, the
/// item alone tells that, for as long as its retention lasts.
fn reruns_what_is_gone(facts: &Facts<'_>, call: &Call) -> bool {
    let is_gone = |id: ItemId| {
        facts.history.calls.iter().any(|other| {
            matches!(other.op, Op::Get(asked) if asked == id)
                && matches!(other.outcome, Outcome::Refused(Refusal::NotFound))
        })
    };
    if let (Op::Rerun { id, .. }, Outcome::Unknown(Why::Told)) = (&call.op, &call.outcome) {
        return is_gone(*id);
    }
    let reruns = call.op.many().is_some_and(ManyOp::reruns);
    let are_gone = |page: &ManyPage| {
        page.results.iter().all(|(id, given)| match given {
            Verdict::Unknown => is_gone(*id),
            Verdict::NotApplied => false,
            Verdict::Done | Verdict::Retried(_) | Verdict::Extended(_) | Verdict::Refused(_) => true,
        })
    };
    reruns && call.outcome.many_changed().is_some_and(are_gone)
}

/// Whether the process may have been unable to serve, by that moment.
pub(super) fn may_turn_away(facts: &Facts<'_>, process: usize, until: Moment) -> bool {
    let history = facts.history;
    let closing = history.processes[process].closing.is_some_and(|closing| closing < until);
    // Whoever asks from outside may come too late.
    let gone = history.processes[process].end.is_some_and(|end| end < until);
    let deleting = history.calls.iter().any(|other| {
        // Of an item that is deleted while it is run again nobody knows any more what became of it.
        let deletes = matches!(other.op, Op::Delete { .. }) || other.op.many().is_some_and(ManyOp::deletes);
        deletes && other.process == process && other.begin < until
    });
    closing || gone || deleting || history.is_troubled(process, until)
}
