//! The history, told item by item.

use std::collections::BTreeMap;

use windlass_core::id::{ItemId, Permit};
use windlass_core::item::{Origin, Phase};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_engine::{Granted, ItemView};

use super::groups::{self, GroupFacts};
use crate::cron::{CronAsk, CronOp};
use crate::group::LastWord;
use crate::history::{Call, History, Made, Moment, Op, Outcome, QueueIndex, RetryOp, Verdict, Violation};
use crate::plan::queue_name;

#[derive(Debug)]
pub struct Facts<'a> {
    pub history: &'a History,
    pub items: Vec<ItemFacts<'a>>,
    pub groups: Vec<GroupFacts<'a>>,
    /// What was told of ids that no item is known by: always nothing good.
    pub by_id: BTreeMap<ItemId, usize>,
    /// All lease calls.
    pub leases: Vec<&'a Call>,
    /// Those that may have leased anything without anybody being told, whatever became of it.
    haunted: Vec<&'a Call>,
    /// The others, by their beginning, each with the latest end of those up to it.
    calm: Vec<(&'a Call, Moment)>,
    /// Clears and deletes that may have done something.
    sweeps: Vec<&'a Call>,
    /// Redrives that may have done something.
    redrives: Vec<&'a Call>,
}

/// An item in one queue. What was moved to another is another item there, with the same serial.
#[derive(Debug)]
pub struct ItemFacts<'a> {
    /// What was moved is as if made without the frills that stay behind.
    pub made: Made,
    pub queue: QueueIndex,
    pub produce: &'a Call,
    /// Set if it was moved here.
    pub origin: Option<&'a Origin>,
    pub maker: Maker,
    /// For a member: which groups it may be one of.
    pub groups: Vec<usize>,
    /// Unset as long as nobody was told.
    pub id: Option<ItemId>,
    /// As the answer to its production said.
    pub first_phase: Option<Phase>,
    /// In the order of permits.
    pub grants: Vec<Granting<'a>>,
    pub verdicts: Vec<Judgement<'a>>,
    pub cancels: Vec<&'a Call>,
    pub resumes: Vec<&'a Call>,
    /// Waits and subscribes too: they show the item once.
    pub gets: Vec<&'a Call>,
    pub follows: Vec<&'a Call>,
    pub closes: Vec<&'a Call>,
}

/// What made an item in the queue where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// `produce` itself, or a move.
    Call,
    /// A group, as its end or abort item: `produce` gave it to the group, perhaps in another queue.
    Group,
    /// A cron, which makes any number of items: `produce` made or changed the cron.
    Cron,
}

#[derive(Clone, Copy, Debug)]
pub struct Granting<'a> {
    pub call: &'a Call,
    pub given: &'a Granted,
    pub accepted: bool,
    /// If the call named it.
    pub timeout: Option<Span>,
}

#[derive(Clone, Debug)]
pub struct Judgement<'a> {
    pub call: &'a Call,
    pub permit: Permit,
    pub verb: Verb,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Complete { with_result: bool },
    Retry(RetryOp),
    Extend(Option<Span>),
    Emit,
    Release,
    Revoke,
    Suspend { reason: Option<u64> },
}

impl Verb {
    /// Whether it gives the permit up.
    pub fn ends_lease(self) -> bool {
        match self {
            Self::Complete { .. } | Self::Retry(_) | Self::Release | Self::Revoke | Self::Suspend { .. } => {
                true
            }
            Self::Extend(_) | Self::Emit => false,
        }
    }

    /// Whether an item that lives on stands where it stood, once it waits.
    fn keeps_place(self) -> bool {
        match self {
            Self::Release | Self::Revoke | Self::Suspend { .. } => true,
            Self::Complete { .. } | Self::Retry(_) | Self::Extend(_) | Self::Emit => false,
        }
    }

    /// Whether the attempt does not count.
    fn is_free(self) -> bool {
        match self {
            Self::Release | Self::Suspend { .. } => true,
            Self::Complete { .. } | Self::Retry(_) | Self::Extend(_) | Self::Emit | Self::Revoke => false,
        }
    }
}

/// What was to be made of a body.
struct Sent<'a> {
    made: &'a Made,
    call: &'a Call,
    /// Unset for what is left to a group or a cron to make.
    item: Option<usize>,
}

impl Sent<'_> {
    /// Of an item that came by such a move, if by any.
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

