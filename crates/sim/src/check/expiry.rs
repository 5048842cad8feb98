//! Items live as long as they may: none is handed out after its time, none expires before.

use windlass_core::item::{Phase, State};
use windlass_core::time::{Span, Timestamp};

use super::facts::{Facts, ItemFacts, violation};
use crate::history::Violation;

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
            let extras = view.item.extras.as_deref();
            let timeout = extras.and_then(|extras| extras.dead_timeout);
            may_live_so_long(facts, item, timeout)?;
            ended_well(item, &view.item.state, view.item.created_at, timeout)?;
            let phase = view.item.state.phase();
            let has_error = extras.is_some_and(|extras| extras.error.is_some());
            if matches!(phase, Phase::Failed | Phase::Expired) && !has_error {
                return Err(violation(
                    "error",
                    format!("item {} is {phase:?} without one", item.made.serial),
                ));
            }
        }
    }
    Ok(())
}

fn ended_well(
    item: &ItemFacts<'_>,
    state: &State,
    created_at: Timestamp,
    timeout: Option<Span>,
) -> Result<(), Violation> {
    let State::Final(outcome) = state else { return Ok(()) };
    if state.phase() != Phase::Expired
        || timeout.is_some_and(|timeout| outcome.finished_at >= created_at + timeout)
    {
        return Ok(());
    }
    Err(violation("expired", format!("item {} expired before its time", item.made.serial)))
}

/// Its own timeout, or one that its queue had.
fn may_live_so_long(facts: &Facts<'_>, item: &ItemFacts<'_>, timeout: Option<Span>) -> Result<(), Violation> {
    let timeout = timeout.unwrap_or_default();
    let fits = match item.made.dead_timeout {
        Some(own) => own == timeout,
        None => facts.settings(item.queue).any(|settings| settings.dead_timeout == timeout),
    };
    if fits {
        return Ok(());
    }
    Err(violation("expired", format!("item {} may live {timeout:?}, as nobody said", item.made.serial)))
}
