//! Windlass over HTTP/1.1: in JSON, in protobuf, and with `queue.next`.

mod http;
mod json;
mod next;
mod protobuf;

use std::net::SocketAddr;

use anyhow::{Result, bail};
use async_trait::async_trait;
use serde_json::json;

use self::http::{Http, JSON};
use super::{Client, Job, LEASE_SECONDS, Peer};
use crate::server::Server;
use crate::server::launch::Launch;
use crate::server::place::Place;

/// How a client talks to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Json,
    Protobuf,
    /// JSON, and `queue.next` completes a batch and leases the next in one call.
    Next,
}

/// How long a lease waits: longer than any run.
const WAIT: &str = "15m";
const CLIENT_ID: &str = "compare";

#[derive(Debug)]
pub(crate) struct Windlass {
    address: SocketAddr,
    dialect: Dialect,
}

pub(crate) async fn start(place: &Place, dialect: Dialect) -> Result<(Server, Windlass)> {
    let address = place.free_address()?;
    let server = Launch::new(place.windlass())
        .args(["serve", "--listen", &address.to_string(), "--log-level", "warn", "--data"])
        .args([place.directory()])
        .args(["--limits-connections", "20000", "--limits-waiting-requests", "20000"])
        .start(place)?;
    server.wait_until(async || is_ready(address).await.unwrap_or(false)).await?;
    Ok((server, Windlass { address, dialect }))
}

async fn is_ready(address: SocketAddr) -> Result<bool> {
    Http::connect(address).await?.is_ready().await
}

#[async_trait]
impl Peer for Windlass {
    async fn create(&self, queue: &str) -> Result<()> {
        let create = json!({"queue": queue, "lease_timeout": format!("{LEASE_SECONDS}s")});
        self.admin("queues.create", &create).await?;
        if self.dialect == Dialect::Next {
            self.must_know_next(queue).await?;
        }
        Ok(())
    }

    async fn connect(&self, job: &Job) -> Result<Box<dyn Client>> {
        let http = Http::connect(self.address).await?;
        Ok(match self.dialect {
            Dialect::Json => Box::new(json::JsonClient::new(http, job)),
            Dialect::Protobuf => Box::new(protobuf::ProtobufClient::new(http, job)),
            Dialect::Next => Box::new(next::NextClient::new(http, job)),
        })
    }

    async fn delete(&self, queue: &str) -> Result<()> {
        self.admin("queues.delete", &json!({"queue": queue, "force": true})).await
    }
}

impl Windlass {
    async fn admin(&self, call: &str, body: &serde_json::Value) -> Result<()> {
        let mut http = Http::connect(self.address).await?;
        http.call(call, JSON, |body_bytes| body_bytes.extend_from_slice(body.to_string().as_bytes())).await?;
        Ok(())
    }

    /// An older server has no `queue.next`: found out before anything is measured.
    async fn must_know_next(&self, queue: &str) -> Result<()> {
        let lease = json!({"batch_size": 1, "request_timeout": "0s"});
        let next = json!({"queue": queue, "client_id": CLIENT_ID, "complete": [], "lease": lease});
        match self.admin("queue.next", &next).await {
            Err(error) if error.to_string().contains("not_found") => {
                bail!("this windlass has no call queue.next: build a newer one")
            }
            answered => answered,
        }
    }
}
