//! RabbitMQ: a quorum queue, publisher confirms, and consumers that prefetch a batch.
//!
//! A lease is a delivery: the server knows of it in memory alone. An acknowledgement of a delivery is not answered.

mod amqp;
mod client;
mod frames;

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use async_trait::async_trait;

use self::amqp::Amqp;
use self::client::RabbitClient;
use super::{Client, Job, Peer};
use crate::server::Server;
use crate::server::launch::Launch;
use crate::server::place::Place;
use crate::server::programs;

#[derive(Debug)]
pub(crate) struct RabbitMq {
    address: SocketAddr,
}

/// `program` is any of the scripts beside the server's own: the one in PATH changes the user.
pub(crate) async fn start(place: &Place, program: &Path) -> Result<(Server, RabbitMq)> {
    let address = place.free_address()?;
    let epmd_address = place.free_address()?;
    let epmd = start_epmd(place, epmd_address).await?;
    let directory = place.directory();
    let server = Launch::new(&program.with_file_name("rabbitmq-server"))
        .env("HOME", directory)
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("ERL_EPMD_PORT", epmd_address.port().to_string())
        .env("RABBITMQ_NODENAME", format!("compare{}@localhost", address.port()))
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", address.port().to_string())
        .env("RABBITMQ_DIST_PORT", place.free_address()?.port().to_string())
        .env("RABBITMQ_MNESIA_BASE", directory.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", directory.join("log"))
        .env("RABBITMQ_PID_FILE", directory.join("pid"))
        .env("RABBITMQ_CONFIG_FILE", directory.join("rabbitmq"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", directory.join("enabled_plugins"))
        .start(place)?;
    server.wait_until(async || Amqp::connect(address).await.is_ok()).await?;
    Ok((server.with(epmd), RabbitMq { address }))
}

/// Starts the Erlang port mapper here: one that the server starts would outlive it.
async fn start_epmd(place: &Place, address: SocketAddr) -> Result<Server> {
    let program = programs::find("epmd").context("there is no epmd: install erlang-base")?;
    let port = address.port().to_string();
    let epmd = Launch::new(&program).args(["-address", "127.0.0.1", "-port", &port]).start(place)?;
    epmd.wait_for_port(address).await?;
    Ok(epmd)
}

#[async_trait]
impl Peer for RabbitMq {
    async fn create(&self, queue: &str) -> Result<()> {
        let mut amqp = Amqp::connect(self.address).await?;
        amqp.call(&frames::declare(queue)).await
    }

    async fn connect(&self, job: &Job) -> Result<Box<dyn Client>> {
        let mut amqp = Amqp::connect(self.address).await?;
        amqp.call(&frames::confirm_select()).await?;
        Ok(Box::new(RabbitClient::new(amqp, job)))
    }

    async fn delete(&self, queue: &str) -> Result<()> {
        let mut amqp = Amqp::connect(self.address).await?;
        amqp.call(&frames::delete(queue)).await
    }
}