impl Granting<'_> {
    /// What the partition's clock said.
    pub fn leased_at(&self) -> Option<Timestamp> {
        self.timeout.map(|timeout| Timestamp(self.given.deadline.0 - timeout.0))
    }
}

pub(super) fn violation(rule: &'static str, text: String) -> Violation {
    Violation { rule, text }
}

impl<'a> Facts<'a> {
    pub fn gather(history: &'a History) -> Result<Self, Violation> {
        let leases =
            history.calls.iter().filter(|call| matches!(call.op, Op::Lease { .. })).collect::<Vec<_>>();
        let (haunted, calm) = leases.iter().partition(|call| keeps_something_back(history, call));
        let sweeps = history.calls.iter().filter(|call| may_have_swept(call)).collect();
        let redrives = history.calls.iter().filter(|call| may_have_redriven(call)).collect();
        let calm = by_beginning(calm);
        let (items, groups, by_id) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut facts = Self { history, items, groups, by_id, leases, haunted, calm, sweeps, redrives };
        let mut by_serial = BTreeMap::new();
        for call in &history.calls {
            facts.add_produced(call, &mut by_serial)?;
        }
        for call in &history.calls {
            facts.add_granted(call, &by_serial)?;
        }
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
            if known.made.serial != serial || known.origin != origin {
                let text = format!("{id:?} is item {serial} from {origin:?}, and was item {known:?}");
                return Err(violation("unique", text));
            }
            return Ok(index);
        }
        let maker = sent.maker(origin);
        let made = if maker == Maker::Call { without_frills(sent.made) } else { sent.made.clone() };
        let item = ItemFacts::new(made, queue, sent.call);
        self.items.push(ItemFacts { origin, maker, ..item });
        Ok(self.items.len() - 1)
    }

    pub(super) fn groups_where(&self, holds: impl Fn(&GroupFacts<'a>) -> bool) -> Vec<usize> {
        (0..self.groups.len()).filter(|index| holds(&self.groups[*index])).collect()
    }

    /// Those that the item may be a member of.
    pub fn groups_of(&self, item: &ItemFacts<'_>) -> impl Iterator<Item = &GroupFacts<'a>> {
        item.groups.iter().map(|group| &self.groups[*group])
    }

    /// Calls that may have taken the item away together with its group's other members.
    pub fn group_cancels(&self, item: &ItemFacts<'_>) -> impl Iterator<Item = &'a Call> {
        self.groups_of(item).flat_map(|group| group.cancels().map(|asked| asked.call))
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
            Op::Get(id) | Op::Wait { id, .. } | Op::Subscribe(id) => {
                if let Some(item) = self.item_mut(*id) {
                    item.gets.push(call);
                }
            }
            Op::Produce { .. }
            | Op::ProduceOnce { .. }
            | Op::Lease { .. }
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

    /// Every clear and delete of the queue that may have done something, with what it was.
    pub fn sweeping_calls(&self, queue: QueueIndex) -> impl Iterator<Item = &'a Call> {
        self.sweeps.iter().copied().filter(move |call| call.op.sweeps(queue))
    }

    /// Every redrive of the queue that may have done something.
    pub fn redrives(&self, queue: QueueIndex) -> impl Iterator<Item = &'a Call> {
        let of = move |call: &&Call| matches!(call.op, Op::Redrive { queue: there, .. } if there == queue);
        self.redrives.iter().copied().filter(of)
    }

    /// How many queues there are, whether or not at the same time.
    pub fn queues(&self) -> usize {
        let made = |call: &Call| if let Op::Create { queue, .. } = call.op { Some(queue + 1) } else { None };
        self.history.calls.iter().filter_map(made).max().unwrap_or(0)
    }

    pub fn queue_named(&self, name: &str) -> Option<QueueIndex> {
        (0..self.queues()).find(|queue| *queue_name(*queue).name == *name)
    }

    /// Where everything goes that ends badly in a queue, if it is the same at all times.
    pub fn only_dead_queue(&self, queue: QueueIndex) -> Option<QueueIndex> {
        let mut dead_queues = self.settings(queue).map(|settings| settings.dead_queue.as_deref());
        let first = dead_queues.next()??;
        dead_queues.all(|dead_queue| dead_queue == Some(first)).then(|| self.queue_named(first)).flatten()
    }

    /// Whether anything may have been moved to the queue.
    pub fn is_target(&self, queue: QueueIndex) -> bool {
        let name = queue_name(queue).name;
        let named = |call: &Call| {
            let (Op::Create { settings, .. } | Op::Update { settings, .. }) = &call.op else { return false };
            settings.dead_queue.as_ref() == Some(&name)
        };
        let from_elsewhere = |call: &Call| {
            let here = call.op.group().is_some_and(|op| op.queue == queue);
            !here && call.op.last_words().any(|(_, word)| word.queue == queue)
        };
        let calls = &self.history.calls;
        calls.iter().any(|call| matches!(call.op, Op::Redrive { .. }) || named(call) || from_elsewhere(call))
    }

    /// Whether the last process had the queue: whoever goes to one that is not there is still on its way.
    pub fn is_there_at_the_end(&self, queue: QueueIndex) -> bool {
        let last = self.history.processes.len().saturating_sub(1);
        let counted = |call: &&Call| matches!((&call.op, &call.outcome), (Op::Stats(there), Outcome::Counted(_)) if *there == queue);
        self.history.calls.iter().filter(|call| call.process == last).any(|call| counted(&call))
    }

    /// Whether a cron may ever have made items in the queue.
    pub fn may_have_crons(&self, queue: QueueIndex) -> bool {
        let makes = |op: &CronOp| matches!(op.ask, CronAsk::Create { queue: there, .. } if there == queue);
        self.history.calls.iter().any(|call| call.op.cron().is_some_and(makes))
    }

    pub fn is_deleted(&self, queue: QueueIndex) -> bool {
        self.sweeping_calls(queue).any(|sweep| matches!(sweep.op, Op::Delete { .. }))
    }

    /// Whether the queue may have been deleted since, with whatever was on its way out of it.
    pub fn is_deleted_by_force_since(&self, queue: QueueIndex, moment: Moment) -> bool {
        self.sweeping_calls(queue)
            .filter(|sweep| matches!(sweep.op, Op::Delete { force: true, .. }))
            .any(|sweep| sweep.end > moment || sweep.outcome.is_unknown())
    }

    /// Whether the item's time may run out.
    pub fn may_expire(&self, item: &ItemFacts<'_>) -> bool {
        match item.made.dead_timeout {
            Some(own) => own != Span::ZERO,
            None => self.settings(item.queue).any(|settings| settings.dead_timeout != Span::ZERO),
        }
    }

    pub fn settings(&self, queue: QueueIndex) -> impl Iterator<Item = &'a Settings> {
        self.history.calls.iter().filter_map(move |call| call.op.settings_of(queue))
    }

    /// The limits that can have been in force for the item. 0 is none.
    pub fn attempt_limits(&self, item: &ItemFacts<'_>) -> Vec<u32> {
        match item.made.max_attempts {
            Some(own) => vec![own],
            None => self.settings(item.queue).map(|settings| settings.max_attempts).collect(),
        }
    }

    /// Lease calls that may have leased the item without anybody being told: their outcome is unknown, or something
    /// kept part of the answer back.
    pub fn ghosts<'f>(&'f self, item: &'f ItemFacts<'a>) -> impl Iterator<Item = &'a Call> + use<'f, 'a> {
        let haunted = self.haunted.iter().copied();
        // Bodies are read after the lease: one that ended meanwhile, its lease over, is left out of the answer. So is one
        // whose answer was dropped meanwhile, because another worker suspended it again.
        let calm = self.calm_during(self.possible_ends(item)).map(|(call, _)| *call);
        let calm = calm.filter(|call| self.may_have_ended_before(item, call));
        haunted.chain(calm).filter(move |call| {
            let Op::Lease { queue, filter, .. } = &call.op else { return false };
            let wants = filter.max_priority >= item.made.priority
                && filter.kinds.as_ref().is_none_or(|kinds| kinds.contains(&item.made.kind));
            let after = call.outcome.is_unknown() || call.end > item.produce.begin;
            *queue == item.queue && wants && after
        })
    }

    /// How many leases of it there may have been that nobody was told of.
    pub fn unseen_leases(&self, item: &ItemFacts<'a>) -> u32 {
        let (haunted, calm): (Vec<&Call>, Vec<&Call>) =
            self.ghosts(item).partition(|call| keeps_something_back(self.history, call));
        // What ends before its lease is answered ends once; but it may be suspended any number of times.
        let ends = 1 + item.suspends().count();
        haunted.len() as u32 + calm.len().min(ends) as u32
    }

    /// Those of the calm leases that overlap with a stretch of orders, and some more.
    fn calm_during(&self, (from, to): (u64, u64)) -> impl Iterator<Item = &(&'a Call, Moment)> {
        let begun = self.calm.partition_point(|(call, _)| call.begin.order < to);
        let over = self.calm.partition_point(|(_, latest_end)| latest_end.order <= from);
        self.calm.get(over..begun).unwrap_or_default().iter()
    }

    /// From the beginning of the first call that may have ended the item to the end of the last.
    fn possible_ends(&self, item: &ItemFacts<'a>) -> (u64, u64) {
        let always = (0, u64::MAX);
        let failed = self.may_have_failed(item);
        if failed && item.grants.is_empty() || self.sweeping_calls(item.queue).next().is_some() {
            return always;
        }
        let judged = item.verdicts.iter().filter(|judged| judged.verb.ends_lease()).map(|judged| judged.call);
        let granted = item.grants.iter().filter(|_| failed).map(|grant| grant.call);
        let calls = judged.chain(item.cancels.iter().copied()).chain(granted).chain(self.group_cancels(item));
        calls.fold((u64::MAX, 0), |(from, to), call| {
            let end = if call.outcome.is_unknown() { u64::MAX } else { call.end.order };
            (from.min(call.begin.order), to.max(end))
        })
    }

    fn may_have_ended_before(&self, item: &ItemFacts<'a>, call: &Call) -> bool {
        let judged = item.verdicts.iter().any(|judged| {
            judged.verb.ends_lease() && judged.verdict.is_possible() && overlaps(judged.call, call)
        });
        let cancelled = item.cancels.iter().any(|cancel| overlaps(cancel, call));
        let swept = self.sweeping_calls(item.queue).any(|sweep| overlaps(sweep, call));
        let failed = self.may_have_failed(item)
            && (item.grants.is_empty() || item.grants.iter().any(|grant| overlaps(grant.call, call)));
        let with_group = self.group_cancels(item).any(|cancel| overlaps(cancel, call));
        judged || cancelled || swept || failed || with_group
    }

    /// Whether its last lease may have ended by itself.
    pub fn may_have_failed(&self, item: &ItemFacts<'a>) -> bool {
        let died = |phase| matches!(phase, Phase::Failed | Phase::Expired);
        let shown_failed = item.shown().any(|(_, view)| died(view.item.state.phase()));
        shown_failed || !self.history.keeps_everything || item.id.is_none()
    }

    /// Whether the item was waiting in its own place, seen by all, from one moment to the other: `from` to `to`,
    /// both orders of the history. `but` is the lease that asks.
    pub fn surely_waiting(&self, item: &ItemFacts<'a>, from: u64, to: u64, but: &Call) -> bool {
        if !self.is_surely_open(item, from) || item.produce.end.order > from {
            return false;
        }
        let given_back = |grant: &Granting<'_>| {
            let released = |judged: &&Judgement<'_>| {
                judged.verb.keeps_place() && judged.verdict.is_ok() && judged.permit == grant.given.permit
            };
            let waits_again = |judged: &Judgement<'_>| {
                let resumed = |call: &&Call| call.begin > judged.call.end && call.end.order <= from;
                !judged.suspends() || item.sure_resumes().any(|call| resumed(&call))
            };
            let mut given_back = item.verdicts.iter().filter(released);
            given_back.any(|judged| judged.call.end.order <= from && waits_again(judged))
        };
        let free = item
            .grants
            .iter()
            .all(|grant| std::ptr::eq(grant.call, but) || grant.call.begin.order > to || given_back(grant));
        let touched = item.cancels.iter().any(|call| call.begin.order <= to)
            || item.verdicts.iter().any(|judged| {
                judged.verb.ends_lease()
                    && !judged.verb.keeps_place()
                    && judged.verdict.is_possible()
                    && judged.call.begin.order <= to
            })
            || item.verdicts.iter().any(|judged| {
                judged.verb.keeps_place()
                    && judged.verdict == Verdict::Unknown
                    && judged.call.begin.order <= to
            });
        let swept = self
            .sweeping_calls(item.queue)
            .chain(self.group_cancels(item))
            .any(|call| call.begin.order <= to);
        let alive_later = item.grants.iter().any(|grant| grant.call.begin.order > to)
            || item.shown().any(|(call, view)| call.begin.order > to && !view.item.state.phase().is_final());
        free && alive_later && !touched && !swept && !self.ghosts(item).any(|ghost| ghost.begin.order <= to)
    }

    /// Whether it waited from the first, or was held and its group started by then.
    fn is_surely_open(&self, item: &ItemFacts<'a>, by: u64) -> bool {
        let started = || {
            let mut groups = self.groups_of(item);
            let started = |group: &GroupFacts<'_>| {
                group.starts().any(|start| start.is_sure && start.call.end.order <= by)
            };
            groups.next().is_some_and(started) && groups.next().is_none()
        };
        match item.first_phase {
            Some(Phase::Waiting) => true,
            Some(Phase::Held) => started(),
            Some(_) | None => false,
        }
    }
}

