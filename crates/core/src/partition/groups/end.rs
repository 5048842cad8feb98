//! The end of groups: in the same step in which the last member is gone, whatever took it.

use std::sync::Arc;

use crate::group::{Group, GroupState, Template};
use crate::item::{End, MoveReason, Outcome, Outgoing, State};
use crate::mutant::{self, Mutant};
use crate::partition::create::{Bodies, Draft};
use crate::partition::groups::index::GroupIndex;
use crate::partition::groups::verbs::remove_bodies;
use crate::partition::{Output, Partition};
use crate::row::Row;
use crate::time::Timestamp;

/// What making an item costs besides its body.
pub(in crate::partition) const ITEM_BYTES: u64 = 1024;

/// Takes note that a member ended.
pub(in crate::partition) fn count_end(group: Option<GroupIndex>, end: End, out: &mut Output) {
    if let Some(group) = group {
        out.ended.entry(group).or_default().count(end);
    }
}

impl Partition {
    /// Writes down what became of members, and ends their groups if they have none left.
    pub(in crate::partition) fn count_ended(&mut self, now: Timestamp, out: &mut Output) {
        while let Some((group, _)) = out.ended.first_key_value() {
            self.settle_group(now, *group, out);
        }
    }

    /// Ends a group that was started or cancelled just now, if it waits for nothing else.
    pub(in crate::partition) fn settle_if_due(
        &mut self,
        now: Timestamp,
        group: GroupIndex,
        out: &mut Output,
    ) {
        if self.groups.is_due(group) {
            self.settle_group(now, group, out);
        }
    }

    /// Sees to a group that waits for its end or is not needed any more. Once the end items of groups have come to
    /// `own_bytes_max`, the next groups end with the next sweep: a verb may take the last members of many groups.
    pub(in crate::partition) fn settle_next_group(&mut self, now: Timestamp, out: &mut Output) -> bool {
        match self.groups.first_due() {
            Some(group) if out.made_bytes < self.own_bytes_max => {
                self.settle_group(now, group, out);
                true
            }
            Some(_) | None => false,
        }
    }

    fn settle_group(&mut self, now: Timestamp, group: GroupIndex, out: &mut Output) {
        let ended = out.ended.remove(&group).unwrap_or_default();
        let slot = self.groups.slot(group);
        let Some(row) = &slot.row else { return };
        if slot.is_forgotten() {
            self.erase_group(row.number, out);
            return;
        }
        let mut next = row.clone();
        next.ended += ended;
        if self.groups.is_ending(group) && out.made_bytes < self.own_bytes_max {
            self.end_group(now, group, &mut next, out);
            if mutant::active(Mutant::ForgetEnd) {
                return self.put(Row::Group(next));
            }
        }
        self.record(Row::Group(next), out);
    }

    fn end_group(&mut self, now: Timestamp, index: GroupIndex, group: &mut Group, out: &mut Output) {
        let (end, abort) = (group.end.take(), group.abort.take());
        let (last_word, unused, reason) = match group.state {
            GroupState::Cancelled { at } => {
                group.state = GroupState::Aborted { cancelled_at: at, at: now };
                (abort, end, MoveReason::GroupAbort)
            }
            GroupState::Open | GroupState::Started | GroupState::Done { .. } | GroupState::Aborted { .. } => {
                group.state = GroupState::Done { at: now };
                (end, abort, MoveReason::GroupEnd)
            }
        };
        // Also a group without an end item costs something.
        out.made_bytes += ITEM_BYTES;
        if let Some(template) = &last_word {
            out.made_bytes += template.body_bytes + template.facts_bytes;
            self.make(now, index, template, reason, out);
        }
        if !mutant::active(Mutant::ForgetEnd) {
            last_word.iter().chain(&unused).for_each(|template| remove_bodies(template, out));
        }
    }

    /// Makes the item that a template tells of: here, or as one that is on its way to another queue.
    fn make(
        &mut self,
        now: Timestamp,
        group: GroupIndex,
        template: &Template,
        reason: MoveReason,
        out: &mut Output,
    ) {
        let bodies = Bodies::CopiedFrom(template);
        let mut draft = Draft::new(now, &template.kind, template.due_at(now), bodies);
        draft.priority = template.priority;
        draft.hashes = template.hashes.clone();
        draft.extras.max_attempts = template.max_attempts;
        match &template.queue {
            None => {
                draft.extras.dead_timeout = self.dead_timeout(template.dead_timeout);
                out.totals.produced += 1;
            }
            // An item on its way to another queue never was one of this one. The target says what holds for an item that
            // says nothing.
            Some(to) => {
                draft.state = on_its_way(now, to, template, reason);
                draft.group = Some(group);
                draft.extras.dead_timeout = template.dead_timeout;
                out.outgoing = true;
            }
        }
        self.create(now, draft, out);
    }
}

/// It never was an item here: nobody is shown it.
fn on_its_way(now: Timestamp, to: &Arc<str>, template: &Template, reason: MoveReason) -> State {
    let outgoing = Outgoing {
        to: to.clone(),
        reason,
        due_at: template.due_at(now),
        left_at: None,
        forgotten: true,
        deleted: false,
        address: None,
        assigned: None,
        unknown: Vec::new(),
    };
    State::Final(Box::new(Outcome {
        end: End::Completed,
        changed_at: now,
        finished_at: now,
        kept_bytes: 0,
        has_result: false,
        payload_kept: false,
        outgoing: Some(Box::new(outgoing)),
    }))
}
