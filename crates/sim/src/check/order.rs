//! Strict priority, then first in first out, within a partition. And no lease goes away empty while there is work.

use windlass_core::settings::Requeue;

use super::facts::{Facts, ItemFacts, violation};
use super::rules;
use crate::history::{Call, Op, Outcome, Violation};

/// How long a handover to a waiting lease may take on the slowest disk.
const HANDOVER_MICROS: u64 = 3_000_000;

/// An item, and from when to when it was seen to be alive, as orders of the history.
struct Lifespan<'f, 'a> {
    item: &'f ItemFacts<'a>,
    from: u64,
    to: u64,
}

impl<'f, 'a> Lifespan<'f, 'a> {
    fn of(item: &'f ItemFacts<'a>) -> Self {
        let granted = item.grants.iter().map(|grant| grant.call.begin.order);
        let alive = item.shown().filter(|(_, view)| !view.phase.is_final());
        let to = granted.chain(alive.map(|(call, _)| call.begin.order)).max().unwrap_or(0);
        Self { item, from: item.produce.end.order, to }
    }
}

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let lifespans: Vec<Lifespan<'_, '_>> = facts.items.iter().map(Lifespan::of).collect();
    for call in &facts.leases {
        let Outcome::Granted { items, .. } = &call.outcome else { continue };
        let at = call.end.order;
        let alive = lifespans.iter().filter(|life| life.from <= at && at < life.to).map(|life| life.item);
        if items.is_empty() {
            nothing_was_there(facts, call, alive)?;
        } else {
            in_batch_order(facts, call)?;
            nobody_was_passed_over(facts, call, alive)?;
        }
    }
    Ok(())
}

/// Smaller goes first. An item's place is its number, or one further back.
fn rank(item: &ItemFacts<'_>) -> (u8, u64) {
    (item.made.priority, item.id.map_or(0, |id| id.number.0))
}

fn would_take(call: &Call, item: &ItemFacts<'_>) -> bool {
    let Op::Lease { queue, filter, .. } = &call.op else { return false };
    *queue == item.queue
        && item.made.priority <= filter.max_priority
        && filter.kinds.as_ref().is_none_or(|kinds| kinds.contains(&item.made.kind))
}

/// No item that was there all the while stood before one that was leased.
fn nobody_was_passed_over<'f, 'a: 'f>(
    facts: &Facts<'a>,
    call: &Call,
    alive: impl Iterator<Item = &'f ItemFacts<'a>>,
) -> Result<(), Violation> {
    let Outcome::Granted { items, .. } = &call.outcome else { return Ok(()) };
    for item in alive {
        let Some(id) = item.id else { continue };
        let same_partition = items.iter().filter(|given| given.id.partition == id.partition);
        let worst = same_partition.map(|given| (given.priority, given.id.number.0)).max();
        let passed =
            worst.is_some_and(|worst| rank(item) < worst) && !items.iter().any(|given| given.id == id);
        if passed
            && would_take(call, item)
            && !rules::may_hold_back(facts, item, call.begin.order, call.end.order)
            && facts.surely_waiting(item, call.begin.order, call.end.order, call)
        {
            let text = format!(
                "item {} of rank {:?} was passed over by the lease at {}, which took {worst:?}",
                item.made.serial,
                rank(item),
                call.begin
            );
            return Err(violation("order", text));
        }
    }
    Ok(())
}

/// What one partition gives at once comes in its order. Permits issued at once follow one another: a lease that could not
/// read some of its items goes on with others a while later.
fn in_batch_order(facts: &Facts<'_>, call: &Call) -> Result<(), Violation> {
    let (Op::Lease { queue, wait, .. }, Outcome::Granted { items, .. }) = (&call.op, &call.outcome) else {
        return Ok(());
    };
    // A lease that waited may have been filled in two turns.
    let stays_put = facts.settings(*queue).all(|settings| settings.requeue == Requeue::Keep);
    if wait.0 > 0 {
        return Ok(());
    }
    let in_place = |id| {
        let item = &facts.items[facts.by_id[&id]];
        item.made.enqueue_at.is_none()
            && !item.is_rerun()
            && !facts.may_have_changed(item)
            && (stays_put || item.grants.iter().all(|grant| grant.given.attempts == 1))
    };
    let mut last = std::collections::BTreeMap::new();
    for given in items.iter().filter(|given| in_place(given.id)) {
        let rank = (given.priority, given.id.number.0);
        let Some((before, permit)) = last.insert(given.id.partition, (rank, given.permit)) else { continue };
        let at_once = given.permit.0.abs_diff(permit.0) <= items.len() as u64;
        if at_once && before > rank {
            let text = format!("the lease at {} gave {before:?} before {rank:?}", call.begin);
            return Err(violation("order", text));
        }
    }
    Ok(())
}

fn nothing_was_there<'f, 'a: 'f>(
    facts: &Facts<'a>,
    call: &Call,
    alive: impl Iterator<Item = &'f ItemFacts<'a>>,
) -> Result<(), Violation> {
    let process = &facts.history.processes[call.process];
    let closing = process.closing.is_some_and(|closing| closing < call.end);
    if closing || facts.history.is_troubled(call.process, call.end) {
        return Ok(());
    }
    let Op::Lease { queue, .. } = &call.op else { return Ok(()) };
    if facts
        .sweeping_calls(*queue)
        .any(|sweep| matches!(sweep.op, Op::Delete { .. }) && sweep.begin < call.end)
    {
        return Ok(());
    }
    for item in alive.filter(|item| would_take(call, item)) {
        let from = if item.produce.end < call.begin {
            call.begin.order
        } else if item.produce.end.micros + HANDOVER_MICROS < call.end.micros {
            item.produce.end.order
        } else {
            continue;
        };
        let stopped = rules::may_hold_back(facts, item, from, call.end.order);
        if !stopped && facts.surely_waiting(item, from, call.end.order, call) {
            let text = format!(
                "the lease from {} to {} found nothing, but item {} waited",
                call.begin, call.end, item.made.serial
            );
            return Err(violation("forgotten lease", text));
        }
    }
    Ok(())
}
