//! What runs: queues by name, and the home of each partition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::row::{Queue, QueueName, Stored};

use crate::env::Task;
use crate::partition::handle::{Handle, InCommon};
use crate::partition::watchers::Closed;
use crate::queue::QueueHandle;

#[derive(Debug)]
pub(crate) struct Running {
    pub(super) handle: Arc<QueueHandle>,
    pub(super) common: Arc<InCommon>,
    /// By the partition they serve.
    pub(super) tasks: BTreeMap<PartitionId, Vec<Task>>,
}

#[derive(Debug, Default)]
pub(crate) struct RunningQueues {
    pub(super) queues: BTreeMap<QueueName, Running>,
    /// The partitions of all of them.
    partitions: BTreeMap<PartitionId, QueueName>,
    /// Partitions of registered queues that are not served yet.
    expected: BTreeSet<PartitionId>,
    /// What stores hold beside them, and nobody serves.
    pub(super) unclaimed: BTreeSet<Stored>,
    /// Whether every configured store was searched for unclaimed partitions.
    pub(super) all_searched: bool,
}

/// Where a partition is.
#[derive(Debug)]
pub(crate) enum Whereabouts {
    Served(Home),
    /// It is loaded, unclaimed, or perhaps in a store that is not open: what it holds is known once it is served.
    NotServed,
    /// It was dropped: partition numbers do not come again.
    Gone,
}

/// A partition and the queue it is of.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) queue: Arc<QueueHandle>,
    pub(crate) partition: Arc<Handle>,
}

impl RunningQueues {
    /// The partitions of these queues that are not here yet are about to come.
    pub(super) fn expect<'a>(&mut self, queues: impl IntoIterator<Item = &'a Queue>) {
        let partitions = queues.into_iter().flat_map(Queue::homes).map(|(partition, _)| partition);
        let unserved = partitions.filter(|partition| !self.partitions.contains_key(partition));
        self.expected.extend(unserved);
    }

    pub(super) fn insert(&mut self, name: QueueName, running: Running) {
        self.serve(&running.handle, &name);
        self.queues.insert(name, running);
    }

    fn serve(&mut self, handle: &QueueHandle, name: &QueueName) {
        for handle in handle.all() {
            self.expected.remove(&handle.id);
            self.partitions.insert(handle.id, name.clone());
        }
    }

    pub(super) fn remove(&mut self, name: &QueueName) -> Option<Running> {
        let running = self.queues.remove(name)?;
        for handle in running.handle.all() {
            self.partitions.remove(&handle.id);
        }
        Some(running)
    }

    /// The same queue, with other settings or partitions. Tells what served those that it has no more.
    pub(super) fn replace(
        &mut self,
        handle: &Arc<QueueHandle>,
        started: BTreeMap<PartitionId, Vec<Task>>,
    ) -> Vec<Task> {
        let name = &handle.queue.name;
        self.serve(handle, name);
        let Some(running) = self.queues.get_mut(name) else {
            return started.into_values().flatten().collect();
        };
        let before = std::mem::replace(&mut running.handle, Arc::clone(handle));
        running.tasks.extend(started);
        let gone = before.all().filter(|gone| handle.find(gone.id).is_err());
        let mut ending = Vec::new();
        for gone in gone {
            gone.stop();
            self.partitions.remove(&gone.id);
            ending.extend(running.tasks.remove(&gone.id).unwrap_or_default());
        }
        ending
    }

    pub(crate) fn find(&self, name: &QueueName) -> Option<Arc<QueueHandle>> {
        self.queues.get(name).map(|running| Arc::clone(&running.handle))
    }

    pub(crate) fn whereabouts(&self, id: PartitionId) -> Whereabouts {
        match self.home_of(id) {
            Some(home) => Whereabouts::Served(home),
            None if self.all_searched && !self.expected.contains(&id) && !self.is_unclaimed(id) => {
                Whereabouts::Gone
            }
            None => Whereabouts::NotServed,
        }
    }

    /// Whether some store holds an unclaimed partition of that number.
    fn is_unclaimed(&self, id: PartitionId) -> bool {
        let first = Stored { partition: id, store: None };
        self.unclaimed.range(first..).next().is_some_and(|stored| stored.partition == id)
    }

    pub(crate) fn home_of(&self, id: PartitionId) -> Option<Home> {
        let queue = &self.queues.get(self.partitions.get(&id)?)?.handle;
        let partition = queue.find(id).ok()?;
        Some(Home { queue: Arc::clone(queue), partition: Arc::clone(partition) })
    }
}

/// Ends what runs of a queue, and returns when it has ended.
pub(super) async fn stop(running: Running) {
    running.handle.routes.gone();
    running.handle.waiters.close();
    running.handle.all().for_each(|handle| {
        handle.send_home(Closed::QueueDeleted);
        handle.stop();
    });
    for task in running.tasks.into_values().flatten() {
        task.await;
    }
}
