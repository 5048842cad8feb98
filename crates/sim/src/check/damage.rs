//! Runs in which stored bytes rotted. Either nobody was told of damage: then nothing may be missing, and every rule
//! holds. Or somebody was told: then what was stored may be gone as far as it was told, but nothing is ever taken for
//! something else.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::id::PartitionId;

use super::Rule;
use super::facts::{Facts, ItemFacts, violation};
use super::{counts, grants, lost, unique};
use crate::history::{Call, History, Outcome, PartitionState, Teller, Violation, speaks_of_damage};

/// Hold whatever has rotted.
pub(super) const ROTTEN: [Rule; 4] = [unique::check, grants::check_given, counts::check, check_losses];

/// No more items are missing than was told.
fn check_losses(facts: &Facts<'_>) -> Result<(), Violation> {
    let history = facts.history;
    let losses = &history.losses;
    if !history.is_lossless() || losses.are_unknown(PartitionId::REGISTRY) {
        return Ok(());
    }
    let faulty = damaged_partitions(history);
    for (partition, serials) in missing_items(facts, &faulty) {
        let told = losses.partitions.get(&partition).map_or(0, |loss| loss.items);
        let is_excused = losses.are_unknown(partition) || faulty.contains(&partition);
        if !is_excused && serials.len() as u64 > told {
            let text = format!("partition {partition} lacks the items {serials:?}, and {told} were told");
            return Err(violation("lost", text));
        }
    }
    Ok(())
}

/// The serials of items that were acknowledged and that nobody can have ended, by their partition. An item that may have
/// gone to a dead queue may be in a partition that does not serve.
fn missing_items(facts: &Facts<'_>, faulty: &BTreeSet<PartitionId>) -> BTreeMap<PartitionId, Vec<u64>> {
    let mut missing: BTreeMap<PartitionId, Vec<u64>> = BTreeMap::new();
    let may_have_left = |item: &ItemFacts<'_>| !item.grants.is_empty() || facts.may_expire(item);
    let is_looked_for =
        |item: &&ItemFacts<'_>| item.is_acknowledged() && (faulty.is_empty() || !may_have_left(item));
    for item in facts.items.iter().filter(is_looked_for) {
        if let Some(id) = item.id.filter(|_| !lost::may_have_ended(facts, item)) {
            missing.entry(id.partition).or_default().push(item.made.serial);
        }
    }
    missing
}

/// Whether a server said that a body of the item is lost. Such an item fails when it is leased; one that is moved without
/// its payload fails on arrival, and no call can show it: nobody knows its new id, and its serial was in the payload.
pub(super) fn is_body_lost(facts: &Facts<'_>, item: &ItemFacts<'_>) -> bool {
    item.id.is_some_and(|id| facts.history.lost_bodies.contains(&id.to_string()))
}

/// Partitions that did not serve in the last life, and said that it was for damage.
fn damaged_partitions(history: &History) -> BTreeSet<PartitionId> {
    let last = history.processes.len().saturating_sub(1);
    let calls = history.calls.iter().filter(|call| call.process == last);
    let stats =
        calls.filter_map(|call| if let Outcome::Counted(stats) = &call.outcome { Some(stats) } else { None });
    let partitions = stats.flat_map(|stats| &stats.partitions);
    partitions.filter(|partition| is_damaged(&partition.state)).map(|partition| partition.partition).collect()
}

pub(crate) fn is_damaged(state: &PartitionState) -> bool {
    match state {
        PartitionState::Faulty { error } => speaks_of_damage(error),
        PartitionState::Loading | PartitionState::Available | PartitionState::Closed => false,
    }
}

/// No server finds a body damaged on sound disks. Salvage may keep an item whose payload was torn, and tells it.
pub(super) fn check_unfounded(facts: &Facts<'_>) -> Result<(), Violation> {
    let history = facts.history;
    match history.lost_bodies.first().filter(|_| !history.has_rot() && !is_told(history)) {
        Some(item) => {
            Err(violation("damage", format!("nothing has rotted, and a body of {item} is said to be lost")))
        }
        None => Ok(()),
    }
}

/// Whether somebody was told that something of what was stored is damaged. Salvage tells a torn write too, and keeps the
/// items of a frame whose payloads were torn.
pub(super) fn is_told(history: &History) -> bool {
    let by_salvage = history.damage.iter().any(|damage| damage.by == Teller::Salvage);
    by_salvage || (history.has_rot() && (!history.damage.is_empty() || history.calls.iter().any(tells)))
}

/// Whether the readout may have stopped half-way: partitions that are damaged do not serve.
pub fn excuses(history: &History, violation: &Violation) -> bool {
    let is_of_readout = matches!(violation.rule, "recovery" | "drain" | "draining" | "moving" | "cron");
    let may_lack_queues = history.losses.are_unknown(PartitionId::REGISTRY);
    is_of_readout && history.has_rot() && (may_lack_queues || !damaged_partitions(history).is_empty())
}

fn tells(call: &Call) -> bool {
    match &call.outcome {
        Outcome::NotApplied(reason) => speaks_of_damage(reason),
        Outcome::Counted(stats) => stats.partitions.iter().any(|partition| is_damaged(&partition.state)),
        Outcome::Shown(view) | Outcome::Subscribed { view, .. } => {
            !view.phase.is_final() && view.payload.is_none()
        }
        Outcome::Open
        | Outcome::Produced(_)
        | Outcome::Granted { .. }
        | Outcome::Judged(_)
        | Outcome::Resumed
        | Outcome::Cancelled(_)
        | Outcome::Changed(_)
        | Outcome::Rerun(..)
        | Outcome::Found(_)
        | Outcome::ManyChanged(_)
        | Outcome::Latest(_)
        | Outcome::Emitted(_)
        | Outcome::Followed(_)
        | Outcome::Closed(_)
        | Outcome::Cleared(_)
        | Outcome::Redriven(_)
        | Outcome::Queue(_)
        | Outcome::Deleted
        | Outcome::Ruled
        | Outcome::Group(_)
        | Outcome::GroupMade(..)
        | Outcome::Groups(_)
        | Outcome::Cron(_)
        | Outcome::Crons(_)
        | Outcome::CronDone
        | Outcome::Triggered(_)
        | Outcome::Refused(_)
        | Outcome::TooLarge
        | Outcome::Unknown(_) => false,
    }
}
