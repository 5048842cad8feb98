//! [`Window`]: what was done, and used up, between two moments.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::team::Team;
use crate::server::{Server, usage};

/// Steps of a full cycle: produce, lease, complete.
const STEPS: f64 = 3.0;
/// The longest warm-up before a window.
const WARM_UP_MAX: Duration = Duration::from_millis(700);
/// A window lasts at most so many times the time asked for, if the contender is slow.
const TIMES_MAX: u32 = 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) cycles: f64,
    pub(crate) seconds: f64,
    pub(crate) server_cpu: f64,
    pub(crate) client_cpu: f64,
}

/// Readings at one moment.
#[derive(Debug)]
struct Readings {
    at: Instant,
    steps: u64,
    server_cpu: f64,
    client_cpu: f64,
}

impl Window {
    /// Lets a team warm up, then work for `time`, or longer until it has done `cycles_min`.
    pub(crate) async fn measure(
        team: &mut Team,
        steps: &AtomicU64,
        server: Option<&Server>,
        time: Duration,
        cycles_min: usize,
    ) -> Result<Self> {
        team.work_for(warm_up(time)).await?;
        // Process ids are read after the clients have connected: some servers have a process for each connection.
        let pids = server.map(Server::pids).unwrap_or_default();
        let before = Readings::take(steps, &pids);
        for _ in 0..TIMES_MAX {
            team.work_for(time).await?;
            let window = Readings::take(steps, &pids).since(&before);
            if window.cycles >= cycles_min as f64 {
                return Ok(window);
            }
        }
        let seconds = (time * TIMES_MAX).as_secs_f64();
        bail!(
            "too slow for this load: less than a cycle of each client in {seconds:.0} s (try longer --seconds)"
        )
    }

    pub(crate) fn cycles_per_second(self) -> f64 {
        self.cycles / self.seconds
    }

    /// Processor seconds of the server for a million cycles.
    pub(crate) fn server_cpu_per_million(self) -> f64 {
        self.server_cpu / self.cycles * 1e6
    }

    pub(crate) fn client_cpu_per_million(self) -> f64 {
        self.client_cpu / self.cycles * 1e6
    }
}

impl Readings {
    fn take(steps: &AtomicU64, pids: &[u32]) -> Self {
        Self {
            at: Instant::now(),
            steps: steps.load(Ordering::Relaxed),
            server_cpu: usage::cpu_seconds(pids),
            client_cpu: usage::own_cpu_seconds(),
        }
    }

    fn since(&self, before: &Self) -> Window {
        Window {
            cycles: (self.steps - before.steps) as f64 / STEPS,
            seconds: (self.at - before.at).as_secs_f64(),
            server_cpu: self.server_cpu - before.server_cpu,
            client_cpu: self.client_cpu - before.client_cpu,
        }
    }
}

/// The warm-up before a window of `time`: half of it, at most [`WARM_UP_MAX`].
pub(crate) fn warm_up(time: Duration) -> Duration {
    (time / 2).min(WARM_UP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_three_steps_and_processor_time_is_told_for_a_million() {
        let at = Instant::now();
        let before = Readings { at, steps: 300, server_cpu: 1.0, client_cpu: 2.0 };
        let after =
            Readings { at: at + Duration::from_secs(2), steps: 3300, server_cpu: 1.5, client_cpu: 2.25 };
        let window = after.since(&before);
        assert_eq!(window.cycles_per_second(), 500.0);
        assert_eq!(window.server_cpu_per_million(), 500.0);
        assert_eq!(window.client_cpu_per_million(), 250.0);
    }

    #[test]
    fn a_short_run_has_a_short_warm_up() {
        assert_eq!(warm_up(Duration::from_secs(1)), Duration::from_millis(500));
        assert_eq!(warm_up(Duration::from_secs(10)), WARM_UP_MAX);
    }

    #[tokio::test]
    async fn a_team_that_does_nothing_is_an_error() {
        let steps = AtomicU64::new(0);
        let measured = Window::measure(&mut Team::new(), &steps, None, Duration::from_millis(2), 1).await;
        assert!(measured.unwrap_err().to_string().contains("--seconds"));
    }

    #[tokio::test]
    async fn a_client_that_fails_ends_the_measurement() {
        let mut team = Team::new();
        team.add(async { anyhow::bail!("refused") });
        let steps = AtomicU64::new(1);
        let measured = Window::measure(&mut team, &steps, None, Duration::from_secs(60), 1).await;
        assert_eq!(measured.unwrap_err().to_string(), "refused");
    }
}
