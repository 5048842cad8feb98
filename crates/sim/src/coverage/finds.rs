//! What walks met, and what became of many items at once.

use windlass_engine::Action;

use super::Coverage;
use crate::check::{Facts, Seen, Walk};
use crate::history::{Moment, Op, Outcome, Verdict};

impl Coverage {
    pub(super) fn add_walks(&mut self, facts: &Facts<'_>) {
        let seen = Seen::of(facts);
        for walk in Walk::all(facts) {
            let Some((begin, end)) = walk.whole() else { continue };
            let op = walk.first();
            if walk.pages.len() > 1 {
                self.change("walk of several pages, to its end");
            }
            let restarted = |moment: &Moment| *moment > begin && *moment < end;
            if facts.history.processes.iter().any(|process| restarted(&process.begin)) {
                self.change("walk over a restart");
            }
            let rebalanced = facts.history.calls.iter().any(|call| {
                let here = matches!(call.op, Op::Rebalance { queue, .. } if queue == op.queue);
                here && call.begin > begin && call.end < end && matches!(call.outcome, Outcome::Queue(_))
            });
            if rebalanced {
                self.change("walk over a rebalance");
            }
            if op.filter.phases.is_some() {
                self.change("walk goes by states");
            }
            if op.filter.address.is_some() {
                self.change("walk goes by an address");
            }
            if facts.items.iter().any(|item| seen.must_be_shown(facts, item, op, begin, end)) {
                self.change("walk showed what had to be shown");
            }
        }
    }

    pub(super) fn add_many(&mut self, facts: &Facts<'_>) {
        for call in &facts.history.calls {
            let (Some(op), Some(page)) = (call.op.many(), call.outcome.many_changed()) else { continue };
            for (_, verdict) in &page.results {
                match verdict {
                    Verdict::Done if !op.dry_run => self.change(named(op.action)),
                    Verdict::Refused(_) => self.change("one of many refused"),
                    Verdict::Done
                    | Verdict::Retried(_)
                    | Verdict::Extended(_)
                    | Verdict::NotApplied
                    | Verdict::Unknown => {}
                }
            }
        }
    }
}

fn named(action: Action) -> &'static str {
    match action {
        Action::Cancel => "many → cancelled",
        Action::Rerun => "many → rerun",
        Action::RunNow => "many → run now",
        Action::Delete => "many → deleted",
        Action::SetPriority(_) => "many → another priority",
    }
}
