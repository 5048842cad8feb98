//! Windlass in JSON.

use std::borrow::Cow;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use windlass_api::Time;

use super::http::{Http, JSON};
use super::{CLIENT_ID, WAIT};
use crate::payload;
use crate::peers::{Client, Job, numbers};

#[derive(Debug)]
pub(super) struct JsonClient {
    pub(super) http: Http,
    pub(super) job: Job,
    pub(super) held: Vec<Held>,
    pub(super) leased: Vec<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Held {
    id: String,
    permit: u64,
}

#[derive(Serialize)]
struct Produce<'a> {
    queue: &'a str,
    items: Vec<NewItem>,
}

#[derive(Serialize)]
struct NewItem {
    utf8: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    enqueue_at: Option<Time>,
}

#[derive(Serialize)]
struct Lease<'a> {
    queue: &'a str,
    client_id: &'a str,
    batch_size: usize,
    request_timeout: &'a str,
}

#[derive(Serialize)]
struct Complete<'a> {
    queue: &'a str,
    items: &'a [Held],
}

/// The part of a lease's reply that a client reads: the rest is skipped.
#[derive(Deserialize)]
struct Leased<'a> {
    #[serde(borrow)]
    items: Vec<LeasedItem<'a>>,
    /// Items completed: only a reply to `queue.next` has it.
    #[serde(default)]
    completed: usize,
}

#[derive(Deserialize)]
struct LeasedItem<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    permit: u64,
    #[serde(borrow)]
    utf8: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Completed {
    completed: usize,
}

impl JsonClient {
    pub(super) fn new(http: Http, job: &Job) -> Self {
        Self { http, job: job.clone(), held: Vec::new(), leased: Vec::new() }
    }

    pub(super) async fn produce_at(&mut self, first: u64, due: Option<SystemTime>) -> Result<()> {
        let enqueue_at = due.map(Time::from);
        let new_item = |number| NewItem { utf8: payload::text(number, self.job.payload), enqueue_at };
        let items = numbers(first, self.job.batch).map(new_item).collect();
        let produce = Produce { queue: &self.job.queue, items };
        self.http.call("queue.produce", JSON, |body| append(body, &produce)).await?;
        Ok(())
    }

    /// Keeps what a reply brought, and answers how many items were completed.
    pub(super) fn take(&mut self, reply: &[u8]) -> Result<usize> {
        let reply: Leased = serde_json::from_slice(reply).context("a lease is answered in another shape")?;
        self.held.clear();
        self.leased.clear();
        for item in reply.items {
            self.leased.push(payload::number(item.utf8.as_bytes())?);
            self.held.push(Held { id: item.id.into_owned(), permit: item.permit });
        }
        Ok(reply.completed)
    }
}

#[async_trait]
impl Client for JsonClient {
    async fn produce(&mut self, first: u64) -> Result<()> {
        self.produce_at(first, None).await
    }

    async fn schedule(&mut self, first: u64, due: SystemTime) -> Result<()> {
        self.produce_at(first, Some(due)).await
    }

    async fn lease(&mut self) -> Result<&[u64]> {
        let lease = Lease {
            queue: &self.job.queue,
            client_id: CLIENT_ID,
            batch_size: self.job.batch,
            request_timeout: WAIT,
        };
        let reply = self.http.call("queue.lease", JSON, |body| append(body, &lease)).await?;
        self.take(&reply)?;
        Ok(&self.leased)
    }

    async fn complete(&mut self) -> Result<()> {
        let complete = Complete { queue: &self.job.queue, items: &self.held };
        let reply = self.http.call("queue.complete", JSON, |body| append(body, &complete)).await?;
        let reply: Completed = serde_json::from_slice(&reply)?;
        ensure!(
            reply.completed == self.held.len(),
            "{} of {} items were completed",
            reply.completed,
            self.held.len()
        );
        Ok(())
    }
}

pub(super) fn append(body: &mut Vec<u8>, request: &impl Serialize) {
    serde_json::to_writer(body, request).expect("requests are made of text and numbers");
}
