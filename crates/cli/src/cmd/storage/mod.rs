//! `windlass storage`: the items of a queue as they are stored, one by one, and partitions that no queue names.

mod export;
mod exported;
mod import;
mod list;
mod unclaimed;
mod walk;

use clap::{Args, Subcommand};
use windlass_api::queues::QueueStatsRequest;
use windlass_api::storage::DeleteItemsRequest;
use windlass_client::Client;

use self::export::Export;
use self::import::Import;
use self::list::List;
use self::unclaimed::{Adopt, Drop, ListUnclaimed};
use crate::exit::{Exit, Failure};
use crate::failed;
use crate::human::counted;
use crate::output::Output;
use crate::remote::{self, Remote};

/// Look at what is stored, take a copy, bring one in, take items out, adopt or drop unclaimed partitions
#[derive(Debug, Args)]
pub(crate) struct Storage {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(List),
    Export(Export),
    Import(Import),
    Delete(Delete),
    #[command(name = "unclaimed")]
    Unclaimed(ListUnclaimed),
    Adopt(Adopt),
    Drop(Drop),
}

/// Take live items out of a queue: nothing of them is kept
#[derive(Debug, Args)]
#[command(after_help = "\
Whoever has one leased loses it. To end items so that it can be seen later, cancel them.

Examples:
  windlass storage delete mail 00000000-0000-8080-8000-000000000001
  windlass storage list mail --json | jq -r '.items[] | select(.kind == \"old\").id' | xargs -n 1000 windlass storage delete mail")]
struct Delete {
    queue: String,
    /// The items: 1 to 1000
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

impl Storage {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        match self.verb {
            Verb::List(list) => list.run(remote, out).await,
            Verb::Export(export) => export.run(remote, out).await,
            Verb::Import(import) => import.run(remote, out).await,
            Verb::Delete(delete) => delete.run(remote, out).await,
            Verb::Unclaimed(list) => list.run(remote, out).await,
            Verb::Adopt(adopt) => adopt.run(remote, out).await,
            Verb::Drop(drop) => drop.run(remote, out).await,
        }
    }
}

impl Delete {
    async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let reply = remote.call(&DeleteItemsRequest { queue: self.queue, ids: self.ids }).await?;
        out.reply(&reply, |_| format!("{} deleted\n", counted(reply.deleted, "item")))?;
        Ok(failed::told(&reply.failed, out))
    }
}

/// The partitions of a queue, each with how many items it holds.
async fn partitions(client: &Client, queue: &str) -> Result<Vec<(u32, u64)>, Failure> {
    let request = QueueStatsRequest { queue: queue.to_owned() };
    let stats = client.call(&request).await.map_err(|error| remote::failed(&request, error))?;
    let held = stats.partitions.into_iter().map(|partition| {
        let counts = partition.counts;
        let items = counts.held + counts.scheduled + counts.waiting + counts.leased + counts.suspended;
        (partition.partition, items)
    });
    Ok(held.collect())
}
