//! NATS JetStream: a work-queue stream on files that are synced at each write, and one pull consumer for all clients.
//!
//! NATS has no calls for batches of messages: publishes and acknowledgements of a batch go out in one write. Leases are
//! kept in memory, and written now and then.

mod client;
mod line;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use serde_json::json;

use self::client::{CONSUMER, Inbox, NatsClient};
use super::{Client, Job, LEASE_SECONDS, Peer};
use crate::server::Server;
use crate::server::launch::Launch;
use crate::server::place::Place;

/// The first version that can sync each write.
const VERSION_MIN: (u32, u32) = (2, 10);
const NANOS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Nats {
    address: SocketAddr,
}

pub(crate) async fn start(place: &Place, program: &Path) -> Result<(Server, Nats)> {
    must_be_new_enough(program)?;
    let address = place.free_address()?;
    let config = place.directory().join("nats.conf");
    std::fs::write(&config, configuration(address, place.directory()))?;
    let server = Launch::new(program).args([Path::new("-c"), &config]).start(place)?;
    server.wait_for_port(address).await?;
    Ok((server, Nats { address }))
}

fn configuration(address: SocketAddr, directory: &Path) -> String {
    let store = directory.join("store");
    let limits = "max_file_store: 50GB, max_memory_store: 256MB";
    format!("listen: \"{address}\"\njetstream {{ store_dir: {store:?}, sync_interval: always, {limits} }}\n")
}

fn must_be_new_enough(program: &Path) -> Result<()> {
    let output = Command::new(program).arg("--version").output().context("cannot run nats-server")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version = version(&said).with_context(|| format!("nats-server has an odd version: {said}"))?;
    let (major, minor) = VERSION_MIN;
    ensure!(
        version >= VERSION_MIN,
        "{} cannot sync each write (sync_interval: always): put nats-server {major}.{minor} or newer in PATH",
        said.trim()
    );
    Ok(())
}

/// Major and minor number of an output such as `nats-server: v2.10.27`.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().rsplit_once('v')?.1.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[async_trait]
impl Peer for Nats {
    async fn create(&self, queue: &str) -> Result<()> {
        let mut inbox = Inbox::connect(self.address).await?;
        let stream = json!({"name": queue, "subjects": [queue], "retention": "workqueue", "storage": "file"});
        inbox.ask(&format!("$JS.API.STREAM.CREATE.{queue}"), &stream).await?;
        let config = json!({
            "durable_name": CONSUMER, "ack_policy": "explicit", "ack_wait": LEASE_SECONDS * NANOS,
            "max_ack_pending": 1_000_000, "max_waiting": 20_000, "deliver_policy": "all",
        });
        let consumer = json!({"stream_name": queue, "config": config});
        inbox.ask(&format!("$JS.API.CONSUMER.DURABLE.CREATE.{queue}.{CONSUMER}"), &consumer).await
    }

    async fn connect(&self, job: &Job) -> Result<Box<dyn Client>> {
        Ok(Box::new(NatsClient::new(Inbox::connect(self.address).await?, job)))
    }

    async fn delete(&self, queue: &str) -> Result<()> {
        let mut inbox = Inbox::connect(self.address).await?;
        inbox.ask(&format!("$JS.API.STREAM.DELETE.{queue}"), &json!({})).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("nats-server: v2.10.27\n"), Some((2, 10)));
        assert!(version("nats-server: v2.9.10").unwrap() < VERSION_MIN);
        assert_eq!(version("nats"), None);
    }

    #[test]
    fn each_write_is_synced() {
        let configuration = configuration("127.0.0.1:4222".parse().unwrap(), Path::new("/data"));
        assert!(configuration.contains("store_dir: \"/data/store\", sync_interval: always"));
    }
}
