//! Items live as long as they may: none is handed out after its time, none expires before.

use windlass_core::item::Phase;
use windlass_core::time::Span;

use super::facts::{Facts, ItemFacts, violation};
use crate::history::{ShownItem, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        for grant in &item.grants {
            may_live_so_long(facts, item, grant.given.dead_timeout)?;
            let dead_at = grant.given.dead_timeout.map(|timeout| grant.given.created_at + timeout);
            if let (Some(leased_at), Some(dead_at)) = (grant.leased_at(), dead_at)
                && leased_at >= dead_at
            {
                let text =
                    format!("item {} was leased at {leased_at:?}, dead at {dead_at:?}", item.made.serial);
                return Err(violation("overdue", text));
            }
        }
        for (_, view) in item.shown() {
            may_live_so_long(facts, item, view.dead_timeout)?;
            ended_well(item, view)?;
            let phase = view.phase;
            if matches!(phase, Phase::Failed | Phase::Expired) && view.error.is_none() {
                return Err(violation(
                    "error",
                    format!("item {} is {phase:?} without one", item.made.serial),
                ));
            }
        }
    }
    Ok(())
}

fn ended_well(item: &ItemFacts<'_>, view: &ShownItem) -> Result<(), Violation> {
    let dead_at = view.dead_timeout.map(|timeout| view.created_at + timeout);
    if view.phase != Phase::Expired || dead_at.is_some_and(|dead_at| view.finished_at >= Some(dead_at)) {
        return Ok(());
    }
    Err(violation("expired", format!("item {} expired before its time", item.made.serial)))
}

/// Its own timeout, or one that its queue had.
fn may_live_so_long(facts: &Facts<'_>, item: &ItemFacts<'_>, timeout: Option<Span>) -> Result<(), Violation> {
    let timeout = timeout.unwrap_or_default();
    let mut changed = facts.changed_dead_timeouts(item);
    let as_made = match item.made.dead_timeout {
        Some(own) => own == timeout,
        None => facts.settings(item.queue).any(|settings| settings.dead_timeout == timeout),
    };
    if as_made || item.is_guessed || changed.any(|changed| changed == timeout) {
        return Ok(());
    }
    Err(violation("expired", format!("item {} may live {timeout:?}, as nobody said", item.made.serial)))
}
