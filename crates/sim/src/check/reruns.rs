//! A final item is rerun once: exactly one rerun of it makes an item, which has all that the old one had, and the old one
//! stays as it ended.

use std::collections::BTreeMap;

use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;
use windlass_core::settings::RetainPayload;

use super::damage;
use super::ends::{acknowledged_ends, stays_ended};
use super::facts::{Facts, ItemFacts, Verb, violation};
use crate::history::{Call, Outcome, ShownItem, Verdict, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let mut made: BTreeMap<ItemId, &Call> = BTreeMap::new();
    for call in &facts.history.calls {
        let (Some(before), Some(again)) = (call.op.rerun_of(), call.outcome.rerun()) else { continue };
        if let Some(other) = made.insert(before, call) {
            let text = format!("{before:?} was rerun at {} and at {}", other.begin, call.begin);
            return Err(violation("rerun twice", text));
        }
        if let Some(item) = facts.by_id.get(&before).map(|index| &facts.items[*index]) {
            stays_as_it_ended(item, call, again)?;
        }
    }
    for item in &facts.items {
        item.reruns.iter().try_for_each(|call| was_refused_right(facts, item, call))?;
        let before = item.origin.filter(|_| item.is_rerun()).and_then(|origin| origin.id);
        if let Some(before) = before.and_then(|id| facts.by_id.get(&id)) {
            has_all_of_it(item, &facts.items[*before])?;
        }
    }
    Ok(())
}

fn stays_as_it_ended(item: &ItemFacts<'_>, call: &Call, again: ItemId) -> Result<(), Violation> {
    stays_ended(item, call, "rerun")?;
    let other = |(look, view): &(&Call, &ShownItem)| look.begin > call.end && view.moved_to != Some(again);
    match item.shown().find(other) {
        None => Ok(()),
        Some((look, view)) => {
            let text = format!(
                "item {}, rerun at {} as {again:?}, told {:?} at {}",
                item.made.serial, call.end, view.moved_to, look.begin
            );
            Err(violation("rerun", text))
        }
    }
}

fn was_refused_right(facts: &Facts<'_>, item: &ItemFacts<'_>, call: &Call) -> Result<(), Violation> {
    let Outcome::Refused(refusal) = &call.outcome else { return Ok(()) };
    let wrong = |what: &str| {
        let text = format!("item {} was not rerun at {}, {what}: {refusal:?}", item.made.serial, call.begin);
        Err(violation("rerun", text))
    };
    let ended = || acknowledged_ends(facts, item).into_iter().find(|(end, _)| end.end < call.begin);
    if *refusal == Refusal::NotEnded
        && let Some((_, how)) = ended()
    {
        return wrong(&format!("although {how}"));
    }
    if matches!(refusal, Refusal::NoPayload { .. }) && must_have_payload(facts, item) {
        return wrong("although all payloads are kept");
    }
    if let Refusal::MovedOn { id } = refusal
        && let Some(other) = facts.by_id.get(id).map(|index| &facts.items[*index])
    {
        let is_next = other.origin.is_none_or(|origin| origin.id == item.id);
        if other.made.serial != item.made.serial || !is_next {
            return wrong("for an item that it never became");
        }
    }
    Ok(())
}

/// Whether the queue keeps the payload however the item ended.
fn must_have_payload(facts: &Facts<'_>, item: &ItemFacts<'_>) -> bool {
    let is_completed = item
        .verdicts
        .iter()
        .any(|judged| matches!(judged.verb, Verb::Complete { .. }) && judged.verdict != Verdict::NotApplied);
    let keeps = |retain: RetainPayload| match retain {
        RetainPayload::All => true,
        RetainPayload::Failed => !is_completed,
        RetainPayload::None => false,
    };
    let mut settings = facts.settings(item.queue).map(|settings| settings.retain_payload).peekable();
    settings.peek().is_some() && settings.all(keeps) && !damage::is_body_lost(facts, item)
}

/// What is looked at after the end of the old one does not change any more.
fn has_all_of_it(item: &ItemFacts<'_>, before: &ItemFacts<'_>) -> Result<(), Violation> {
    let wrong = |what: &str| {
        let text = format!("item {}, rerun as {:?}, has another {what}", item.made.serial, item.id);
        Err(violation("rerun", text))
    };
    let Some(origin) = item.origin else { return Ok(()) };
    let first = item.grants.first().filter(|_| item.changes.is_empty());
    for (_, ended) in before.ended() {
        if origin.attempts != Some(ended.attempts) || origin.error != ended.error {
            return wrong("origin than the item that it was");
        }
        if first.is_some_and(|grant| grant.given.priority != ended.priority) {
            return wrong("priority");
        }
        let body = ended.payload.as_ref();
        if first.zip(body).is_some_and(|(grant, body)| grant.given.body != *body) {
            return wrong("payload");
        }
        let mut addresses = item.shown().map(|(_, view)| &view.address);
        if addresses.any(|address| *address != ended.address) {
            return wrong("address");
        }
    }
    Ok(())
}
