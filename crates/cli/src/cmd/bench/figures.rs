//! What was measured, as numbers.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::exit::Failure;

/// How long calls took, in microseconds, to three digits.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(super) fn new() -> Self {
        Self(Histogram::new(3).expect("three digits are possible"))
    }

    pub(super) fn record(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0.record(micros).expect("it grows as it must");
    }

    /// Awaits a call, and records how long it took if it went well.
    pub(super) async fn time<T>(
        &mut self,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let began = Instant::now();
        let done = call.await?;
        self.record(began.elapsed());
        Ok(done)
    }

    pub(super) fn add(&mut self, others: &Self) {
        self.0.add(&others.0).expect("both grow as they must");
    }

    pub(super) fn calls(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn summary(&self) -> Summary {
        Summary {
            p50_us: self.0.value_at_quantile(0.5),
            p99_us: self.0.value_at_quantile(0.99),
            p999_us: self.0.value_at_quantile(0.999),
            max_us: self.0.max(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Summary {
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) p999_us: u64,
    pub(super) max_us: u64,
}

/// One phase, as long as it can still be added to.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) phase: &'static str,
    pub(super) items: u64,
    pub(super) took: Duration,
    pub(super) latencies: Latencies,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.took += other.took;
        self.latencies.add(&other.latencies);
    }

    pub(super) fn items_per_second(&self) -> f64 {
        self.items as f64 / self.took.as_secs_f64().max(0.000_001)
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            phase: self.phase,
            items: self.items,
            calls: self.latencies.calls(),
            seconds: self.took.as_secs_f64(),
            items_per_second: self.items_per_second(),
            latency: self.latencies.summary(),
        }
    }
}

/// One phase.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) phase: &'static str,
    pub(super) items: u64,
    pub(super) calls: u64,
    pub(super) seconds: f64,
    pub(super) items_per_second: f64,
    #[serde(flatten)]
    pub(super) latency: Summary,
}
