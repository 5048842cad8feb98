//! What a finished group leaves: after a cancel only those members live on that are leased, and their workers are asked to
//! stop; after the end, none.

use windlass_core::item::Phase;
use windlass_core::time::Timestamp;
use windlass_core::verbs::Retried;

use super::super::facts::{Facts, ItemFacts, Judgement, violation};
use crate::history::{Call, Extended, ShownGroup, Verdict, Violation};

pub(in crate::check) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for group in &facts.groups {
        let finished = || group.views.iter().filter(|(_, view)| view.state.is_finished());
        for item in group.members.iter().map(|index| &facts.items[*index]) {
            for (call, view) in finished() {
                nobody_was_given_it(item, call, view)?;
                is_not_seen(item, call, view)?;
                was_asked_to_stop(item, call, view)?;
            }
        }
    }
    Ok(())
}

fn wrong(item: &ItemFacts<'_>, call: &Call, what: &str, view: &ShownGroup) -> Violation {
    let text = format!("item {} {what} at {}, after {view:?}", item.made.serial, call.begin);
    violation("cancelled", text)
}

/// Since when nobody is given a member, by the clock of its partition.
fn finished_at(view: &ShownGroup) -> Option<Timestamp> {
    view.state.cancelled_at().or(view.state.over_since())
}

fn nobody_was_given_it(item: &ItemFacts<'_>, finish: &Call, view: &ShownGroup) -> Result<(), Violation> {
    let late = item.grants.iter().find(|grant| {
        let by_the_clock = grant.leased_at().zip(finished_at(view)).is_some_and(|(leased, end)| leased > end);
        grant.call.begin > finish.end || by_the_clock
    });
    late.map_or(Ok(()), |grant| Err(wrong(item, grant.call, "was leased", view)))
}

fn is_not_seen(item: &ItemFacts<'_>, finish: &Call, view: &ShownGroup) -> Result<(), Violation> {
    let is_over = view.state.over_since().is_some();
    let lives = |phase: Phase| !phase.is_final() && (is_over || phase != Phase::Leased);
    let seen = item.shown().find(|(call, shown)| call.begin > finish.end && lives(shown.phase));
    seen.map_or(Ok(()), |(call, _)| Err(wrong(item, call, "was seen alive", view)))
}

fn was_asked_to_stop(item: &ItemFacts<'_>, finish: &Call, view: &ShownGroup) -> Result<(), Violation> {
    let goes_on = |judged: &&Judgement<'_>| {
        matches!(
            judged.verdict,
            Verdict::Extended(Extended { cancel_requested: false, .. })
                | Verdict::Retried(Retried::Again { .. })
        )
    };
    let works = |judged: &&Judgement<'_>| judged.verdict.is_ok() && view.state.over_since().is_some();
    let later = item.verdicts.iter().filter(|judged| judged.call.begin > finish.end);
    let judged = later.into_iter().find(|judged| goes_on(judged) || works(judged));
    judged.map_or(Ok(()), |judged| Err(wrong(item, judged.call, "was worked on as if nothing was", view)))
}
