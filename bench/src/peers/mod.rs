//! The contenders, and what each of them must be able to do.

pub(crate) mod bare;
pub(crate) mod beanstalkd;
pub(crate) mod contender;
pub(crate) mod nats;
pub(crate) mod postgres;
pub(crate) mod rabbitmq;
pub(crate) mod redis;
pub(crate) mod windlass;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use anyhow::{Result, bail};
use async_trait::async_trait;

pub(crate) use self::contender::Contender;

/// How long leases last: longer than any run.
pub(crate) const LEASE_SECONDS: u64 = 3600;

/// The work of the clients of one run.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) queue: String,
    /// Items in each produce, and at most in each lease.
    pub(crate) batch: usize,
    /// Bytes of each payload.
    pub(crate) payload: usize,
    pub(crate) manner: Manner,
}

/// How leases of a run get their items: some peers need another command for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Items are there when they are leased.
    Ready,
    /// Leases wait, and are to be woken by a produce.
    Waiting,
    /// Items fall due by the clock.
    Scheduled,
}

/// One client with one connection.
#[async_trait]
pub(crate) trait Client: Send {
    /// Produces a batch whose payloads are numbered from `first`, and waits until it is acknowledged.
    async fn produce(&mut self, first: u64) -> Result<()>;

    /// Produces a batch that nobody gets before `due`.
    async fn schedule(&mut self, _first: u64, _due: SystemTime) -> Result<()> {
        bail!("this peer has no scheduled items")
    }

    /// Waits for the first item, leases up to a batch, and answers the numbers of the leased items.
    async fn lease(&mut self) -> Result<&[u64]>;

    /// Completes everything that the last lease answered.
    async fn complete(&mut self) -> Result<()>;
}

/// A server that runs: makes queues and connections.
#[async_trait]
pub(crate) trait Peer: Send + Sync {
    async fn create(&self, queue: &str) -> Result<()>;

    async fn connect(&self, job: &Job) -> Result<Box<dyn Client>>;

    /// Removes a queue that has been measured, where the peer can.
    async fn delete(&self, queue: &str) -> Result<()>;

    /// Called after a backlog was produced: a peer with a query planner updates its statistics.
    async fn filled(&self, _queue: &str) -> Result<()> {
        Ok(())
    }
}

/// The numbers from `first` for a batch.
pub(crate) fn numbers(first: u64, batch: usize) -> impl Iterator<Item = u64> {
    (0..batch as u64).map(move |offset| first.wrapping_add(offset))
}

/// A number for a new client: tells the clients of this process apart.
pub(crate) fn next_client() -> u64 {
    static CLIENTS: AtomicU64 = AtomicU64::new(1);
    CLIENTS.fetch_add(1, Ordering::Relaxed)
}
