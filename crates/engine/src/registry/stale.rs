//! Queues whose running partitions may differ from what is registered: told by whoever notices, and repaired in the background.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use windlass_core::row::QueueName;

use crate::lock::lock;

#[derive(Debug, Default)]
pub(crate) struct Stale {
    told: Mutex<Told>,
    notify: Notify,
    pub(super) repairs: UnderWay<QueueName>,
    /// By the store that is to drop partitions.
    pub(super) drops: UnderWay<Arc<str>>,
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
}

/// The keys of repairs that are under way; the value is set if the key was told again meanwhile.
#[derive(Debug)]
pub(super) struct UnderWay<K: Ord>(Mutex<BTreeMap<K, bool>>);

impl<K: Ord> Default for UnderWay<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone> UnderWay<K> {
    /// Whether a repair is to begin. One that is under way goes on once more instead.
    pub(super) fn begins(&self, key: &K) -> bool {
        let mut under_way = lock(&self.0);
        match under_way.get_mut(key) {
            Some(again) => {
                *again = true;
                false
            }
            None => {
                under_way.insert(key.clone(), false);
                true
            }
        }
    }

    /// Whether a repair is over; if not, it was told again meanwhile.
    pub(super) fn is_over(&self, key: &K) -> bool {
        let mut under_way = lock(&self.0);
        match under_way.get_mut(key) {
            Some(again) if *again => {
                *again = false;
                false
            }
            Some(_) | None => {
                under_way.remove(key);
                true
            }
        }
    }
}
