//! The queues that the registry knows, and how many partitions they name together.

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::row::{Queue, QueueName};

#[derive(Debug, Default)]
pub(super) struct Queues {
    by_name: BTreeMap<QueueName, Queue>,
    partitions: usize,
}

impl Queues {
    pub(super) fn insert(&mut self, queue: Queue) {
        self.remove(&queue.name);
        self.partitions += queue.homes().count();
        self.by_name.insert(queue.name.clone(), queue);
    }

    pub(super) fn remove(&mut self, name: &QueueName) {
        if let Some(queue) = self.by_name.remove(name) {
            self.partitions -= queue.homes().count();
        }
    }

    /// All that queues name: those that serve, those that drain and those that are retired.
    pub(super) fn partitions(&self) -> usize {
        self.partitions
    }
}

impl Deref for Queues {
    type Target = BTreeMap<QueueName, Queue>;

    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}
