//! What a client does with many items at once: it walks through a queue page by page, for as long as that takes and whatever
//! happens meanwhile, and it changes all that a filter takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::item::Phase;
use windlass_core::time::Span;
use windlass_engine::Action;

use super::{ADDRESSES, Client};
use crate::caller::OpenWalk;
use crate::history::{FindFilter, FindOp, Made, ManyOp, QueueIndex};
use crate::plan;

const FINAL: [Phase; 4] = [Phase::Completed, Phase::Failed, Phase::Cancelled, Phase::Expired];
pub(crate) const LIVE: [Phase; 5] =
    [Phase::Held, Phase::Scheduled, Phase::Waiting, Phase::Leased, Phase::Suspended];

impl Client {
    /// Some pages of the walk that this client is on, or of a new one.
    pub(super) async fn walk(&mut self) {
        let pages = if self.rng.percent(30) { 40 } else { self.rng.between(1, 4) };
        for _ in 0..pages {
            let open = self.memory.known().walks[self.caller.client].clone();
            let walk = open.unwrap_or_else(|| self.new_walk());
            // A walk outlives the server: it is kept before its page is asked for.
            self.memory.known().walks[self.caller.client] = Some(walk.clone());
            let asked = walk.op.page;
            let next = self.caller.walk_on(walk).await;
            let is_answered = next.as_ref().is_some_and(|next| next.op.page > asked);
            // The queue may be gone for good.
            let is_given_up = !is_answered && self.rng.percent(20);
            self.memory.known().walks[self.caller.client] = next.filter(|_| !is_given_up);
            if !is_answered {
                return;
            }
            if self.rng.percent(30) {
                self.think().await;
            }
        }
    }

    fn new_walk(&mut self) -> OpenWalk {
        let queue = self.queue();
        let op = FindOp {
            walk: self.memory.serial(),
            page: 0,
            queue,
            filter: self.find_filter(),
            newest_first: self.rng.percent(50),
            limit: self.rng.skewed(1, 12) as usize,
        };
        OpenWalk { op, place: None }
    }

    fn find_filter(&mut self) -> FindFilter {
        let mut filter = FindFilter::default();
        match self.rng.below(100) {
            0..=44 => {}
            45..=64 => filter.phases = Some(self.some_phases()),
            65..=79 => filter.kinds = Some(BTreeSet::from([self.rng.pick(&plan::kinds()).clone()])),
            80..=89 => filter.address = Some(Arc::from(*self.rng.pick(&ADDRESSES))),
            _ => {
                filter.phases = Some(self.some_phases());
                filter.kinds = Some(plan::kinds().into_iter().skip(1).collect());
            }
        }
        filter
    }

    fn some_phases(&mut self) -> BTreeSet<Phase> {
        match self.rng.below(3) {
            0 => LIVE.into_iter().collect(),
            1 => FINAL.into_iter().collect(),
            _ => LIVE.into_iter().chain(FINAL).filter(|_| self.rng.percent(40)).collect(),
        }
    }

    /// Page by page, often over all that the filter takes.
    pub(super) async fn change_many(&mut self) {
        let (queue, action) = (self.queue(), self.action());
        if action == Action::RunNow && self.rng.percent(50) {
            self.schedule(queue).await;
        }
        let op = ManyOp {
            queue,
            filter: if self.rng.percent(50) { FindFilter::default() } else { self.find_filter() },
            action,
            dry_run: self.rng.percent(20),
            limit: self.rng.skewed(1, 8) as usize,
        };
        let mut place = None;
        for _ in 0..self.rng.between(1, 8) {
            place = self.caller.change_many(op.clone(), place.as_ref()).await;
            if place.is_none() {
                return;
            }
        }
    }

    /// So that there is something to run now.
    async fn schedule(&mut self, queue: QueueIndex) {
        let due = self.now() + Span::from_millis(self.rng.between(1_000, 20_000));
        let made = Made { enqueue_at: Some(due), ..self.made() };
        let ids = self.caller.produce(queue, vec![made]).await;
        self.memory.learn(&ids.unwrap_or_default());
    }

    fn action(&mut self) -> Action {
        match self.rng.below(100) {
            0..=14 => Action::Cancel,
            15..=49 => Action::Rerun,
            50..=74 => Action::RunNow,
            75..=86 if self.plan.habits.deletes_many => Action::Delete,
            _ => Action::SetPriority(*self.rng.pick(&[0, 1, 7, 255])),
        }
    }
}
