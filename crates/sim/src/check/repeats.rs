//! Calls that were sent again under their key: all of them come to one, which was carried out once.

use std::collections::BTreeMap;

use windlass_core::refusal::Refusal;

use super::facts::violation;
use crate::history::{Call, History, Op, Outcome, Violation};

/// The same history with one produce in place of all that were the same call.
pub fn merged(history: &History) -> Result<History, Violation> {
    let mut calls: Vec<Call> = Vec::with_capacity(history.calls.len());
    let mut firsts: BTreeMap<u64, usize> = BTreeMap::new();
    for call in &history.calls {
        let Op::ProduceOnce { queue, items } = &call.op else {
            calls.push(call.clone());
            continue;
        };
        let key = items.first().map_or(0, |made| made.serial);
        match firsts.get(&key) {
            Some(first) => merge(&mut calls[*first], call)?,
            None => {
                firsts.insert(key, calls.len());
                let op = Op::Produce { queue: *queue, items: items.clone() };
                calls.push(Call { op, ..call.clone() });
            }
        }
    }
    Ok(History { calls, ..history.without_calls() })
}

/// From the first time it was sent until the first answer that says what was made.
fn merge(whole: &mut Call, again: &Call) -> Result<(), Violation> {
    let wrong = |what: String| violation("repeat", format!("the call begun at {} {what}", whole.begin));
    match (&whole.outcome, &again.outcome) {
        (_, Outcome::Refused(Refusal::KeyTaken)) => Err(wrong("was taken for another one".to_owned())),
        (Outcome::Produced(first), Outcome::Produced(second)) if first != second => {
            Err(wrong(format!("was told {first:?}, and then {second:?}")))
        }
        (Outcome::Produced(first), Outcome::Refused(refusal)) => {
            Err(wrong(format!("was told {first:?}, and then {refusal:?}")))
        }
        (Outcome::Produced(_), _) => Ok(()),
        (_, Outcome::Produced(_)) => {
            take_over(whole, again);
            Ok(())
        }
        (first, _) if first.is_unknown() => {
            whole.end = again.end;
            whole.latest = again.latest;
            Ok(())
        }
        (_, _) => {
            take_over(whole, again);
            Ok(())
        }
    }
}

fn take_over(whole: &mut Call, again: &Call) {
    whole.process = again.process;
    whole.end = again.end;
    whole.latest = again.latest;
    whole.outcome = again.outcome.clone();
}
