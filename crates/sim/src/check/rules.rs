//! What was stopped is not leased: from the answer on, until somebody may have lifted the rule.

use windlass_core::rule::Stop;

use super::facts::{Facts, violation};
use crate::history::{Call, Op, Outcome, QueueIndex, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for lease in facts.leases.iter().filter(|lease| !lease.outcome.granted().is_empty()) {
        let Op::Lease { queue, .. } = &lease.op else { continue };
        for stop in Stop::ALL {
            if let Some(set) = surely_stands(facts, *queue, stop, lease) {
                let text = format!(
                    "the lease at {} was granted although q{queue} was stopped ({}) at {}",
                    lease.begin,
                    stop.name(),
                    set.end
                );
                return Err(violation("stopped", text));
            }
        }
    }
    Ok(())
}

/// The rule, if it was acknowledged before the lease began, and nothing can have lifted it by its end.
fn surely_stands<'a>(facts: &Facts<'a>, queue: QueueIndex, stop: Stop, lease: &Call) -> Option<&'a Call> {
    let calls = &facts.history.calls;
    let is_set = |call: &&Call| sets(call, queue, stop) == Some(Lasts::UntilLifted);
    let acknowledged = |call: &&Call| matches!(call.outcome, Outcome::Ruled) && call.end < lease.begin;
    let set = calls.iter().filter(is_set).filter(acknowledged).max_by_key(|call| call.end)?;
    // One whose outcome is unknown may take effect whenever it likes.
    let after = |call: &Call| call.outcome.is_unknown() || call.end > set.begin;
    let lifted =
        calls.iter().any(|call| may_lift(call, queue, stop) && call.begin < lease.end && after(call));
    (!lifted).then_some(set)
}

/// Whether something may have been held back at some moment from one on: told by the orders of the history.
pub(super) fn may_stand(facts: &Facts<'_>, queue: QueueIndex, from: u64, to: u64) -> bool {
    let calls = &facts.history.calls;
    Stop::ALL.into_iter().any(|stop| {
        let may_set =
            |call: &&Call| sets(call, queue, stop).is_some() && happened(call) && call.begin.order < to;
        calls.iter().filter(may_set).any(|set| {
            let lifted = |call: &&Call| lifts(call, queue, stop) && matches!(call.outcome, Outcome::Ruled);
            let surely_lifted =
                calls.iter().filter(lifted).any(|lift| lift.begin > set.end && lift.end.order < from);
            set.outcome.is_unknown() || !surely_lifted
        })
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lasts {
    UntilLifted,
    ForAWhile,
}

fn sets(call: &Call, queue: QueueIndex, stop: Stop) -> Option<Lasts> {
    let Op::Stop { queue: there, stop: which, until } = call.op else { return None };
    let lasts = if until.is_none() { Lasts::UntilLifted } else { Lasts::ForAWhile };
    ((there, which) == (queue, stop)).then_some(lasts)
}

/// By a call, by itself, or with its queue.
fn may_lift(call: &Call, queue: QueueIndex, stop: Stop) -> bool {
    let by_call = lifts(call, queue, stop);
    let with_queue = matches!(call.op, Op::Delete { queue: there, .. } if there == queue);
    let by_itself = sets(call, queue, stop) == Some(Lasts::ForAWhile);
    (by_call || with_queue || by_itself) && happened(call)
}

fn lifts(call: &Call, queue: QueueIndex, stop: Stop) -> bool {
    matches!(call.op, Op::Go { queue: there, stop: which } if (there, which) == (queue, stop))
}

fn happened(call: &Call) -> bool {
    !matches!(call.outcome, Outcome::Refused(_) | Outcome::NotApplied(_) | Outcome::TooLarge)
}
