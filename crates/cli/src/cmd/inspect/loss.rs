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
    /// Partitions that hold something although no queue here names them.
    unclaimed: Vec<u32>,
    #[serde(skip)]
    has_registry: bool,
    #[serde(skip)]
    has_partitions: bool,
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
    events_lost: u64,
    templates_lost: u64,
    commits_missing: u64,
}

impl Items {
    pub(super) fn of(account: &Account) -> Self {
        let hurt = account.partitions.iter().filter(|(_, partition)| partition.hurt());
        Self {
            kept: account.items(),
            lost: account.items_lost(),
            may_miss_more: account.may_miss_more(),
            payloads_lost: account.payloads_lost(),
            frames_missing: account.frames_missing,
            hurt: hurt.map(|(id, partition)| Hurt::of(*id, partition)).collect(),
            unclaimed: account.unclaimed().map(|id| id.0).collect(),
            has_registry: account.partitions.contains_key(&PartitionId::REGISTRY),
            has_partitions: account.partitions.keys().any(|id| *id != PartitionId::REGISTRY),
        }
    }

    /// `10,415 of at least 10,416`.
    pub(super) fn total(&self) -> String {
        total(self.kept, self.lost, self.may_miss_more)
    }

    /// A line for each partition that is hurt, and what to do about queues that are lost.
    pub(super) fn shown(&self, is_damaged: bool) -> String {
        let lines: String = self.hurt.iter().map(Hurt::shown).collect();
        format!("{lines}{}", self.advice(is_damaged))
    }

    fn advice(&self, is_damaged: bool) -> String {
        let adopt = "Start a server on it, list them with `windlass storage unclaimed`, and give each to a queue with \
                     `windlass storage adopt`";
        if !self.unclaimed.is_empty() {
            let numbers: Vec<String> = self.unclaimed.iter().map(u32::to_string).collect();
            return format!("no queue names partition {}. {adopt}\n", numbers.join(", "));
        }
        if is_damaged && self.has_partitions && !self.has_registry {
            return format!(
                "no queue is in this directory: right for one of `[[stores]]`. If it is the first, its queues are lost. \
                 {adopt}\n"
            );
        }
        String::new()
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
        let mut parts = vec![format!("{} items", total(self.kept, self.lost, self.may_miss_more))];
        let bodies = [
            (self.payloads_lost, "payload"),
            (self.results_lost, "result"),
            (self.facts_lost, "reference or header record"),
            (self.answers_lost, "answer"),
            (self.events_lost, "batch of events"),
            (self.templates_lost, "payload of a group or cron"),
        ];
        let lost = bodies.into_iter().filter(|(number, _)| *number > 0);
        parts.extend(lost.map(|(number, what)| format!("lost: {} {what}", count(number))));
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
