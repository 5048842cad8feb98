//! What items have met that were changed or rerun.

use windlass_core::item::{MoveReason, Phase};
use windlass_core::refusal::Refusal;

use super::Coverage;
use crate::check::{Facts, ItemFacts};
use crate::history::{Call, ChangeOp, Outcome, ShownItem};

impl Coverage {
    pub(super) fn add_changes(&mut self, item: &ItemFacts<'_>) {
        for call in &item.changes {
            let Some(op) = call.op.change() else { continue };
            if let Outcome::Changed(view) = &call.outcome {
                self.add_change(item, call, op, view);
            } else if matches!(call.outcome, Outcome::Refused(Refusal::WrongPhase { .. })) {
                self.change("not changeable, update refused");
            }
        }
    }

    fn add_change(&mut self, item: &ItemFacts<'_>, call: &Call, op: &ChangeOp, view: &ShownItem) {
        match (view.phase, op.enqueue_at) {
            (Phase::Waiting, Some(_)) => self.change("scheduled → waiting (update)"),
            (Phase::Scheduled, Some(_)) => self.change("waiting → scheduled (update)"),
            (Phase::Waiting | Phase::Held, None) => self.change("waiting or held → updated"),
            (Phase::Scheduled, None) => self.change("scheduled → updated"),
            (Phase::Suspended, _) => self.change("suspended → updated"),
            (Phase::Expired, _) => self.change("live → expired (update)"),
            (Phase::Held, Some(_))
            | (Phase::Leased | Phase::Completed | Phase::Failed | Phase::Cancelled, _) => {}
        }
        if item.grants.iter().any(|grant| grant.call.begin > call.end) {
            self.change("updated → leased as updated");
        }
    }

    pub(super) fn add_chain(&mut self, facts: &Facts<'_>, item: &ItemFacts<'_>) {
        self.add_reruns(facts, item);
        let has_payload = |(_, view): (&Call, &ShownItem)| view.payload.is_some();
        if item.ended().any(has_payload) {
            self.change("final, with its payload");
        }
        let is_log =
            |(_, view): (&Call, &ShownItem)| view.attempt_log.as_ref().is_some_and(|log| !log.is_empty());
        if item.origin.is_some() && item.grants.len() == 1 && item.shown().any(is_log) {
            self.change("attempts logged before a move");
        }
        for call in &item.latests {
            if matches!(call.outcome, Outcome::Latest(latest) if Some(latest) != item.id) {
                self.change("chain followed to another");
            }
        }
        let next = item.shown().find_map(|(_, view)| view.moved_to).and_then(|id| facts.by_id.get(&id));
        let origin = next.and_then(|next| facts.items[*next].origin);
        if origin.is_some_and(|origin| origin.reason == MoveReason::Redrive) {
            self.change("letter redriven, tells where");
        }
    }

    fn add_reruns(&mut self, facts: &Facts<'_>, item: &ItemFacts<'_>) {
        for call in &item.reruns {
            if let Outcome::Rerun(again, _) = &call.outcome {
                self.add_rerun(item);
                if item.id.is_some_and(|id| id.partition != again.partition) {
                    self.change("rerun in another partition");
                }
            }
            let Outcome::Refused(refusal) = &call.outcome else { continue };
            if matches!(refusal, Refusal::MovedOn { .. }) {
                self.change("rerun refused, goes on as another");
            }
            if matches!(refusal, Refusal::NoPayload { .. }) {
                self.change("rerun refused, no payload kept");
            }
            if matches!(refusal, Refusal::DuplicateAddress { .. } | Refusal::HeldElsewhere { .. }) {
                self.change("rerun refused, address taken");
            }
        }
        let before = item.origin.filter(|_| item.is_rerun()).and_then(|origin| origin.id);
        let before = before.and_then(|id| facts.by_id.get(&id)).map(|index| &facts.items[*index]);
        let was_told =
            |before: &ItemFacts<'_>| before.reruns.iter().any(|call| call.outcome.rerun() == item.id);
        if before.is_some_and(|before| !was_told(before)) {
            self.change("rerun seen though nobody was told");
        }
    }

    fn add_rerun(&mut self, item: &ItemFacts<'_>) {
        match item.ended().next().map(|(_, view)| view.phase) {
            Some(Phase::Completed) => self.change("completed → rerun"),
            Some(Phase::Failed) => self.change("failed → rerun"),
            Some(Phase::Cancelled) => self.change("cancelled → rerun"),
            Some(Phase::Expired) => self.change("expired → rerun"),
            Some(Phase::Held | Phase::Scheduled | Phase::Waiting | Phase::Leased | Phase::Suspended)
            | None => {}
        }
        if item.is_rerun() {
            self.change("rerun → final → rerun");
        }
        if item.ended().any(|(_, view)| view.address.is_some()) {
            self.change("rerun with its address");
        }
    }
}
