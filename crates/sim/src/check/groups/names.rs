//! A name stands for its group from its making until it is deleted or forgotten, and only a group that is not finished
//! takes members.

use windlass_core::refusal::Refusal;

use super::super::facts::{Facts, violation};
use super::{GroupFacts, may_follow};
use crate::group::GroupAsk;
use crate::history::{Call, Op, Outcome, QueueIndex, Violation};

pub(in crate::check) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in facts.items.iter().filter(|item| item.is_member()) {
        if item.is_acknowledged() && item.groups.is_empty() {
            let text = format!(
                "item {} was taken at {} by {:?}, which is finished or not there",
                item.made.serial, item.produce.end, item.made.group
            );
            return Err(violation("group finished", text));
        }
    }
    for call in &facts.history.calls {
        if let Outcome::Refused(refusal) = &call.outcome
            && let Some((queue, name)) = named(&call.op)
        {
            was_refused_rightly(facts, call, queue, name, refusal)?;
        }
        if let (Op::Groups(queue), Outcome::Groups(views)) = (&call.op, &call.outcome) {
            let is_listed =
                |group: &GroupFacts<'_>| views.iter().any(|view| Some(view.created_at) == group.created_at);
            let missing = |group: &&GroupFacts<'_>| {
                group.queue == *queue && !is_listed(group) && is_surely_there(facts, group, call)
            };
            facts.groups.iter().find(missing).map_or(Ok(()), |group| Err(lost(group, call)))?;
        }
    }
    Ok(())
}

/// The group that a call is about.
fn named(op: &Op) -> Option<(QueueIndex, &str)> {
    if let Some(op) = op.group() {
        return Some((op.queue, &op.group));
    }
    let (queue, items) = op.produces()?;
    items.first()?.group.as_deref().map(|name| (queue, name))
}

fn was_refused_rightly(
    facts: &Facts<'_>,
    call: &Call,
    queue: QueueIndex,
    name: &str,
    refusal: &Refusal,
) -> Result<(), Violation> {
    let mut groups = facts.groups.iter().filter(|group| group.is_named(queue, name));
    if *refusal == Refusal::NoSuchGroup {
        let there = groups.find(|group| is_surely_there(facts, group, call));
        return there.map_or(Ok(()), |group| Err(lost(group, call)));
    }
    let may_be_finished = |group: &GroupFacts<'_>| {
        group.starts().chain(group.cancels()).any(|asked| may_follow(asked.call, call))
    };
    let is_finished = *refusal == Refusal::GroupFinished;
    let wrong = (is_finished || *refusal == Refusal::GroupExists)
        && !groups.any(|group| group.may_have_been_there(call) && (!is_finished || may_be_finished(group)));
    if wrong {
        let text = format!("{name} of q{queue} cannot have been so at {}: {refusal:?}", call.begin);
        return Err(violation("group refusal", text));
    }
    Ok(())
}

fn lost(group: &GroupFacts<'_>, call: &Call) -> Violation {
    let text = format!(
        "{} of q{}, made at {}, was not there at {}",
        group.name, group.queue, group.create.end, call.begin
    );
    violation("group lost", text)
}

/// Whether it was there all the while the call was under way.
fn is_surely_there(facts: &Facts<'_>, group: &GroupFacts<'_>, call: &Call) -> bool {
    let made = group.there_by.is_some_and(|there_by| there_by < call.begin);
    let deleted =
        group.asks.iter().any(|asked| matches!(asked.ask, GroupAsk::Delete) && asked.call.begin < call.end);
    let swept = facts.sweeping_calls(group.queue).any(|sweep| matches!(sweep.op, Op::Delete { .. }));
    made && !deleted && !swept && facts.history.keeps_everything
}
