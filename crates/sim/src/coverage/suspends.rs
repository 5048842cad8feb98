//! What items have met that were suspended.

use windlass_core::item::{LeaseEnd, Phase};
use windlass_core::refusal::Refusal;

use super::Coverage;
use crate::check::{ItemFacts, Judgement};
use crate::history::{Call, Op, Outcome};

impl Coverage {
    pub(super) fn add_suspends(&mut self, item: &ItemFacts<'_>) {
        item.sure_suspends().for_each(|suspend| self.add_suspend(item, suspend));
        for resume in &item.resumes {
            match (&resume.op, &resume.outcome) {
                (Op::Resume { input: Some(_), .. }, Outcome::Resumed) => {
                    self.change("suspended → waiting (input)");
                }
                (Op::Resume { input: None, .. }, Outcome::Resumed) => {
                    self.change("suspended → waiting (no input)");
                }
                (_, Outcome::Refused(Refusal::NotSuspended | Refusal::NotFound)) => {
                    self.change("not suspended, resume refused");
                }
                (_, _) => {}
            }
        }
        self.add_inputs(item);
        for call in &item.follows {
            let Outcome::Followed(followed) = &call.outcome else { continue };
            if followed.states.iter().any(|state| state.phase == Phase::Suspended) {
                self.change("leased → suspended, shown live");
            }
            let answers = |serial: u64| {
                item.resumes
                    .iter()
                    .any(|call| matches!(call.op, Op::Resume { input, .. } if input == Some(serial)))
            };
            if followed.events.iter().any(|(_, serial)| answers(*serial)) {
                self.change("input, shown in a stream");
            }
        }
    }

    fn add_suspend(&mut self, item: &ItemFacts<'_>, suspend: &Judgement<'_>) {
        self.change("leased → suspended");
        let after = |call: &Call| call.begin > suspend.call.end;
        let untouched = |by: &Call| after(by) && item.resumes_between(suspend, by).next().is_none();
        let ends = |call: &&Call| matches!(call.outcome, Outcome::Cancelled(Phase::Cancelled));
        if item.cancels.iter().copied().filter(ends).any(untouched) {
            self.change("suspended → cancelled");
        }
        let is_last = (suspend.permit, LeaseEnd::Suspended);
        let expired = item.shown().find(|(call, view)| {
            let last_lease = view.last_lease;
            view.phase == Phase::Expired && last_lease == Some(is_last) && untouched(call)
        });
        if expired.is_some() {
            self.change("suspended → expired");
        }
        if item.sure_resumes().any(|call| after(call) && call.process > suspend.call.process) {
            self.change("suspended over a restart");
        }
        let used = |judged: &&Judgement<'_>| after(judged.call) && judged.verdict.is_refused();
        if item.judged(suspend.permit).any(|judged| used(&judged)) {
            self.change("suspended, its permit refused");
        }
    }

    fn add_inputs(&mut self, item: &ItemFacts<'_>) {
        let inputs = || item.grants.iter().map(|grant| grant.given.input.as_ref());
        for (before, input) in std::iter::once(None).chain(inputs()).zip(inputs()) {
            match (before, input) {
                (None, None) => {}
                (Some(_), None) => self.change("leased without the input of before"),
                (Some(before), Some(input)) if before == input => self.change("leased with its input again"),
                (_, Some(_)) => self.change("leased with input"),
            }
        }
    }
}
