//! Bytes by the time that they are entered at, and how many of them are before a time, without a walk over all.
//!
//! Time is cut into spans, and each span into [`FANOUT`] shorter ones, down to a nanosecond. A [`Timeline`] keeps the sum of
//! each span that has bytes, so the bytes before a time are the sums of few spans: fewer than `FANOUT` of each length.

use std::collections::BTreeMap;

use tokio::time::Instant;

const FANOUT_BITS: u32 = 4;
const FANOUT: u64 = 1 << FANOUT_BITS;
/// Lengths of spans: the spans of the last level are cut from all the nanoseconds that a `u64` can count.
const LEVELS: u32 = u64::BITS / FANOUT_BITS;

#[derive(Debug)]
pub(super) struct Timeline {
    begun: Instant,
    /// Bytes of each span that has any, by the level and the number of the span. Spans of level 0 last a nanosecond.
    spans: BTreeMap<(u32, u64), usize>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { begun: Instant::now(), spans: BTreeMap::new() }
    }
}

impl Timeline {
    pub(super) fn add(&mut self, at: Instant, bytes: usize) {
        if bytes == 0 {
            return;
        }
        for span in self.spans_around(at) {
            *self.spans.entry(span).or_default() += bytes;
        }
    }

    /// Takes out bytes that were entered at this time.
    pub(super) fn remove(&mut self, at: Instant, bytes: usize) {
        if bytes == 0 {
            return;
        }
        for span in self.spans_around(at) {
            let sum = self.spans.get_mut(&span).expect("bytes are taken out where they were entered");
            *sum -= bytes;
            if *sum == 0 {
                self.spans.remove(&span);
            }
        }
    }

    /// Bytes that were entered at earlier times than this.
    pub(super) fn before(&self, at: Instant) -> usize {
        self.sums_before(at).sum()
    }

    fn sums_before(&self, at: Instant) -> impl Iterator<Item = usize> {
        self.spans_around(at).flat_map(|(level, number)| {
            let first = number - number % FANOUT;
            self.spans.range((level, first)..(level, number)).map(|(_, bytes)| *bytes)
        })
    }

    /// The span of each level that has this time in it.
    fn spans_around(&self, at: Instant) -> impl Iterator<Item = (u32, u64)> + use<> {
        let nanos = at.saturating_duration_since(self.begun).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        (0..LEVELS).map(move |level| (level, nanos >> (level * FANOUT_BITS)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Times that are a nanosecond to hours apart.
    fn times(timeline: &Timeline) -> Vec<Instant> {
        let nanos = (0..2000_u64).map(|number| number * number * number * 7919 % 20_000_000_000_000);
        let close = 0..100;
        nanos.chain(close).map(|nanos| timeline.begun + Duration::from_nanos(nanos)).collect()
    }

    #[test]
    fn the_bytes_before_a_time_are_those_that_were_entered_earlier() {
        let mut timeline = Timeline::default();
        let times = times(&timeline);
        for (bytes, at) in times.iter().enumerate() {
            timeline.add(*at, bytes);
        }
        for (bytes, at) in times.iter().enumerate().filter(|(bytes, _)| bytes % 3 == 0) {
            timeline.remove(*at, bytes);
        }
        let left = || times.iter().enumerate().filter(|(bytes, _)| bytes % 3 != 0);
        for at in &times {
            let earlier: usize = left().filter(|(_, other)| *other < at).map(|(bytes, _)| bytes).sum();
            assert_eq!(timeline.before(*at), earlier);
        }
        for (bytes, at) in left() {
            timeline.remove(*at, bytes);
        }
        assert_eq!(timeline.spans.len(), 0);
    }

    #[test]
    fn few_sums_are_looked_at_however_many_times_there_are() {
        let mut timeline = Timeline::default();
        let nanos = (0..20_000_u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20);
        let times: Vec<Instant> = nanos.map(|nanos| timeline.begun + Duration::from_nanos(nanos)).collect();
        for at in &times {
            timeline.add(*at, 1);
        }
        let looks = times.iter().map(|at| timeline.sums_before(*at).count()).max();
        assert!(looks.is_some_and(|looks| (10..=240).contains(&looks)), "{looks:?}");
    }

    #[test]
    fn nothing_is_before_the_timeline_begins() {
        let mut timeline = Timeline::default();
        timeline.add(timeline.begun, 1);
        let earlier = timeline.begun.checked_sub(Duration::from_secs(1)).unwrap_or(timeline.begun);
        assert_eq!(timeline.before(earlier), 0);
    }
}
