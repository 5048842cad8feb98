//! What runs and may differ from what is registered: told by whoever notices, and repaired in the background.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tokio::sync::Notify;
use windlass_core::row::QueueName;

use crate::lock::lock;

#[derive(Debug, Default)]
pub(crate) struct Stale {
    told: Mutex<Told>,
    notify: Notify,
    /// Queues that are being repaired; set if a queue was told again meanwhile.
    repairing: Mutex<BTreeMap<QueueName, bool>>,
}

#[derive(Debug, Default)]
pub(super) struct Told {
    /// Queues to be looked at.
    pub(super) queues: BTreeSet<QueueName>,
    /// All queues are to be compared with what is registered.
    pub(super) all: bool,
    /// Some drop record was not carried out.
    pub(super) drops: bool,
}

impl Stale {
    pub(crate) fn tell(&self, queue: &QueueName) {
        lock(&self.told).queues.insert(queue.clone());
        self.notify.notify_one();
    }

    pub(super) fn tell_all(&self) {
        lock(&self.told).all = true;
        self.notify.notify_one();
    }

    pub(super) fn tell_drops(&self) {
        lock(&self.told).drops = true;
        self.notify.notify_one();
    }

    pub(super) async fn notified(&self) {
        self.notify.notified().await;
    }

    pub(super) fn take(&self) -> Told {
        std::mem::take(&mut *lock(&self.told))
    }

    /// Whether a repair of the queue is to begin. One that is under way goes on once more instead.
    pub(super) fn begins(&self, queue: &QueueName) -> bool {
        let mut repairing = lock(&self.repairing);
        match repairing.get_mut(queue) {
            Some(again) => {
                *again = true;
                false
            }
            None => {
                repairing.insert(queue.clone(), false);
                true
            }
        }
    }

    /// Whether a repair is over; if not, the queue was told again meanwhile.
    pub(super) fn is_over(&self, queue: &QueueName) -> bool {
        let mut repairing = lock(&self.repairing);
        match repairing.get_mut(queue) {
            Some(again) if *again => {
                *again = false;
                false
            }
            Some(_) | None => {
                repairing.remove(queue);
                true
            }
        }
    }
}
