//! A server with a sound disk serves.

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
    match &call.outcome {
        Outcome::NotApplied(reason) => Some(format!("not applied ({reason})")),
        Outcome::Unknown(Why::Told) => Some("unknown".to_owned()),
        Outcome::Judged(verdicts) if verdicts.contains(&Verdict::Unknown) => Some("unknown".to_owned()),
        Outcome::Judged(verdicts) if verdicts.contains(&Verdict::NotApplied) => {
            Some("not applied".to_owned())
        }
        _ => None,
    }
}

fn had_a_reason(facts: &Facts<'_>, call: &Call) -> bool {
    let history = facts.history;
    let closing = history.processes[call.process].closing.is_some_and(|closing| closing < call.end);
    let deleting = history.calls.iter().any(|other| {
        matches!(other.op, Op::Delete(_)) && other.process == call.process && other.begin < call.end
    });
    closing || deleting || history.is_troubled(call.process, call.end)
}
