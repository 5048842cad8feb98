//! How many requests were answered how, and how fast. Counting takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windlass_api::Code;
use windlass_api::call::{Call, EachCall, for_each_call};
use windlass_engine::Histogram;

/// What is no call of the API, and what is no status that the API has.
pub const OTHER: &str = "other";
/// What the listener refused before it was a request.
const REFUSED: &str = "refused";

const MICROS_BOUNDS: &[u64] = &[
    100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// One place for each call and status, made beforehand: whatever clients send, it does not grow.
#[derive(Debug)]
pub struct Requests {
    /// In the order of their names, with [`OTHER`] and [`REFUSED`] among them.
    calls: Vec<CallCounts>,
    /// In order. One more place follows in each call, for any other.
    statuses: Vec<u16>,
}

/// A call as [`Requests`] counts it.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    at: usize,
    name: &'static str,
}

impl Counted {
    /// The name of the call, or [`OTHER`].
    pub fn name(self) -> &'static str {
        self.name
    }
}

#[derive(Debug)]
struct CallCounts {
    call: &'static str,
    by_status: Vec<AtomicU64>,
    buckets: Vec<AtomicU64>,
    micros: AtomicU64,
}

impl Default for Requests {
    fn default() -> Self {
        let mut statuses: Vec<u16> = Code::ALL.iter().flat_map(|code| code.statuses()).chain([200]).collect();
        statuses.sort_unstable();
        statuses.dedup();
        let mut names = Names(vec![OTHER, REFUSED]);
        for_each_call(&mut names);
        names.0.sort_unstable();
        let calls = names.0.into_iter().map(|call| CallCounts::new(call, statuses.len() + 1)).collect();
        Self { calls, statuses }
    }
}

struct Names(Vec<&'static str>);

impl EachCall for Names {
    fn visit<C: Call>(&mut self) {
        self.0.push(C::NAME);
    }
}

impl Requests {
    /// The call of this name, or [`OTHER`] if the API has no such call.
    pub fn call(&self, name: &str) -> Counted {
        // No call has the name under which refusals are counted, whatever a client asks for.
        let name = if name == REFUSED { OTHER } else { name };
        self.find(name).or_else(|| self.find(OTHER)).expect("`other` is among the calls")
    }

    fn find(&self, name: &str) -> Option<Counted> {
        let at = self.calls.binary_search_by_key(&name, |counts| counts.call).ok()?;
        Some(Counted { at, name: self.calls[at].call })
    }

    pub fn record(&self, call: Counted, status: u16, elapsed: Duration) {
        self.count(call, status).time(elapsed);
    }

    /// A refusal of the listener, which takes no time.
    pub fn count_refused(&self, status: u16) {
        self.count(self.find(REFUSED).expect("`refused` is among the calls"), status);
    }

    fn count(&self, call: Counted, status: u16) -> &CallCounts {
        let counts = &self.calls[call.at];
        let status = self.statuses.binary_search(&status).unwrap_or(self.statuses.len());
        counts.by_status[status].fetch_add(1, Ordering::Relaxed);
        counts
    }

    /// Calls that were made, by name: how often they were answered with each status.
    pub(super) fn by_status(&self) -> impl Iterator<Item = (&'static str, String, u64)> {
        self.calls.iter().flat_map(|counts| {
            let names = self.statuses.iter().map(u16::to_string).chain([OTHER.to_owned()]);
            let all = names.zip(&counts.by_status);
            all.map(|(status, count)| (counts.call, status, count.load(Ordering::Relaxed)))
                .filter(|(_, _, count)| *count > 0)
        })
    }

    /// Calls that were made, by name: how long they took, in microseconds.
    pub(super) fn latencies(&self) -> impl Iterator<Item = (&'static str, Histogram)> {
        let all = self.calls.iter().map(|counts| (counts.call, counts.latency()));
        all.filter(|(_, latency)| latency.count > 0)
    }
}

impl CallCounts {
    fn new(call: &'static str, statuses: usize) -> Self {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            call,
            by_status: zeros(statuses),
            buckets: zeros(MICROS_BOUNDS.len() + 1),
            micros: AtomicU64::new(0),
        }
    }

    fn time(&self, elapsed: Duration) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        // A bound belongs to its own bucket.
        let bucket = MICROS_BOUNDS.partition_point(|bound| *bound < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn latency(&self) -> Histogram {
        let buckets: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let count = buckets.iter().sum();
        Histogram { bounds: MICROS_BOUNDS, buckets, sum: self.micros.load(Ordering::Relaxed), count }
    }
}