/// Whether the lease may have been granted something that its answer does not tell of.
fn keeps_something_back(history: &History, call: &Call) -> bool {
    // A server that closes sends waiting leases home, also those it was just granting to.
    let closing = history.processes[call.process].closing.is_some_and(|closing| closing < call.end);
    let troubled = history.is_troubled(call.process, call.end);
    call.outcome.is_unknown() || closing || troubled || gave_up_on_more(call)
}

fn may_have_swept(call: &Call) -> bool {
    // Over several partitions a failed call may have been carried out in some of them.
    matches!(call.op, Op::Clear { .. } | Op::Delete { .. }) && !matches!(call.outcome, Outcome::Refused(_))
}

fn may_have_redriven(call: &Call) -> bool {
    matches!(call.op, Op::Redrive { .. })
        && !matches!(call.outcome, Outcome::Refused(_) | Outcome::Redriven(0))
}

fn by_beginning<'a>(mut calls: Vec<&'a Call>) -> Vec<(&'a Call, Moment)> {
    calls.sort_by_key(|call| call.begin);
    let mut latest_end = Moment::default();
    let with_end = |call: &'a Call| {
        latest_end = latest_end.max(call.end);
        (call, latest_end)
    };
    calls.into_iter().map(with_end).collect()
}

/// A lease that waited, has something, and runs out of time stops asking other partitions for more. What one of them
/// was just granting is given back, or has expired by then.
fn gave_up_on_more(call: &Call) -> bool {
    let (Op::Lease { wait, .. }, Outcome::Granted { items, .. }) = (&call.op, &call.outcome) else {
        return false;
    };
    wait.0 > 0 && !items.is_empty() && call.end.micros >= call.begin.micros + wait.0
}

