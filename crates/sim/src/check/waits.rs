//! Whoever waits for an item is told its end when it comes, and no end that nobody brought about.

use windlass_core::item::Phase;

use super::ends::acknowledged_ends;
use super::facts::{Facts, ItemFacts, Verb, violation};
use crate::history::{Call, Op, Violation};

/// How long the word may take to somebody who waits or follows, on the slowest disk.
pub(super) const WORD_MICROS: u64 = 3_000_000;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        for (call, view) in item.shown() {
            was_brought_about(facts, item, call, view.phase)?;
        }
        if item.gets.iter().any(|call| waits(call)) {
            for (end, how) in acknowledged_ends(facts, item) {
                woke_everybody(facts, item, end, how)?;
            }
        }
    }
    Ok(())
}

fn waits(call: &Call) -> bool {
    matches!(call.op, Op::Wait { wait, .. } if wait.0 > 0)
}

/// Nobody who waited before goes on waiting after an end that somebody was told of.
fn woke_everybody(facts: &Facts<'_>, item: &ItemFacts<'_>, end: &Call, how: &str) -> Result<(), Violation> {
    let late = item.gets.iter().find(|call| {
        waits(call)
            && call.begin < end.begin
            && call.end.micros > end.end.micros + WORD_MICROS
            && call.process == end.process
            && !facts.history.is_troubled(call.process, call.end)
    });
    let Some(late) = late else { return Ok(()) };
    let text = format!(
        "item {}, {how} at {}, was waited for from {} to {}",
        item.made.serial, end.end, late.begin, late.end
    );
    Err(violation("forgotten wait", text))
}

fn was_brought_about(
    facts: &Facts<'_>,
    item: &ItemFacts<'_>,
    call: &Call,
    phase: Phase,
) -> Result<(), Violation> {
    let possible = match phase {
        Phase::Completed => item.verdicts.iter().any(|judged| {
            matches!(judged.verb, Verb::Complete { .. })
                && judged.verdict.is_possible()
                && judged.call.begin < call.end
        }),
        Phase::Cancelled => {
            item.cancels.iter().any(|cancel| cancel.begin < call.end)
                || facts.sweeping_calls(item.queue).any(|sweep| sweep.begin < call.end)
                || facts.redrives(item.queue).any(|redrive| redrive.begin < call.end)
                || facts.group_cancels(item).any(|cancel| cancel.begin < call.end)
        }
        // Other rules look at them.
        Phase::Failed
        | Phase::Expired
        | Phase::Held
        | Phase::Scheduled
        | Phase::Waiting
        | Phase::Leased
        | Phase::Suspended => true,
    };
    if possible {
        return Ok(());
    }
    let text = format!("item {} was {phase:?} at {}, by nobody", item.made.serial, call.end);
    Err(violation("end", text))
}
