//! A server with a sound disk serves.

use windlass_engine::EndReason;

use super::facts::{Facts, violation};
use crate::history::{Call, Op, Outcome, Verdict, Violation, Why};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for call in &facts.history.calls {
        if let Some(answer) = turned_away(call)
            && !had_a_reason(facts, call)
        {
            let text = format!("{answer} at {} although nothing was wrong", call.end);
            return Err(violation("service", text));
        }
    }
    Ok(())
}

fn turned_away(call: &Call) -> Option<String> {
    let answers = |verdict| matches!(&call.outcome, Outcome::Judged(verdicts) if verdicts.contains(&verdict));
    if let Outcome::NotApplied(reason) = &call.outcome {
        return Some(format!("not applied ({reason})"));
    }
    if matches!(&call.outcome, Outcome::Followed(followed) if followed.end == Some(EndReason::Closed)) {
        return Some("a stream was closed".to_owned());
    }
    if matches!(call.outcome, Outcome::Unknown(Why::Told)) || answers(Verdict::Unknown) {
        return Some("unknown".to_owned());
    }
    answers(Verdict::NotApplied).then(|| "not applied".to_owned())
}

fn had_a_reason(facts: &Facts<'_>, call: &Call) -> bool {
    let history = facts.history;
    let process = &history.processes[call.process];
    let closing = process.closing.is_some_and(|closing| closing < call.end);
    // Whoever asks from outside may come too late.
    let gone = process.end.is_some_and(|end| end < call.end);
    let deleting = history.calls.iter().any(|other| {
        matches!(other.op, Op::Delete { .. }) && other.process == call.process && other.begin < call.end
    });
    closing || gone || deleting || history.is_troubled(call.process, call.end)
}
