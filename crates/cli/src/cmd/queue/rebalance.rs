//! `windlass queue rebalance`: other partitions for a queue, and how far those that go have come.

use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use windlass_api::queues::{QueueStatsReply, QueueStatsRequest, RebalanceQueueRequest, Remaining};

use super::shown;
use crate::exit::Failure;
use crate::human::counted;
use crate::output::Output;
use crate::remote::{Remote, failed};

/// How often to look at what remains.
const PAUSE: Duration = Duration::from_millis(500);

/// Give a queue more partitions, or fewer
#[derive(Debug, Args)]
#[command(after_help = "\
More partitions serve at once. Of fewer, those that go take nothing new and are worked on until they are empty: \
`windlass queue stats` shows them as draining. On a terminal it shows what remains until they are; it can be left at any \
time, they go on. Refused while an earlier change still drains some.

Examples:
  windlass queue rebalance mail --partitions 8
  windlass queue rebalance mail --partitions 1 --wait")]
pub(super) struct Rebalance {
    queue: String,
    /// How many it is to have, 1 to 1024
    #[arg(long, value_name = "N")]
    partitions: u32,
    /// End only when the partitions that go are empty, also where nobody looks on
    #[arg(long)]
    wait: bool,
}

impl Rebalance {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let request = RebalanceQueueRequest { queue: self.queue, partitions: self.partitions };
        let reply = remote.call(&request).await?;
        let progress = out.progress(None);
        if self.wait || !progress.is_hidden() {
            drained(remote, request.queue, &progress).await?;
        }
        out.reply(&reply, |now| shown::queue(&reply.queue, now))
    }
}

/// Looks again and again until nothing drains any more.
async fn drained(remote: &Remote, queue: String, progress: &ProgressBar) -> Result<(), Failure> {
    let request = QueueStatsRequest { queue };
    progress.enable_steady_tick(Duration::from_millis(200));
    loop {
        let stats = remote.patient().call(&request).await.map_err(|error| failed(&request, error))?;
        let Some(left) = told(&stats) else { break };
        progress.set_message(left);
        tokio::time::sleep(PAUSE).await;
    }
    progress.finish_and_clear();
    Ok(())
}

/// What is left to do in the partitions that drain, if any does.
fn told(stats: &QueueStatsReply) -> Option<String> {
    let draining: Vec<&Remaining> =
        stats.partitions.iter().filter_map(|partition| partition.remaining.as_ref()).collect();
    let (items, groups) =
        draining.iter().fold((0, 0), |(items, groups), left| (items + left.items, groups + left.groups));
    let partitions = counted(draining.len() as u64, "partition");
    (!draining.is_empty()).then(|| format!("{partitions} to empty: {}", left(&Remaining { items, groups })))
}

pub(super) fn left(remaining: &Remaining) -> String {
    let items = counted(remaining.items, "item");
    match remaining.groups {
        0 => format!("{items} left"),
        groups => format!("{items} and {} left", counted(groups, "group")),
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::queues::PartitionStats;

    use super::*;

    #[test]
    fn what_is_left_is_told_over_all_that_drain() {
        let with = |remaining| PartitionStats { remaining, ..PartitionStats::default() };
        let mut stats = QueueStatsReply { partitions: vec![with(None)], ..QueueStatsReply::default() };
        assert_eq!(told(&stats), None);
        stats.partitions.push(with(Some(Remaining { items: 1, groups: 0 })));
        assert_eq!(told(&stats).as_deref(), Some("1 partition to empty: 1 item left"));
        stats.partitions.push(with(Some(Remaining { items: 1500, groups: 2 })));
        assert_eq!(told(&stats).as_deref(), Some("2 partitions to empty: 1,501 items and 2 groups left"));
    }
}
