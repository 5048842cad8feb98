//! Each lease carries the answer that its item was last resumed with, until it is suspended again; and no other.

use super::facts::{Facts, Granting, ItemFacts, Judgement, violation};
use crate::history::{Call, Op, Violation, input_body};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        if let Some(grant) = item.grants.iter().find(|grant| !carries_the_last(item, grant)) {
            let text = format!(
                "item {} was leased at {} with {:?}, which is not the answer to what it was last suspended for",
                item.made.serial, grant.call.begin, grant.given.input
            );
            return Err(violation("input", text));
        }
    }
    Ok(())
}

/// Answers are read after the lease is granted. Meanwhile the lease may have ended, another worker have suspended the item,
/// and somebody answered that: so an answer may be newer than its lease.
fn carries_the_last(item: &ItemFacts<'_>, grant: &Granting<'_>) -> bool {
    let before = |suspend: &&Judgement<'_>| suspend.permit < grant.given.permit;
    let last = item.sure_suspends().filter(before).map(|suspend| suspend.permit).max();
    if last.is_none() && grant.given.input.is_none() {
        return true;
    }
    let fits = |resume: &Call| {
        let Op::Resume { input, .. } = resume.op else { return false };
        input.map(input_body) == grant.given.input && !is_followed(item, resume, grant)
    };
    // One that is not sure may have come after the last that is.
    let mut lasts = item.suspends().filter(before).filter(|suspend| Some(suspend.permit) >= last);
    lasts.any(|suspend| item.resumes_between(suspend, grant.call).any(fits))
}

/// Whether there was another between a resume and a lease.
fn is_followed(item: &ItemFacts<'_>, resume: &Call, grant: &Granting<'_>) -> bool {
    let between = |other: &Call| other.begin > resume.end && other.end < grant.call.begin;
    !resume.outcome.is_unknown() && item.sure_resumes().any(between)
}
