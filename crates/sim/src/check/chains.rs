//! Every link of a chain leads to the next: an item that says where it went on says so for good, and the other says that it came
//! from there. Whoever follows a chain is told an item of it.

use std::collections::BTreeMap;

use windlass_core::id::ItemId;

use super::facts::{Facts, ItemFacts, violation};
use crate::history::{Call, ManyOp, Op, Outcome, ShownItem, Violation};

/// What looks found under each id, items included of which nobody was told otherwise.
type Looks<'a> = BTreeMap<ItemId, Vec<&'a Call>>;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let mut looks = Looks::new();
    for call in &facts.history.calls {
        if let Op::Get(id) | Op::Wait { id, .. } | Op::Subscribe(id) = call.op {
            looks.entry(id).or_default().push(call);
        }
    }
    for item in &facts.items {
        let told = item.shown().filter_map(|(_, view)| Some((view, view.moved_to?)));
        let mut next = None;
        for (view, moved_to) in told {
            if *next.get_or_insert(moved_to) != moved_to {
                return Err(wrong(item, moved_to, "and to another one before"));
            }
            if !view.phase.is_final() || view.payload.is_some() {
                return Err(wrong(item, moved_to, "and is not over"));
            }
        }
        if let Some(next) = next {
            leads_back(facts, item, next, &looks)?;
        }
        item.latests.iter().try_for_each(|call| leads_on(facts, item, call))?;
    }
    Ok(())
}

fn wrong(item: &ItemFacts<'_>, next: ItemId, what: &str) -> Violation {
    violation("chain", format!("item {} ({:?}) leads to {next:?}, {what}", item.made.serial, item.id))
}

fn leads_back(
    facts: &Facts<'_>,
    item: &ItemFacts<'_>,
    next: ItemId,
    looks: &Looks<'_>,
) -> Result<(), Violation> {
    let looks = looks.get(&next).map_or(&[][..], Vec::as_slice);
    let comes_from = |view: &ShownItem| view.origin.as_ref().and_then(|origin| origin.id) == item.id;
    let mut views = looks.iter().filter_map(|call| call.outcome.shown());
    if views.clone().any(|view| !comes_from(view)) {
        return Err(wrong(item, next, "which came from elsewhere"));
    }
    if let Some(other) = facts.by_id.get(&next).map(|index| &facts.items[*index]) {
        let is_from_here = other.origin.is_none_or(|origin| origin.id == item.id);
        if other.made.serial != item.made.serial || !is_from_here {
            return Err(wrong(item, next, "which is another"));
        }
        return Ok(());
    }
    let was_missed = looks.iter().any(|call| matches!(call.outcome, Outcome::Refused(_)));
    if views.next().is_none() && was_missed && !may_be_gone(facts, next) {
        return Err(wrong(item, next, "which nobody ever saw"));
    }
    Ok(())
}

/// Whether an item that nobody was told of can have ended without leaving anything.
fn may_be_gone(facts: &Facts<'_>, id: ItemId) -> bool {
    let history = facts.history;
    let ends_many = |call: &Call| {
        let changed = call.op.many().is_some_and(ManyOp::ends_items);
        changed || matches!(call.op, Op::Clear { .. } | Op::Delete { .. })
    };
    let cancels = |call: &Call| matches!(&call.op, Op::Cancel(of) if *of == id);
    let completes = |call: &Call| matches!(&call.op, Op::Complete { items, .. } if items.iter().any(|(of, _, _)| *of == id));
    let may_end =
        |call: &Call| (ends_many(call) && call.outcome.is_possible()) || cancels(call) || completes(call);
    !history.keeps_everything || history.has_rot() || history.calls.iter().any(may_end)
}

/// The answer is an item of the chain, and not the one asked for if that had gone on by then to one that is still there.
fn leads_on(facts: &Facts<'_>, item: &ItemFacts<'_>, call: &Call) -> Result<(), Violation> {
    let Outcome::Latest(latest) = call.outcome else { return Ok(()) };
    let known = facts.by_id.get(&latest).map(|index| &facts.items[*index]);
    if known.is_some_and(|known| known.made.serial != item.made.serial) {
        return Err(wrong(item, latest, "as somebody who followed it was told"));
    }
    let is_letter = |next: &ItemFacts<'_>| next.origin.is_none_or(|origin| origin.reason.is_death());
    let stayed = |next: &ItemFacts<'_>| next.shown().any(|(look, _)| look.begin > call.end);
    let had_gone_on = item.ended().filter(|(look, _)| look.end < call.begin).any(|(_, view)| {
        let next = view.moved_to.and_then(|id| facts.by_id.get(&id)).map(|index| &facts.items[*index]);
        next.is_some_and(|next| !is_letter(next) && stayed(next))
    });
    if Some(latest) == item.id && had_gone_on {
        return Err(wrong(item, latest, "although it had gone on"));
    }
    Ok(())
}
