//! One client of NATS.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use bytes::Bytes;

use super::NANOS;
use super::line::{Line, parse};
use crate::payload;
use crate::peers::{Client, Job, next_client, numbers};
use crate::wire::Wire;

/// The pull consumer that all clients of a stream share.
pub(super) const CONSUMER: &str = "workers";
/// How long a pull waits: longer than any run.
const WAIT_SECONDS: u64 = 15 * 60;
const HELLO: &[u8] =
    b"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n";

/// A connection with one subject of its own, to which every answer comes.
#[derive(Debug)]
pub(super) struct Inbox {
    wire: Wire,
    subject: String,
    request: Vec<u8>,
}

#[derive(Debug)]
struct Message {
    reply: Option<String>,
    header: Bytes,
    body: Bytes,
}

impl Inbox {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let subject = format!("_INBOX.compare{}", next_client());
        let mut inbox = Self { wire: Wire::connect(address).await?, subject, request: Vec::new() };
        let subscribe = format!("SUB {} 1\r\n", inbox.subject);
        inbox.wire.send(&[HELLO, subscribe.as_bytes()].concat()).await?;
        Ok(inbox)
    }

    /// Adds a message to the next [`Self::flush`], its answer to be sent here.
    fn publish(&mut self, subject: &str, bytes: usize, append: impl FnOnce(&mut Vec<u8>)) {
        write!(self.request, "PUB {subject} {} {bytes}\r\n", self.subject)
            .expect("a vector grows as it must");
        append(&mut self.request);
        self.request.extend_from_slice(b"\r\n");
    }

    async fn flush(&mut self) -> Result<()> {
        self.wire.send(&self.request).await?;
        self.request.clear();
        Ok(())
    }

    async fn message(&mut self) -> Result<Message> {
        loop {
            let line = self.wire.line().await?;
            match parse(&line)? {
                Line::Other => {}
                Line::Ping => self.wire.send(b"PONG\r\n").await?,
                Line::Message { reply, header, bytes } => {
                    let mut body = self.wire.take(bytes + 2).await?;
                    body.truncate(bytes);
                    let header = body.split_to(header);
                    return Ok(Message { reply, header, body });
                }
            }
        }
    }

    /// Sends a request of the JetStream API.
    pub(super) async fn ask(&mut self, subject: &str, request: &serde_json::Value) -> Result<()> {
        let request = request.to_string();
        self.publish(subject, request.len(), |out| out.extend_from_slice(request.as_bytes()));
        self.flush().await?;
        let answer = self.message().await?;
        refuse_error(&answer)
    }
}

/// An answer of JetStream tells an error in its body, and a missing one in its headers.
fn refuse_error(answer: &Message) -> Result<()> {
    let body = String::from_utf8_lossy(&answer.body);
    ensure!(!body.contains("\"error\""), "nats refused a request: {body}");
    ensure!(answer.header.is_empty(), "nats refused a request: {}", String::from_utf8_lossy(&answer.header));
    Ok(())
}

#[derive(Debug)]
pub(super) struct NatsClient {
    inbox: Inbox,
    job: Job,
    pull: (String, String),
    /// Where each leased message is acknowledged.
    held: Vec<String>,
    leased: Vec<u64>,
}

impl NatsClient {
    pub(super) fn new(inbox: Inbox, job: &Job) -> Self {
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{CONSUMER}", job.queue);
        let pull = format!("{{\"batch\":{},\"expires\":{}}}", job.batch, WAIT_SECONDS * NANOS);
        Self { inbox, job: job.clone(), pull: (subject, pull), held: Vec::new(), leased: Vec::new() }
    }
}

#[async_trait]
impl Client for NatsClient {
    async fn produce(&mut self, first: u64) -> Result<()> {
        let size = self.job.payload;
        for number in numbers(first, self.job.batch) {
            self.inbox.publish(&self.job.queue, size, |out| payload::append(out, number, size));
        }
        self.inbox.flush().await?;
        for _ in 0..self.job.batch {
            refuse_error(&self.inbox.message().await?)?;
        }
        Ok(())
    }

    /// Waits for a full batch: in full cycles there is one for every client.
    async fn lease(&mut self) -> Result<&[u64]> {
        let (subject, pull) = &self.pull;
        self.inbox.publish(subject, pull.len(), |out| out.extend_from_slice(pull.as_bytes()));
        self.inbox.flush().await?;
        self.held.clear();
        self.leased.clear();
        while self.held.len() < self.job.batch {
            let message = self.inbox.message().await?;
            let Some(reply) = message.reply else {
                bail!("nats ended a pull: {}", String::from_utf8_lossy(&message.header))
            };
            self.leased.push(payload::number(&message.body)?);
            self.held.push(reply);
        }
        Ok(&self.leased)
    }

    /// Acknowledges each message, and waits until the server has acknowledged that.
    async fn complete(&mut self) -> Result<()> {
        for subject in &self.held {
            self.inbox.publish(subject, 4, |out| out.extend_from_slice(b"+ACK"));
        }
        self.inbox.flush().await?;
        for _ in 0..self.held.len() {
            refuse_error(&self.inbox.message().await?).context("an acknowledgement")?;
        }
        Ok(())
    }
}
