//! A change of many items does to each what the call for that item alone would do: the history tells each change of many as the
//! calls for single items that it stands for, so that every rule about those holds of it. A dry run stands for none.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::item::Phase;
use windlass_core::time::Timestamp;
use windlass_engine::Action;

use super::ends::{acknowledged_ends, stays_ended};
use super::facts::{Facts, ItemFacts, violation};
use crate::history::{
    Call, ChangeOp, History, ManyOp, Op, Outcome, QueueIndex, ShownItem, Verdict, Violation, Why,
};
use crate::plan::queue_name;

/// No item has it: an update of this one may have been one of any item that nobody was told of.
const NOBODY: ItemId = ItemId { partition: PartitionId(u32::MAX), number: ItemNumber(u64::MAX) };

/// The same history with the calls that changes of many items stand for beside them.
pub(super) fn spelled_out(history: &History) -> History {
    let mut calls = Vec::with_capacity(history.calls.len());
    for call in &history.calls {
        calls.push(call.clone());
        if let Some(op) = call.op.many() {
            calls.extend(stands_for(history, call, op));
        }
    }
    History { calls, ..history.without_calls() }
}

fn stands_for(history: &History, call: &Call, op: &ManyOp) -> Vec<Call> {
    let Some(page) = call.outcome.many_changed() else {
        if op.dry_run || !call.outcome.is_unknown() {
            return Vec::new();
        }
        let ids = told_of(history, op.queue).into_iter().chain([NOBODY]);
        return ids.filter_map(|id| single(call, op.action, id, &Verdict::Unknown)).collect();
    };
    // What a dry run says of a rerun must be as true as a refusal.
    let says = |verdict: &Verdict| !op.dry_run || op.action == Action::Rerun && verdict.is_refused();
    let results = page.results.iter().filter(|(_, verdict)| says(verdict));
    results.filter_map(|(id, verdict)| single(call, op.action, *id, verdict)).collect()
}

/// The call for one item, if it may have done something or its refusal says something.
fn single(call: &Call, action: Action, id: ItemId, verdict: &Verdict) -> Option<Call> {
    let change = |priority, enqueue_at| {
        let op = ChangeOp { id, priority, enqueue_at, max_attempts: None, dead_timeout: None, edit: None };
        Op::Change(op)
    };
    let op = match action {
        Action::Cancel => Op::Cancel(id),
        Action::Rerun => Op::Rerun { id, delay: None },
        Action::RunNow => change(None, Some(Timestamp(0))),
        Action::SetPriority(priority) => change(Some(priority), None),
        // Of these the change of many itself tells.
        Action::Delete => return None,
    };
    let outcome = match (verdict, &op) {
        (Verdict::NotApplied, _) => return None,
        (Verdict::Refused(refusal), Op::Rerun { .. }) => Outcome::Refused(refusal.clone()),
        (Verdict::Refused(_), _) => return None,
        (Verdict::Done, Op::Change(op)) => Outcome::Changed(Box::new(as_changed(op))),
        // The answer does not tell what became of the item.
        (Verdict::Done | Verdict::Retried(_) | Verdict::Extended(_) | Verdict::Unknown, _) => {
            Outcome::Unknown(Why::Abandoned)
        }
    };
    Some(Call { op, outcome, ..call.clone() })
}

/// What the change promises of the item.
fn as_changed(op: &ChangeOp) -> ShownItem {
    ShownItem { priority: op.priority.unwrap_or_default(), ..ShownItem::of(op.id, Phase::Waiting) }
}

/// Every item of the queue that anybody was told of.
fn told_of(history: &History, queue: QueueIndex) -> BTreeSet<ItemId> {
    let name = queue_name(queue).name;
    let mut ids = BTreeSet::new();
    for call in &history.calls {
        if call.op.produces().is_some_and(|(there, _)| there == queue) {
            ids.extend(call.outcome.produced().iter().map(|(id, _)| *id));
        }
        if matches!(call.op, Op::Lease { queue: there, .. } if there == queue) {
            ids.extend(call.outcome.granted().iter().map(|given| given.id));
        }
        ids.extend(call.outcome.shown().filter(|view| view.queue == name).map(|view| view.id));
        ids.extend(call.outcome.rerun());
    }
    ids
}

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let mut rerun = BTreeMap::new();
    for call in &facts.history.calls {
        if let (Some(id), Some(_)) = (call.op.rerun_of(), call.outcome.rerun()) {
            is_rerun_once(&mut rerun, id, call)?;
        }
        let (Some(op), Some(page)) = (call.op.many(), call.outcome.many_changed()) else { continue };
        if page.results.len() > op.limit {
            return wrong(call, "took more than it was to take");
        }
        let done = page.results.iter().filter(|(_, verdict)| verdict.is_ok());
        for (id, _) in done {
            if op.reruns() {
                is_rerun_once(&mut rerun, *id, call)?;
            }
            let item = facts.by_id.get(id).map(|index| &facts.items[*index]);
            item.map_or(Ok(()), |item| was_done(facts, item, call, op))?;
        }
    }
    Ok(())
}

fn wrong(call: &Call, what: &str) -> Result<(), Violation> {
    Err(violation("many", format!("the change of many at {} {what}: {:?}", call.begin, call.op)))
}

fn is_rerun_once<'a>(
    rerun: &mut BTreeMap<ItemId, &'a Call>,
    id: ItemId,
    call: &'a Call,
) -> Result<(), Violation> {
    let Some(other) = rerun.insert(id, call) else { return Ok(()) };
    let text = format!("{id:?} was rerun at {} and, with many, at {}", other.begin, call.begin);
    Err(violation("rerun twice", text))
}

/// The item was one that the call was to take, and is as the call made it from then on.
fn was_done(facts: &Facts<'_>, item: &ItemFacts<'_>, call: &Call, op: &ManyOp) -> Result<(), Violation> {
    let serial = item.made.serial;
    let has_address = !item.is_acknowledged() || op.filter.takes_address(item.made.address.as_ref());
    if item.queue != op.queue || !op.filter.takes_kind(&item.made.kind) || !has_address {
        return wrong(call, &format!("took item {serial}, which the filter does not take"));
    }
    if op.action == Action::Cancel {
        let ended = acknowledged_ends(facts, item).into_iter().find(|(end, _)| end.end < call.begin);
        if let Some((_, how)) = ended {
            return wrong(call, &format!("took item {serial}, which was {how}"));
        }
    }
    if op.dry_run {
        return Ok(());
    }
    let later = |look: &Call| look.begin > call.end;
    let granted = item.grants.iter().any(|grant| later(grant.call));
    let worked = item.verdicts.iter().any(|judged| judged.verdict.is_ok() && later(judged.call));
    let shown =
        |is_wrong: fn(&ShownItem) -> bool| item.shown().any(|(look, view)| later(look) && is_wrong(view));
    match op.action {
        // Whoever works on the item may go on, and nobody after that.
        Action::Cancel if granted || shown(|view| !is_over_or_leased(view.phase)) => {
            wrong(call, &format!("did not cancel item {serial}"))
        }
        Action::Delete if granted || worked || shown(|_| true) => {
            wrong(call, &format!("did not delete item {serial}"))
        }
        Action::Rerun if shown(|view| view.moved_to.is_none()) => {
            wrong(call, &format!("ran item {serial} again, which does not tell where it went on"))
        }
        Action::Rerun => stays_ended(item, call, "rerun with many"),
        Action::Cancel | Action::Delete | Action::RunNow | Action::SetPriority(_) => Ok(()),
    }
}

fn is_over_or_leased(phase: Phase) -> bool {
    phase.is_final() || phase == Phase::Leased
}
