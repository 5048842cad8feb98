//! beanstalkd with a binlog that is synced at each write.
//!
//! beanstalkd has no calls for batches: the commands of a batch go out in one write. A reserve is in memory alone.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;

use super::{Client, Job, LEASE_SECONDS, Peer, numbers};
use crate::payload;
use crate::server::Server;
use crate::server::launch::Launch;
use crate::server::place::Place;
use crate::wire::Wire;

#[derive(Debug)]
pub(crate) struct Beanstalkd {
    address: SocketAddr,
}

pub(crate) async fn start(place: &Place, program: &Path) -> Result<(Server, Beanstalkd)> {
    let address = place.free_address()?;
    let server = Launch::new(program)
        .args(["-l", "127.0.0.1", "-p", &address.port().to_string(), "-f", "0", "-b"])
        .args([place.directory()])
        .start(place)?;
    server.wait_for_port(address).await?;
    Ok((server, Beanstalkd { address }))
}

#[async_trait]
impl Peer for Beanstalkd {
    /// Tubes come into being when they are used.
    async fn create(&self, _queue: &str) -> Result<()> {
        Ok(())
    }

    async fn connect(&self, job: &Job) -> Result<Box<dyn Client>> {
        Ok(Box::new(BeanstalkdClient::connect(self.address, job).await?))
    }

    /// beanstalkd cannot empty a tube: the items that a run leaves stay in its tube, which no later run uses.
    async fn delete(&self, _queue: &str) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct BeanstalkdClient {
    wire: Wire,
    job: Job,
    request: Vec<u8>,
    held: Vec<u64>,
    leased: Vec<u64>,
}

impl BeanstalkdClient {
    async fn connect(address: SocketAddr, job: &Job) -> Result<Self> {
        let wire = Wire::connect(address).await?;
        let mut client =
            Self { wire, job: job.clone(), request: Vec::new(), held: Vec::new(), leased: Vec::new() };
        let tube = &job.queue;
        client.wire.send(format!("use {tube}\r\nwatch {tube}\r\nignore default\r\n").as_bytes()).await?;
        client.expect("USING").await?;
        client.expect("WATCHING").await?;
        client.expect("WATCHING").await?;
        Ok(client)
    }

    async fn expect(&mut self, word: &str) -> Result<()> {
        let line = self.wire.line().await?;
        ensure!(line.starts_with(word.as_bytes()), "beanstalkd answered {}", String::from_utf8_lossy(&line));
        Ok(())
    }

    async fn put(&mut self, first: u64, delay_seconds: u64) -> Result<()> {
        let size = self.job.payload;
        self.request.clear();
        for number in numbers(first, self.job.batch) {
            write!(self.request, "put 0 {delay_seconds} {LEASE_SECONDS} {size}\r\n")?;
            payload::append(&mut self.request, number, size);
            self.request.extend_from_slice(b"\r\n");
        }
        self.wire.send(&self.request).await?;
        for _ in 0..self.job.batch {
            self.expect("INSERTED").await?;
        }
        Ok(())
    }

    /// Reads the answer to one reserve: no job if there was none in time.
    async fn reserved(&mut self) -> Result<()> {
        let line = self.wire.line().await?;
        match parse(&line)? {
            Answer::TimedOut => Ok(()),
            Answer::Reserved { id, bytes } => {
                let body = self.wire.take(bytes + 2).await?;
                self.held.push(id);
                self.leased.push(payload::number(&body)?);
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Client for BeanstalkdClient {
    async fn produce(&mut self, first: u64) -> Result<()> {
        self.put(first, 0).await
    }

    /// Delays are whole seconds: rounded up, so that nothing is due too early.
    async fn schedule(&mut self, first: u64, due: SystemTime) -> Result<()> {
        let delay = due.duration_since(SystemTime::now()).unwrap_or_default();
        self.put(first, delay.as_secs_f64().ceil() as u64).await
    }

    /// The first reserve of a batch waits, the others take what there is.
    async fn lease(&mut self) -> Result<&[u64]> {
        self.held.clear();
        self.leased.clear();
        self.request.clear();
        self.request.extend_from_slice(b"reserve\r\n");
        for _ in 1..self.job.batch {
            self.request.extend_from_slice(b"reserve-with-timeout 0\r\n");
        }
        self.wire.send(&self.request).await?;
        for _ in 0..self.job.batch {
            self.reserved().await?;
        }
        Ok(&self.leased)
    }

    async fn complete(&mut self) -> Result<()> {
        self.request.clear();
        for id in &self.held {
            write!(self.request, "delete {id}\r\n")?;
        }
        self.wire.send(&self.request).await?;
        for _ in 0..self.held.len() {
            self.expect("DELETED").await?;
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Reserved { id: u64, bytes: usize },
    TimedOut,
}

fn parse(line: &[u8]) -> Result<Answer> {
    let text = std::str::from_utf8(line).context("beanstalkd answered something else than text")?;
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        ["RESERVED", id, bytes] => Ok(Answer::Reserved { id: id.parse()?, bytes: bytes.parse()? }),
        ["TIMED_OUT"] => Ok(Answer::TimedOut),
        _ => bail!("beanstalkd answered a reserve with {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_a_reserve_are_told_apart() {
        assert_eq!(parse(b"RESERVED 12 200").unwrap(), Answer::Reserved { id: 12, bytes: 200 });
        assert_eq!(parse(b"TIMED_OUT").unwrap(), Answer::TimedOut);
        assert!(parse(b"DEADLINE_SOON").unwrap_err().to_string().contains("DEADLINE_SOON"));
    }
}
