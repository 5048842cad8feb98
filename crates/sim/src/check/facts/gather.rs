//! `Facts` are gathered: who made each item, who was given it, and what else was asked about it.

use std::collections::BTreeMap;

use windlass_core::id::{ItemId, Permit};
use windlass_core::item::MoveReason;

use super::super::groups;
use super::leases::{by_beginning, keeps_something_back};
use super::queues::{may_have_redriven, may_have_swept};
use super::{Facts, Granting, ItemFacts, Judgement, Maker, Verb, violation};
use crate::cron::CronOp;
use crate::group::LastWord;
use crate::history::{Call, History, Made, Op, Origin, Outcome, QueueIndex, Violation};

/// The call that sent a body.
struct Sent<'a> {
    made: &'a Made,
    call: &'a Call,
    /// The item that the call made, by its place in [`Facts::items`]. Unset for a body that a group or a cron is to make
    /// an item of.
    item: Option<usize>,
}

impl Sent<'_> {
    /// The maker of an item with this body, which came by a move of such an origin, if by any.
    fn maker(&self, origin: Option<&Origin>) -> Maker {
        if self.item.is_some() {
            return Maker::Call;
        }
        match origin {
            None if self.call.op.cron().is_some() => Maker::Cron,
            None => Maker::Group,
            Some(origin) if origin.reason.is_of_group() => Maker::Group,
            Some(_) => Maker::Call,
        }
    }
}

impl<'a> Facts<'a> {
    pub fn gather(history: &'a History) -> Result<Self, Violation> {
        let leases =
            history.calls.iter().filter(|call| matches!(call.op, Op::Lease { .. })).collect::<Vec<_>>();
        let (haunted, calm) = leases.iter().partition(|call| keeps_something_back(history, call));
        let redrives = history.calls.iter().filter(|call| may_have_redriven(call)).collect();
        let calm = by_beginning(calm);
        let (items, groups, by_id) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (changes, stray_changes) = (BTreeMap::new(), Vec::new());
        let mut facts = Self {
            history,
            items,
            groups,
            by_id,
            leases,
            haunted,
            calm,
            sweeps: Vec::new(),
            redrives,
            changes,
            stray_changes,
        };
        let mut by_serial = BTreeMap::new();
        for call in &history.calls {
            facts.add_produced(call, &mut by_serial)?;
        }
        // An item that is rerun was told of before.
        let mut by_end: Vec<&Call> = history.calls.iter().collect();
        by_end.sort_by_key(|call| call.end);
        for call in by_end {
            facts.add_granted(call, &by_serial)?;
            facts.add_rerun(call);
        }
        let sweeps = history.calls.iter().filter(|call| may_have_swept(call, &facts.by_id));
        facts.sweeps = sweeps.collect();
        facts.add_changes();
        for call in &history.calls {
            facts.add_told(call);
        }
        for item in &mut facts.items {
            item.grants.sort_by_key(|grant| grant.given.permit);
        }
        groups::gather(&mut facts)?;
        Ok(facts)
    }

    fn add_produced(
        &mut self,
        call: &'a Call,
        by_serial: &mut BTreeMap<u64, Sent<'a>>,
    ) -> Result<(), Violation> {
        for (_, LastWord { made, .. }) in call.op.last_words() {
            by_serial.insert(made.serial, Sent { made, call, item: None });
        }
        if let Some(spec) = call.op.cron().and_then(CronOp::spec) {
            by_serial.insert(spec.made.serial, Sent { made: &spec.made, call, item: None });
        }
        let Some((queue, items)) = call.op.produces() else { return Ok(()) };
        for (position, made) in items.iter().enumerate() {
            let answer = call.outcome.produced().get(position).copied();
            by_serial.insert(made.serial, Sent { made, call, item: Some(self.items.len()) });
            let first_phase = answer.map(|(_, phase)| phase);
            self.items.push(ItemFacts { first_phase, ..ItemFacts::new(made.clone(), queue, call) });
            if let Some((id, _)) = answer {
                self.know(id, self.items.len() - 1)?;
            }
        }
        Ok(())
    }

