//! The queue in numbers: exact, by asking every writer, or as they last told.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::partition::{Counts, Totals};
use windlass_core::time::Timestamp;

use super::QueueHandle;
use crate::error::EngineError;
use crate::types::{PartitionStats, QueueOverview, QueueStats};

impl QueueHandle {
    pub(crate) async fn stats(&self) -> Result<QueueStats, EngineError> {
        let mut stats = QueueStats { lease_waiters: self.waiters.count(), ..QueueStats::default() };
        for handle in &self.partitions {
            let asked = handle
                .query(|partition, _| PartitionCounts {
                    counts: partition.counts(),
                    kinds: partition.kind_counts(),
                    priorities: partition.waiting_by_priority(),
                    retained: partition.retained(),
                    moving: partition.moving(),
                    oldest_waiting: partition.oldest_waiting(),
                })
                .await;
            let counted = match asked {
                Ok(counted) => counted,
                // What cannot be read now is shown with its state, and counts nothing.
                Err(EngineError::Unavailable { .. }) => PartitionCounts::default(),
                Err(error) => return Err(error),
            };
            let state = handle.state();
            let (partition, store) = (handle.id, self.store.name_of(handle.id));
            stats.partitions.push(PartitionStats { partition, state, store, counts: counted.counts });
            add(&mut stats, counted);
        }
        Ok(stats)
    }

    pub(crate) fn overview(&self) -> QueueOverview {
        let mut overview = QueueOverview {
            queue: self.queue.clone(),
            counts: Counts::default(),
            oldest_waiting: None,
            lease_waiters: self.waiters.count(),
            item_waiters: self.partitions.iter().map(|handle| handle.watchers.count()).sum(),
            subscribers: self.partitions.iter().map(|handle| handle.streams.count()).sum(),
            retained: 0,
            moving: 0,
            totals: Totals::default(),
            partitions: Vec::with_capacity(self.partitions.len()),
            stores: self.partitions.iter().map(|handle| self.store.name_of(handle.id)).collect(),
        };
        for handle in &self.partitions {
            let summary = handle.published.summary();
            overview.counts += summary.counts;
            overview.oldest_waiting = earlier(overview.oldest_waiting, summary.oldest_waiting);
            overview.retained += summary.retained;
            overview.moving += summary.moving;
            overview.totals += handle.published.totals();
            overview.partitions.push((handle.id, handle.state()));
        }
        overview
    }
}

#[derive(Debug, Default)]
struct PartitionCounts {
    counts: Counts,
    kinds: BTreeMap<Arc<str>, Counts>,
    priorities: BTreeMap<u8, u64>,
    retained: u64,
    moving: u64,
    oldest_waiting: Option<Timestamp>,
}

fn add(stats: &mut QueueStats, counted: PartitionCounts) {
    stats.counts += counted.counts;
    for (kind, counts) in counted.kinds {
        *stats.kinds.entry(kind).or_default() += counts;
    }
    for (priority, waiting) in counted.priorities {
        *stats.priorities.entry(priority).or_default() += waiting;
    }
    stats.retained += counted.retained;
    stats.moving += counted.moving;
    stats.oldest_waiting = earlier(stats.oldest_waiting, counted.oldest_waiting);
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}
