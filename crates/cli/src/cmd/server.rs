//! `windlass server`: what a server tells of itself.

use clap::{Args, Subcommand};
use windlass_api::Time;
use windlass_api::service::{ServerInfo, ServerInfoRequest, ServerLimits, StoreInfo};

use crate::exit::{Exit, Failure};
use crate::human::{bytes, count, moment};
use crate::output::Output;
use crate::remote::Remote;
use crate::table::{Align, Table, facts};

/// Show a server's version, stores and limits
#[derive(Debug, Args)]
pub(crate) struct ServerCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the version, the stores and the limits of the server
    #[command(after_help = "\
Examples:
  windlass server info
  windlass server info --json | jq .server.limits.payload_bytes")]
    Info,
}

impl ServerCommand {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        match self.verb {
            Verb::Info => {
                let reply = remote.call(&ServerInfoRequest {}).await?;
                out.reply(&reply, |now| shown(&reply.server, now))?;
                Ok(Exit::Done)
            }
        }
    }
}

fn shown(server: &ServerInfo, now: Time) -> String {
    let mut known = vec![("version", server.version.clone()), ("started", moment(server.started_at, now))];
    known.extend(server.node.clone().map(|node| ("node", node)));
    known.extend(of_limits(&server.limits));
    format!("{}\n{}", facts(&known), of_stores(&server.stores))
}

fn of_limits(limits: &ServerLimits) -> [(&'static str, String); 8] {
    [
        ("connections", count(limits.connections)),
        ("waiting requests", count(limits.waiting_requests)),
        ("payload", bytes(limits.payload_bytes)),
        ("body", bytes(limits.body_bytes)),
        ("bytes in flight", bytes(limits.bytes_in_flight)),
        ("queues", count(limits.queues)),
        ("partitions", count(limits.partitions)),
        ("memory", limits.memory.map_or_else(|| "no limit".into(), bytes)),
    ]
}

fn of_stores(stores: &[StoreInfo]) -> String {
    let mut table = Table::new(&[
        ("STORE", Align::Left),
        ("KIND", Align::Left),
        ("STATE", Align::Left),
        ("FREE", Align::Right),
    ]);
    for store in stores {
        let free = store.bytes_free.map_or_else(|| "-".into(), bytes);
        table.row([store.store.clone(), store.kind.clone(), store.state.clone(), free]);
    }
    table.show()
}
