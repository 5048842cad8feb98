//! What is stored in a queue, for people and scripts.

use clap::Args;
use windlass_api::items::Item;
use windlass_api::storage::ListItemsReply;

use super::partitions;
use super::walk::{self, PAGE, Walk};
use crate::cmd::items::shown::{self, Place};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::remote::Remote;

/// Show items of a queue in the order in which they will be leased
#[derive(Debug, Args)]
#[command(after_help = "\
Shows what waits and what is leased, each partition by itself; with --scheduled, what is due later, by time. Of dead letters, \
and of others that failed or were moved, it tells where they came FROM and their latest ERROR.

Examples:
  windlass storage list mail
  windlass storage list mail --scheduled --limit 10
  windlass storage list mail --json | jq -r '.items[].id'")]
pub(super) struct List {
    queue: String,
    /// Only this partition, as `queue stats` numbers them
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// What is due later
    #[arg(long)]
    scheduled: bool,
    /// The most items to show
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

impl List {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let reply = ListItemsReply { items: self.items(remote).await? };
        if reply.items.is_empty() {
            let what = if self.scheduled { "scheduled" } else { "waiting or leased" };
            out.talk(&format!("nothing is {what} in {}", self.queue));
        }
        out.reply(&reply, |now| shown::table(&reply.items, now, Place::Partition, out.columns()))?;
        Ok(Exit::Done)
    }

    async fn items(&self, remote: &Remote) -> Result<Vec<Item>, Failure> {
        let mut items = Vec::new();
        for partition in self.partitions(remote).await? {
            let mut walk = Walk::new(remote.client(), &self.queue, partition);
            walk.begin(if self.scheduled { walk::List::Scheduled } else { walk::List::Queue });
            while let room @ 1.. = self.limit - items.len() as u32
                && let Some(page) = walk.next(room.min(PAGE)).await?
            {
                items.extend(page);
            }
        }
        Ok(items)
    }

    async fn partitions(&self, remote: &Remote) -> Result<Vec<u32>, Failure> {
        match self.partition {
            Some(partition) => Ok(vec![partition]),
            None => {
                let all = partitions(remote.client(), &self.queue).await?;
                Ok(all.into_iter().map(|(partition, _)| partition).collect())
            }
        }
    }
}
