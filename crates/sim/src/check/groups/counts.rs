//! A group counts all that ever were members of it, each as what became of it.

use windlass_core::item::Phase;
use windlass_core::verbs::Retried;

use super::super::facts::{Facts, ItemFacts, Verb, violation};
use super::views::total;
use super::{GroupFacts, may_follow};
use crate::history::{Call, Outcome, ShownGroup, Verdict, Violation};

pub(in crate::check) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for group in &facts.groups {
        let ends: Vec<(&ItemFacts<'_>, Option<End<'_>>)> =
            group.members.iter().map(|index| &facts.items[*index]).map(|item| (item, end_of(item))).collect();
        for (call, view) in &group.views {
            all_are_counted(facts, group, call, view)?;
            let counted = [
                (Phase::Completed, view.ended.completed),
                (Phase::Cancelled, view.ended.cancelled),
                (Phase::Failed, view.ended.failed + view.ended.expired),
            ];
            for counted in counted {
                ends_are_counted(facts, group, &ends, call, view, counted)?;
            }
        }
    }
    Ok(())
}

/// How an item ended, and a call that tells so.
struct End<'a> {
    phase: Phase,
    told: &'a Call,
}

/// The first that tells, if any.
fn end_of<'a>(item: &ItemFacts<'a>) -> Option<End<'a>> {
    let judged = item.verdicts.iter().filter_map(|judged| match (judged.verb, &judged.verdict) {
        (Verb::Complete { .. }, Verdict::Done) => Some(End { phase: Phase::Completed, told: judged.call }),
        (Verb::Retry(_), Verdict::Retried(Retried::Ended(phase))) => {
            Some(End { phase: *phase, told: judged.call })
        }
        _ => None,
    });
    let cancelled = item.cancels.iter().filter_map(|call| {
        let Outcome::Cancelled(phase) = call.outcome else { return None };
        Some(End { phase, told: call })
    });
    let shown = item.shown().map(|(call, view)| End { phase: view.phase, told: call });
    let ends = judged.chain(cancelled).chain(shown).filter(|end| end.phase.is_final());
    ends.min_by_key(|end| end.told.end)
}

fn may_be_complete(item: &ItemFacts<'_>, by: &Call) -> bool {
    let mut completions = item.verdicts.iter().filter(|judged| matches!(judged.verb, Verb::Complete { .. }));
    completions.any(|judged| judged.verdict.is_possible() && judged.call.begin < by.end)
}

fn wrong(group: &GroupFacts<'_>, call: &Call, view: &ShownGroup, what: &str) -> Violation {
    violation("group counts", format!("q{} at {}: {view:?}, {what}", group.queue, call.end))
}

fn all_are_counted(
    facts: &Facts<'_>,
    group: &GroupFacts<'_>,
    call: &Call,
    view: &ShownGroup,
) -> Result<(), Violation> {
    let before = |item: &ItemFacts<'_>| item.is_acknowledged() && item.produce.end < call.begin;
    let least = group.members.iter().filter(|index| before(&facts.items[**index])).count() as u64;
    let items = group.members.iter().chain(&group.candidates);
    let most = items.filter(|index| may_follow(facts.items[**index].produce, call)).count() as u64;
    if (least..=most).contains(&total(view)) {
        return Ok(());
    }
    Err(wrong(group, call, view, &format!("not {least} to {most} members")))
}

fn ends_are_counted(
    facts: &Facts<'_>,
    group: &GroupFacts<'_>,
    ends: &[(&ItemFacts<'_>, Option<End<'_>>)],
    call: &Call,
    view: &ShownGroup,
    (phase, counted): (Phase, u64),
) -> Result<(), Violation> {
    let is = |end: &&End<'_>| counted_as(end.phase) == phase;
    let least =
        ends.iter().filter_map(|(_, end)| end.as_ref()).filter(is).filter(|end| end.told.end < call.begin);
    // A completion counts no earlier than it was asked for; of other ends nobody may have been told for long.
    let possible = |(item, end): &&(&ItemFacts<'_>, Option<End<'_>>)| {
        end.as_ref().is_none_or(|end| is(&end)) && (phase != Phase::Completed || may_be_complete(item, call))
    };
    let unknown =
        group.candidates.iter().filter(|index| facts.items[**index].produce.begin < call.end).count();
    let (least, most) = (least.count() as u64, (ends.iter().filter(possible).count() + unknown) as u64);
    if (least..=most).contains(&counted) {
        return Ok(());
    }
    Err(wrong(group, call, view, &format!("not {least} to {most} {phase:?}")))
}

/// One that grew too old is expired, or failed if there is a dead queue for it; which of the two, only its queue knows.
fn counted_as(phase: Phase) -> Phase {
    if phase == Phase::Expired { Phase::Failed } else { phase }
}
