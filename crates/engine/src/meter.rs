//! How long commits take, and how much is in each: counted by every writer, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Commits that succeeded since the engine was opened, those of the registry included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitStats {
    pub commits: u64,
    pub latency_micros: Histogram,
    /// The number of changes in each commit.
    pub changes: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The largest value of each bucket but the last, which has no end.
    pub bounds: &'static [u64],
    /// One more than `bounds`; not cumulative.
    pub buckets: Vec<u64>,
    pub sum: u64,
    pub count: u64,
}

/// From a fast disk's sync to one that has failed for all practical purposes.
const LATENCY_MICROS: &[u64] = &[
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 10_000_000,
];
const CHANGES: &[u64] = &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];

#[derive(Debug)]
pub(crate) struct Meter {
    latency_micros: Tally,
    changes: Tally,
}

impl Default for Meter {
    fn default() -> Self {
        Self { latency_micros: Tally::new(LATENCY_MICROS), changes: Tally::new(CHANGES) }
    }
}

impl Meter {
    pub(crate) fn committed(&self, took: Duration, changes: usize) {
        self.latency_micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.changes.add(changes as u64);
    }

    pub(crate) fn stats(&self) -> CommitStats {
        let changes = self.changes.histogram();
        CommitStats { commits: changes.count, latency_micros: self.latency_micros.histogram(), changes }
    }
}

#[derive(Debug)]
struct Tally {
    bounds: &'static [u64],
    buckets: Vec<AtomicU64>,
    sum: AtomicU64,
}

impl Tally {
    fn new(bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    fn add(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    fn histogram(&self) -> Histogram {
        let buckets: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let count = buckets.iter().sum();
        Histogram { bounds: self.bounds, buckets, sum: self.sum.load(Ordering::Relaxed), count }
    }
}