    /// An id means one item, and an item has one id.
    fn know(&mut self, id: ItemId, index: usize) -> Result<(), Violation> {
        let other = *self.by_id.entry(id).or_insert(index);
        let known = *self.items[index].id.get_or_insert(id);
        if other != index {
            let (first, second) = (self.items[other].made.serial, self.items[index].made.serial);
            return Err(violation("unique", format!("id {id:?} means item {first} and item {second}")));
        }
        if known != id {
            let serial = self.items[index].made.serial;
            return Err(violation(
                "unique",
                format!("item {serial} was produced twice: {known:?} and {id:?}"),
            ));
        }
        Ok(())
    }

    fn add_granted(&mut self, call: &'a Call, by_serial: &BTreeMap<u64, Sent<'a>>) -> Result<(), Violation> {
        let (Op::Lease { queue, timeout, .. }, Outcome::Granted { items, accepted }) =
            (&call.op, &call.outcome)
        else {
            return Ok(());
        };
        for given in items {
            let sent = Made::serial_of(&given.body).and_then(|serial| by_serial.get(&serial));
            let Some(sent) = sent else {
                return Err(violation("body", format!("{:?} was leased with a body nobody sent", given.id)));
            };
            let index = match (given.origin.as_deref(), sent.item) {
                (None, Some(index)) => index,
                (origin, _) => self.arrived(given.id, *queue, origin, sent)?,
            };
            self.know(given.id, index)?;
            self.items[index].grants.push(Granting { call, given, accepted: *accepted, timeout: *timeout });
        }
        Ok(())
    }

    /// The item in the queue that it was moved to, or that a group or a cron made it in, found by its new id.
    fn arrived(
        &mut self,
        id: ItemId,
        queue: QueueIndex,
        origin: Option<&'a Origin>,
        sent: &Sent<'a>,
    ) -> Result<usize, Violation> {
        let serial = sent.made.serial;
        if let Some(&index) = self.by_id.get(&id) {
            let known = &self.items[index];
            let is_seen_first = known.maker == Maker::Rerun;
            if known.made.serial != serial || !is_seen_first && known.origin != origin {
                let text = format!("{id:?} is item {serial} from {origin:?}, and was item {known:?}");
                return Err(violation("unique", text));
            }
            if is_seen_first && origin.is_some() {
                (self.items[index].origin, self.items[index].maker) = (origin, Maker::Call);
            }
            return Ok(index);
        }
        let maker = sent.maker(origin);
        let is_rerun = origin.is_some_and(|origin| origin.reason == MoveReason::Rerun);
        let before = origin.and_then(|origin| origin.id).and_then(|id| self.by_id.get(&id));
        let made = match before {
            Some(before) if is_rerun => made_again(&self.items[*before].made),
            Some(_) | None if maker == Maker::Call => without_frills(sent.made),
            Some(_) | None => sent.made.clone(),
        };
        let is_guessed = is_rerun && before.is_none();
        let item = ItemFacts::new(made, queue, sent.call);
        self.items.push(ItemFacts { origin, maker, is_guessed, ..item });
        Ok(self.items.len() - 1)
    }

    /// The item that a rerun made, if nobody saw it before.
    fn add_rerun(&mut self, call: &'a Call) {
        let (Some(before), Some(id)) = (call.op.rerun_of(), call.outcome.rerun()) else { return };
        let Some(before) = self.by_id.get(&before).map(|index| &self.items[*index]) else { return };
        let made = made_again(&before.made);
        let item = ItemFacts::new(made, before.queue, before.produce);
        let is_guessed = before.is_guessed;
        if !self.by_id.contains_key(&id) {
            self.by_id.insert(id, self.items.len());
            self.items.push(ItemFacts { id: Some(id), maker: Maker::Rerun, is_guessed, ..item });
        }
    }

