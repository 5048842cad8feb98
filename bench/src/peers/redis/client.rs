//! One client of Redis.

use std::time::{Duration, SystemTime};

use anyhow::{Result, bail, ensure};
use async_trait::async_trait;
use bytes::Bytes;

use super::Scripts;
use super::resp::{Resp, Value};
use crate::payload;
use crate::peers::{Client, Job, LEASE_SECONDS, Manner, next_client, numbers};

/// The pause before a script is called again that found nothing: a script cannot wait.
const POLL: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct RedisClient {
    resp: Resp,
    scripts: Scripts,
    job: Job,
    /// The sorted set of leases; where leases wait, a list of this client's own.
    leases: String,
    held: Vec<Bytes>,
    leased: Vec<u64>,
}

impl RedisClient {
    pub(super) fn new(resp: Resp, scripts: Scripts, job: &Job) -> Self {
        let leases = match job.manner {
            Manner::Ready | Manner::Scheduled => format!("{}:leases", job.queue),
            Manner::Waiting => format!("{}:held:{}", job.queue, next_client()),
        };
        Self { resp, scripts, job: job.clone(), leases, held: Vec::new(), leased: Vec::new() }
    }

    async fn take(&mut self) -> Result<Vec<Bytes>> {
        match self.job.manner {
            Manner::Ready => self.take_by_script(false).await,
            Manner::Scheduled => self.take_by_script(true).await,
            Manner::Waiting => self.take_by_move().await,
        }
    }

    async fn take_by_script(&mut self, due: bool) -> Result<Vec<Bytes>> {
        let script = if due { &self.scripts.lease_due } else { &self.scripts.lease };
        let now = unix_millis(SystemTime::now());
        let deadline = (now + LEASE_SECONDS * 1000).to_string();
        let parts: [&[u8]; 8] = [
            b"EVALSHA",
            script.as_bytes(),
            b"2",
            self.job.queue.as_bytes(),
            self.leases.as_bytes(),
            &self.job.batch.to_string().into_bytes(),
            deadline.as_bytes(),
            &now.to_string().into_bytes(),
        ];
        let Value::Array(items) = self.resp.call(&parts).await? else {
            bail!("redis answered a lease with something else than items")
        };
        Ok(items)
    }

    /// Waits for one item, the way the documentation of Redis makes a reliable queue: such a lease has no deadline.
    async fn take_by_move(&mut self) -> Result<Vec<Bytes>> {
        let parts: [&[u8]; 6] =
            [b"BLMOVE", self.job.queue.as_bytes(), self.leases.as_bytes(), b"RIGHT", b"LEFT", b"0"];
        let Value::Bulk(Some(item)) = self.resp.call(&parts).await? else {
            bail!("redis answered a waiting lease without an item")
        };
        Ok(vec![item])
    }

    async fn remove_held(&mut self) -> Result<Value> {
        if self.job.manner == Manner::Waiting {
            let parts: [&[u8]; 4] = [b"LREM", self.leases.as_bytes(), b"1", &self.held[0]];
            return self.resp.call(&parts).await;
        }
        self.resp.begin(2 + self.held.len());
        self.resp.part(b"ZREM");
        self.resp.part(self.leases.as_bytes());
        for item in &self.held {
            self.resp.part(item);
        }
        self.resp.finish().await
    }
}

#[async_trait]
impl Client for RedisClient {
    async fn produce(&mut self, first: u64) -> Result<()> {
        self.resp.begin(2 + self.job.batch);
        self.resp.part(b"LPUSH");
        self.resp.part(self.job.queue.as_bytes());
        let size = self.job.payload;
        for number in numbers(first, self.job.batch) {
            self.resp.part_with(size, |request| payload::append(request, number, size));
        }
        self.resp.finish().await?;
        Ok(())
    }

    async fn schedule(&mut self, first: u64, due: SystemTime) -> Result<()> {
        self.resp.begin(2 + 2 * self.job.batch);
        self.resp.part(b"ZADD");
        self.resp.part(self.job.queue.as_bytes());
        let score = unix_millis(due).to_string();
        let size = self.job.payload;
        for number in numbers(first, self.job.batch) {
            self.resp.part(score.as_bytes());
            self.resp.part_with(size, |request| payload::append(request, number, size));
        }
        self.resp.finish().await?;
        Ok(())
    }

    async fn lease(&mut self) -> Result<&[u64]> {
        self.held = self.take().await?;
        while self.held.is_empty() {
            tokio::time::sleep(POLL).await;
            self.held = self.take().await?;
        }
        self.leased.clear();
        for item in &self.held {
            self.leased.push(payload::number(item)?);
        }
        Ok(&self.leased)
    }

    async fn complete(&mut self) -> Result<()> {
        let held = self.held.len();
        let removed = self.remove_held().await?;
        ensure!(removed == Value::Integer(held as i64), "redis removed {removed:?} of {held} leases");
        self.held.clear();
        Ok(())
    }
}

fn unix_millis(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
