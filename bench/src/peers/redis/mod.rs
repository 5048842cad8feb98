//! Redis with an append-only file that is synced before every answer.
//!
//! A queue is a list. A lease moves items to a sorted set by their deadline, in one script, so that it is durable and
//! another worker can find what was abandoned. A complete removes them from that set.

mod client;
mod resp;

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;

use self::client::RedisClient;
use self::resp::{Resp, Value};
use super::{Client, Job, Peer};
use crate::server::Server;
use crate::server::launch::Launch;
use crate::server::place::Place;

const LEASE: &str = include_str!("lease.lua");
const LEASE_DUE: &str = include_str!("lease_due.lua");

#[derive(Debug)]
pub(crate) struct Redis {
    address: SocketAddr,
    scripts: Scripts,
}

/// The hashes that the server knows the scripts by.
#[derive(Clone, Debug)]
struct Scripts {
    lease: String,
    lease_due: String,
}

pub(crate) async fn start(place: &Place, program: &Path) -> Result<(Server, Redis)> {
    let address = place.free_address()?;
    let server = Launch::new(program)
        .args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--maxclients", "19000"])
        .args(["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir"])
        .args([place.directory()])
        .start(place)?;
    server.wait_for_port(address).await?;
    let mut resp = Resp::connect(address).await?;
    let scripts =
        Scripts { lease: load(&mut resp, LEASE).await?, lease_due: load(&mut resp, LEASE_DUE).await? };
    Ok((server, Redis { address, scripts }))
}

async fn load(resp: &mut Resp, script: &str) -> Result<String> {
    let Value::Bulk(Some(hash)) = resp.call(&[b"SCRIPT", b"LOAD", script.as_bytes()]).await? else {
        bail!("redis did not load a script")
    };
    Ok(String::from_utf8(hash.to_vec())?)
}

#[async_trait]
impl Peer for Redis {
    /// Lists come into being with their first item.
    async fn create(&self, _queue: &str) -> Result<()> {
        Ok(())
    }

    async fn connect(&self, job: &Job) -> Result<Box<dyn Client>> {
        let resp = Resp::connect(self.address).await?;
        Ok(Box::new(RedisClient::new(resp, self.scripts.clone(), job)))
    }

    async fn delete(&self, _queue: &str) -> Result<()> {
        let mut resp = Resp::connect(self.address).await?;
        resp.call(&[b"FLUSHALL"]).await.context("redis cannot be emptied")?;
        Ok(())
    }
}
