//! Of the items of a queue that are not final no two have the same address, and none is refused for one that is.

use std::sync::Arc;

use windlass_core::refusal::Refusal;

use super::facts::{Facts, ItemFacts, Verb, violation};
use crate::history::{Moment, Outcome, QueueIndex, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let addressed: Vec<&ItemFacts<'_>> = facts.items.iter().filter(|item| is_addressed(item)).collect();
    for item in &addressed {
        if matches!(item.produce.outcome, Outcome::Produced(_)) {
            nobody_else_held_it(&addressed, item)?;
        }
        if let Outcome::Refused(Refusal::DuplicateAddress { number }) = &item.produce.outcome {
            let is_holder = |other: &&&ItemFacts<'_>| {
                key(other) == key(item) && other.id.is_some_and(|id| id.number == *number)
            };
            addressed.iter().find(is_holder).map_or(Ok(()), |holder| still_held_it(holder, item))?;
        }
    }
    Ok(())
}

/// What was rerun has the address of what it was before, but was made at another time than `produce`.
fn is_addressed(item: &ItemFacts<'_>) -> bool {
    item.made.address.is_some() && !item.is_rerun()
}

fn key<'i>(item: &'i ItemFacts<'_>) -> (QueueIndex, Option<&'i Arc<str>>) {
    (item.queue, item.made.address.as_ref())
}

/// Who was there before an item was made, and lived on after that, held the address all the while.
fn nobody_else_held_it(addressed: &[&ItemFacts<'_>], item: &ItemFacts<'_>) -> Result<(), Violation> {
    let (begin, end) = (item.produce.begin, item.produce.end);
    let held = |other: &&&ItemFacts<'_>| {
        let before = matches!(other.produce.outcome, Outcome::Produced(_)) && other.produce.end < begin;
        key(other) == key(item) && before && was_live_after(other, end)
    };
    let Some(other) = addressed.iter().find(held) else { return Ok(()) };
    let (first, second) = (other.made.serial, item.made.serial);
    let text = format!("items {first} and {second} of q{} both have {:?}", item.queue, item.made.address);
    Err(violation("address", text))
}

fn was_live_after(item: &ItemFacts<'_>, at: Moment) -> bool {
    let granted = item.grants.iter().any(|grant| grant.call.begin > at);
    let judged = item.verdicts.iter().any(|judged| judged.verdict.is_ok() && judged.call.begin > at);
    let shown = item.shown().any(|(call, view)| call.begin > at && !view.phase.is_final());
    granted || judged || shown
}

/// Who was completed before a call began is in nobody's way.
fn still_held_it(holder: &ItemFacts<'_>, refused: &ItemFacts<'_>) -> Result<(), Violation> {
    let done = holder.verdicts.iter().any(|judged| {
        matches!(judged.verb, Verb::Complete { .. })
            && judged.verdict.is_ok()
            && judged.call.end < refused.produce.begin
    });
    if !done {
        return Ok(());
    }
    let (first, second) = (holder.made.serial, refused.made.serial);
    Err(violation("address", format!("item {second} was refused for item {first}, which was done")))
}