    fn item_mut(&mut self, id: ItemId) -> Option<&mut ItemFacts<'a>> {
        self.by_id.get(&id).map(|index| &mut self.items[*index])
    }

    fn add_told(&mut self, call: &'a Call) {
        match &call.op {
            Op::Complete { items, .. } => {
                for (position, (id, permit, result)) in items.iter().enumerate() {
                    let verb = Verb::Complete { with_result: result.is_some() };
                    self.add_judged(call, position, *id, *permit, verb);
                }
            }
            Op::Retry { items, .. } => {
                for (position, item) in items.iter().enumerate() {
                    self.add_judged(call, position, item.id, item.permit, Verb::Retry(*item));
                }
            }
            Op::Extend { items, timeout, .. } => {
                for (position, (id, permit)) in items.iter().enumerate() {
                    self.add_judged(call, position, *id, *permit, Verb::Extend(*timeout));
                }
            }
            Op::Release { items, .. } => {
                for (position, (id, permit)) in items.iter().enumerate() {
                    self.add_judged(call, position, *id, *permit, Verb::Release);
                }
            }
            Op::Revoke { items, .. } => {
                for (position, (id, permit)) in items.iter().enumerate() {
                    self.add_judged(call, position, *id, *permit, Verb::Revoke);
                }
            }
            Op::Suspend { items, .. } => {
                for (position, item) in items.iter().enumerate() {
                    let verb = Verb::Suspend { reason: item.reason };
                    self.add_judged(call, position, item.id, item.permit, verb);
                }
            }
            Op::Emit { id, permit, .. } => self.add_judged(call, 0, *id, *permit, Verb::Emit),
            Op::Resume { id, .. } => {
                if let Some(item) = self.item_mut(*id) {
                    item.resumes.push(call);
                }
            }
            Op::Follow { id, .. } => {
                if let Some(item) = self.item_mut(*id) {
                    item.follows.push(call);
                }
            }
            Op::Close { id, .. } => {
                if let Some(item) = self.item_mut(*id) {
                    item.closes.push(call);
                }
            }
            Op::Cancel(id) => {
                if let Some(item) = self.item_mut(*id) {
                    item.cancels.push(call);
                }
            }
            Op::Change(op) => {
                if let Some(item) = self.item_mut(op.id) {
                    item.changes.push(call);
                }
            }
            Op::Rerun { id, .. } => {
                if let Some(item) = self.item_mut(*id) {
                    item.reruns.push(call);
                }
            }
            Op::Latest(id) => {
                if let Some(item) = self.item_mut(*id) {
                    item.latests.push(call);
                }
            }
            Op::Get(id) | Op::Wait { id, .. } | Op::Subscribe(id) => {
                if let Some(item) = self.item_mut(*id) {
                    item.gets.push(call);
                }
            }
            Op::Produce { .. }
            | Op::ProduceOnce { .. }
            | Op::Lease { .. }
            | Op::Find(_)
            | Op::ChangeMany(_)
            | Op::Clear { .. }
            | Op::Redrive { .. }
            | Op::Stats(_)
            | Op::Create { .. }
            | Op::Update { .. }
            | Op::Rebalance { .. }
            | Op::Delete { .. }
            | Op::Stop { .. }
            | Op::Go { .. }
            | Op::Group(_)
            | Op::Groups(_)
            | Op::Cron(_)
            | Op::Crons => {}
        }
    }

    fn add_judged(&mut self, call: &'a Call, position: usize, id: ItemId, permit: Permit, verb: Verb) {
        let verdict = call.outcome.verdict(position);
        if let Some(item) = self.item_mut(id) {
            item.verdicts.push(Judgement { call, permit, verb, verdict });
        }
    }
}

/// An item that is rerun stands for itself, and is due at once.
fn made_again(made: &Made) -> Made {
    Made { enqueue_at: None, group: None, ..made.clone() }
}

/// An item that was moved has none of these in its new queue.
fn without_frills(made: &Made) -> Made {
    Made {
        enqueue_at: None,
        max_attempts: None,
        dead_timeout: None,
        address: None,
        group: None,
        ..made.clone()
    }
}
