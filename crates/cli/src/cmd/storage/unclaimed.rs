//! Partitions that a store holds and no queue names: shown, adopted, dropped.

use clap::Args;
use windlass_api::unclaimed::{
    AdoptPartitionRequest, DropPartitionRequest, ListUnclaimedReply, ListUnclaimedRequest, UnclaimedPartition,
};

use crate::exit::{Exit, Failure};
use crate::human::count;
use crate::output::Output;
use crate::remote::Remote;
use crate::table::Align::{Left, Right};
use crate::table::Table;

/// Show partitions that a store holds and no queue names
#[derive(Debug, Args)]
#[command(after_help = "\
A partition becomes unclaimed when the registry is lost, or restored from an older backup. The server keeps unclaimed partitions \
and serves none of them. Adopt each into a queue, or drop it.

Examples:
  windlass storage unclaimed
  windlass storage unclaimed --json | jq '.partitions[] | select(.items > 0)'
  windlass storage adopt 7 --queue mail
  windlass storage drop 8")]
pub(super) struct ListUnclaimed {}

/// Make an unclaimed partition one of a queue's, with everything in it
#[derive(Debug, Args)]
#[command(after_help = "\
The items keep their ids, and take over the settings and rules of the queue. `queue rebalance` brings the queue back to \
fewer partitions.

If a queue has a partition of that number already, stop the server, export the items with `windlass inspect DIR --export \
--partition NUMBER`, where DIR is the directory of the store that holds the unclaimed partition, start the server, and bring \
the items in with `windlass storage import`. Then drop the partition.

Examples:
  windlass storage adopt 7 --queue mail
  windlass storage adopt 7 --queue mail --store second")]
pub(super) struct Adopt {
    /// The number of the partition, as `storage unclaimed` shows it
    partition: u32,
    /// The queue that gets the partition
    #[arg(long)]
    queue: String,
    /// The store that holds the partition, if several hold an unclaimed one of that number
    #[arg(long)]
    store: Option<String>,
}

/// Delete an unclaimed partition and everything in it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass storage drop 8
  windlass storage drop 7 --store second --force")]
pub(super) struct Drop {
    /// The number of the partition, as `storage unclaimed` shows it
    partition: u32,
    /// The store that holds the partition, if several hold an unclaimed one of that number
    #[arg(long)]
    store: Option<String>,
    /// Drop it even if it holds items or cannot be read
    #[arg(long)]
    force: bool,
}

impl ListUnclaimed {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let mut reply = ListUnclaimedReply::default();
        loop {
            let pivot = reply.partitions.last().map(|last| last.partition);
            let page = remote.call(&ListUnclaimedRequest { pivot, limit: None }).await?.partitions;
            if page.is_empty() {
                break;
            }
            reply.partitions.extend(page);
        }
        if reply.partitions.is_empty() {
            out.talk("no partition is unclaimed");
        }
        out.reply(&reply, |_| shown(&reply.partitions))?;
        Ok(Exit::Done)
    }
}

fn shown(partitions: &[UnclaimedPartition]) -> String {
    if partitions.is_empty() {
        return String::new();
    }
    let columns = [
        ("PARTITION", Right),
        ("STORE", Left),
        ("WAS OF QUEUE", Left),
        ("ITEMS", Right),
        ("CRONS", Right),
        ("ENDED", Right),
    ];
    let mut table = Table::new(&columns);
    let known = |number: Option<u64>| number.map_or("unreadable".into(), count);
    for partition in partitions {
        table.row([
            partition.partition.to_string(),
            partition.store.clone(),
            partition.queue.clone().unwrap_or_else(|| "-".into()),
            known(partition.items),
            known(partition.crons),
            known(partition.retained),
        ]);
    }
    table.show()
}

impl Adopt {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let Self { partition, queue, store } = self;
        let request = AdoptPartitionRequest { partition, queue, store };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |_| format!("partition {partition} now belongs to queue {}\n", request.queue))?;
        Ok(Exit::Done)
    }
}

impl Drop {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let Self { partition, store, force } = self;
        let reply = remote.call(&DropPartitionRequest { partition, store, force }).await?;
        out.reply(&reply, |_| format!("partition {partition} is dropped\n"))?;
        Ok(Exit::Done)
    }
}
