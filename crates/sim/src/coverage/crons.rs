//! What crons have met, and what the rules on kinds and stores that stall have let through.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::cron::LATE_MAX;
use windlass_core::time::Timestamp;

use super::Coverage;
use crate::check::{Facts, ItemFacts, Maker, answered_meanwhile, closed_meanwhile};
use crate::cron::{CronAsk, CronOp};
use crate::history::{Call, Op, Outcome, ShownCron};
use crate::plan::queue_name;

impl Coverage {
    pub(super) fn add_crons(&mut self, facts: &Facts<'_>) {
        let mut last: BTreeMap<Timestamp, &ItemFacts<'_>> = BTreeMap::new();
        let births = births(facts);
        for item in facts.items.iter().filter(|item| item.maker == Maker::Cron) {
            self.change("cron → its item");
            let birth = births.get(&item.made.serial).copied();
            let before = birth.and_then(|birth| last.insert(birth, item));
            self.add_cron_item(item, before, birth);
        }
        let is_moved = |item: &&ItemFacts<'_>| item.origin.is_some() && item.produce.op.cron().is_some();
        facts.items.iter().filter(is_moved).for_each(|_| self.change("cron's item moved"));
        for call in &facts.history.calls {
            self.add_cron_call(facts, call);
        }
    }

    fn add_cron_item(
        &mut self,
        item: &ItemFacts<'_>,
        before: Option<&ItemFacts<'_>>,
        birth: Option<Timestamp>,
    ) {
        let Some(grant) = item.grants.first() else { return };
        if grant.call.process > item.produce.process {
            self.change("cron ran over a restart");
        }
        let partition = |item: &ItemFacts<'_>| item.id.map(|id| id.partition);
        if before.is_some_and(|before| partition(before) != partition(item)) {
            self.change("cron ran in another partition");
        }
        let every = item.produce.op.cron().and_then(CronOp::spec).map(|spec| spec.every);
        if let (Some(birth), Some(every)) = (birth, every)
            && grant.given.created_at.0.saturating_sub(birth.0) % every.0 > LATE_MAX.0
        {
            self.change("cron caught up");
        }
    }

    fn add_cron_call(&mut self, facts: &Facts<'_>, call: &Call) {
        if matches!(call.outcome, Outcome::Triggered(_)) {
            self.change("cron triggered → its item");
        }
        let calls = || facts.history.calls.iter();
        if let (Op::Delete { queue, .. }, Outcome::Deleted) = (&call.op, &call.outcome) {
            let name = queue_name(*queue).name;
            let shown =
                calls().filter(|shown| shown.end < call.begin).flat_map(|shown| shown.outcome.crons());
            if shown.filter(|info| info.queue == name).count() > 0 {
                self.change("cron deleted with its queue");
            }
        }
        let Some(op) = call.op.cron() else { return };
        let earlier = |is: fn(&CronAsk) -> bool| {
            let of_name = |other: &CronOp| other.name == op.name && is(&other.ask);
            calls().any(|other| {
                other.end < call.begin && other.outcome.is_possible() && other.op.cron().is_some_and(of_name)
            })
        };
        match (&op.ask, &call.outcome) {
            (CronAsk::Create { .. }, Outcome::Cron(_))
                if earlier(|ask| matches!(ask, CronAsk::Create { .. })) =>
            {
                self.change("cron's name used again");
            }
            (CronAsk::Resume, Outcome::CronDone) if earlier(|ask| matches!(ask, CronAsk::Pause)) => {
                self.change("cron paused → resumed");
            }
            (_, _) => {}
        }
    }

    pub(super) fn add_kinds(&mut self, facts: &Facts<'_>) {
        let calls = || facts.history.calls.iter().filter(|call| matches!(call.outcome, Outcome::Ruled));
        for go in calls() {
            let Op::Go { queue, kind: Some(kind), stop } = &go.op else { continue };
            let is_set = |set: &Call| matches!(&set.op, Op::Stop { queue: there, kind: Some(which), stop: how, .. } if (there, which, how) == (queue, kind, stop));
            let leased = |lease: &&Call| {
                let is_there = matches!(lease.op, Op::Lease { queue: there, .. } if there == *queue);
                is_there && lease.begin > go.end && has_kind(lease, kind)
            };
            if calls().any(|set| is_set(set) && set.end < go.begin)
                && facts.leases.iter().copied().any(|lease| leased(&lease))
            {
                self.change("kind stopped → leased again");
            }
        }
    }

    pub(super) fn add_stalls(&mut self, facts: &Facts<'_>) {
        let history = facts.history;
        for (name, count) in [
            ("answered beside a stalled store", answered_meanwhile(history)),
            ("closed while a store was stalled", closed_meanwhile(history)),
        ] {
            *self.changes.entry(name).or_default() += count as u64;
        }
    }
}

fn has_kind(lease: &Call, kind: &Arc<str>) -> bool {
    lease.outcome.granted().iter().any(|given| given.kind == *kind)
}

/// When the cron was made that a create or update of that serial shows.
fn births(facts: &Facts<'_>) -> BTreeMap<u64, Timestamp> {
    let shown = facts.history.calls.iter().flat_map(|call| call.outcome.crons());
    let birth = |info: &ShownCron| Some((info.serial?, info.created_at));
    shown.filter_map(birth).collect()
}
