//! Whoever looks at an item that is leased is shown so, or its end.

use windlass_core::item::Phase;

use super::facts::{Facts, Granting, ItemFacts, Verb, violation};
use crate::history::{Call, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        for (call, view) in item.shown() {
            let phase = view.phase;
            if phase.is_final() || phase == Phase::Leased {
                continue;
            }
            if let Some(grant) = surely_held(item, call) {
                let text = format!(
                    "item {}, leased at {}, was {phase:?} at {}",
                    item.made.serial, grant.call.end, call.begin
                );
                return Err(violation("look", text));
            }
        }
    }
    Ok(())
}

/// The lease, if it was answered before the look and nothing can have ended it by the end of that.
fn surely_held<'f, 'a>(item: &'f ItemFacts<'a>, look: &Call) -> Option<&'f Granting<'a>> {
    let grant = item.grants.iter().rfind(|grant| grant.call.begin < look.end)?;
    let may_change = item.judged(grant.given.permit).any(|judged| {
        let changes = judged.verb.ends_lease() || matches!(judged.verb, Verb::Extend(_));
        changes && judged.verdict.is_possible() && judged.call.begin < look.end
    });
    let is_held = grant.accepted && grant.call.end < look.begin && grant.given.deadline > look.latest;
    (is_held && !may_change).then_some(grant)
}
