//! How fast a client must send or take bytes.

use std::time::Duration;

use tokio::time::Instant;

/// One byte may take as long as it does at 16 KiB a second, on average, after a first `stall_timeout`.
const PER_BYTE: Duration = Duration::from_nanos(1_000_000_000 / (16 * 1024));

/// Of one body, one reply, or whatever else is moved at a client's pace.
#[derive(Debug)]
pub(super) struct Pace {
    began_at: Instant,
    progress_at: Instant,
    bytes: usize,
}

impl Pace {
    pub(super) fn begin(now: Instant) -> Self {
        Self { began_at: now, progress_at: now, bytes: 0 }
    }

    pub(super) fn progress(&mut self, now: Instant, bytes: usize) {
        self.progress_at = now;
        self.bytes += bytes;
    }

    /// When the next byte is too late for who may be as slow as it likes.
    pub(super) fn stalled(&self, stall_timeout: Duration) -> Instant {
        self.progress_at + stall_timeout
    }

    /// When the next byte is too late. Two rules: what drips is too slow although it never stops, and what came fast
    /// may not stop for long although its average is still good.
    pub(super) fn deadline(&self, stall_timeout: Duration) -> Instant {
        let earned = PER_BYTE.saturating_mul(u32::try_from(self.bytes).unwrap_or(u32::MAX));
        (self.began_at + stall_timeout + earned).min(self.progress_at + stall_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(10);

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn who_moves_nothing_has_one_stall_timeout() {
        let start = Instant::now();
        assert_eq!(Pace::begin(start).deadline(STALL), start + STALL);
    }

    #[test]
    fn a_drip_earns_next_to_nothing() {
        let start = Instant::now();
        let mut pace = Pace::begin(start);
        for second in 1..10 {
            pace.progress(start + after(second), 1);
        }
        assert!(pace.deadline(STALL) < start + STALL + after(1));
    }

    #[test]
    fn who_was_fast_and_stops_has_no_more_time_than_others() {
        let start = Instant::now();
        let mut pace = Pace::begin(start);
        pace.progress(start + after(1), 16 * 1024 * 1024);
        assert_eq!(pace.deadline(STALL), start + after(1) + STALL);
    }
}
