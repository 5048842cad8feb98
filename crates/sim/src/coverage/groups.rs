//! What groups have met.

use windlass_core::group::GroupState;
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;

use super::Coverage;
use crate::check::{Facts, GroupFacts, ItemFacts, Maker};
use crate::group::GroupAsk;
use crate::history::{Op, Outcome};

impl Coverage {
    pub(super) fn add_groups(&mut self, facts: &Facts<'_>) {
        facts.groups.iter().for_each(|group| self.add_group(facts, group));
        for item in &facts.items {
            self.add_member(facts, item);
            // Those that were moved are counted with the others that were.
            if item.maker == Maker::Group && item.origin.is_none() {
                self.change(if is_end(item) {
                    "group done → its end item"
                } else {
                    "group aborted → its abort item"
                });
            }
        }
    }

    fn add_group(&mut self, facts: &Facts<'_>, group: &GroupFacts<'_>) {
        let is_started =
            |ask: &GroupAsk| matches!(ask, GroupAsk::Start | GroupAsk::Create { start: true, .. });
        let surely =
            |is: &dyn Fn(&GroupAsk) -> bool| group.asks.iter().any(|asked| asked.is_sure && is(asked.ask));
        let shown = |is: fn(GroupState) -> bool| group.views.iter().any(|(_, view)| is(view.state));
        let cancelled = surely(&|ask| matches!(ask, GroupAsk::Cancel));
        let started = surely(&is_started);
        let outlived = group
            .views
            .iter()
            .any(|(call, view)| !view.state.is_finished() && call.process > group.create.process);
        let again = facts.groups.iter().any(|other| {
            other.queue == group.queue && other.name == group.name && other.create.end < group.create.begin
        });
        for (met, name) in [
            (surely(&|ask| matches!(ask, GroupAsk::Start)), "group open → started"),
            (cancelled && group.starts().next().is_none(), "group open → cancelled"),
            (cancelled && started, "group started → cancelled"),
            (shown(|state| matches!(state, GroupState::Done { .. })), "group → done"),
            (shown(|state| matches!(state, GroupState::Aborted { .. })), "group → aborted"),
            (surely(&|ask| matches!(ask, GroupAsk::SetEnd(_))), "group's end replaced"),
            (surely(&|ask| matches!(ask, GroupAsk::Delete)), "group deleted"),
            (again && group.created_at.is_some(), "group's name used again"),
            (outlived, "group unfinished over a restart"),
        ] {
            if met {
                self.change(name);
            }
        }
    }

    fn add_member(&mut self, facts: &Facts<'_>, item: &ItemFacts<'_>) {
        if item.is_member() && matches!(item.produce.outcome, Outcome::Refused(Refusal::GroupFinished)) {
            self.change("member refused by a finished group");
        }
        let cancels =
            || facts.group_cancels(item).filter(|cancel| matches!(cancel.outcome, Outcome::Group(_)));
        if item.first_phase == Some(Phase::Held) && item.grants.is_empty() && cancels().next().is_some() {
            self.change("held → cancelled with its group");
        }
        let worked_on = |judged: &crate::check::Judgement<'_>| {
            judged.verdict.is_ok() && cancels().any(|cancel| cancel.end < judged.call.begin)
        };
        if item.verdicts.iter().any(worked_on) {
            self.change("leased, cancelled with its group");
        }
    }
}

/// Whether it was given for the group's end, not for its abort.
fn is_end(item: &ItemFacts<'_>) -> bool {
    let Op::Group(op) = &item.produce.op else { return false };
    let end = op.ask.ends().and_then(|ends| ends.end.as_ref());
    end.is_some_and(|end| end.made.serial == item.made.serial)
}
