//! Leases that nobody was told of, and items that surely waited.

use windlass_core::item::Phase;

use super::{Facts, Granting, ItemFacts, Judgement};
use crate::check::groups::GroupFacts;
use crate::history::{Call, History, Moment, Op, Outcome, Verdict};

impl<'a> Facts<'a> {
    /// Lease calls that may have leased the item without anybody being told: their outcome is unknown, or something
    /// kept part of the answer back.
    pub fn ghosts<'f>(&'f self, item: &'f ItemFacts<'a>) -> impl Iterator<Item = &'a Call> + use<'f, 'a> {
        let haunted = self.haunted.iter().copied();
        // Bodies are read after the lease: one that ended meanwhile, its lease over, is left out of the answer. So is one
        // whose answer was dropped meanwhile, because another worker suspended it again.
        let calm = self.calm_during(self.possible_ends(item)).map(|(call, _)| *call);
        let calm = calm.filter(|call| self.may_have_ended_before(item, call));
        haunted.chain(calm).filter(move |call| {
            let Op::Lease { queue, filter, .. } = &call.op else { return false };
            let wants = self.priorities(item).any(|priority| filter.max_priority >= priority)
                && filter.kinds.as_ref().is_none_or(|kinds| kinds.contains(&item.made.kind));
            let after = call.outcome.is_unknown() || call.end > item.produce.begin;
            *queue == item.queue && wants && after
        })
    }

    /// How many leases of the item there may have been that nobody was told of.
    pub fn unseen_leases(&self, item: &ItemFacts<'a>) -> u32 {
        let (haunted, calm): (Vec<&Call>, Vec<&Call>) =
            self.ghosts(item).partition(|call| keeps_something_back(self.history, call));
        // An item ends once before its lease is answered, but may be suspended any number of times.
        let ends = 1 + item.suspends().count();
        haunted.len() as u32 + calm.len().min(ends) as u32
    }

    /// The calm leases that overlap with a stretch of orders, and some more.
    fn calm_during(&self, (from, to): (u64, u64)) -> impl Iterator<Item = &(&'a Call, Moment)> {
        let begun = self.calm.partition_point(|(call, _)| call.begin.order < to);
        let over = self.calm.partition_point(|(_, latest_end)| latest_end.order <= from);
        self.calm.get(over..begun).unwrap_or_default().iter()
    }

    /// From the beginning of the first call that may have ended the item to the end of the last.
    fn possible_ends(&self, item: &ItemFacts<'a>) -> (u64, u64) {
        let always = (0, u64::MAX);
        let failed = self.may_have_failed(item);
        if failed && item.grants.is_empty() || self.sweeping_calls(item.queue).next().is_some() {
            return always;
        }
        let judged = item.verdicts.iter().filter(|judged| judged.verb.ends_lease()).map(|judged| judged.call);
        let granted = item.grants.iter().filter(|_| failed).map(|grant| grant.call);
        let calls = judged.chain(item.cancels.iter().copied()).chain(granted).chain(self.group_cancels(item));
        calls.fold((u64::MAX, 0), |(from, to), call| {
            let end = if call.outcome.is_unknown() { u64::MAX } else { call.end.order };
            (from.min(call.begin.order), to.max(end))
        })
    }

    fn may_have_ended_before(&self, item: &ItemFacts<'a>, call: &Call) -> bool {
        let judged = item.verdicts.iter().any(|judged| {
            judged.verb.ends_lease() && judged.verdict.is_possible() && overlaps(judged.call, call)
        });
        let cancelled = item.cancels.iter().any(|cancel| overlaps(cancel, call));
        let swept = self.sweeping_calls(item.queue).any(|sweep| overlaps(sweep, call));
        let failed = self.may_have_failed(item)
            && (item.grants.is_empty() || item.grants.iter().any(|grant| overlaps(grant.call, call)));
        let with_group = self.group_cancels(item).any(|cancel| overlaps(cancel, call));
        judged || cancelled || swept || failed || with_group
    }

    /// Whether the item's last lease may have ended by itself.
    pub fn may_have_failed(&self, item: &ItemFacts<'a>) -> bool {
        let died = |phase| matches!(phase, Phase::Failed | Phase::Expired);
        let shown_failed = item.shown().any(|(_, view)| died(view.phase));
        shown_failed || !self.history.keeps_everything || item.id.is_none()
    }

    /// Whether the item was waiting in its own place, seen by all, from one moment to the other: `from` to `to`,
    /// both orders of the history. `but` is the lease that asks.
    pub fn surely_waiting(&self, item: &ItemFacts<'a>, from: u64, to: u64, but: &Call) -> bool {
        let is_as_made = !self.may_have_changed(item);
        if !is_as_made || !self.is_surely_open(item, from) || item.produce.end.order > from {
            return false;
        }
        let given_back = |grant: &Granting<'_>| {
            let released = |judged: &&Judgement<'_>| {
                judged.verb.keeps_place() && judged.verdict.is_ok() && judged.permit == grant.given.permit
            };
            let waits_again = |judged: &Judgement<'_>| {
                let resumed = |call: &&Call| call.begin > judged.call.end && call.end.order <= from;
                !judged.suspends() || item.sure_resumes().any(|call| resumed(&call))
            };
            let mut given_back = item.verdicts.iter().filter(released);
            given_back.any(|judged| judged.call.end.order <= from && waits_again(judged))
        };
        let free = item
            .grants
            .iter()
            .all(|grant| std::ptr::eq(grant.call, but) || grant.call.begin.order > to || given_back(grant));
        let touched = item.cancels.iter().any(|call| call.begin.order <= to)
            || item.verdicts.iter().any(|judged| {
                judged.verb.ends_lease()
                    && !judged.verb.keeps_place()
                    && judged.verdict.is_possible()
                    && judged.call.begin.order <= to
            })
            || item.verdicts.iter().any(|judged| {
                judged.verb.keeps_place()
                    && judged.verdict == Verdict::Unknown
                    && judged.call.begin.order <= to
            });
        let swept = self
            .sweeping_calls(item.queue)
            .chain(self.group_cancels(item))
            .any(|call| call.begin.order <= to);
        let alive_later = item.grants.iter().any(|grant| grant.call.begin.order > to)
            || item.shown().any(|(call, view)| call.begin.order > to && !view.phase.is_final());
        free && alive_later && !touched && !swept && !self.ghosts(item).any(|ghost| ghost.begin.order <= to)
    }

    /// Whether the item waited from the first, or was held and its group started by then.
    fn is_surely_open(&self, item: &ItemFacts<'a>, by: u64) -> bool {
        let started = || {
            let mut groups = self.groups_of(item);
            let started = |group: &GroupFacts<'_>| {
                group.starts().any(|start| start.is_sure && start.call.end.order <= by)
            };
            groups.next().is_some_and(started) && groups.next().is_none()
        };
        match item.first_phase {
            Some(Phase::Waiting) => true,
            Some(Phase::Held) => started(),
            Some(_) | None => false,
        }
    }
}

