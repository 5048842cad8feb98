//! The queue in numbers: exact, by asking every writer, or as they last told.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::partition::{Counts, Partition, Remaining, Totals};
use windlass_core::row::Queue;
use windlass_core::rule::Stop;
use windlass_core::time::Timestamp;

use super::QueueHandle;
use crate::error::EngineError;
use crate::partition::handle::{Handle, PartitionState};
use crate::store::Room;

#[derive(Clone, Debug, Default)]
pub struct QueueStats {
    pub counts: Counts,
    pub kinds: BTreeMap<Arc<str>, Counts>,
    /// Waiting items, by priority.
    pub priorities: BTreeMap<u8, u64>,
    pub retained: u64,
    /// Items that ended here and are not yet taken by the queue they go to.
    pub moving: u64,
    pub oldest_waiting: Option<Timestamp>,
    pub lease_waiters: usize,
    /// Waiting items that a rule holds back.
    pub stopped: u64,
    /// Whether a rule pauses the whole queue.
    pub paused: bool,
    pub blocked: bool,
    pub partitions: Vec<PartitionStats>,
}

#[derive(Clone, Debug)]
pub struct PartitionStats {
    pub partition: PartitionId,
    pub state: PartitionState,
    /// Whether the whole queue is paused or blocked.
    pub paused: bool,
    /// The name of the store that has the partition.
    pub store: Arc<str>,
    /// The room that this store has.
    pub room: Room,
    pub counts: Counts,
    /// The work that is left, while the partition drains.
    pub remaining: Option<Remaining>,
}

/// A queue as its writers last published it: no writer is asked.
#[derive(Clone, Debug)]
pub struct QueueOverview {
    pub queue: Queue,
    /// The counts of the partitions that serve.
    pub counts: Counts,
    pub oldest_waiting: Option<Timestamp>,
    pub lease_waiters: usize,
    /// Calls that wait for an item to end.
    pub item_waiters: usize,
    /// Open streams of items.
    pub subscribers: usize,
    pub retained: u64,
    /// Those of `retained` that failed.
    pub failed: u64,
    /// Those of `retained` that expired.
    pub expired: u64,
    /// Items that ended here and are not yet taken by the queue they go to.
    pub moving: u64,
    /// Waiting items that a rule holds back.
    pub stopped: u64,
    /// Whether a rule pauses the whole queue.
    pub paused: bool,
    pub blocked: bool,
    /// The number of pauses and the number of blocks on the queue and its kinds.
    pub rules: [usize; 2],
    /// Since the engine was opened.
    pub totals: Totals,
    pub partitions: Vec<(PartitionId, PartitionState)>,
    /// The store of each of the `partitions`, in the same order.
    pub stores: Vec<Arc<str>>,
}

impl QueueHandle {
    pub(crate) async fn stats(&self) -> Result<QueueStats, EngineError> {
        let mut stats = QueueStats { lease_waiters: self.waiters.count(), ..QueueStats::default() };
        // All are asked before the first is waited for.
        let ask = |handle: &Arc<Handle>| handle.ask(|partition, _| PartitionCounts::of(partition));
        let asked: Vec<_> = self.partitions.iter().map(ask).collect();
        for (handle, answer) in self.partitions.iter().zip(asked) {
            let answer = match answer {
                Ok(answer) => answer.await.map_err(|_dropped| handle.no_answer()),
                Err(error) => Err(error),
            };
            let counted = match answer {
                Ok(counted) => counted,
                // What cannot be read now is shown with its state, and counts nothing.
                Err(EngineError::Unavailable { .. }) => {
                    PartitionCounts { stops: self.stops(handle), ..PartitionCounts::default() }
                }
                Err(error) => return Err(error),
            };
            let state = handle.state();
            let (partition, store) = (handle.id, self.store.name_of(handle.id));
            let room = self.store.room(partition);
            let (counts, paused) = (counted.counts, counted.stops.contains(&true));
            let remaining = self.queue.draining.contains(&partition).then_some(counted.remaining);
            stats.partitions.push(PartitionStats {
                partition,
                state,
                paused,
                store,
                room,
                counts,
                remaining,
            });
            add(&mut stats, counted);
        }
        // What is kept, or on its way, counts wherever it is.
        for handle in &self.retired {
            let summary = handle.published.summary();
            stats.retained += summary.retained;
            stats.moving += summary.moving;
        }
        Ok(stats)
    }

