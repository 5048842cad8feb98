//! [`Team`]: the clients of a run, each a task with a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use tokio::task::JoinSet;

use crate::peers::{Client, Job, Peer, next_client};

/// Connections that are opened at the same time.
const CONNECTING_MAX: usize = 32;

/// The tasks of all clients. Dropping the team ends them, with their connections.
#[derive(Debug)]
pub(crate) struct Team {
    tasks: JoinSet<Result<()>>,
}

impl Team {
    pub(crate) fn new() -> Self {
        Self { tasks: JoinSet::new() }
    }

    pub(crate) fn add(&mut self, task: impl Future<Output = Result<()>> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Lets the tasks work for a time; fails with the first of them that fails.
    pub(crate) async fn work_for(&mut self, time: Duration) -> Result<()> {
        self.work_until(async {
            tokio::time::sleep(time).await;
            Ok(())
        })
        .await
    }

    /// Lets the tasks work until `done` is there; fails with the first of them that fails.
    pub(crate) async fn work_until<T>(&mut self, done: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = done => done,
            failure = self.failure() => Err(failure),
        }
    }

    /// The first failure of a task; never ready if every task ends well.
    async fn failure(&mut self) -> anyhow::Error {
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(failure) = ended.context("a client panicked").flatten() {
                return failure;
            }
        }
        std::future::pending().await
    }
}

/// Connects `clients` clients, [`CONNECTING_MAX`] at a time.
pub(crate) async fn connect(peer: &dyn Peer, job: &Job, clients: usize) -> Result<Vec<Box<dyn Client>>> {
    let mut connected = Vec::with_capacity(clients);
    while connected.len() < clients {
        let next = CONNECTING_MAX.min(clients - connected.len());
        connected.extend(try_join_all((0..next).map(|_| peer.connect(job))).await?);
    }
    Ok(connected)
}

/// Full cycles for ever: counts the items of each step, three steps to a cycle.
pub(crate) async fn cycle(mut client: Box<dyn Client>, batch: usize, steps: Arc<AtomicU64>) -> Result<()> {
    let mut first = next_client() << 40;
    loop {
        client.produce(first).await.context("produce")?;
        first += batch as u64;
        steps.fetch_add(batch as u64, Ordering::Relaxed);
        let leased = client.lease().await.context("lease")?.len() as u64;
        steps.fetch_add(leased, Ordering::Relaxed);
        client.complete().await.context("complete")?;
        steps.fetch_add(leased, Ordering::Relaxed);
    }
}
