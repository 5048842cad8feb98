//! What was stopped is not leased: from the answer on, until somebody may have lifted the rule.

use std::sync::Arc;

use windlass_core::rule::Stop;

use super::facts::{Facts, ItemFacts, violation};
use crate::history::{Call, Op, Outcome, QueueIndex, Violation};

/// What a rule stops: a queue has at most one rule of each `stop` on the whole queue and on each kind.
#[derive(Clone, Copy)]
struct Stopped<'k> {
    queue: QueueIndex,
    /// Unset: the whole queue.
    kind: Option<&'k Arc<str>>,
    stop: Stop,
}

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for lease in facts.leases.iter().filter(|lease| !lease.outcome.granted().is_empty()) {
        let Op::Lease { queue, .. } = &lease.op else { continue };
        let kinds = lease.outcome.granted().iter().map(|given| Some(&given.kind));
        for kind in kinds.chain([None]) {
            for stop in Stop::ALL {
                is_not_stopped(facts, Stopped { queue: *queue, kind, stop }, lease)?;
            }
        }
    }
    Ok(())
}

fn is_not_stopped(facts: &Facts<'_>, stopped: Stopped<'_>, lease: &Call) -> Result<(), Violation> {
    let Some(set) = surely_stands(facts, stopped, lease) else { return Ok(()) };
    let Stopped { queue, kind, stop } = stopped;
    let what = kind.map_or("all of it", |kind| kind);
    let text = format!(
        "the lease at {} was granted although q{queue} ({what}) was stopped ({}) at {}",
        lease.begin,
        stop.name(),
        set.end
    );
    Err(violation("stopped", text))
}

/// The rule, if it was acknowledged before the lease began, and nothing can have lifted it by its end.
fn surely_stands<'a>(facts: &Facts<'a>, stopped: Stopped<'_>, lease: &Call) -> Option<&'a Call> {
    let calls = &facts.history.calls;
    let is_set = |call: &&Call| sets(call, stopped) == Some(Lasts::UntilLifted);
    let acknowledged = |call: &&Call| matches!(call.outcome, Outcome::Ruled) && call.end < lease.begin;
    let set = calls.iter().filter(is_set).filter(acknowledged).max_by_key(|call| call.end)?;
    // One whose outcome is unknown may take effect whenever it likes.
    let after = |call: &Call| call.outcome.is_unknown() || call.end > set.begin;
    let lifted = calls.iter().any(|call| may_lift(call, stopped) && call.begin < lease.end && after(call));
    (!lifted).then_some(set)
}

/// Whether a rule on its kind or on its queue may have held the item back at some moment from one on: told by the orders of
/// the history.
pub(super) fn may_hold_back(facts: &Facts<'_>, item: &ItemFacts<'_>, from: u64, to: u64) -> bool {
    let calls = &facts.history.calls;
    calls.iter().filter(|call| happened(call) && call.begin.order < to).any(|set| {
        let Op::Stop { queue, kind, stop, .. } = &set.op else { return false };
        if *queue != item.queue || kind.as_ref().is_some_and(|kind| *kind != item.made.kind) {
            return false;
        }
        let stopped = Stopped { queue: *queue, kind: kind.as_ref(), stop: *stop };
        let lifted = |call: &&Call| lifts(call, stopped) && matches!(call.outcome, Outcome::Ruled);
        let surely_lifted =
            calls.iter().filter(lifted).any(|lift| lift.begin > set.end && lift.end.order < from);
        set.outcome.is_unknown() || !surely_lifted
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lasts {
    UntilLifted,
    ForAWhile,
}

fn sets(call: &Call, stopped: Stopped<'_>) -> Option<Lasts> {
    let Op::Stop { queue, kind, stop, until } = &call.op else { return None };
    let lasts = if until.is_none() { Lasts::UntilLifted } else { Lasts::ForAWhile };
    stopped.is(*queue, kind.as_ref(), *stop).then_some(lasts)
}

/// By a call, by itself, or with its queue.
fn may_lift(call: &Call, stopped: Stopped<'_>) -> bool {
    let by_call = lifts(call, stopped);
    let with_queue = matches!(call.op, Op::Delete { queue: there, .. } if there == stopped.queue);
    let by_itself = sets(call, stopped) == Some(Lasts::ForAWhile);
    (by_call || with_queue || by_itself) && happened(call)
}

fn lifts(call: &Call, stopped: Stopped<'_>) -> bool {
    let Op::Go { queue, kind, stop } = &call.op else { return false };
    stopped.is(*queue, kind.as_ref(), *stop)
}

impl Stopped<'_> {
    fn is(self, queue: QueueIndex, kind: Option<&Arc<str>>, stop: Stop) -> bool {
        (self.queue, self.kind, self.stop) == (queue, kind, stop)
    }
}

fn happened(call: &Call) -> bool {
    !matches!(call.outcome, Outcome::Refused(_) | Outcome::NotApplied(_) | Outcome::TooLarge)
}
