//! An update changes all that it names or nothing, whoever leases or looks afterwards sees it, and what has ended is not changed.

use windlass_core::time::{Span, Timestamp};

use super::ends::acknowledged_ends;
use super::facts::{Facts, Granting, ItemFacts, violation};
use crate::history::{Call, ChangeOp, Outcome, ShownItem, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in facts.items.iter().filter(|item| !item.changes.is_empty()) {
        for change in item.changes.iter().filter_map(|call| Change::of(call)) {
            if let Outcome::Changed(view) = &change.call.outcome {
                change.is_shown_right(item, view)?;
                change.was_of_a_live_item(facts, item)?;
                item.grants.iter().try_for_each(|grant| change.is_leased_with(item, grant))?;
                item.shown().try_for_each(|(call, view)| change.is_seen(item, call, view))?;
            }
            item.grants.iter().try_for_each(|grant| change.is_whole(item, grant))?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Change<'a> {
    call: &'a Call,
    op: &'a ChangeOp,
}

impl<'a> Change<'a> {
    fn of(call: &'a Call) -> Option<Self> {
        Some(Self { call, op: call.op.change()? }).filter(|_| call.outcome.is_possible())
    }

    fn wrong(&self, item: &ItemFacts<'_>, what: &str) -> Result<(), Violation> {
        let (serial, begin) = (item.made.serial, self.call.begin);
        Err(violation("update", format!("item {serial}, changed at {begin}, {what}: {:?}", self.op)))
    }

    fn is_shown_right(&self, item: &ItemFacts<'_>, view: &ShownItem) -> Result<(), Violation> {
        if self.fits_row(view, |_| true) { Ok(()) } else { self.wrong(item, "was shown otherwise by that") }
    }

    fn was_of_a_live_item(&self, facts: &Facts<'_>, item: &ItemFacts<'_>) -> Result<(), Violation> {
        let ended = acknowledged_ends(facts, item).into_iter().find(|(end, _)| end.end < self.call.begin);
        match ended {
            Some((_, how)) => self.wrong(item, &format!("was {how} before")),
            None => Ok(()),
        }
    }

    /// Whether another update of the same field may have come after this one.
    fn is_overtaken(&self, item: &ItemFacts<'_>, by: &Call, names: impl Fn(&ChangeOp) -> bool) -> bool {
        item.changes.iter().filter_map(|call| Change::of(call)).any(|other| {
            let later = other.call.end > self.call.begin || other.call.outcome.is_unknown();
            !std::ptr::eq(other.call, self.call) && later && other.call.begin < by.end && names(other.op)
        })
    }

    /// Whether a look at the item's row fits in those fields that still count.
    fn fits_row(&self, view: &ShownItem, counts: impl Fn(fn(&ChangeOp) -> bool) -> bool) -> bool {
        let ChangeOp { priority, max_attempts, dead_timeout, .. } = *self.op;
        let timeout = view.dead_timeout.unwrap_or_default();
        let priority_fits = priority.is_none_or(|priority| view.priority == priority);
        let attempts_fit =
            max_attempts.is_none_or(|most| view.max_attempts.is_none_or(|shown| shown == most));
        let timeout_fits = dead_timeout.is_none_or(|given| given == timeout);
        (priority_fits || !counts(|op| op.priority.is_some()))
            && (attempts_fit || !counts(|op| op.max_attempts.is_some()))
            && (timeout_fits || !counts(|op| op.dead_timeout.is_some()))
    }

    fn is_seen(&self, item: &ItemFacts<'_>, look: &Call, view: &ShownItem) -> Result<(), Violation> {
        if look.begin < self.call.end {
            return Ok(());
        }
        let counts = |names: fn(&ChangeOp) -> bool| !self.is_overtaken(item, look, names);
        let edited = self.op.edit.map(|edit| item.made.edited_body(edit));
        let body_fits = view.payload.is_none() || edited.is_none() || view.payload == edited;
        if self.fits_row(view, counts) && (body_fits || !counts(|op| op.edit.is_some())) {
            return Ok(());
        }
        self.wrong(item, &format!("was shown otherwise at {}", look.begin))
    }

    fn is_leased_with(&self, item: &ItemFacts<'_>, grant: &Granting<'_>) -> Result<(), Violation> {
        if grant.call.begin < self.call.end {
            return Ok(());
        }
        let counts = |names: fn(&ChangeOp) -> bool| !self.is_overtaken(item, grant.call, names);
        if !self.fits_grant(item, grant, counts) {
            return self.wrong(item, &format!("was leased otherwise at {}", grant.call.begin));
        }
        if self.is_early(item, grant) && counts(|op| op.enqueue_at.is_some()) {
            return self.wrong(item, &format!("was leased too early at {}", grant.call.begin));
        }
        Ok(())
    }

    fn fits_grant(
        &self,
        item: &ItemFacts<'_>,
        grant: &Granting<'_>,
        counts: impl Fn(fn(&ChangeOp) -> bool) -> bool,
    ) -> bool {
        let ChangeOp { priority, dead_timeout, edit, .. } = *self.op;
        let given = grant.given;
        let timeout = given.dead_timeout.unwrap_or(Span::ZERO);
        let edited = edit.map(|edit| item.made.edited_body(edit));
        (priority.is_none_or(|priority| given.priority == priority) || !counts(|op| op.priority.is_some()))
            && (dead_timeout.is_none_or(|given| given == timeout) || !counts(|op| op.dead_timeout.is_some()))
            && (edited.is_none_or(|edited| given.body == edited) || !counts(|op| op.edit.is_some()))
    }

    /// Whether the first lease after the update came before the time that the update set.
    fn is_early(&self, item: &ItemFacts<'_>, grant: &Granting<'_>) -> bool {
        let (Some(due_at), Some(leased_at)) = (self.op.enqueue_at, grant.leased_at()) else { return false };
        let between = |other: &Granting<'_>| {
            other.call.end > self.call.begin && other.given.permit < grant.given.permit
        };
        leased_at < due_at && due_at > Timestamp(0) && !item.grants.iter().any(between)
    }

    /// A lease that has the payload of the update has all of it. Before its deadline no update can have come since.
    fn is_whole(&self, item: &ItemFacts<'_>, grant: &Granting<'_>) -> Result<(), Violation> {
        let Some(edit) = self.op.edit else { return Ok(()) };
        let is_sure = grant.given.deadline > grant.call.latest && grant.accepted;
        let has_payload = grant.given.body == item.made.edited_body(edit);
        let counts = |names: fn(&ChangeOp) -> bool| !self.is_overtaken(item, grant.call, names);
        if !is_sure || !has_payload || self.fits_grant(item, grant, counts) {
            return Ok(());
        }
        self.wrong(item, &format!("has only the payload of that at {}", grant.call.begin))
    }
}
