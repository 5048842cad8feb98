//! Crons: a name has one, a deleted one makes nothing more, what was changed stays so, and no time makes two items.

mod names;
mod times;

use std::sync::Arc;

use windlass_core::time::Timestamp;

use super::facts::{Facts, ItemFacts, Maker};
use crate::cron::{CronAsk, CronOp, CronSpec};
use crate::fault::Fault;
use crate::history::{Call, Moment, Op, Outcome, QueueIndex, ShownCron, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let crons = Crons::gather(facts);
    if crons.asks.is_empty() {
        return Ok(());
    }
    names::check(&crons)?;
    times::check(&crons)
}

/// A call about a cron.
#[derive(Clone, Copy)]
struct Asked<'a> {
    call: &'a Call,
    op: &'a CronOp,
}

/// What a call showed of a cron.
#[derive(Clone, Copy)]
struct Shown<'a> {
    call: &'a Call,
    info: &'a ShownCron,
}

/// An item that a cron made.
struct MadeItem<'f, 'a> {
    item: &'f ItemFacts<'a>,
    /// The create or update of which it is.
    by: Asked<'a>,
    spec: &'a CronSpec,
    made_at: Timestamp,
    /// The end of the first call that told of it: by then it was made.
    seen_by: Moment,
}

struct Crons<'f, 'a> {
    facts: &'f Facts<'a>,
    asks: Vec<Asked<'a>>,
    views: Vec<Shown<'a>>,
    /// But for those that were triggered.
    items: Vec<MadeItem<'f, 'a>>,
}

impl<'f, 'a> Crons<'f, 'a> {
    fn gather(facts: &'f Facts<'a>) -> Self {
        let calls = || facts.history.calls.iter();
        let asks = calls().filter_map(|call| Some(Asked { call, op: call.op.cron()? })).collect();
        let views = calls().flat_map(|call| call.outcome.crons().iter().map(|info| Shown { call, info }));
        let triggered = |item: &ItemFacts<'_>| {
            let is_it = |call: &Call| matches!(call.outcome, Outcome::Triggered(id) if Some(id) == item.id);
            facts.history.calls.iter().any(is_it)
        };
        let of_cron = |item: &&ItemFacts<'_>| item.maker == Maker::Cron && !triggered(item);
        let items = facts.items.iter().filter(of_cron).filter_map(MadeItem::of).collect();
        Self { facts, asks, views: views.collect(), items }
    }

    fn of_name(&self, name: &Arc<str>) -> impl Iterator<Item = Asked<'a>> {
        self.asks.iter().copied().filter(move |asked| asked.op.name == *name)
    }

    /// Calls that may have ended a cron of the name in that queue; unset: in any queue.
    fn ends(&self, name: &Arc<str>, queue: Option<QueueIndex>) -> impl Iterator<Item = &'a Call> {
        let deleted = self.of_name(name).filter(|asked| matches!(asked.op.ask, CronAsk::Delete));
        let with_queue = self.facts.history.calls.iter().filter(move |call| {
            matches!(call.op, Op::Delete { queue: there, .. } if queue.is_none_or(|queue| queue == there))
        });
        // A delete that failed may have been carried out in part.
        let calls = deleted.map(|asked| asked.call).chain(with_queue);
        calls.filter(|call| !matches!(call.outcome, Outcome::Refused(_)))
    }

    fn creates(&self, name: &Arc<str>) -> impl Iterator<Item = Asked<'a>> {
        let creates = |asked: &Asked<'_>| matches!(asked.op.ask, CronAsk::Create { .. });
        self.of_name(name).filter(move |asked| creates(asked) && asked.call.outcome.is_possible())
    }

    /// Whether nobody set the clock: then every partition's clock shows the same.
    fn is_steady(&self) -> bool {
        let sets = |fault: &Fault| matches!(fault, Fault::ClockForward | Fault::ClockBack);
        !self.facts.history.faults.iter().any(|(_, fault)| sets(fault))
    }
}

impl<'f, 'a> MadeItem<'f, 'a> {
    fn of(item: &'f ItemFacts<'a>) -> Option<Self> {
        let granted = item.grants.iter().map(|grant| (grant.call.end, grant.given.created_at));
        let shown = item.shown().map(|(call, view)| (call.end, view.created_at));
        let (seen_by, made_at) = granted.chain(shown).min()?;
        let by = Asked { call: item.produce, op: item.produce.op.cron()? };
        Some(Self { item, by, spec: by.op.spec()?, made_at, seen_by })
    }
}

impl Asked<'_> {
    /// The queue of a create.
    fn queue(&self) -> Option<QueueIndex> {
        if let CronAsk::Create { queue, .. } = self.op.ask { Some(queue) } else { None }
    }

    /// Whether it was answered and done.
    fn is_sure(&self) -> bool {
        match self.call.outcome {
            Outcome::Cron(_) | Outcome::CronDone | Outcome::Triggered(_) => true,
            Outcome::Open
            | Outcome::Produced(_)
            | Outcome::Granted { .. }
            | Outcome::Judged(_)
            | Outcome::Resumed
            | Outcome::Cancelled(_)
            | Outcome::Changed(_)
            | Outcome::Rerun(..)
            | Outcome::Found(_)
            | Outcome::ManyChanged(_)
            | Outcome::Latest(_)
            | Outcome::Shown(_)
            | Outcome::Emitted(_)
            | Outcome::Subscribed { .. }
            | Outcome::Followed(_)
            | Outcome::Closed(_)
            | Outcome::Cleared(_)
            | Outcome::Redriven(_)
            | Outcome::Counted(_)
            | Outcome::Queue(_)
            | Outcome::Deleted
            | Outcome::Ruled
            | Outcome::Group(_)
            | Outcome::GroupMade(..)
            | Outcome::Groups(_)
            | Outcome::Crons(_)
            | Outcome::Refused(_)
            | Outcome::TooLarge
            | Outcome::NotApplied(_)
            | Outcome::Unknown(_) => false,
        }
    }
}

impl Shown<'_> {
    /// That of the create or update which the cron is as.
    fn serial(&self) -> Option<u64> {
        self.info.serial
    }
}

/// Whether a call may have taken effect between two moments. One whose outcome is unknown may take effect whenever it likes.
fn may_fall_between(call: &Call, from: Moment, to: Moment) -> bool {
    call.begin < to && (call.outcome.is_unknown() || call.end > from)
}
