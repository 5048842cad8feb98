//! A server with a sound disk serves.

use super::closes;
use super::facts::{Facts, violation};
use crate::history::{Call, ManyOp, ManyPage, Moment, Op, Outcome, Verdict, Violation, Why};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for call in &facts.history.calls {
        if let Some(answer) = turned_away(call)
            && !may_turn_away(facts, call.process, call.end)
            && !closes::may_have_closed(facts, call)
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
