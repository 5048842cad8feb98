//! Counts are true: they agree with each other at all times, and with what is there when all is quiet.

use windlass_core::item::Phase;
use windlass_core::partition::Counts;

use super::facts::{Facts, ItemFacts, Maker, violation};
use crate::history::{Call, Op, Outcome, QueueIndex, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for call in &facts.history.calls {
        let Outcome::Counted(stats) = &call.outcome else { continue };
        let mut by_kind = Counts::default();
        stats.kinds.values().for_each(|counts| by_kind += *counts);
        let mut by_partition = Counts::default();
        stats.partitions.iter().for_each(|partition| by_partition += partition.counts);
        let by_priority: u64 = stats.priorities.values().sum();
        if by_kind != stats.counts || by_partition != stats.counts || by_priority != stats.counts.waiting {
            let text = format!("stats at {}: {:?}, but {by_kind:?} by kind", call.begin, stats.counts);
            return Err(violation("counts", text));
        }
    }
    Ok(())
}

/// The readout's stats, taken before and after everything known was shown.
pub(super) fn check_readout(facts: &Facts<'_>) -> Result<(), Violation> {
    let last = facts.history.processes.len().saturating_sub(1);
    let calls: Vec<&Call> = facts.history.calls.iter().filter(|call| call.process == last).collect();
    let counted = |call: &&Call| if let Op::Stats(queue) = call.op { Some(queue) } else { None };
    let mut queues: Vec<QueueIndex> = calls.iter().filter_map(counted).collect();
    queues.sort_unstable();
    queues.dedup();
    let first_get = calls.iter().find(|call| matches!(call.op, Op::Get(_))).map(|call| call.begin);
    let first_lease = calls.iter().find(|call| matches!(call.op, Op::Lease { .. })).map(|call| call.begin);
    for queue in queues {
        let stats = |call: &&&Call| matches!(call.op, Op::Stats(there) if there == queue);
        let before = calls.iter().filter(stats).rfind(|call| first_get.is_none_or(|get| call.end < get));
        let after = calls.iter().filter(stats).find(|call| {
            first_get.is_none_or(|get| call.begin > get) && first_lease.is_none_or(|lease| call.end < lease)
        });
        if let (Some(before), Some(after)) = (before, after) {
            counted_right(facts, queue, before, after)?;
        }
    }
    Ok(())
}

fn counted_right(facts: &Facts<'_>, queue: QueueIndex, before: &Call, after: &Call) -> Result<(), Violation> {
    let (Outcome::Counted(stats), Outcome::Counted(later)) = (&before.outcome, &after.outcome) else {
        return Ok(());
    };
    // Without calls, and without anything that comes from elsewhere, all three can only change for good: equal counts
    // mean that nothing happened in between.
    if stats.counts != later.counts
        || facts.is_target(queue)
        || facts.may_have_crons(queue)
        || !groups_stood_still(facts, queue, before, after)
    {
        return Ok(());
    }
    let mut shown = Counts::default();
    let mut strangers = 0;
    let mut unseen = 0;
    for item in facts.items.iter().filter(|item| item.queue == queue) {
        match state_between(item, before, after) {
            Some(phase) => count(phase, &mut shown),
            // Perhaps made since.
            None if item.maker == Maker::Group => unseen += 1,
            None if item.grants.iter().any(|grant| grant.call.begin > after.end) => strangers += 1,
            None if item.produce.outcome.is_unknown() && item.id.is_none() => unseen += 1,
            None => {}
        }
    }
    unseen += last_words_unseen(facts, queue);
    let total = |counts: &Counts| counts.live();
    let least = total(&shown) + strangers;
    let fits = total(&stats.counts) >= least && total(&stats.counts) <= least + unseen;
    if !fits || strangers + unseen == 0 && stats.counts != shown {
        let text = format!("q{queue} has {:?}, but shows {shown:?} and {strangers} more", stats.counts);
        return Err(violation("counts", text));
    }
    Ok(())
}

/// Whether every group was the same all the while: a member that ends may leave another item in its place.
fn groups_stood_still(facts: &Facts<'_>, queue: QueueIndex, before: &Call, after: &Call) -> bool {
    let listed = |call: &&Call| {
        matches!(call.op, Op::Groups(there) if there == queue) && call.process == after.process
    };
    let mut lists = facts.history.calls.iter().filter(listed);
    let first = lists.clone().rfind(|list| list.end < before.begin);
    let second = lists.find(|list| list.begin > after.end);
    let groups = |list: Option<&Call>| list.map(|list| list.outcome.groups().to_vec());
    groups(first) == groups(second)
}

/// End and abort items that may be there without anybody having seen them.
fn last_words_unseen(facts: &Facts<'_>, queue: QueueIndex) -> u64 {
    let calls = facts.history.calls.iter().filter(|call| call.outcome.is_possible());
    let words = calls.flat_map(|call| call.op.last_words()).filter(|(_, word)| word.queue == queue);
    let is_seen = |serial| facts.items.iter().any(|item| item.made.serial == serial);
    words.filter(|(_, word)| !is_seen(word.made.serial)).count() as u64
}

fn state_between(item: &ItemFacts<'_>, before: &Call, after: &Call) -> Option<Phase> {
    let mut shown = item.shown().filter(|(call, _)| call.begin > before.end && call.end < after.begin);
    shown.next().map(|(_, view)| view.phase)
}

fn count(phase: Phase, counts: &mut Counts) {
    match phase {
        Phase::Held => counts.held += 1,
        Phase::Scheduled => counts.scheduled += 1,
        Phase::Waiting => counts.waiting += 1,
        Phase::Leased => counts.leased += 1,
        Phase::Suspended => counts.suspended += 1,
        Phase::Completed | Phase::Failed | Phase::Cancelled | Phase::Expired => {}
    }
}
