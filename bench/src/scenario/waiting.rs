//! Very many leases that wait, each on a connection of its own, and items that are produced one by one.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use tokio::sync::mpsc;

use super::team::{self, Team};
use super::{Scenario, stamp};
use crate::fleet::Running;
use crate::peers::{Client, Contender, Job, Manner, next_client};
use crate::report::number::{counted, whole};
use crate::report::sheet::Column;
use crate::server::limits;
use crate::stats::{Better, quantile};

const COLUMNS: &[Column] = &[
    Column { key: "p50_ms", head: "p50 ms", better: Better::Lower },
    Column { key: "p99_ms", head: "p99 ms", better: Better::Lower },
    Column { key: "workers_served", head: "workers served", better: Better::Neither },
];

const PAYLOAD: usize = 200;
/// Connections that are opened before their leases begin to wait.
const CONNECTING: usize = 32;
/// Items that are measured, after some that are not.
const ITEMS: usize = 300;
const WARM_UP_ITEMS: usize = 20;
/// How long the last leases may take to be waiting.
const SETTLE: Duration = Duration::from_secs(3);
/// Files that this process and a server have open besides the connections.
const OTHER_FILES: usize = 500;
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) leases: usize,
}

/// Which worker got an item, and how many milliseconds after it was sent.
type Picked = (usize, f64);

#[async_trait]
impl Scenario for Waiting {
    fn name(&self) -> &'static str {
        "waiting"
    }

    fn title(&self) -> String {
        let leases = counted(self.leases, "waiting lease");
        format!(
            "{leases}: from just before a produce is sent until one has the item; {ITEMS} items, one by one"
        )
    }

    fn label(&self) -> String {
        whole(self.leases)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn planned(&self) -> Duration {
        SETTLE + Duration::from_secs(5)
    }

    fn cannot(&self, contender: Contender) -> Option<&'static str> {
        let many = self.leases > 150;
        (contender == Contender::Postgres && many)
            .then_some("it has a process for each connection: too many for memory")
    }

    async fn run(&self, running: &Running) -> Result<Vec<f64>> {
        limits::allow_files(self.leases + OTHER_FILES)?;
        let peer = running.peer()?;
        let job = Job {
            queue: format!("waiting{}", next_client()),
            batch: 1,
            payload: PAYLOAD,
            manner: Manner::Waiting,
        };
        peer.create(&job.queue).await?;
        let (picked, mut arrivals) = mpsc::channel(ITEMS);
        let mut team = Team::new();
        for number in (0..self.leases).step_by(CONNECTING) {
            // A lease waits as soon as its client is connected: servers close connections that ask for nothing.
            let workers = team::connect(peer, &job, CONNECTING.min(self.leases - number)).await?;
            workers
                .into_iter()
                .zip(number..)
                .for_each(|(worker, number)| team.add(work(number, worker, picked.clone())));
        }
        team.work_for(SETTLE).await?;
        let mut producer = peer.connect(&job).await?;
        let measured = team.work_until(measure(producer.as_mut(), &mut arrivals)).await?;
        drop(team);
        peer.delete(&job.queue).await?;
        Ok(measured)
    }
}

async fn work(number: usize, mut client: Box<dyn Client>, picked: mpsc::Sender<Picked>) -> Result<()> {
    loop {
        let sent = *client.lease().await.context("lease")?.first().context("a lease without an item")?;
        let _run_over = picked.send((number, stamp::millis_since(sent))).await;
        client.complete().await.context("complete")?;
    }
}

/// Produces one item after the other, each when a worker has the one before.
async fn measure(producer: &mut dyn Client, arrivals: &mut mpsc::Receiver<Picked>) -> Result<Vec<f64>> {
    let mut all = Vec::with_capacity(WARM_UP_ITEMS + ITEMS);
    for _ in 0..WARM_UP_ITEMS + ITEMS {
        producer.produce(stamp::now()).await.context("produce")?;
        let Ok(arrival) = tokio::time::timeout(PATIENCE, arrivals.recv()).await else {
            bail!("an item reached no waiting lease in {} s", PATIENCE.as_secs())
        };
        all.push(arrival.context("all workers ended")?);
    }
    Ok(figures(&all[WARM_UP_ITEMS..]))
}

fn figures(all: &[Picked]) -> Vec<f64> {
    let mut delays: Vec<f64> = all.iter().map(|(_, delay)| *delay).collect();
    delays.sort_by(f64::total_cmp);
    let workers: BTreeSet<usize> = all.iter().map(|(worker, _)| *worker).collect();
    let share = |share| quantile(&delays, share).unwrap_or(f64::NAN);
    vec![share(0.5), share(0.99), workers.len() as f64]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_counted_once() {
        assert_eq!(figures(&[(7, 1.0), (7, 3.0), (9, 2.0)]), [2.0, 3.0, 2.0]);
    }
}
