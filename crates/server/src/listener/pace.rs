//! How fast a client must send or take bytes: so much in each window, whatever it moved before.
//!
//! An average over the whole transfer would let a client that was fast at first drip its last bytes for as long as the
//! fast ones earned it: 17 minutes for 16 MiB.

use std::time::Duration;

use tokio::time::Instant;

/// What a window asks for, per second of its length: 160 KiB in 10 seconds. A poor mobile connection moves that much, and
/// may pause for almost a window; a client below it holds its bytes longer than others should wait for them.
const BYTES_PER_SECOND: u128 = 16 * 1024;

/// Windows that the reader of a reply has for the bytes of one window. The kernel tells of what a reader takes in steps, because the
/// kernels on both sides hold some of the reply, and a reader may pause for almost a window before it takes more. Three windows
/// are enough for steps of up to 200 KiB, as with the receive buffer of 128 KiB that Linux begins with. Linux enlarges the buffer
/// of a reader that is fast; steps of 512 KiB were measured with 4.5 MiB, so such a reader that turns slow must be faster.
const READER_WINDOWS: u32 = 3;

/// Of one body, one reply, or whatever else is moved at a client's pace.
#[derive(Debug)]
pub(super) struct Pace {
    window: Duration,
    /// When the present window began: at the start, and whenever a window's bytes were moved.
    since: Instant,
    /// Moved in the present window.
    bytes: usize,
    progress_at: Instant,
}

impl Pace {
    pub(super) fn begin(now: Instant, window: Duration) -> Self {
        Self { window, since: now, bytes: 0, progress_at: now }
    }

    pub(super) fn progress(&mut self, now: Instant, bytes: usize) {
        self.progress_at = now;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= bytes_of(self.window) {
            (self.since, self.bytes) = (now, 0);
        }
    }

    /// Since when less than a window's bytes were moved.
    pub(super) fn slow_since(&self) -> Instant {
        self.since
    }

    /// When the next byte is too late for a client that may be as slow as it likes.
    pub(super) fn stalled(&self, stall_timeout: Duration) -> Instant {
        self.progress_at + stall_timeout
    }

    /// When the bytes of the present window are too late. A transfer that ends within its window need not fill it.
    pub(super) fn deadline(&self) -> Instant {
        self.since + self.window
    }

    /// When the bytes of the present window are too late for the reader of a reply.
    pub(super) fn reader_deadline(&self) -> Instant {
        self.since + READER_WINDOWS * self.window
    }
}

fn bytes_of(window: Duration) -> usize {
    usize::try_from(BYTES_PER_SECOND * window.as_millis() / 1000).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);
    const WINDOW_BYTES: usize = 160 * 1024;

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_client_that_moves_nothing_has_one_window() {
        let start = Instant::now();
        assert_eq!(Pace::begin(start, WINDOW).deadline(), start + WINDOW);
    }

    #[test]
    fn a_drip_earns_nothing() {
        let start = Instant::now();
        let mut pace = Pace::begin(start, WINDOW);
        for second in 1..10 {
            pace.progress(start + after(second), 1);
        }
        assert_eq!(pace.deadline(), start + WINDOW);
    }

    #[test]
    fn bytes_that_came_fast_earn_no_time_for_later_ones() {
        let start = Instant::now();
        let mut pace = Pace::begin(start, WINDOW);
        pace.progress(start + after(1), 16 << 20);
        for second in 2..11 {
            pace.progress(start + after(second), 1);
        }
        assert_eq!((pace.slow_since(), pace.deadline()), (start + after(1), start + after(1) + WINDOW));
    }

    #[test]
    fn a_slow_but_steady_client_is_never_late() {
        let start = Instant::now();
        let mut pace = Pace::begin(start, WINDOW);
        // 17 KiB a second, for half an hour.
        for tenth in 1..18_000 {
            let now = start + after(tenth) / 10;
            assert!(now < pace.deadline(), "late after {tenth} tenths of a second");
            pace.progress(now, 17 * 1024 / 10);
        }
    }

    #[test]
    fn a_reader_that_is_seen_in_steps_is_never_late() {
        const STEP_BYTES: usize = 200 * 1024;
        let start = Instant::now();
        let mut pace = Pace::begin(start, WINDOW);
        let (mut taken, mut seen, mut last_seen, mut longest) = (0, 0, start, Duration::ZERO);
        for window in 0..1000 {
            // The reader takes the bytes of a window at once, at its end or at its start: every fifth take ends a step, and the
            // next step ends two takes later.
            let pause = if window % 5 == 4 { 0 } else { 9 };
            let now = start + after(10 * window + pause);
            taken += WINDOW_BYTES;
            if taken - seen < STEP_BYTES {
                continue;
            }
            assert!(now < pace.reader_deadline(), "late in window {window}");
            let steps = (taken - seen) / STEP_BYTES * STEP_BYTES;
            pace.progress(now, steps);
            longest = longest.max(now - last_seen);
            (seen, last_seen) = (seen + steps, now);
        }
        assert_eq!(longest, 3 * WINDOW - after(1), "all of the reader's windows are needed");
    }

    #[test]
    fn a_reader_that_takes_nothing_has_three_windows() {
        let start = Instant::now();
        assert_eq!(Pace::begin(start, WINDOW).reader_deadline(), start + 3 * WINDOW);
    }

    #[test]
    fn a_client_that_pauses_for_less_than_a_window_is_not_late() {
        let start = Instant::now();
        let mut pace = Pace::begin(start, WINDOW);
        for pause in 1..100 {
            let now = start + after(9 * pause);
            assert!(now < pace.deadline());
            pace.progress(now, WINDOW_BYTES);
        }
    }
}
