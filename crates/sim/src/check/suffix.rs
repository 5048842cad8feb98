//! Where the newest may be lost, it is the newest alone: if something of a store survived, so did all that was
//! acknowledged there before it was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::id::PartitionId;

use super::ends::undone;
use super::facts::{Facts, ItemFacts, Verb, violation};
use crate::history::{Call, Moment, Outcome, Verdict, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let stores = Stores::of(facts);
    for item in &facts.items {
        for lost in lost_of(facts, item) {
            let later = |other: &&ItemFacts<'_>| {
                other.is_acknowledged() && other.produce.begin > lost.acknowledged && stores.same(item, other)
            };
            if let Some(other) = facts.items.iter().filter(later).find(|other| survived(facts, other, &lost))
            {
                let text = format!(
                    "item {}, {} at {}, is as before, and item {}, produced at {}, is there",
                    item.made.serial, lost.what, lost.acknowledged, other.made.serial, other.produce.begin
                );
                return Err(violation("suffix", text));
            }
        }
    }
    Ok(())
}

/// Something that was acknowledged and is undone.
struct Lost<'a> {
    what: &'static str,
    acknowledged: Moment,
    process: usize,
    /// The call that shows the loss.
    shown: &'a Call,
    /// The last moment at which the item was surely as acknowledged, if anybody looked.
    held_at: Option<Moment>,
}

fn lost_of<'a>(facts: &Facts<'a>, item: &ItemFacts<'a>) -> Vec<Lost<'a>> {
    let production = undone(facts, item).filter(|_| item.is_acknowledged()).map(|shown| Lost {
        what: "produced",
        acknowledged: item.produce.end,
        process: item.produce.process,
        shown,
        held_at: alive(item).filter(|call| call.end < shown.begin).map(|call| call.begin).max(),
    });
    production.into_iter().chain(item_ends(item).filter_map(|(end, what)| back(item, end, what))).collect()
}

/// A completion or cancel that was acknowledged, and the item lives after a restart.
fn back<'a>(item: &ItemFacts<'a>, end: &'a Call, what: &'static str) -> Option<Lost<'a>> {
    let shown = alive(item).find(|call| call.process > end.process && call.begin > end.end)?;
    Some(Lost { what, acknowledged: end.end, process: end.process, shown, held_at: None })
}

fn item_ends<'f, 'a>(
    item: &'f ItemFacts<'a>,
) -> impl Iterator<Item = (&'a Call, &'static str)> + use<'f, 'a> {
    let completed = item
        .verdicts
        .iter()
        .filter(|judged| matches!((judged.verb, &judged.verdict), (Verb::Complete { .. }, Verdict::Done)));
    let cancelled = item
        .cancels
        .iter()
        .filter(|call| matches!(call.outcome, Outcome::Cancelled(phase) if phase.is_final()));
    let completed = completed.map(|judged| (judged.call, "completed"));
    completed.chain(cancelled.map(|call| (*call, "cancelled")))
}

/// Calls that leased the item, or were shown it before its end.
fn alive<'f, 'a>(item: &'f ItemFacts<'a>) -> impl Iterator<Item = &'a Call> + use<'f, 'a> {
    let leased = item.grants.iter().map(|grant| grant.call);
    let shown = item.shown().filter(|(_, view)| !view.phase.is_final());
    leased.chain(shown.map(|(call, _)| call))
}

/// Whether an item that was produced before the loss is there after it. Produced before: in a process that took nothing
/// back while it ran, or while the lost one was still seen.
fn survived(facts: &Facts<'_>, item: &ItemFacts<'_>, lost: &Lost<'_>) -> bool {
    let history = facts.history;
    let produce = item.produce;
    let seen = |from: Moment| {
        let shown = item.shown().map(|(call, _)| call);
        item.grants.iter().map(|grant| grant.call).chain(shown).any(|call| call.begin > from)
    };
    let Some(end) = history.processes[lost.process].end else { return false };
    let at_the_end = lost.shown.process > lost.process
        && produce.process == lost.process
        && !history.is_troubled(lost.process, end)
        && seen(end);
    let while_it_ran = lost.held_at.is_some_and(|held| produce.end < held) && seen(lost.shown.end);
    at_the_end || while_it_ran
}

/// The store of each partition that anybody was told of.
struct Stores(BTreeMap<PartitionId, Arc<str>>);

impl Stores {
    fn of(facts: &Facts<'_>) -> Self {
        let counted = facts.history.calls.iter().filter_map(|call| {
            let Outcome::Counted(stats) = &call.outcome else { return None };
            Some(stats)
        });
        let partitions = counted.flat_map(|stats| &stats.partitions);
        Self(partitions.map(|partition| (partition.partition, Arc::clone(&partition.store))).collect())
    }

    fn same(&self, item: &ItemFacts<'_>, other: &ItemFacts<'_>) -> bool {
        let (Some(id), Some(other)) = (item.id, other.id) else { return false };
        let store = |partition| self.0.get(&partition);
        id.partition == other.partition
            || (store(id.partition).is_some() && store(id.partition) == store(other.partition))
    }
}
