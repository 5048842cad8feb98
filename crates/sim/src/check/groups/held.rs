//! Nobody is given a member of a group before its start was asked for.

use super::super::facts::{Facts, ItemFacts, violation};
use crate::history::{Call, Violation};
use windlass_core::item::Phase;

pub(in crate::check) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    // Where there was none to take it, another rule says so.
    for item in facts.items.iter().filter(|item| !item.groups.is_empty()) {
        let told_to_wait = item.first_phase == Some(Phase::Waiting);
        let waits = told_to_wait.then_some(item.produce);
        let shown = item.shown().filter(|(_, view)| view.phase == Phase::Waiting).map(|(call, _)| call);
        let granted = item.grants.iter().map(|grant| grant.call);
        if let Some(early) =
            waits.into_iter().chain(shown).chain(granted).find(|call| !may_be_started(facts, item, call))
        {
            let text = format!(
                "item {} of {:?}, which nobody had started, could be had at {}",
                item.made.serial, item.made.group, early.end
            );
            return Err(violation("held", text));
        }
    }
    Ok(())
}

fn may_be_started(facts: &Facts<'_>, item: &ItemFacts<'_>, by: &Call) -> bool {
    facts.groups_of(item).any(|group| group.starts().any(|start| start.call.begin < by.end))
}
