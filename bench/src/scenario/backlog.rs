//! Full cycles in front of items that wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::Scenario;
use super::cycles::{self, Cycles};
use super::team;
use crate::fleet::{Running, Seat};
use crate::peers::{Client, Job, next_client};
use crate::report::number::{counted, whole};
use crate::report::sheet::Column;

const CLIENTS: usize = 16;
const BATCH: usize = 10;
const PAYLOAD: usize = 200;
const FILL_CLIENTS: usize = 4;
const FILL_BATCH: usize = 1000;
/// A contender that cannot produce the backlog in this time is left out.
const FILL_TIME: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub(crate) struct Backlog {
    items: usize,
    cycles: Cycles,
    /// The queue of all runs: its backlog is produced once.
    queue: String,
}

impl Backlog {
    pub(crate) fn new(items: usize, time: Duration) -> Self {
        let cycles = Cycles { clients: CLIENTS, batch: BATCH, payload: PAYLOAD, time };
        Self { items, cycles, queue: format!("backlog{}", next_client()) }
    }
}

#[async_trait]
impl Scenario for Backlog {
    fn name(&self) -> &'static str {
        "backlog"
    }

    fn title(&self) -> String {
        let backlog = counted(self.items, "waiting item");
        format!(
            "Full cycles behind {backlog}: {CLIENTS} clients, batches of {BATCH}, payloads of {PAYLOAD} bytes"
        )
    }

    fn label(&self) -> String {
        format!("backlog of {}", whole(self.items))
    }

    fn columns(&self) -> &'static [Column] {
        cycles::COLUMNS
    }

    fn planned(&self) -> Duration {
        self.cycles.planned()
    }

    /// Longer than filling takes, which is part of the first run.
    fn patience(&self) -> Duration {
        FILL_TIME * 2
    }

    async fn prepare(&self, running: &Running) -> Result<()> {
        let peer = running.peer()?;
        peer.create(&self.queue).await?;
        let job = Job { batch: FILL_BATCH, ..self.cycles.job(self.queue.clone()) };
        let clients = team::connect(peer, &job, FILL_CLIENTS).await?;
        fill(clients, self.items).await?;
        peer.filled(&self.queue).await
    }

    async fn run(&self, running: &Running) -> Result<Vec<f64>> {
        let Seat::Served { server, peer } = &running.seat else { bail!("the bare loop has no backlog") };
        self.cycles.measure(peer.as_ref(), self.queue.clone(), server).await
    }
}

/// Produces `items`, in batches that the clients share.
async fn fill(clients: Vec<Box<dyn Client>>, items: usize) -> Result<()> {
    let batches = items.div_ceil(FILL_BATCH) as u64;
    let (begun, produced) = (AtomicU64::new(0), AtomicU64::new(0));
    let deadline = Instant::now() + FILL_TIME;
    try_join_all(clients.into_iter().map(|client| produce(client, batches, &begun, &produced, deadline)))
        .await?;
    let produced = produced.into_inner();
    if produced < batches {
        let (reached, seconds) = (produced as usize * FILL_BATCH, FILL_TIME.as_secs());
        bail!("it took {} of {} items in {seconds} s", whole(reached), whole(items));
    }
    Ok(())
}

async fn produce(
    mut client: Box<dyn Client>,
    batches: u64,
    begun: &AtomicU64,
    produced: &AtomicU64,
    deadline: Instant,
) -> Result<()> {
    while Instant::now() < deadline {
        let batch = begun.fetch_add(1, Ordering::Relaxed);
        if batch >= batches {
            break;
        }
        client.produce(batch * FILL_BATCH as u64).await?;
        produced.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
