//! Situations that only some seeds bring about. They are drawn last, and may set aside what would hide them.

use super::{ClockPlan, DeadPlan, End, LastStep, Plan, StoresPlan, Sync, draw_settings, with_keeping};
use crate::fault::Rates;
use crate::rng::Rng;

/// One store does not answer for a while, without an error. It is never the first, which has the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallPlan {
    pub disk: usize,
    /// So long after clients began, in each life.
    pub after_micros: u64,
    /// So long that nobody can take an answer that waits for it for a slow one.
    pub micros: u64,
}

impl Plan {
    /// Partitions come and go more often then: crons go with them.
    pub(super) fn with_crons(mut self, rng: &mut Rng) -> Self {
        let fits = !self.has_crowd && self.habits.produces == 0;
        if !fits || !rng.percent(55) {
            return self;
        }
        self.habits.crons = rng.between(8, 30) as u32;
        // Lives last long enough for some of their times to come.
        self.habits.think_micros = *rng.pick(&[50_000, 4_000_000, 10_000_000, 40_000_000]);
        if rng.percent(40) {
            self.habits.deletes = rng.between(2, 4) as u32;
            self.habits.repeats = 0;
        }
        if self.durability != Sync::Never && rng.percent(60) {
            self.habits.rebalances = rng.between(3, 10) as u32;
        }
        if rng.percent(60) {
            self.clock = ClockPlan::Steady;
        }
        self
    }

    /// A queue that dead items are on their way to is deleted, and the queue that sends them names another: what was assigned to
    /// the partition that is gone must find the other queue. Nothing else moves, so that all of it must arrive.
    pub(super) fn with_diversions(mut self, rng: &mut Rng) -> Self {
        let fits = !self.has_crowd && self.habits.produces == 0 && self.rot.is_none();
        if !fits || !rng.percent(4) {
            return self;
        }
        self.dead = DeadPlan::Anywhere;
        self.queues.resize(3, self.queues[0].clone());
        for index in 0..3 {
            let settings = draw_settings(rng, self.keeps_everything, self.dead, index, 3);
            self.queues[index].settings = settings;
        }
        self.habits.redrives = 0;
        self.habits.groups = 0;
        self.habits.repeats = 0;
        self.habits.stops = 0;
        self.habits.deletes = 0;
        self.habits.rebalances = 0;
        self.habits.diverts = rng.between(20, 60) as u32;
        // A later life makes what is missing anew. The second queue's store is slow, so that moves to it take their time.
        self.phases.truncate(1);
        self.phases[0].end = End::Close;
        self.queues.iter_mut().for_each(|queue| queue.partitions = 1);
        self.stores = StoresPlan { count: 2, only_sick: Some(1), late_percent: 0, has_outages: false };
        self.rates = Rates { slow: 700_000, ..Rates::CALM };
        self.fills_up = false;
        self.has_spells = false;
        self.last_step = LastStep::Restart;
        self
    }

    /// Other faults are set aside: whatever waits too long waits for the store that does not answer.
    pub(super) fn with_stall(mut self, rng: &mut Rng) -> Self {
        let fits = !self.has_crowd && self.habits.produces == 0 && self.rot.is_none();
        if !fits || !rng.percent(12) {
            return self;
        }
        let count = rng.between(2, 3) as usize;
        self.stores = StoresPlan { count, ..StoresPlan::ONE };
        self.queues.iter_mut().for_each(|queue| queue.partitions = 1);
        self.rates = Rates::CALM;
        self.fills_up = false;
        self.has_spells = false;
        self.durability = Sync::Always;
        self.last_step = LastStep::Restart;
        self.habits.rebalances = 0;
        // The client beside the stall deletes queues.
        self.habits.repeats = 0;
        self.habits.stops = self.habits.stops.max(15);
        let after_micros = rng.skewed(1_000, 1_000_000);
        let micros = rng.between(60, 300) * 1_000_000;
        let disk = rng.between(1, count as u64 - 1) as usize;
        self.stall = Some(StallPlan { disk, after_micros, micros });
        for phase in &mut self.phases {
            let early = End::CloseEarly { micros: after_micros + rng.between(5, 40) * 1_000_000 };
            phase.end = *rng.pick(&[early, early, early, End::Close, phase.end]);
        }
        self
    }

    /// Items are changed and rerun; often while their queue gets other partitions, so that they go on elsewhere.
    pub(super) fn with_afterthoughts(mut self, rng: &mut Rng) -> Self {
        let fits = !self.has_crowd && self.habits.produces == 0 && self.habits.diverts == 0;
        if !fits || !rng.percent(55) {
            return self;
        }
        self.habits.afterthoughts = rng.between(5, 40) as u32;
        for queue in &mut self.queues {
            queue.settings = with_keeping(rng, queue.settings.clone());
        }
        if self.durability != Sync::Never && self.stall.is_none() && rng.percent(30) {
            self.habits.rebalances = rng.between(3, 10) as u32;
        }
        self
    }

    /// Queues are walked through, and many items changed at once.
    pub(super) fn with_finds(mut self, rng: &mut Rng) -> Self {
        let fits = !self.has_crowd && self.habits.produces == 0 && self.habits.diverts == 0;
        if fits && rng.percent(50) {
            self.habits.finds = rng.between(4, 15) as u32;
            if self.durability != Sync::Never && self.stall.is_none() && rng.percent(25) {
                self.habits.rebalances = rng.between(3, 10) as u32;
            }
        }
        if fits && self.habits.afterthoughts > 0 && rng.percent(60) {
            self.habits.changes_many = rng.between(3, 15) as u32;
            self.habits.deletes_many = rng.percent(50);
        }
        self
    }

    /// Thousands of queues that nobody uses, beside those in play. The first life makes them, so nothing ends it early.
    pub(super) fn with_idle_queues(mut self, rng: &mut Rng) -> Self {
        let fits = !self.has_crowd && self.rot.is_none() && self.stall.is_none();
        if !fits || !rng.per_million(5_000) {
            return self;
        }
        self.idle_queues = rng.between(1_000, 3_000) as usize;
        self.rates = Rates::CALM;
        self.fills_up = false;
        self.has_spells = false;
        self.durability = Sync::Always;
        self.last_step = LastStep::Restart;
        self.phases.truncate(3);
        self.phases[0].end = End::Close;
        self.store.segment_bytes = 1 << 20;
        self.store.snapshot_bytes = 1 << 20;
        self
    }
}