/// Whether the lease may have been granted something that its answer does not tell of.
pub(super) fn keeps_something_back(history: &History, call: &Call) -> bool {
    // A server that closes sends waiting leases home, also those it was just granting to.
    let closing = history.processes[call.process].closing.is_some_and(|closing| closing < call.end);
    let troubled = history.is_troubled(call.process, call.end);
    call.outcome.is_unknown() || closing || troubled || gave_up_on_more(call) || cut_short(call)
}

/// A turn does not ask other partitions for longer than this, and drops what one of them is just granting.
fn cut_short(call: &Call) -> bool {
    const FURTHER_LEASES_MICROS: u64 = 5_000_000;
    call.turn.is_some() && call.end.micros >= call.begin.micros + FURTHER_LEASES_MICROS
}

pub(super) fn by_beginning<'a>(mut calls: Vec<&'a Call>) -> Vec<(&'a Call, Moment)> {
    calls.sort_by_key(|call| call.begin);
    let mut latest_end = Moment::default();
    let with_end = |call: &'a Call| {
        latest_end = latest_end.max(call.end);
        (call, latest_end)
    };
    calls.into_iter().map(with_end).collect()
}

/// A lease that waited, has something, and runs out of time stops asking other partitions for more. What one of them
/// was just granting is given back, or has expired by then.
fn gave_up_on_more(call: &Call) -> bool {
    let (Op::Lease { wait, .. }, Outcome::Granted { items, .. }) = (&call.op, &call.outcome) else {
        return false;
    };
    wait.0 > 0 && !items.is_empty() && call.end.micros >= call.begin.micros + wait.0
}

/// Whether the two were under way at the same time for a while, or may have been: the first may have no known end.
fn overlaps(first: &Call, second: &Call) -> bool {
    first.begin < second.end && (second.begin < first.end || first.outcome.is_unknown())
}
