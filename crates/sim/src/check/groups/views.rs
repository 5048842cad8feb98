//! A group goes from state to state as it may, is over in the very step in which its last member is, and in the end all
//! are over.

use windlass_core::group::GroupState;
use windlass_core::partition::Counts;

use super::super::facts::{Facts, violation};
use super::GroupFacts;
use crate::history::{Call, OPERATOR, Op, ShownGroup, Violation};

/// Each by itself.
pub(in crate::check) fn check_each(facts: &Facts<'_>) -> Result<(), Violation> {
    for call in &facts.history.calls {
        for view in call.outcome.groups() {
            if !is_consistent(view) {
                let text = format!("{} was shown at {} with {view:?}", view.name, call.end);
                return Err(violation("group state", text));
            }
        }
    }
    Ok(())
}

fn is_consistent(view: &ShownGroup) -> bool {
    let Counts { held, scheduled, waiting, leased, suspended } = view.live;
    match view.state {
        GroupState::Open => waiting + leased + suspended == 0,
        GroupState::Started => held == 0 && view.live.live() > 0,
        GroupState::Cancelled { .. } => held + scheduled + waiting + suspended == 0 && leased > 0,
        GroupState::Done { .. } | GroupState::Aborted { .. } => view.live.live() == 0,
    }
}

/// One after the other.
pub(in crate::check) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for group in &facts.groups {
        for (position, (call, view)) in group.views.iter().enumerate() {
            // Calls stand in the order of their beginnings.
            let later = group.views[position + 1..].iter().filter(|(later, _)| later.begin > call.end);
            for (later_call, later) in later {
                if !may_become(view, later) {
                    let text = format!("{view:?} at {} was {later:?} at {}", call.end, later_call.begin);
                    return Err(violation("group state", text));
                }
            }
        }
        stays_deleted(group)?;
    }
    all_are_over(facts)
}

fn may_become(before: &ShownGroup, after: &ShownGroup) -> bool {
    use GroupState::{Aborted, Cancelled, Done, Open, Started};
    let state = match (before.state, after.state) {
        (Open, _) | (Started, Started | Done { .. } | Cancelled { .. } | Aborted { .. }) => true,
        (Cancelled { at }, Aborted { cancelled_at, .. }) => at == cancelled_at,
        (one, other) => one == other,
    };
    let (was, is) = (before.ended, after.ended);
    let grown = is.completed >= was.completed
        && is.failed >= was.failed
        && is.cancelled >= was.cancelled
        && is.expired >= was.expired;
    state && grown && total(after) >= total(before)
}

pub(super) fn total(view: &ShownGroup) -> u64 {
    view.live.live() + view.ended.completed + view.ended.failed + view.ended.cancelled + view.ended.expired
}

fn stays_deleted(group: &GroupFacts<'_>) -> Result<(), Violation> {
    let Some((delete, _)) = group.views.iter().find(|(call, _)| super::is_delete(call)) else {
        return Ok(());
    };
    let Some((call, _)) = group.views.iter().find(|(call, _)| call.begin > delete.end) else { return Ok(()) };
    let text =
        format!("{} of q{}, deleted at {}, was there at {}", group.name, group.queue, delete.end, call.begin);
    Err(violation("group back", text))
}

/// The readout starts those that are open, and has all members come out.
fn all_are_over(facts: &Facts<'_>) -> Result<(), Violation> {
    let last = facts.history.processes.len().saturating_sub(1);
    let listing = |queue| {
        let of = move |call: &&Call| matches!(call.op, Op::Groups(there) if there == queue);
        facts.history.calls.iter().filter(of).rfind(|call| call.process == last && call.client == OPERATOR)
    };
    let views = (0..facts.queues()).filter_map(listing).flat_map(|call| call.outcome.groups());
    match views.into_iter().find(|view| view.state.over_since().is_none()) {
        Some(view) => {
            Err(violation("group unfinished", format!("in the end {} is {:?}", view.name, view.state)))
        }
        None => Ok(()),
    }
}
