//! [`Registry`]: a state machine over its rows, beside the partitions. The registry knows which queues there are, which
//! partitions and rules they have, and which queue the name of a cron belongs to. A store keeps its rows under
//! [`PartitionId::REGISTRY`].
//!
//! As in a partition, [`Machine::put`] and [`Machine::remove`] alone touch what is derived from rows, live and at recovery.

pub(crate) mod cron_names;
mod queue_index;
pub(crate) mod queues;
pub(crate) mod rebalance;
pub(crate) mod rules;
pub(crate) mod unclaimed;

use std::collections::BTreeMap;

use crate::id::PartitionId;
use crate::limits::RegistryLimits;
use crate::machine::{Applied, Machine};
use crate::partition::Totals;
use crate::refusal::Refusal;
use crate::row::{Change, Dropped, Key, Partitions, Queue, QueueName, Row, Stored};
use crate::rule::index::Rules;
use crate::time::Timestamp;
use crate::verb::Verb;
use cron_names::CronNames;
use queue_index::Queues;

/// The changes of rows that a verb makes, in order.
type Changes = Vec<Change>;

#[derive(Debug, Default)]
pub struct Registry {
    /// How many queues and partitions the registry takes. An input like time, and in no row.
    limits: RegistryLimits,

    // What the rows say.
    queues: Queues,
    partitions: Partitions,
    /// Records of partitions that are to be dropped.
    dropped: BTreeMap<Stored, Dropped>,
    /// The rules of all queues.
    rules: Rules,
    /// The names of all crons of the server.
    cron_names: CronNames,
}

impl Registry {
    /// Queues and partitions beyond `limits` that are there already stay.
    pub fn new(limits: RegistryLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub fn queue(&self, name: &QueueName) -> Option<&Queue> {
        self.queues.get(name)
    }

    /// By name.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.values()
    }

    /// The highest partition number given out so far.
    pub fn partitions_last(&self) -> PartitionId {
        PartitionId(self.partitions.last)
    }

    /// The verbs' way to write a row.
    fn record(&mut self, row: Row, out: &mut Changes) {
        out.push(Change::Put(row.clone()));
        self.put(row);
    }

    /// The verbs' way to take a row away that [`Registry::record`] wrote.
    fn erase_row(&mut self, key: Key, out: &mut Changes) {
        self.remove(&key);
        out.push(Change::Remove(key));
    }

    fn act<R>(&mut self, decide: impl FnOnce(&mut Self, &mut Changes) -> Result<R, Refusal>) -> Applied<R> {
        let mut changes = Vec::new();
        let reply = decide(self, &mut changes);
        assert!(reply.is_ok() || changes.is_empty(), "a refused verb changed something");
        Applied {
            reply,
            changes,
            copies: Vec::new(),
            news: Vec::new(),
            totals: Totals::default(),
            waited: Vec::new(),
        }
    }

    /// Compares what is derived with what the rows say. Scans everything.
    pub fn audit(&self) -> Result<(), String> {
        let mut rebuilt = Self::new(self.limits);
        self.rows().for_each(|row| rebuilt.put(row));
        let (kept, counted) = (format!("{self:?}"), format!("{rebuilt:?}"));
        if kept == counted { Ok(()) } else { Err(format!("kept {kept}, counted {counted}")) }
    }
}

impl Machine for Registry {
    type Output = Changes;

    fn put(&mut self, row: Row) {
        match row {
            Row::Queue(queue) => self.queues.insert(*queue),
            Row::Partitions(partitions) => self.partitions = partitions,
            Row::Rules(rules) => self.rules.set_version(&rules.queue.clone(), Some(rules)),
            Row::Rule(rule) => {
                self.rules.set(&rule.key.clone(), Some(*rule));
            }
            Row::CronHome(home) => self.cron_names.insert(*home),
            Row::Dropped(dropped) => {
                self.dropped.insert(dropped.stored.clone(), dropped);
            }
            Row::Item(_)
            | Row::Numbers(_)
            | Row::Settings(_)
            | Row::Cleared(_)
            | Row::Taken(_)
            | Row::Once(_)
            | Row::Intake(_)
            | Row::Events(_)
            | Row::Group(_)
            | Row::Cron(_) => {}
        }
    }

    fn remove(&mut self, key: &Key) {
        match key {
            Key::Queue(name) => self.queues.remove(name),
            Key::Partitions => self.partitions = Partitions::default(),
            Key::Rules(queue) => self.rules.set_version(queue, None),
            Key::Rule(key) => {
                self.rules.set(key, None);
            }
            Key::CronHome(name) => self.cron_names.remove(name),
            Key::Dropped(stored) => {
                self.dropped.remove(stored);
            }
            Key::Item(_)
            | Key::Numbers
            | Key::Settings
            | Key::Cleared
            | Key::Taken(_)
            | Key::Once(_)
            | Key::Intake
            | Key::Events(..)
            | Key::Group(_)
            | Key::Cron(_) => {}
        }
    }

    fn rows(&self) -> impl Iterator<Item = Row> {
        let partitions =
            (self.partitions != Partitions::default()).then(|| Row::Partitions(self.partitions.clone()));
        let queues = self.queues.values().cloned().map(|queue| Row::Queue(Box::new(queue)));
        let names = self.cron_names.iter().cloned().map(|home| Row::CronHome(Box::new(home)));
        let dropped = self.dropped.values().cloned().map(Row::Dropped);
        partitions.into_iter().chain(queues).chain(self.rules.rows()).chain(names).chain(dropped)
    }

    fn apply<V: Verb<Self>>(&mut self, now: Timestamp, verb: V) -> Applied<V::Reply> {
        self.act(|registry, out| {
            verb.check().map_err(Refusal::Invalid)?;
            verb.decide(registry, now, out)
        })
    }

    fn sweep(&mut self, now: Timestamp, limit: usize) -> Applied<usize> {
        self.act(|registry, out| Ok((0..limit).take_while(|_| registry.lift_next_rule(now, out)).count()))
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.rules.next_end()
    }
}
