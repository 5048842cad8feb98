//! A final item keeps its payload where its queue says so, until the item is forgotten or goes on as another; and nowhere else.

use windlass_core::item::Phase;
use windlass_core::settings::{RetainPayload, Settings};

use super::damage;
use super::facts::{Facts, ItemFacts, violation};
use crate::history::{Call, Op, ShownItem, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        // Whoever waits is told the end also of an item of which nothing is kept.
        let looks = item.ended().filter(|(call, _)| !matches!(call.op, Op::Wait { .. }));
        let mut lacking = looks.filter(|(_, view)| view.payload.is_none());
        let lost = lacking.find(|(_, view)| must_be_kept(facts, item, view) || was_shown(facts, item, view));
        if let Some((call, view)) = lost {
            let (serial, phase) = (item.made.serial, view.phase);
            let text = format!("item {serial} is {phase:?} at {} and lacks its payload", call.begin);
            return Err(violation("payload", text));
        }
    }
    Ok(())
}

/// Whether a final item may be shown with its payload.
pub(super) fn may_be_kept(facts: &Facts<'_>, item: &ItemFacts<'_>, view: &ShownItem) -> bool {
    if view.moved_to.is_some() {
        return false;
    }
    let keeps = |settings: &Settings| retains(settings.retain_payload, view.phase);
    let is_unknown = facts.settings(item.queue).next().is_none();
    is_unknown || facts.settings(item.queue).any(keeps) || may_have_fallen_back(facts, item)
}

fn retains(retain_payload: RetainPayload, phase: Phase) -> bool {
    match retain_payload {
        RetainPayload::All => true,
        RetainPayload::Failed => phase != Phase::Completed,
        RetainPayload::None => false,
    }
}

/// An item that ended on its way to a queue that is not there keeps its payload whatever its own queue says.
pub(super) fn may_have_fallen_back(facts: &Facts<'_>, item: &ItemFacts<'_>) -> bool {
    let has_somewhere_to_go = facts.settings(item.queue).any(|settings| settings.dead_queue.is_some())
        || facts.redrives(item.queue).next().is_some();
    has_somewhere_to_go && !facts.history.keeps_everything
}

/// Whether a final item must be shown with its payload: its queue keeps such payloads at all times, and it goes nowhere.
fn must_be_kept(facts: &Facts<'_>, item: &ItemFacts<'_>, view: &ShownItem) -> bool {
    let keeps = |settings: &Settings| retains(settings.retain_payload, view.phase);
    let is_known = facts.settings(item.queue).next().is_some();
    is_known && facts.settings(item.queue).all(keeps) && stays_here(facts, item, view)
}

/// Whether a look before this one found the item final and with its payload. It may have gone on since.
fn was_shown(facts: &Facts<'_>, item: &ItemFacts<'_>, view: &ShownItem) -> bool {
    let look = item.shown().find(|(_, other)| std::ptr::eq(*other, view)).map(|(call, _)| call.begin);
    let with_payload = |(call, other): (&Call, &ShownItem)| {
        other.phase.is_final() && other.payload.is_some() && Some(call.end) < look
    };
    stays_here(facts, item, view) && item.shown().any(with_payload)
}

/// Whether a final item is not moved, not on its way and not damaged, so far as anybody can tell.
fn stays_here(facts: &Facts<'_>, item: &ItemFacts<'_>, view: &ShownItem) -> bool {
    let may_leave = match view.phase {
        Phase::Failed | Phase::Expired => {
            facts.settings(item.queue).any(|settings| settings.dead_queue.is_some())
        }
        Phase::Cancelled => facts.redrives(item.queue).next().is_some(),
        Phase::Completed => false,
        Phase::Held | Phase::Scheduled | Phase::Waiting | Phase::Leased | Phase::Suspended => true,
    };
    view.moved_to.is_none() && !may_leave && !damage::is_body_lost(facts, item)
}
