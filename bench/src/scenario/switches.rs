//! Context switches and processor time of one request while there is no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;

use super::Scenario;
use super::team::{self, Team};
use super::window::warm_up;
use crate::fleet::Running;
use crate::peers::{Contender, Job, Manner, next_client};
use crate::report::sheet::Column;
use crate::server::usage;
use crate::stats::Better;

const COLUMNS: &[Column] = &[
    Column { key: "voluntary_switches_per_request", head: "switches/request", better: Better::Lower },
    Column { key: "server_cpu_micros_per_request", head: "server CPU µs/request", better: Better::Lower },
    Column { key: "client_cpu_micros_per_request", head: "client CPU µs/request", better: Better::Lower },
    Column { key: "requests_per_second", head: "requests/s", better: Better::Higher },
];

const PAYLOAD: usize = 200;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Switches {
    pub(crate) time: Duration,
}

/// Readings at one moment.
#[derive(Clone, Copy, Debug)]
struct Readings {
    steps: f64,
    switches: f64,
    server_cpu: f64,
    client_cpu: f64,
}

#[async_trait]
impl Scenario for Switches {
    fn name(&self) -> &'static str {
        "switches"
    }

    fn title(&self) -> String {
        "Voluntary context switches of the server, 1 client, batches of 1".into()
    }

    fn label(&self) -> String {
        "1 client, batches of 1".into()
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn planned(&self) -> Duration {
        self.time + warm_up(self.time)
    }

    fn has(&self, contender: Contender) -> bool {
        requests_per_cycle(contender).is_some()
    }

    async fn run(&self, running: &Running) -> Result<Vec<f64>> {
        let peer = running.peer()?;
        let queue = format!("switches{}", next_client());
        peer.create(&queue).await?;
        let job = Job { queue, batch: 1, payload: PAYLOAD, manner: Manner::Ready };
        let steps = Arc::new(AtomicU64::new(0));
        let mut team = Team::new();
        team.add(team::cycle(peer.connect(&job).await?, 1, steps.clone()));
        team.work_for(warm_up(self.time)).await?;
        let pids = running.pids();
        let before = Readings::take(&steps, &pids);
        team.work_for(self.time).await?;
        let after = Readings::take(&steps, &pids);
        drop(team);
        peer.delete(&job.queue).await?;
        let requests = requests_per_cycle(running.contender).unwrap_or(STEPS);
        figures(before, after, requests / STEPS, self.time.as_secs_f64())
    }
}

const STEPS: f64 = 3.0;

/// Requests of a full cycle; none for contenders that this scenario does not measure.
fn requests_per_cycle(contender: Contender) -> Option<f64> {
    match contender {
        Contender::Windlass | Contender::WindlassProtobuf | Contender::Redis => Some(3.0),
        Contender::WindlassNext => Some(2.0),
        Contender::Bare
        | Contender::Rabbitmq
        | Contender::Postgres
        | Contender::Nats
        | Contender::Beanstalkd => None,
    }
}

impl Readings {
    fn take(steps: &AtomicU64, pids: &[u32]) -> Self {
        Self {
            steps: steps.load(Ordering::Relaxed) as f64,
            switches: usage::voluntary_switches(pids) as f64,
            server_cpu: usage::cpu_seconds(pids),
            client_cpu: usage::own_cpu_seconds(),
        }
    }
}

fn figures(before: Readings, after: Readings, requests_per_step: f64, seconds: f64) -> Result<Vec<f64>> {
    let requests = (after.steps - before.steps) * requests_per_step;
    ensure!(requests > 0.0, "nothing was done in {seconds} s: give it more time with --seconds");
    let micros = |from: f64, to: f64| (to - from) * 1e6 / requests;
    Ok(vec![
        (after.switches - before.switches) / requests,
        micros(before.server_cpu, after.server_cpu),
        micros(before.client_cpu, after.client_cpu),
        requests / seconds,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_for_each_request() {
        let before = Readings { steps: 30.0, switches: 100.0, server_cpu: 1.0, client_cpu: 1.0 };
        let after = Readings { steps: 330.0, switches: 700.0, server_cpu: 1.03, client_cpu: 1.015 };
        let rounded = |figures: Vec<f64>| figures.iter().map(|figure| figure.round()).collect::<Vec<_>>();
        assert_eq!(rounded(figures(before, after, 1.0, 2.0).unwrap()), [2.0, 100.0, 50.0, 150.0]);
        assert_eq!(rounded(figures(before, after, 2.0 / 3.0, 2.0).unwrap()), [3.0, 150.0, 75.0, 100.0]);
        assert!(figures(before, before, 1.0, 2.0).is_err());
    }
}
