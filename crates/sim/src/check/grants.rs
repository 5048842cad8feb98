//! A lease gives what was produced and asked for: the very body, kind and priority, and not too many.

use super::facts::{Facts, ItemFacts, violation};
use super::payload;
use crate::history::{Op, Outcome, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    check_given(facts)?;
    let lossless = facts.history.is_lossless();
    facts.items.iter().try_for_each(|item| check_item(facts, item, lossless))
}

/// What is leased or shown is what was produced, and a lease gives what it was asked for.
pub(super) fn check_given(facts: &Facts<'_>) -> Result<(), Violation> {
    for call in &facts.leases {
        let (Op::Lease { batch_size, filter, .. }, Outcome::Granted { items, .. }) =
            (&call.op, &call.outcome)
        else {
            continue;
        };
        if items.len() > *batch_size {
            let text = format!("{} items for a lease of {batch_size} at {}", items.len(), call.begin);
            return Err(violation("batch size", text));
        }
        let fits = |kind, priority| {
            priority <= filter.max_priority && filter.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
        };
        if let Some(given) = items.iter().find(|given| !fits(&given.kind, given.priority)) {
            return Err(violation("filter", format!("{:?} is not what the lease asked for", given.id)));
        }
    }
    facts.items.iter().try_for_each(|item| is_as_made(facts, item))
}

/// Or as an update made it.
fn is_as_made(facts: &Facts<'_>, item: &ItemFacts<'_>) -> Result<(), Violation> {
    let made = &item.made;
    for given in item.grants.iter().map(|grant| grant.given) {
        let is_priority = facts.priorities(item).any(|priority| priority == given.priority);
        if !facts.may_have_body(item, &given.body) || given.kind != made.kind || !is_priority {
            return Err(violation("body", format!("item {} was leased as something else", made.serial)));
        }
    }
    for (_, view) in item.shown() {
        let body_fits = view.payload.as_ref().is_none_or(|payload| facts.may_have_body(item, payload));
        let is_priority = facts.priorities(item).any(|priority| priority == view.priority);
        if !body_fits || view.kind != made.kind || !is_priority {
            return Err(violation("body", format!("item {} is shown as something else", made.serial)));
        }
    }
    Ok(())
}

fn check_item(facts: &Facts<'_>, item: &ItemFacts<'_>, lossless: bool) -> Result<(), Violation> {
    let made = &item.made;
    let refused =
        matches!(item.produce.outcome, Outcome::NotApplied(_) | Outcome::TooLarge | Outcome::Refused(_));
    if refused && item.id.is_some() {
        return Err(violation("not applied", format!("item {} was not produced, and is there", made.serial)));
    }
    for grant in &item.grants {
        if grant.call.end < item.produce.begin {
            return Err(violation("body", format!("item {} was leased before it was produced", made.serial)));
        }
    }
    for (_, view) in item.shown() {
        let phase = view.phase;
        // State and body are looked at one after the other, so it matters that nothing can be undone in between.
        if lossless && phase.is_final() && view.payload.is_some() && !payload::may_be_kept(facts, item, view)
        {
            return Err(violation("body", format!("item {} is {phase:?} and has its payload", made.serial)));
        }
    }
    Ok(())
}
