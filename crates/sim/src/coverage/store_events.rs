//! What stores have met.

use windlass_engine::store::StoreStats;

use super::Coverage;

/// Sums over stores and processes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StoreCoverage(StoreStats);

impl StoreCoverage {
    pub(super) fn add(&mut self, stats: &StoreStats) {
        self.0 = [self.0, *stats].into_iter().sum();
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.add(&other.0);
    }

    pub(super) fn rows(&self) -> Vec<(&'static str, String, u64)> {
        let StoreStats { snapshots, compactions, events, .. } = self.0;
        let counts = [("snapshots", snapshots), ("compactions", compactions)];
        let row = |(name, count): (&str, u64)| ("store", name.to_owned(), count);
        counts.into_iter().chain(events.each()).map(row).collect()
    }
}

impl Coverage {
    /// What the log met in a run of its own.
    pub fn add_log_run(&mut self, stats: &StoreStats) {
        self.log_runs += 1;
        self.store.add(stats);
    }
}
