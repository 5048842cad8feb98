//! Nothing starts early, and no partition's clock is ahead of every clock there was.

use windlass_core::time::Timestamp;
use windlass_core::verbs::Retried;

use super::facts::{Facts, Granting, ItemFacts, violation};
use crate::history::{Verdict, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        for grant in &item.grants {
            let Some(leased_at) = grant.leased_at() else { continue };
            started_in_time(facts, item, grant, leased_at)?;
            if leased_at > grant.call.latest {
                let text = format!("item {} was leased in the future: {leased_at:?}", item.made.serial);
                return Err(violation("time", text));
            }
        }
        created_once(item)?;
    }
    Ok(())
}

fn started_in_time(
    facts: &Facts<'_>,
    item: &ItemFacts<'_>,
    grant: &Granting<'_>,
    leased_at: Timestamp,
) -> Result<(), Violation> {
    if facts.may_be_put_off(item) {
        return Ok(());
    }
    let mut due_at = item.made.enqueue_at;
    // A retry that was lost again never put anything off.
    let retries = item.verdicts.iter().filter(|_| facts.history.is_lossless());
    for judged in retries.filter(|judged| judged.permit < grant.given.permit) {
        if let Verdict::Retried(Retried::Again { due_at: again }) = &judged.verdict {
            due_at = due_at.max(Some(*again));
        }
    }
    match due_at {
        Some(due_at) if leased_at < due_at => {
            let text = format!("item {}, due at {due_at:?}, was leased at {leased_at:?}", item.made.serial);
            Err(violation("early", text))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whoever asks, an item was made at one moment.
fn created_once(item: &ItemFacts<'_>) -> Result<(), Violation> {
    let granted = item.grants.iter().map(|grant| grant.given.created_at);
    let shown = item.shown().map(|(_, view)| view.created_at);
    let mut moments = granted.chain(shown);
    let Some(first) = moments.next() else { return Ok(()) };
    if moments.all(|moment| moment == first) && first <= item.produce.latest.max(first_seen(item)) {
        return Ok(());
    }
    Err(violation("time", format!("item {} was made at several moments, or in the future", item.made.serial)))
}

/// The production of an item whose caller was gone can still have taken place later.
fn first_seen(item: &ItemFacts<'_>) -> Timestamp {
    let granted = item.grants.iter().map(|grant| grant.call.latest);
    granted.chain(item.gets.iter().map(|call| call.latest)).min().unwrap_or_default()
}
