//! Queues, in the partition with number 0.

use super::{Output, Partition};
use crate::command::{CreateQueue, Refusal, Reply, UpdateQueue};
use crate::id::PartitionId;
use crate::row::{Change, Key, Partitions, Queue, QueueName, Row};
use crate::settings::Settings;

impl Partition {
    pub(super) fn skip_partitions(&mut self, last: PartitionId, out: &mut Output) -> Reply {
        self.assert_registry();
        if last.0 > self.partitions.last {
            self.record(Row::Partitions(Partitions { last: last.0, ..self.partitions.clone() }), out);
        }
        Reply::Configured
    }

    pub(super) fn create_queue(&mut self, create: CreateQueue, out: &mut Output) -> Result<Reply, Refusal> {
        self.assert_registry();
        if self.queues.contains_key(&create.name) {
            return Err(Refusal::QueueExists);
        }
        let first = self.partitions.last;
        let last = first.checked_add(create.partitions).ok_or(NO_MORE_PARTITIONS)?;
        let queue = Queue {
            name: create.name,
            settings: Settings { version: 1, ..create.settings },
            partitions: (first + 1..=last).map(PartitionId).collect(),
            unknown: Vec::new(),
        };
        self.record(Row::Partitions(Partitions { last, ..self.partitions.clone() }), out);
        self.record(Row::Queue(queue.clone()), out);
        Ok(Reply::Queue(queue))
    }

    pub(super) fn update_queue(&mut self, update: UpdateQueue, out: &mut Output) -> Result<Reply, Refusal> {
        self.assert_registry();
        let mut queue = self.queues.get(&update.name).cloned().ok_or(Refusal::NoSuchQueue)?;
        let (version, unknown) = (queue.settings.version + 1, queue.settings.unknown);
        queue.settings = Settings { version, unknown, ..update.settings };
        self.record(Row::Queue(queue.clone()), out);
        Ok(Reply::Queue(queue))
    }

    pub(super) fn delete_queue(&mut self, name: &QueueName, out: &mut Output) -> Result<Reply, Refusal> {
        self.assert_registry();
        let queue = self.queues.get(name).cloned().ok_or(Refusal::NoSuchQueue)?;
        let key = Key::Queue(name.clone());
        self.remove(&key);
        out.changes.push(Change::Remove(key));
        Ok(Reply::QueueDeleted(queue))
    }

    fn assert_registry(&self) {
        assert_eq!(self.id, PartitionId::REGISTRY, "only the registry knows queues");
    }
}

const NO_MORE_PARTITIONS: Refusal = Refusal::TooMany { what: "partition numbers", max: u32::MAX as usize };
