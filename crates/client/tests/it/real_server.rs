//! A server of one's own for each test, in this process.

use std::net::SocketAddr;

use tempfile::TempDir;
use windlass_client::{Client, QueueClient};
use windlass_server::config::{self, RawConfig};
use windlass_server::lifecycle::Server;

use crate::world::within;

pub(crate) struct RealServer {
    server: Server,
    directory: TempDir,
}

impl RealServer {
    pub(crate) async fn start() -> Self {
        Self::start_on(tempfile::tempdir().unwrap()).await
    }

    async fn start_on(directory: TempDir) -> Self {
        let flags = RawConfig {
            data: Some(directory.path().to_str().unwrap().into()),
            listen: Some("127.0.0.1:0".into()),
            ..RawConfig::default()
        };
        let config = config::load(flags, None, std::iter::empty()).unwrap();
        Self { server: Server::start(config).await.unwrap(), directory }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.server.address())).unwrap()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The same data, at another address.
    pub(crate) async fn restart(self) -> Self {
        self.server.stop().await;
        Self::start_on(self.directory).await
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }

    /// Returns once `leases` leases wait at the queue.
    pub(crate) async fn until_waiting(&self, queue: &QueueClient, leases: u64) {
        let reached = async { while queue.stats().await.unwrap().lease_waiters != leases {} };
        within(reached).await;
    }
}
