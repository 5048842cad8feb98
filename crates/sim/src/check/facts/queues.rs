//! A queue: its settings, and the calls that took many of its items away at once.

use std::collections::BTreeMap;

use windlass_core::id::ItemId;
use windlass_core::settings::Settings;
use windlass_core::time::Span;

use super::{Facts, ItemFacts};
use crate::cron::{CronAsk, CronOp};
use crate::history::{Call, ManyOp, Moment, Op, Outcome, QueueIndex};
use crate::plan::queue_name;

impl<'a> Facts<'a> {
    /// Every clear and delete of the queue that may have done something.
    pub fn sweeping_calls(&self, queue: QueueIndex) -> impl Iterator<Item = &'a Call> {
        self.sweeps.iter().copied().filter(move |call| call.op.sweeps(queue))
    }

    /// Every redrive of the queue that may have done something.
    pub fn redrives(&self, queue: QueueIndex) -> impl Iterator<Item = &'a Call> {
        let of = move |call: &&Call| matches!(call.op, Op::Redrive { queue: there, .. } if there == queue);
        self.redrives.iter().copied().filter(of)
    }

    /// How many queues there ever were.
    pub fn queues(&self) -> usize {
        let made = |call: &Call| if let Op::Create { queue, .. } = call.op { Some(queue + 1) } else { None };
        self.history.calls.iter().filter_map(made).max().unwrap_or(0)
    }

    pub fn queue_named(&self, name: &str) -> Option<QueueIndex> {
        (0..self.queues()).find(|queue| *queue_name(*queue).name == *name)
    }

    /// The dead queue of a queue, if it is the same at all times.
    pub fn only_dead_queue(&self, queue: QueueIndex) -> Option<QueueIndex> {
        let mut dead_queues = self.settings(queue).map(|settings| settings.dead_queue.as_deref());
        let first = dead_queues.next()??;
        dead_queues.all(|dead_queue| dead_queue == Some(first)).then(|| self.queue_named(first)).flatten()
    }

    /// Whether items may have been moved to the queue.
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
        let makes_more = |call: &Call| {
            let many = call.op.many().is_some_and(ManyOp::reruns);
            many || matches!(call.op, Op::Redrive { .. } | Op::Rerun { .. })
        };
        calls.iter().any(|call| makes_more(call) || named(call) || from_elsewhere(call))
    }

    /// Whether the last process had the queue. An item that goes to a queue which is not there is still on its way.
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

    /// Whether the queue may have been deleted since, with the items that were on their way out of it.
    pub fn is_deleted_by_force_since(&self, queue: QueueIndex, moment: Moment) -> bool {
        self.sweeping_calls(queue)
            .filter(|sweep| matches!(sweep.op, Op::Delete { force: true, .. }))
            .any(|sweep| sweep.end > moment || sweep.outcome.is_unknown())
    }

    /// Whether the item's time may run out.
    pub fn may_expire(&self, item: &ItemFacts<'_>) -> bool {
        let changed = self.changed_dead_timeouts(item).any(|timeout| timeout != Span::ZERO);
        let as_made = match item.made.dead_timeout {
            Some(own) => own != Span::ZERO,
            None => self.settings(item.queue).any(|settings| settings.dead_timeout != Span::ZERO),
        };
        item.is_guessed || changed || as_made
    }

    pub fn settings(&self, queue: QueueIndex) -> impl Iterator<Item = &'a Settings> {
        self.history.calls.iter().filter_map(move |call| call.op.settings_of(queue))
    }

    /// The limits that can have been in force for the item. 0 is none.
    pub fn attempt_limits(&self, item: &ItemFacts<'_>) -> Vec<u32> {
        let changed = self.changed_limits(item).chain(item.is_guessed.then_some(0));
        match item.made.max_attempts {
            Some(own) => changed.chain([own]).collect(),
            None => changed.chain(self.settings(item.queue).map(|settings| settings.max_attempts)).collect(),
        }
    }
}

pub(super) fn may_have_swept(call: &Call, known: &BTreeMap<ItemId, usize>) -> bool {
    // Over several partitions a failed call may have been carried out in some of them.
    let many = |op: &ManyOp| op.deletes() || op.ends_items() && !tells_all(call, known);
    let sweeps = matches!(call.op, Op::Clear { .. } | Op::Delete { .. }) || call.op.many().is_some_and(many);
    sweeps && !matches!(call.outcome, Outcome::Refused(_))
}

/// Whether a change of many was answered, and took only items that somebody was told of: then the answer tells of each.
fn tells_all(call: &Call, known: &BTreeMap<ItemId, usize>) -> bool {
    let page = call.outcome.many_changed();
    page.is_some_and(|page| page.results.iter().all(|(id, _)| known.contains_key(id)))
}

pub(super) fn may_have_redriven(call: &Call) -> bool {
    matches!(call.op, Op::Redrive { .. })
        && !matches!(call.outcome, Outcome::Refused(_) | Outcome::Redriven(0))
}
