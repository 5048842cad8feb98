//! Windlass in protobuf, with the messages of its API crate.

use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use prost::Message;
use windlass_api::items::{
    CompleteReply, CompleteRequest, Completion, LeaseReply, LeaseRequest, NewItem, ProduceRequest,
};
use windlass_api::{Span, Time};

use super::CLIENT_ID;
use super::http::{Http, PROTOBUF};
use crate::payload;
use crate::peers::{Client, Job, numbers};

const WAIT_SECONDS: u64 = 15 * 60;

#[derive(Debug)]
pub(super) struct ProtobufClient {
    http: Http,
    produce: ProduceRequest,
    payload: usize,
    batch: usize,
    lease: LeaseRequest,
    complete: CompleteRequest,
    leased: Vec<u64>,
}

impl ProtobufClient {
    pub(super) fn new(http: Http, job: &Job) -> Self {
        let queue = job.queue.clone();
        let lease = LeaseRequest {
            queue: queue.clone(),
            client_id: CLIENT_ID.into(),
            batch_size: u32::try_from(job.batch).expect("a batch has at most a thousand items"),
            request_timeout: Some(Span::from_secs(WAIT_SECONDS)),
            ..LeaseRequest::default()
        };
        Self {
            http,
            produce: ProduceRequest { queue: queue.clone(), ..ProduceRequest::default() },
            payload: job.payload,
            batch: job.batch,
            lease,
            complete: CompleteRequest { queue, ..CompleteRequest::default() },
            leased: Vec::new(),
        }
    }

    async fn produce_at(&mut self, first: u64, due: Option<SystemTime>) -> Result<()> {
        let enqueue_at = due.map(Time::from);
        let size = self.payload;
        self.produce.items.clear();
        self.produce
            .items
            .extend(numbers(first, self.batch).map(|number| new_item(number, size, enqueue_at)));
        self.http.call("queue.produce", PROTOBUF, |body| append(body, &self.produce)).await?;
        Ok(())
    }
}

#[async_trait]
impl Client for ProtobufClient {
    async fn produce(&mut self, first: u64) -> Result<()> {
        self.produce_at(first, None).await
    }

    async fn schedule(&mut self, first: u64, due: SystemTime) -> Result<()> {
        self.produce_at(first, Some(due)).await
    }

    async fn lease(&mut self) -> Result<&[u64]> {
        let reply = self.http.call("queue.lease", PROTOBUF, |body| append(body, &self.lease)).await?;
        let reply = LeaseReply::decode(reply).context("a lease is answered in another shape")?;
        self.leased.clear();
        self.complete.items.clear();
        for item in reply.items {
            let bytes = item.bytes.context("a payload of bytes comes back as something else")?;
            self.leased.push(payload::number(&bytes)?);
            self.complete.items.push(Completion { id: item.id, permit: item.permit, result: None });
        }
        Ok(&self.leased)
    }

    async fn complete(&mut self) -> Result<()> {
        let reply = self.http.call("queue.complete", PROTOBUF, |body| append(body, &self.complete)).await?;
        let reply = CompleteReply::decode(reply)?;
        let held = self.complete.items.len();
        ensure!(reply.completed == held as u64, "{} of {held} items were completed", reply.completed);
        Ok(())
    }
}

fn new_item(number: u64, size: usize, enqueue_at: Option<Time>) -> NewItem {
    let mut bytes = Vec::with_capacity(size);
    payload::append(&mut bytes, number, size);
    NewItem { bytes: Some(Bytes::from(bytes)), enqueue_at, ..NewItem::default() }
}

fn append(body: &mut Vec<u8>, message: &impl Message) {
    message.encode(body).expect("a vector grows as it must");
}
