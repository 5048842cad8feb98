//! The permit is the only right to an item: no two are good at once, and only a good one does anything.

use windlass_core::refusal::Refusal;
use windlass_core::time::Timestamp;

use super::facts::{Facts, Granting, ItemFacts, Judgement, Verb, violation};
use crate::history::{Call, Extended, Verdict, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        for pair in item.grants.windows(2) {
            one_at_a_time(item, &pair[0], &pair[1])?;
        }
        for judged in &item.verdicts {
            if judged.verdict.is_ok() {
                was_the_holder(item, judged)?;
                was_in_time(facts, item, judged)?;
            } else if matches!(judged.verdict, Verdict::Refused(_)) {
                was_lost(facts, item, judged)?;
            }
        }
        ended_once(item)?;
    }
    Ok(())
}

/// The first lease was over when the second was granted: given up, or past its deadline.
fn one_at_a_time(item: &ItemFacts<'_>, first: &Granting<'_>, second: &Granting<'_>) -> Result<(), Violation> {
    let given_up = |judged: &Judgement<'_>| {
        judged.verb.ends_lease() && judged.verdict.is_possible() && judged.call.begin < second.call.end
    };
    if !first.accepted || item.judged(first.given.permit).any(given_up) {
        return Ok(());
    }
    let Some(deadline) = earliest_deadline(item, first, second.call) else { return Ok(()) };
    let leased_at = second.leased_at().unwrap_or(second.call.latest);
    if leased_at >= deadline {
        return Ok(());
    }
    let (serial, permits) = (item.made.serial, (first.given.permit.0, second.given.permit.0));
    let text = format!("item {serial}: permits {permits:?}, the second at {leased_at:?} before {deadline:?}");
    Err(violation("two permits", text))
}

/// When the lease ends if nobody gives it up, as far as the answers to calls begun before the end of another tell; a
/// grace after a restart comes on top.
fn earliest_deadline(item: &ItemFacts<'_>, grant: &Granting<'_>, until: &Call) -> Option<Timestamp> {
    let mut deadline = grant.given.deadline;
    let mut last_end = grant.call.end;
    let extends = item.judged(grant.given.permit).filter(|judged| matches!(judged.verb, Verb::Extend(_)));
    for judged in extends.filter(|judged| judged.call.begin < until.end) {
        match &judged.verdict {
            Verdict::Unknown => return None,
            Verdict::Extended(Extended { deadline: extended, .. }) => {
                let in_turn = judged.call.begin >= last_end;
                deadline = if in_turn { *extended } else { deadline.min(*extended) };
                last_end = last_end.max(judged.call.end);
            }
            Verdict::Done | Verdict::Retried(_) | Verdict::Refused(_) | Verdict::NotApplied => {}
        }
    }
    Some(deadline)
}

fn was_the_holder(item: &ItemFacts<'_>, judged: &Judgement<'_>) -> Result<(), Violation> {
    let serial = item.made.serial;
    let permit = judged.permit.0;
    if !item.grants.iter().any(|grant| grant.given.permit == judged.permit) {
        let text =
            format!("item {serial}: {:?} worked with permit {permit}, which was never given", judged.verb);
        return Err(violation("holder", text));
    }
    let newer =
        |grant: &&Granting<'_>| grant.given.permit > judged.permit && grant.call.end < judged.call.begin;
    if let Some(newer) = item.grants.iter().find(newer) {
        let text = format!(
            "item {serial}: {:?} at {} worked with permit {permit} after permit {} was given",
            judged.verb, judged.call.begin, newer.given.permit.0
        );
        return Err(violation("holder", text));
    }
    let over = |other: &&Judgement<'_>| {
        other.verb.ends_lease() && other.verdict.is_ok() && other.call.end < judged.call.begin
    };
    if item.judged(judged.permit).any(|other| over(&other)) {
        let text = format!("item {serial}: {:?} worked with permit {permit}, which was used up", judged.verb);
        return Err(violation("holder", text));
    }
    Ok(())
}

/// A permit is given up once.
fn ended_once(item: &ItemFacts<'_>) -> Result<(), Violation> {
    for grant in &item.grants {
        let ends = |judged: &&Judgement<'_>| judged.verb.ends_lease() && judged.verdict.is_ok();
        if item.judged(grant.given.permit).filter(ends).count() > 1 {
            let text =
                format!("item {}: permit {} was used up twice", item.made.serial, grant.given.permit.0);
            return Err(violation("holder", text));
        }
    }
    Ok(())
}

/// Past its deadline a lease is lost, whether or not anybody noticed. Time on the partition's clock passes at least
/// as fast as here, as long as one process serves it without trouble.
fn was_in_time(facts: &Facts<'_>, item: &ItemFacts<'_>, judged: &Judgement<'_>) -> Result<(), Violation> {
    let Some(grant) = item.grants.iter().find(|grant| grant.given.permit == judged.permit) else {
        return Ok(());
    };
    let calm = !facts.history.is_troubled(judged.call.process, judged.call.end);
    if !calm || grant.call.process != judged.call.process {
        return Ok(());
    }
    let Some(timeout) = grant.timeout else { return Ok(()) };
    let mut latest_end = grant.call.end.micros + timeout.0;
    for other in item.judged(judged.permit) {
        match (other.verb, &other.verdict) {
            (Verb::Extend(_), Verdict::Refused(_) | Verdict::NotApplied) => {}
            (Verb::Extend(Some(timeout)), Verdict::Extended(_)) if !std::ptr::eq(other, judged) => {
                latest_end = latest_end.max(other.call.end.micros + timeout.0);
            }
            (Verb::Extend(_), _) if std::ptr::eq(other, judged) => {}
            (Verb::Extend(_), _) => return Ok(()),
            (
                Verb::Complete { .. }
                | Verb::Retry(_)
                | Verb::Emit
                | Verb::Release
                | Verb::Revoke
                | Verb::Suspend { .. },
                _,
            ) => {}
        }
    }
    if judged.call.begin.micros <= latest_end {
        return Ok(());
    }
    let text = format!(
        "item {}: {:?} began at {} and worked with permit {}, whose lease had ended at {latest_end} µs",
        item.made.serial, judged.verb, judged.call.begin, judged.permit.0
    );
    Err(violation("deadline", text))
}

/// A lease is not lost before its deadline, not even by a restart.
fn was_lost(facts: &Facts<'_>, item: &ItemFacts<'_>, judged: &Judgement<'_>) -> Result<(), Violation> {
    let Verdict::Refused(Refusal::LeaseLost { .. } | Refusal::NotFound) = &judged.verdict else {
        return Ok(());
    };
    let Some(grant) = item.grants.iter().find(|grant| grant.given.permit == judged.permit) else {
        return Ok(());
    };
    let Some(deadline) = earliest_deadline(item, grant, judged.call) else { return Ok(()) };
    let given_up = item.judged(judged.permit).any(|other| {
        other.verb.ends_lease() && other.verdict.is_possible() && other.call.begin < judged.call.end
    });
    let swept = facts.sweeping_calls(item.queue).any(|call| call.begin < judged.call.end);
    let other_queue = judged.call.op.judged_in().is_some_and(|queue| queue != item.queue);
    if !grant.accepted || given_up || swept || other_queue || judged.call.latest >= deadline {
        return Ok(());
    }
    let text = format!(
        "item {}: {:?} at {} was refused with permit {}, good until {deadline:?}",
        item.made.serial, judged.verb, judged.call.begin, judged.permit.0
    );
    Err(violation("lease lost", text))
}
