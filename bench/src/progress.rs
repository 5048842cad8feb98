//! The line on stderr that tells what is being measured and how long it will take.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    /// Time that all measurements take, as planned.
    planned: Duration,
    /// The part of `planned` that is done.
    done: Duration,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(planned: Duration) -> Self {
        Self {
            began: Instant::now(),
            planned,
            done: Duration::ZERO,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Prints what begins now; on a terminal it replaces the line before.
    pub(crate) fn say(&self, what: &str) {
        let left = left(self.planned, self.done, self.began.elapsed());
        let line = format!("{what} … {}", left_shown(left));
        let mut stderr = std::io::stderr().lock();
        let _nobody_reads =
            if self.terminal { write!(stderr, "\r\x1b[K{line}") } else { writeln!(stderr, "{line}") };
        let _nobody_reads = stderr.flush();
    }

    /// Prints a line that stays on the screen.
    pub(crate) fn note(&self, note: &str) {
        self.clear();
        let _nobody_reads = writeln!(std::io::stderr().lock(), "{note}");
    }

    pub(crate) fn clear(&self) {
        if self.terminal {
            let _nobody_reads = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// A measurement that was planned to take `planned` is over, or will not be made.
    pub(crate) fn done(&mut self, planned: Duration) {
        self.done += planned;
    }
}

/// Time that the rest of the plan takes, at the pace of the runs so far.
fn left(planned: Duration, done: Duration, elapsed: Duration) -> Duration {
    let left = planned.saturating_sub(done);
    if done.is_zero() {
        return left;
    }
    left.mul_f64(elapsed.as_secs_f64() / done.as_secs_f64())
}

fn left_shown(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..=99 => format!("{seconds} s left"),
        seconds => format!("{} min left", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_the_pace_so_far() {
        let seconds = Duration::from_secs;
        assert_eq!(left(seconds(100), seconds(0), seconds(3)), seconds(100));
        assert_eq!(left(seconds(100), seconds(20), seconds(40)), seconds(160));
        assert_eq!(left(seconds(100), seconds(120), seconds(40)), seconds(0));
        assert_eq!(left_shown(seconds(45)), "45 s left");
        assert_eq!(left_shown(seconds(121)), "3 min left");
    }
}
