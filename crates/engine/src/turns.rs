//! One at a time for each key: changes of one queue, of one cron, or of one item's record, wait for each other and for nothing
//! else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use windlass_core::mutant::{self, Mutant};

use crate::lock::lock;

#[derive(Debug)]
pub(crate) struct Turns<K: Ord> {
    /// A key is here as long as somebody has its turn or waits for it.
    by_key: Mutex<BTreeMap<K, Arc<AsyncMutex<()>>>>,
    /// For [`Mutant::LockWhileTold`] alone.
    of_all: Arc<AsyncMutex<()>>,
}

impl<K: Ord> Default for Turns<K> {
    fn default() -> Self {
        Self { by_key: Mutex::default(), of_all: Arc::default() }
    }
}

/// The right to change what a key stands for: one holder at a time.
pub(crate) struct Turn<K: Ord> {
    turns: Arc<Turns<K>>,
    key: K,
    guard: Option<OwnedMutexGuard<()>>,
}

impl<K: Ord + Clone> Turns<K> {
    pub(crate) async fn take(self: &Arc<Self>, key: &K) -> Turn<K> {
        let mutex = match mutant::active(Mutant::LockWhileTold) {
            true => Arc::clone(&self.of_all),
            false => Arc::clone(lock(&self.by_key).entry(key.clone()).or_default()),
        };
        // Made before waiting: whoever gives up waiting leaves nothing behind.
        let mut turn = Turn { turns: Arc::clone(self), key: key.clone(), guard: None };
        turn.guard = Some(mutex.lock_owned().await);
        turn
    }
}

impl<K: Ord> Drop for Turn<K> {
    fn drop(&mut self) {
        let mut by_key = lock(&self.turns.by_key);
        drop(self.guard.take());
        if by_key.get(&self.key).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            by_key.remove(&self.key);
        }
    }
}
