//! A store that fails when a test says so, around one that does not.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::watch;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::Part;
use windlass_engine::env::BoxFuture;
use windlass_engine::store::memory::MemoryStore;
use windlass_engine::store::{Acquired, Batch, CommitError, Room, Store, StoreError, StoreStats};

/// What goes wrong with the next commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Refused before anything was written.
    NotApplied,
    /// The outcome is unknown, and it did not happen.
    UnknownLost,
    /// The outcome is unknown, and it did happen.
    UnknownDone,
}

#[derive(Debug, Default)]
pub(crate) struct FaultyStore {
    inner: MemoryStore,
    next_commit: Mutex<Option<Fault>>,
    pub(crate) full: Mutex<bool>,
    /// While set, partitions cannot be acquired.
    pub(crate) down: Mutex<bool>,
    /// While set, commits do not come to an end.
    pub(crate) held: watch::Sender<bool>,
    /// While set, partitions are not acquired yet.
    pub(crate) slow: watch::Sender<bool>,
    /// How many began to be.
    pub(crate) acquiring: watch::Sender<usize>,
    every_commit: Mutex<Option<Fault>>,
}

impl FaultyStore {
    pub(crate) fn fail_next(&self, fault: Fault) {
        *self.next_commit.lock().expect("not poisoned") = Some(fault);
    }

    /// What goes wrong with every commit from now on.
    pub(crate) fn fail_all(&self, fault: Option<Fault>) {
        *self.every_commit.lock().expect("not poisoned") = fault;
    }

    fn broken() -> StoreError {
        StoreError::Io {
            action: "sync",
            file: "the log".to_owned(),
            source: Arc::new(std::io::Error::other("broken on purpose")),
        }
    }
}

impl Store for FaultyStore {
    fn acquire(&self, partition: PartitionId) -> BoxFuture<'_, Result<Acquired, StoreError>> {
        if *self.down.lock().expect("not poisoned") {
            return Box::pin(std::future::ready(Err(Self::broken())));
        }
        Box::pin(async move {
            if *self.slow.borrow() {
                self.acquiring.send_modify(|waiting| *waiting += 1);
            }
            let mut slow = self.slow.subscribe();
            slow.wait_for(|slow| !slow).await.expect("the store is still there");
            self.inner.acquire(partition).await
        })
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        let next = self.next_commit.lock().expect("not poisoned").take();
        let fault = next.or(*self.every_commit.lock().expect("not poisoned"));
        Box::pin(async move {
            let mut held = self.held.subscribe();
            held.wait_for(|held| !held).await.expect("the store is still there");
            match fault {
                None => self.inner.commit(batch).await,
                Some(Fault::NotApplied) => Err(CommitError::NotApplied(Self::broken())),
                Some(Fault::UnknownLost) => Err(CommitError::Unknown(Self::broken())),
                Some(Fault::UnknownDone) => {
                    self.inner.commit(batch).await?;
                    Err(CommitError::Unknown(Self::broken()))
                }
            }
        })
    }

    fn is_owner(&self, partition: PartitionId, epoch: u64) -> bool {
        self.inner.is_owner(partition, epoch)
    }

    fn read(
        &self,
        partition: PartitionId,
        bodies: Vec<(ItemNumber, Part)>,
    ) -> BoxFuture<'_, Result<Vec<Option<Bytes>>, StoreError>> {
        self.inner.read(partition, bodies)
    }

    fn drop_partition(&self, partition: PartitionId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.drop_partition(partition)
    }

    fn partitions(&self) -> BoxFuture<'_, Result<Vec<PartitionId>, StoreError>> {
        self.inner.partitions()
    }

    fn batch_bytes_max(&self) -> usize {
        self.inner.batch_bytes_max()
    }

    fn room(&self, _partition: PartitionId) -> Room {
        if *self.full.lock().expect("not poisoned") { Room::Full } else { Room::Enough }
    }

    fn stats(&self) -> StoreStats {
        self.inner.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
