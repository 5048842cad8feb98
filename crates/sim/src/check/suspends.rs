//! What is suspended stays so until somebody resumes it: nobody is given it, it is shown so, and only it can be resumed.

use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;

use super::facts::{Facts, ItemFacts, Judgement, Verb, violation};
use crate::history::{Call, Outcome, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        for suspend in item.sure_suspends() {
            nobody_was_given_it(item, suspend)?;
            is_shown_so(item, suspend)?;
            could_be_resumed(facts, item, suspend)?;
        }
        item.sure_resumes().try_for_each(|resume| was_suspended(item, resume))?;
        shown_rightly(item)?;
    }
    Ok(())
}

impl<'a> ItemFacts<'a> {
    /// Suspends that took place, or may have.
    pub fn suspends(&self) -> impl Iterator<Item = &Judgement<'a>> {
        self.verdicts.iter().filter(|judged| judged.suspends() && judged.verdict.is_possible())
    }

    pub fn sure_suspends(&self) -> impl Iterator<Item = &Judgement<'a>> {
        self.suspends().filter(|judged| judged.verdict.is_ok())
    }

    pub fn sure_resumes(&self) -> impl Iterator<Item = &'a Call> {
        self.resumes.iter().copied().filter(|call| is_resumed(call))
    }

    /// Resumes that may have answered a suspend before a call ended.
    pub fn resumes_between(&self, suspend: &Judgement<'_>, by: &Call) -> impl Iterator<Item = &'a Call> {
        self.resumes.iter().copied().filter(move |resume| {
            let before = is_resumed(resume) && resume.end < suspend.call.begin;
            resume.outcome.is_possible() && resume.begin < by.end && !before
        })
    }
}

impl Judgement<'_> {
    pub fn suspends(&self) -> bool {
        matches!(self.verb, Verb::Suspend { .. })
    }
}

fn is_resumed(call: &Call) -> bool {
    matches!(call.outcome, Outcome::Resumed)
}

/// A greater permit is given after the lesser was given up.
fn nobody_was_given_it(item: &ItemFacts<'_>, suspend: &Judgement<'_>) -> Result<(), Violation> {
    let mut later = item.grants.iter().filter(|grant| grant.given.permit > suspend.permit);
    match later.find(|grant| item.resumes_between(suspend, grant.call).next().is_none()) {
        None => Ok(()),
        Some(grant) => Err(wrong(item, suspend, format!("was leased at {}", grant.call.begin))),
    }
}

fn wrong(item: &ItemFacts<'_>, suspend: &Judgement<'_>, what: String) -> Violation {
    let text =
        format!("item {}, suspended at {} and not resumed, {what}", item.made.serial, suspend.call.end);
    violation("suspended", text)
}

fn is_shown_so(item: &ItemFacts<'_>, suspend: &Judgement<'_>) -> Result<(), Violation> {
    let mut later = item.shown().filter(|(call, _)| {
        call.begin > suspend.call.end && item.resumes_between(suspend, call).next().is_none()
    });
    let other = |phase: Phase| !phase.is_final() && phase != Phase::Suspended;
    match later.find(|(_, view)| other(view.phase)) {
        None => Ok(()),
        Some((call, view)) => Err(wrong(item, suspend, format!("was {:?} at {}", view.phase, call.begin))),
    }
}

/// Unless it ended meanwhile.
fn could_be_resumed(
    facts: &Facts<'_>,
    item: &ItemFacts<'_>,
    suspend: &Judgement<'_>,
) -> Result<(), Violation> {
    let refused = |call: &&&Call| {
        let refused = matches!(call.outcome, Outcome::Refused(Refusal::NotSuspended | Refusal::NotFound));
        refused && call.begin > suspend.call.end
    };
    let mut refusals = item.resumes.iter().filter(refused).filter(|call| {
        let resumed = item.resumes_between(suspend, call).next().is_some();
        !resumed && !may_have_ended_by(facts, item, call)
    });
    match refusals.next() {
        None => Ok(()),
        Some(call) => Err(wrong(item, suspend, format!("could not be resumed at {}", call.begin))),
    }
}

fn may_have_ended_by(facts: &Facts<'_>, item: &ItemFacts<'_>, by: &Call) -> bool {
    let mut ends =
        item.cancels.iter().copied().chain(facts.sweeping_calls(item.queue)).chain(facts.group_cancels(item));
    ends.any(|call| call.begin < by.end) || facts.may_expire(item)
}

/// Somebody suspended it, and no other resume is sure to have come in between.
fn was_suspended(item: &ItemFacts<'_>, resume: &Call) -> Result<(), Violation> {
    if item.suspends().any(|suspend| suspend.call.begin < resume.end && !is_over(item, suspend, resume)) {
        return Ok(());
    }
    let text = format!("item {} was resumed at {} and not suspended", item.made.serial, resume.begin);
    Err(violation("resumed", text))
}

/// Whether it was surely resumed before a call.
fn is_over(item: &ItemFacts<'_>, suspend: &Judgement<'_>, by: &Call) -> bool {
    let is_sure = suspend.verdict.is_ok();
    is_sure && item.sure_resumes().any(|call| call.begin > suspend.call.end && call.end < by.begin)
}

/// With the reason of a suspend that nobody has answered yet, and as often tried as before.
fn shown_rightly(item: &ItemFacts<'_>) -> Result<(), Violation> {
    for (call, view) in item.shown().filter(|(_, view)| view.phase == Phase::Suspended) {
        let reason = view.reason;
        let fits = |suspend: &Judgement<'_>| {
            let attempts = attempts_before(item, suspend);
            suspend.verb == Verb::Suspend { reason }
                && suspend.call.begin < call.end
                && !is_over(item, suspend, call)
                && attempts.is_none_or(|attempts| attempts == view.attempts)
        };
        if !item.suspends().any(fits) {
            let text = format!(
                "item {} was suspended at {}, as nobody said: {reason:?}, attempts {}",
                item.made.serial, call.begin, view.attempts
            );
            return Err(violation("suspended", text));
        }
    }
    Ok(())
}

/// The one that was suspended does not count.
fn attempts_before(item: &ItemFacts<'_>, suspend: &Judgement<'_>) -> Option<u32> {
    let grant = item.grants.iter().find(|grant| grant.given.permit == suspend.permit)?;
    Some(grant.given.attempts - 1)
}
