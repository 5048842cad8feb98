//! Attempts are counted right: one for each lease that was neither given back nor suspended, and never more than allowed.

use windlass_core::item::Phase;

use super::damage;
use super::facts::{Facts, Granting, ItemFacts, Verb, violation};
use crate::history::{Call, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        if let Some(first) = item.grants.first() {
            bounded(facts, item, first, 1, 1)?;
        }
        for pair in item.grants.windows(2) {
            let before = pair[0].given.attempts;
            let least = if item.may_be_free(&pair[0]) { before } else { before + 1 };
            let most = if item.is_surely_free(&pair[0]) { before } else { before + 1 };
            bounded(facts, item, &pair[1], least, most)?;
        }
        within_limit(facts, item)?;
        item.shown().try_for_each(|(call, view)| shown_right(facts, item, call, view.attempts))?;
        did_not_fail_early(facts, item)?;
    }
    Ok(())
}

/// Leases that nobody was told of can have been charged, too.
fn bounded(
    facts: &Facts<'_>,
    item: &ItemFacts<'_>,
    grant: &Granting<'_>,
    least: u32,
    most: u32,
) -> Result<(), Violation> {
    let ghosts = facts.ghosts(item).filter(|ghost| ghost.begin < grant.call.end).count() as u32;
    let attempts = grant.given.attempts;
    if attempts >= least && attempts <= most + ghosts {
        return Ok(());
    }
    let text = format!(
        "item {} was leased at {} as attempt {attempts}, not {least} to {}",
        item.made.serial,
        grant.call.begin,
        most + ghosts
    );
    Err(violation("attempts", text))
}

/// Not fewer than before the look, if the lease was not given back, nor more than leases were asked for.
fn shown_right(facts: &Facts<'_>, item: &ItemFacts<'_>, look: &Call, attempts: u32) -> Result<(), Violation> {
    let before = item.grants.iter().rfind(|grant| grant.call.end < look.begin);
    let free = |grant: &Granting<'_>| u32::from(item.may_be_free(grant));
    let least = before.map_or(0, |grant| grant.given.attempts - free(grant));
    let asked = item.grants.iter().filter(|grant| grant.call.begin < look.end);
    let known = asked.map(|grant| grant.given.attempts).max().unwrap_or(0);
    let ghosts = || facts.ghosts(item).filter(|ghost| ghost.begin < look.end).count() as u32;
    if attempts >= least && (attempts <= known || attempts <= known + ghosts()) {
        return Ok(());
    }
    let text = format!(
        "item {} was shown at {} with {attempts} attempts, not {least} to {known}",
        item.made.serial, look.begin
    );
    Err(violation("attempts", text))
}

fn within_limit(facts: &Facts<'_>, item: &ItemFacts<'_>) -> Result<(), Violation> {
    let limits = facts.attempt_limits(item);
    let Some(limit) = limits.iter().copied().max() else { return Ok(()) };
    let most = item.grants.iter().map(|grant| grant.given.attempts).max().unwrap_or(0);
    if limits.contains(&0) || most <= limit {
        return Ok(());
    }
    Err(violation("attempts", format!("item {} had {most} attempts of {limit}", item.made.serial)))
}

/// An item fails when its last attempt ends, never before, or when a worker says so, or when a body of it is lost. How many
/// attempts a guessed item has is not known.
fn did_not_fail_early(facts: &Facts<'_>, item: &ItemFacts<'_>) -> Result<(), Violation> {
    if item.is_guessed || damage::is_body_lost(facts, item) {
        return Ok(());
    }
    let given_up = item.verdicts.iter().any(|judged| match judged.verb {
        Verb::Retry(retry) => retry.dead && judged.verdict.is_possible(),
        Verb::Complete { .. }
        | Verb::Extend(_)
        | Verb::Emit
        | Verb::Release
        | Verb::Revoke
        | Verb::Suspend { .. } => false,
    });
    let least = facts.attempt_limits(item).into_iter().filter(|limit| *limit > 0).min();
    for (call, view) in item.shown().filter(|(_, view)| view.phase == Phase::Failed) {
        let attempts = view.attempts;
        if !given_up && least.is_none_or(|least| attempts < least) {
            let text =
                format!("item {} failed by {} after {attempts} attempts", item.made.serial, call.begin);
            return Err(violation("attempts", text));
        }
    }
    Ok(())
}
