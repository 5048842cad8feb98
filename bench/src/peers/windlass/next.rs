//! Windlass with `queue.next`: one call completes the last batch and leases the next.

use anyhow::{Result, ensure};
use async_trait::async_trait;
use serde::Serialize;

use super::http::{Http, JSON};
use super::json::{Held, JsonClient, append};
use super::{CLIENT_ID, WAIT};
use crate::peers::{Client, Job};

#[derive(Debug)]
pub(super) struct NextClient {
    json: JsonClient,
    /// Completed by the worker, told to the server with its next lease.
    done: Vec<Held>,
}

#[derive(Serialize)]
struct Next<'a> {
    queue: &'a str,
    client_id: &'a str,
    complete: &'a [Held],
    lease: NextLease<'a>,
}

#[derive(Serialize)]
struct NextLease<'a> {
    batch_size: usize,
    request_timeout: &'a str,
}

impl NextClient {
    pub(super) fn new(http: Http, job: &Job) -> Self {
        Self { json: JsonClient::new(http, job), done: Vec::new() }
    }

    async fn call(&mut self) -> Result<()> {
        let next = Next {
            queue: &self.json.job.queue,
            client_id: CLIENT_ID,
            complete: &self.done,
            lease: NextLease { batch_size: self.json.job.batch, request_timeout: WAIT },
        };
        let reply = self.json.http.call("queue.next", JSON, |body| append(body, &next)).await?;
        let (completed, done) = (self.json.take(&reply)?, self.done.len());
        ensure!(completed == done, "{completed} of {done} items were completed");
        self.done.clear();
        Ok(())
    }
}

#[async_trait]
impl Client for NextClient {
    async fn produce(&mut self, first: u64) -> Result<()> {
        self.json.produce(first).await
    }

    /// A call that completes something does not wait: where it brings nothing, the next one waits.
    async fn lease(&mut self) -> Result<&[u64]> {
        self.call().await?;
        while self.json.leased.is_empty() {
            self.call().await?;
        }
        Ok(&self.json.leased)
    }

    async fn complete(&mut self) -> Result<()> {
        self.done.append(&mut self.json.held);
        Ok(())
    }
}