/// The two were under way at the same time for a while, or the first has no known end.
fn overlaps(first: &Call, second: &Call) -> bool {
    first.begin < second.end && (second.begin < first.end || first.outcome.is_unknown())
}

/// What was moved is as if made without them.
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

impl<'a> ItemFacts<'a> {
    pub(super) fn new(made: Made, queue: QueueIndex, produce: &'a Call) -> Self {
        Self {
            made,
            queue,
            produce,
            origin: None,
            maker: Maker::Call,
            groups: Vec::new(),
            id: None,
            first_phase: None,
            grants: Vec::new(),
            verdicts: Vec::new(),
            cancels: Vec::new(),
            resumes: Vec::new(),
            gets: Vec::new(),
            follows: Vec::new(),
            closes: Vec::new(),
        }
    }

    /// Whether `produce` itself made it, here.
    pub fn is_made_by_call(&self) -> bool {
        self.origin.is_none() && self.maker == Maker::Call
    }

    /// Whether it was there for sure when `produce` was answered.
    pub fn is_acknowledged(&self) -> bool {
        self.is_made_by_call()
            && matches!(self.produce.outcome, Outcome::Produced(_) | Outcome::GroupMade(..))
    }

    pub fn is_member(&self) -> bool {
        self.made.group.is_some()
    }

    /// What a get, a wait or a subscribe showed.
    pub fn shown(&self) -> impl Iterator<Item = (&'a Call, &'a ItemView)> {
        self.gets.iter().filter_map(|call| Some((*call, call.outcome.shown()?)))
    }

    pub fn judged(&self, permit: Permit) -> impl Iterator<Item = &Judgement<'a>> {
        self.verdicts.iter().filter(move |judged| judged.permit == permit)
    }

    /// Whether the lease was given up, surely or possibly, uncharged.
    pub fn may_be_free(&self, grant: &Granting<'_>) -> bool {
        let is_free = |judged: &Judgement<'_>| judged.verb.is_free() && judged.verdict.is_possible();
        !grant.accepted || self.judged(grant.given.permit).any(is_free)
    }

    pub fn is_surely_free(&self, grant: &Granting<'_>) -> bool {
        self.judged(grant.given.permit).any(|judged| judged.verb.is_free() && judged.verdict.is_ok())
    }
}
