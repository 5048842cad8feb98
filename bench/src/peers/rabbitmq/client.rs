//! One client of RabbitMQ.

use std::collections::VecDeque;

use anyhow::{Result, bail};
use async_trait::async_trait;

use super::amqp::{Amqp, Event};
use super::frames;
use crate::payload;
use crate::peers::{Client, Job, Manner, numbers};

#[derive(Debug)]
pub(super) struct RabbitClient {
    amqp: Amqp,
    job: Job,
    /// The frames before the body of each message.
    preamble: Vec<u8>,
    request: Vec<u8>,
    /// Messages published: the tag of the last one.
    published: u64,
    /// Messages confirmed, of those published.
    confirmed: u64,
    /// Whether this client consumes: only after its first lease, so that a producer is sent nothing.
    consumes: bool,
    /// Deliveries that no lease has taken: tags and numbers.
    arrived: VecDeque<(u64, u64)>,
    /// The tag of the last delivery that was leased.
    held: u64,
    leased: Vec<u64>,
}

impl RabbitClient {
    pub(super) fn new(amqp: Amqp, job: &Job) -> Self {
        Self {
            amqp,
            preamble: frames::publish(&job.queue, job.payload),
            job: job.clone(),
            request: Vec::new(),
            published: 0,
            confirmed: 0,
            consumes: false,
            arrived: VecDeque::new(),
            held: 0,
            leased: Vec::new(),
        }
    }

    /// Begins to consume; deliveries may come before the answer.
    async fn consume(&mut self) -> Result<()> {
        let prefetch = u16::try_from(self.job.batch).expect("a batch has at most a thousand items");
        self.amqp.call(&frames::qos(prefetch)).await?;
        self.amqp.call(&frames::consume(&self.job.queue)).await?;
        self.consumes = true;
        Ok(())
    }

    async fn hear(&mut self) -> Result<()> {
        match self.amqp.event().await? {
            Event::Confirmed { tag, multiple: true } => self.confirmed = self.confirmed.max(tag),
            Event::Confirmed { multiple: false, .. } => self.confirmed += 1,
            Event::Delivered { tag, body } => self.arrived.push_back((tag, payload::number(&body)?)),
            Event::Answer(method) => bail!("rabbitmq answered {method:?} to nothing"),
        }
        Ok(())
    }

    /// How many deliveries a lease waits for: a full batch in full cycles, where there is one for every client.
    fn wanted(&self) -> usize {
        match self.job.manner {
            Manner::Ready => self.job.batch,
            Manner::Waiting | Manner::Scheduled => 1,
        }
    }
}

#[async_trait]
impl Client for RabbitClient {
    async fn produce(&mut self, first: u64) -> Result<()> {
        let size = self.job.payload;
        self.request.clear();
        for number in numbers(first, self.job.batch) {
            self.request.extend_from_slice(&self.preamble);
            frames::append_body(&mut self.request, size, |out| payload::append(out, number, size));
        }
        self.amqp.send(&self.request).await?;
        self.published += self.job.batch as u64;
        while self.confirmed < self.published {
            self.hear().await?;
        }
        Ok(())
    }

    async fn lease(&mut self) -> Result<&[u64]> {
        if !self.consumes {
            self.consume().await?;
        }
        while self.arrived.len() < self.wanted() {
            self.hear().await?;
        }
        self.leased.clear();
        for (tag, number) in self.arrived.drain(..) {
            self.held = tag;
            self.leased.push(number);
        }
        Ok(&self.leased)
    }

    async fn complete(&mut self) -> Result<()> {
        self.amqp.send(&frames::ack_up_to(self.held)).await
    }
}
