//! A store that does not answer keeps nobody waiting who wants nothing of it: neither calls on queues that are all in other
//! stores, nor a shutdown once it answers again.

use super::facts::{Facts, violation};
use crate::history::{Call, History, Moment, Op, Outcome, Process, QueueIndex, Stall, Violation};

/// How long a call on sound stores may take. Much shorter than a stall.
const ANSWER_MICROS: u64 = 10_000_000;
/// How long a shutdown may take once all stores answer.
const CLOSE_MICROS: u64 = 60_000_000;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let history = facts.history;
    for stall in &history.stalls {
        let late = meanwhile(history, stall).find(|(_, waited)| *waited > ANSWER_MICROS);
        if let Some((call, waited)) = late {
            let text = format!(
                "the call at {} wanted nothing of {}, which did not answer, and waited {waited} for it",
                call.begin, stall.store
            );
            return Err(violation("stalled", text));
        }
    }
    history.stalls.iter().try_for_each(|stall| closed_in_time(history, stall))
}

/// Calls that began while the store did not answer and that wanted nothing of it, and how long they waited for it: in
/// microseconds, without the wait that they asked for.
fn meanwhile<'a>(history: &'a History, stall: &'a Stall) -> impl Iterator<Item = (&'a Call, u64)> {
    let during = move |call: &&Call| {
        let is_during = call.begin > stall.begin && call.begin.micros < stall.until_micros;
        call.process == stall.process && is_during
    };
    history.calls.iter().filter(during).filter_map(move |call| {
        let (queue, wait_micros) = concerns(&call.op)?;
        let end_micros = call.end.micros.min(stall.until_micros);
        let waited = (end_micros - call.begin.micros).saturating_sub(wait_micros);
        is_elsewhere(history, queue, stall, call).then_some((call, waited))
    })
}

/// The only queue that a call concerns, and how long it waits at most if it may.
fn concerns(op: &Op) -> Option<(QueueIndex, u64)> {
    match op {
        Op::Produce { queue, .. }
        | Op::ProduceOnce { queue, .. }
        | Op::Complete { queue, .. }
        | Op::Retry { queue, .. }
        | Op::Extend { queue, .. }
        | Op::Release { queue, .. }
        | Op::Revoke { queue, .. }
        | Op::Suspend { queue, .. }
        | Op::Clear { queue, .. }
        | Op::Stats(queue)
        | Op::Create { queue, .. }
        | Op::Update { queue, .. }
        | Op::Delete { queue, .. }
        | Op::Stop { queue, .. }
        | Op::Go { queue, .. } => Some((*queue, 0)),
        Op::Lease { queue, wait, .. } => Some((*queue, wait.0)),
        Op::Resume { .. }
        | Op::Cancel(_)
        | Op::Change(_)
        | Op::Rerun { .. }
        | Op::Find(_)
        | Op::ChangeMany(_)
        | Op::Latest(_)
        | Op::Get(_)
        | Op::Wait { .. }
        | Op::Emit { .. }
        | Op::Subscribe(_)
        | Op::Follow { .. }
        | Op::Close { .. }
        | Op::Redrive { .. }
        | Op::Rebalance { .. }
        | Op::Group(_)
        | Op::Groups(_)
        | Op::Cron(_)
        | Op::Crons => None,
    }
}

/// Whether no partition that the queue may have had by the end of a call is in the store.
fn is_elsewhere(history: &History, queue: QueueIndex, stall: &Stall, by: &Call) -> bool {
    let sets_homes = |call: &&Call| {
        let (Op::Create { queue: there, .. } | Op::Rebalance { queue: there, .. }) = &call.op else {
            return false;
        };
        *there == queue && call.begin <= by.end && call.outcome.is_possible()
    };
    let mut homes =
        history.calls.iter().filter(sets_homes).map(|call| is_sound(&call.outcome, stall)).peekable();
    homes.peek().is_some() && homes.all(|is_sound| is_sound)
}

/// Whether an answer shows a queue without a partition in the store.
fn is_sound(outcome: &Outcome, stall: &Stall) -> bool {
    let Outcome::Queue(queue) = outcome else { return false };
    !queue.homes.iter().any(|(_, store)| store.as_ref() == Some(&stall.store))
}

fn closed_in_time(history: &History, stall: &Stall) -> Result<(), Violation> {
    let process = &history.processes[stall.process];
    // A process that crashed before its engine had closed was closing until then.
    let closed = process.closed.or(process.end);
    let Some(closed) = closed.filter(|_| is_closed_during(process, stall)) else { return Ok(()) };
    if closed.micros <= stall.until_micros + CLOSE_MICROS {
        return Ok(());
    }
    let text = format!(
        "{} answered again at {}, and the shutdown ended at {closed}",
        stall.store, stall.until_micros
    );
    Err(violation("stalled", text))
}

fn is_closed_during(process: &Process, stall: &Stall) -> bool {
    let during = |closing: Moment| closing > stall.begin && closing.micros < stall.until_micros;
    process.closing.is_some_and(during)
}

/// How many calls were answered while a store did not answer that they wanted nothing of.
pub(crate) fn answered_meanwhile(history: &History) -> usize {
    let answered = |stall: &Stall| {
        let is_answered = |call: &Call| call.end.micros < stall.until_micros && !call.outcome.is_unknown();
        meanwhile(history, stall).filter(|(call, _)| is_answered(call)).count()
    };
    history.stalls.iter().map(answered).sum()
}

/// How many shutdowns began while a store did not answer, and came to an end.
pub(crate) fn closed_meanwhile(history: &History) -> usize {
    let is_closed = |stall: &&Stall| {
        let process = &history.processes[stall.process];
        process.closed.is_some() && is_closed_during(process, stall)
    };
    history.stalls.iter().filter(is_closed).count()
}
