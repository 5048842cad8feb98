//! What there is and what is lost, in items.

use serde::Serialize;
use windlass_core::id::PartitionId;
use windlass_engine::store::log::inspect::{Account, PartitionAccount};

use crate::human::{count, counted};

#[derive(Debug, Serialize)]
pub(super) struct Items {
    kept: u64,
    lost: u64,
    /// Damage may have taken items that nothing tells of: then `lost` is the least.
    may_miss_more: bool,
    payloads_lost: u64,
    frames_missing: u64,
    /// Those that something is or may be missing of.
    hurt: Vec<Hurt>,
    /// Partitions that hold something although neither a queue nor a drop record of this directory names them.
    unclaimed: Vec<u32>,
}

#[derive(Debug, Serialize)]
struct Hurt {
    partition: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    kept: u64,
    lost: u64,
    may_miss_more: bool,
    payloads_lost: u64,
    results_lost: u64,
    facts_lost: u64,
    answers_lost: u64,
    attempts_lost: u64,
    events_lost: u64,
    templates_lost: u64,
    commits_missing: u64,
}

impl Items {
    pub(super) fn of(account: &Account, unclaimed: Vec<u32>) -> Self {
        let hurt = account.partitions.iter().filter(|(_, partition)| partition.hurt());
        Self {
            kept: account.items(),
            lost: account.items_lost(),
            may_miss_more: account.may_miss_more(),
            payloads_lost: account.payloads_lost(),
            frames_missing: account.frames_missing,
            hurt: hurt.map(|(id, partition)| Hurt::of(*id, partition)).collect(),
            unclaimed,
        }
    }

    /// `10,415 of at least 10,416`.
    pub(super) fn total(&self) -> String {
        total(self.kept, self.lost, self.may_miss_more)
    }

    /// A line for each partition that is hurt.
    pub(super) fn shown(&self) -> String {
        self.hurt.iter().map(Hurt::shown).collect()
    }
}

impl Hurt {
    fn of(id: PartitionId, partition: &PartitionAccount) -> Self {
        Self {
            partition: id.0,
            queue: partition.queue.as_ref().map(|queue| queue.name.to_string()),
            kept: partition.items,
            lost: partition.items_lost,
            may_miss_more: partition.may_miss_more,
            payloads_lost: partition.payloads_lost,
            results_lost: partition.results_lost,
            facts_lost: partition.facts_lost,
            answers_lost: partition.answers_lost,
            attempts_lost: partition.attempts_lost,
            events_lost: partition.events_lost,
            templates_lost: partition.templates_lost,
            commits_missing: partition.commits_missing,
        }
    }

    fn shown(&self) -> String {
        let name = match (&self.queue, self.partition) {
            (Some(queue), partition) => format!("partition {partition} (queue {queue})"),
            (None, 0) => "partition 0 (queues)".to_owned(),
            (None, partition) => format!("partition {partition}"),
        };
        let all = self.kept + self.lost;
        let items = if all == 1 { "item" } else { "items" };
        let mut parts = vec![format!("{} {items}", total(self.kept, self.lost, self.may_miss_more))];
        let bodies = [
            (self.payloads_lost, "payload", "payloads"),
            (self.results_lost, "result", "results"),
            (self.facts_lost, "reference or header record", "reference or header records"),
            (self.answers_lost, "answer", "answers"),
            (self.attempts_lost, "entry of an attempt log", "entries of attempt logs"),
            (self.events_lost, "batch of events", "batches of events"),
            (self.templates_lost, "payload of a group or cron", "payloads of groups or crons"),
        ];
        let lost = bodies.into_iter().filter(|(number, ..)| *number > 0);
        parts.extend(lost.map(|(number, one, several)| {
            format!("lost: {} {}", count(number), if number == 1 { one } else { several })
        }));
        if self.commits_missing > 0 {
            parts.push(format!("{} missing", counted(self.commits_missing, "commit")));
        }
        let kept = if self.payloads_lost > 0 {
            "\n    items without payload are kept: a lease ends such an item as failed, with the code damaged"
        } else {
            ""
        };
        format!("  {name}: {}{kept}\n", parts.join("; "))
    }
}

fn total(kept: u64, lost: u64, may_miss_more: bool) -> String {
    match (lost, may_miss_more) {
        (0, false) => count(kept),
        (_, false) => format!("{} of {}", count(kept), count(kept + lost)),
        (_, true) => format!("{} of at least {}", count(kept), count(kept + lost)),
    }
}
