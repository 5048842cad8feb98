//! PostgreSQL with `FOR UPDATE SKIP LOCKED`.
//!
//! A queue is a table. `ready_at` says from when on an item can be leased: a lease moves it to the lease's deadline, so
//! that one index finds new, due and abandoned items alike.

mod client;

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use async_trait::async_trait;
use rustix::process::Signal;
use tokio_postgres::NoTls;

use self::client::PostgresClient;
use super::{Client, Job, Peer};
use crate::server::Server;
use crate::server::launch::Launch;
use crate::server::place::Place;
use crate::server::user::User;

/// Settings for a machine of this size; none of them weakens a commit.
const SETTINGS: [&str; 11] = [
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "shared_buffers=512MB",
    "max_wal_size=4GB",
    "checkpoint_timeout=15min",
    "autovacuum_naptime=5s",
    "max_connections=200",
    "wal_level=minimal",
    "max_wal_senders=0",
    "jit=off",
];

#[derive(Debug)]
pub(crate) struct Postgres {
    address: SocketAddr,
}

pub(crate) async fn start(place: &Place, program: &Path) -> Result<(Server, Postgres)> {
    let user = User::instead_of_root()?;
    if let Some(user) = user {
        user.give(place.directory())?;
    }
    let data = place.directory().join("data");
    Launch::as_user(&program.with_file_name("initdb"), user)
        .args(["--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"])
        .args([&data])
        .run(place)?;
    let address = place.free_address()?;
    let server = Launch::as_user(program, user)
        .args(["-h", "127.0.0.1", "-p", &address.port().to_string(), "-k", "", "-D"])
        .args([&data])
        .args(SETTINGS.iter().flat_map(|setting| ["-c", setting]))
        .ended_by(Signal::QUIT)
        .start(place)?;
    server.wait_until(async || open(address).await.is_ok()).await?;
    Ok((server, Postgres { address }))
}

/// A connection whose traffic is carried by a task that ends with it.
async fn open(address: SocketAddr) -> Result<tokio_postgres::Client> {
    let (client, connection) = connect(address).await?;
    tokio::spawn(connection);
    Ok(client)
}

type Connection = tokio_postgres::Connection<tokio_postgres::Socket, tokio_postgres::tls::NoTlsStream>;

async fn connect(address: SocketAddr) -> Result<(tokio_postgres::Client, Connection)> {
    let url = format!("host={} port={} user=postgres dbname=postgres", address.ip(), address.port());
    tokio_postgres::connect(&url, NoTls).await.context("cannot connect to PostgreSQL")
}

#[async_trait]
impl Peer for Postgres {
    async fn create(&self, queue: &str) -> Result<()> {
        let table = format!(
            "CREATE TABLE {queue} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
             ready_at timestamptz NOT NULL, permit bigint, payload bytea NOT NULL); \
             CREATE INDEX ON {queue} (ready_at, id)"
        );
        open(self.address).await?.batch_execute(&table).await.context("cannot make a table")
    }

    async fn connect(&self, job: &Job) -> Result<Box<dyn Client>> {
        let (client, connection) = connect(self.address).await?;
        Ok(Box::new(PostgresClient::new(client, connection, job).await?))
    }

    async fn delete(&self, queue: &str) -> Result<()> {
        let drop = format!("DROP TABLE {queue}");
        open(self.address).await?.batch_execute(&drop).await.context("cannot drop a table")
    }

    async fn filled(&self, queue: &str) -> Result<()> {
        let analyze = format!("VACUUM ANALYZE {queue}");
        open(self.address).await?.batch_execute(&analyze).await.context("cannot analyze a table")
    }
}
