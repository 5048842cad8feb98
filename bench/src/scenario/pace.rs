//! [`Pace`]: when each of many items is to be sent.

use std::time::{Duration, Instant};

/// Even ticks from a start, whatever became of the ones before: a late item does not make the next one late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    start: Instant,
    interval: Duration,
}

impl Pace {
    pub(crate) fn new(start: Instant, per_second: u32) -> Self {
        Self { start, interval: Duration::from_secs(1) / per_second }
    }

    pub(crate) fn tick(&self, index: u32) -> Instant {
        self.start + self.interval * index
    }

    /// Waits for a tick; returns at once if it has passed.
    pub(crate) async fn wait(&self, index: u32) {
        tokio::time::sleep_until(self.tick(index).into()).await;
    }
}

/// The ticks of one of several producers: every `producers`-th, up to `ticks`.
pub(crate) fn ticks_of(producer: u32, producers: u32, ticks: u32) -> impl Iterator<Item = u32> {
    (producer..ticks).step_by(producers as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_even_and_do_not_drift() {
        let start = Instant::now();
        let pace = Pace::new(start, 1000);
        assert_eq!(pace.tick(0), start);
        assert_eq!(pace.tick(60_000), start + Duration::from_secs(60));
    }

    #[test]
    fn every_tick_has_one_producer() {
        let mut ticks: Vec<u32> = (0..3).flat_map(|producer| ticks_of(producer, 3, 10)).collect();
        ticks.sort_unstable();
        assert_eq!(ticks, (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_tick_that_has_passed_is_not_waited_for() {
        let hour = Duration::from_secs(3600);
        let pace =
            Pace { start: Instant::now().checked_sub(Duration::from_secs(1)).unwrap(), interval: hour };
        assert!(tokio::time::timeout(Duration::from_secs(60), pace.wait(0)).await.is_ok());
        assert!(tokio::time::timeout(Duration::from_millis(10), pace.wait(1)).await.is_err());
    }
}
