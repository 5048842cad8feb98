//! [`Contender`]: everything that can be measured, by name.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;

use super::windlass::{self, Dialect};
use super::{Peer, beanstalkd, nats, postgres, rabbitmq, redis};
use crate::server::place::Place;
use crate::server::{Server, programs};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Contender {
    /// The bare loop that only appends and syncs: the floor, not a queue
    Bare,
    /// Windlass in JSON
    Windlass,
    /// Windlass in protobuf
    WindlassProtobuf,
    /// Windlass in JSON with queue.next, which completes a batch and leases the next
    WindlassNext,
    /// Redis: lists, a sorted set of leases, appendfsync always
    Redis,
    /// RabbitMQ: a quorum queue with publisher confirms
    Rabbitmq,
    /// PostgreSQL: a table and SKIP LOCKED
    Postgres,
    /// NATS JetStream: a work-queue stream on files, synced always
    Nats,
    /// beanstalkd: its binlog synced at each write
    Beanstalkd,
}

/// A peer that is up: the processes, and how to talk to them.
pub(crate) type Started = (Server, Box<dyn Peer>);

impl Contender {
    pub(crate) const ALL: [Self; 9] = [
        Self::Bare,
        Self::Windlass,
        Self::WindlassProtobuf,
        Self::WindlassNext,
        Self::Redis,
        Self::Rabbitmq,
        Self::Postgres,
        Self::Nats,
        Self::Beanstalkd,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare loop",
            Self::Windlass => "windlass",
            Self::WindlassProtobuf => "windlass-protobuf",
            Self::WindlassNext => "windlass-next",
            Self::Redis => "redis",
            Self::Rabbitmq => "rabbitmq",
            Self::Postgres => "postgres",
            Self::Nats => "nats",
            Self::Beanstalkd => "beanstalkd",
        }
    }

    /// The Debian package of a peer, and the program that it is run with.
    pub(crate) fn package(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Bare | Self::Windlass | Self::WindlassProtobuf | Self::WindlassNext => None,
            Self::Redis => Some(("redis-server", "redis-server")),
            // In the directory of the server's own scripts: the `rabbitmq-server` in PATH is a wrapper for an init system.
            Self::Rabbitmq => Some(("rabbitmq-server", "rabbitmq-defaults")),
            Self::Postgres => Some(("postgresql", "postgres")),
            Self::Nats => Some(("nats-server", "nats-server")),
            Self::Beanstalkd => Some(("beanstalkd", "beanstalkd")),
        }
    }

    /// Whether everything that it needs is installed.
    pub(crate) fn is_installed(self) -> bool {
        self.package().is_none_or(|(_, program)| programs::find(program).is_some())
    }

    /// Starts its server; the bare loop has none.
    pub(crate) async fn start(self, place: &Place) -> Result<Option<Started>> {
        Ok(match self {
            Self::Bare => None,
            Self::Windlass => Some(boxed(windlass::start(place, Dialect::Json).await?)),
            Self::WindlassProtobuf => Some(boxed(windlass::start(place, Dialect::Protobuf).await?)),
            Self::WindlassNext => Some(boxed(windlass::start(place, Dialect::Next).await?)),
            Self::Redis => Some(boxed(redis::start(place, &self.program()).await?)),
            Self::Rabbitmq => Some(boxed(rabbitmq::start(place, &self.program()).await?)),
            Self::Postgres => Some(boxed(postgres::start(place, &self.program()).await?)),
            Self::Nats => Some(boxed(nats::start(place, &self.program()).await?)),
            Self::Beanstalkd => Some(boxed(beanstalkd::start(place, &self.program()).await?)),
        })
    }

    fn program(self) -> PathBuf {
        let name = self.package().map_or("", |(_, program)| program);
        programs::find(name).unwrap_or_else(|| name.into())
    }
}

fn boxed((server, peer): (Server, impl Peer + 'static)) -> Started {
    (server, Box::new(peer))
}