    /// The items that wait in the partitions that serve, as their writers last told.
    pub(crate) fn waiting(&self) -> u64 {
        self.partitions.iter().map(|handle| handle.published.summary().counts.waiting).sum()
    }

    pub(crate) fn overview(&self) -> QueueOverview {
        let mut overview = QueueOverview {
            queue: self.queue.clone(),
            counts: Counts::default(),
            oldest_waiting: None,
            lease_waiters: self.waiters.count(),
            item_waiters: self.all().map(|handle| handle.watchers.count()).sum(),
            subscribers: self.all().map(|handle| handle.streams.count()).sum(),
            retained: 0,
            failed: 0,
            expired: 0,
            moving: 0,
            stopped: 0,
            paused: false,
            blocked: false,
            rules: [0; 2],
            totals: self.totals_of_gone,
            partitions: Vec::with_capacity(self.partitions.len()),
            stores: self.partitions.iter().map(|handle| self.store.name_of(handle.id)).collect(),
        };
        // All of them were told the same.
        if let Some(handle) = self.partitions.first() {
            [overview.paused, overview.blocked] = self.stops(handle);
            let (rules, now) = (handle.orders.rules(), self.env.wall());
            let standing =
                |stop| rules.rules.iter().filter(move |rule| rule.key.stop == stop && rule.stands(now));
            overview.rules = Stop::ALL.map(|stop| standing(stop).count());
        }
        for handle in &self.partitions {
            let summary = handle.published.summary();
            overview.counts += summary.counts;
            overview.oldest_waiting = earlier(overview.oldest_waiting, summary.oldest_waiting);
            overview.retained += summary.retained;
            overview.failed += summary.failed;
            overview.expired += summary.expired;
            overview.moving += summary.moving;
            overview.stopped += summary.stopped;
            overview.totals += handle.published.totals();
            overview.partitions.push((handle.id, handle.state()));
        }
        for handle in &self.retired {
            let summary = handle.published.summary();
            overview.retained += summary.retained;
            overview.failed += summary.failed;
            overview.expired += summary.expired;
            overview.moving += summary.moving;
            overview.totals += handle.published.totals();
        }
        overview
    }

    /// Whether the whole queue is paused, and blocked, as a partition was told.
    fn stops(&self, handle: &Handle) -> [bool; 2] {
        let (rules, now) = (handle.orders.rules(), self.env.wall());
        Stop::ALL.map(|stop| rules.stops_all(stop, now))
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
    remaining: Remaining,
    stopped: u64,
    /// Whether the whole queue is paused, and blocked.
    stops: [bool; 2],
}

impl PartitionCounts {
    fn of(partition: &Partition) -> Self {
        Self {
            counts: partition.counts(),
            kinds: partition.kind_counts(),
            priorities: partition.waiting_by_priority(),
            retained: partition.retained(),
            moving: partition.moving(),
            oldest_waiting: partition.oldest_waiting(),
            remaining: partition.remaining(),
            stopped: partition.stopped(),
            stops: Stop::ALL.map(|stop| partition.stops_all(stop)),
        }
    }
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
    stats.stopped += counted.stopped;
    let [paused, blocked] = counted.stops;
    (stats.paused, stats.blocked) = (stats.paused | paused, stats.blocked | blocked);
    stats.oldest_waiting = earlier(stats.oldest_waiting, counted.oldest_waiting);
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}
