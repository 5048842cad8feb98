//! A store that fails when a test says so, around one that does not.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::watch;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Part};
use windlass_engine::env::BoxFuture;
use windlass_engine::store::double::Double;
use windlass_engine::store::memory::MemoryStore;
use windlass_engine::store::{Acquired, Batch, Body, CommitError, Room, Store, StoreError};

/// A fault of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Refused before anything was written.
    NotApplied,
    /// The outcome is unknown, and it did not happen.
    UnknownLost,
    /// The outcome is unknown, and it did happen.
    UnknownDone,
    /// The process ends there: it did not happen, and nobody hears anything any more.
    CrashBefore,
    /// The process ends after the commit happened, and nobody hears anything any more.
    CrashAfter,
    /// The commit is answered, and taken back before it was durable: relaxed durability allows that.
    TakenBack,
}

#[derive(Debug, Default)]
pub(crate) struct FaultyStore {
    inner: Arc<MemoryStore>,
    /// After so many commits that succeed.
    next_fault: Mutex<Option<(usize, Fault)>>,
    /// Set once the process has ended.
    pub(crate) crashed: watch::Sender<bool>,
    /// Fails all that it does.
    pub(crate) broken_partition: Mutex<Option<PartitionId>>,
    pub(crate) full: Mutex<bool>,
    /// While set, partitions cannot be acquired.
    pub(crate) down: Mutex<bool>,
    /// While set, commits do not come to an end.
    pub(crate) held: watch::Sender<bool>,
    /// The commits of this partition do not come to an end.
    pub(crate) stalled: watch::Sender<Option<PartitionId>>,
    /// The only partition whose commits are held; unset: those of all.
    pub(crate) held_partition: Mutex<Option<PartitionId>>,
    /// How many commits began.
    pub(crate) committing: watch::Sender<usize>,
    /// While set, bodies are not read yet.
    pub(crate) reads_held: watch::Sender<bool>,
    /// The body of the batch of events that begins with this one is lost.
    pub(crate) lost_events: Mutex<Option<u64>>,
    /// While set, events cannot be read.
    pub(crate) events_broken: AtomicBool,
    /// How often events were read.
    pub(crate) event_reads: AtomicUsize,
    /// While set, partitions are not acquired yet.
    pub(crate) slow: watch::Sender<bool>,
    /// How many began to be.
    pub(crate) acquiring: watch::Sender<usize>,
    every_commit: Mutex<Option<Fault>>,
    /// While set, partitions cannot be dropped.
    pub(crate) drops_fail: AtomicBool,
    /// How often partitions were listed.
    pub(crate) listings: AtomicUsize,
    /// Bodies like this one are damaged.
    pub(crate) damaged: Mutex<Option<Bytes>>,
    /// The bodies of this partition cannot be read now.
    pub(crate) unreadable_partition: Mutex<Option<PartitionId>>,
    /// Bodies of this part cannot be read now.
    pub(crate) unreadable: Mutex<Option<Part>>,
}

impl FaultyStore {
    pub(crate) fn fail_next(&self, fault: Fault) {
        self.fail_after(0, fault);
    }

    pub(crate) fn fail_after(&self, commits: usize, fault: Fault) {
        *self.next_fault.lock().expect("not poisoned") = Some((commits, fault));
    }

    pub(crate) fn disarm(&self) {
        *self.next_fault.lock().expect("not poisoned") = None;
    }

    /// Whether a fault is still to come.
    pub(crate) fn is_armed(&self) -> bool {
        self.next_fault.lock().expect("not poisoned").is_some()
    }

    /// The store as the next process finds it.
    pub(crate) fn next_process(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), ..Self::default() }
    }

    fn take_fault(&self) -> Option<Fault> {
        let mut next = self.next_fault.lock().expect("not poisoned");
        match *next {
            Some((0, fault)) => {
                *next = None;
                Some(fault)
            }
            Some((commits, fault)) => {
                *next = Some((commits - 1, fault));
                None
            }
            None => None,
        }
    }

    fn is_broken(&self, partition: PartitionId) -> bool {
        *self.broken_partition.lock().expect("not poisoned") == Some(partition)
    }

    async fn crash<T>(&self) -> T {
        self.crashed.send_replace(true);
        std::future::pending().await
    }

    /// The fault of every commit from now on.
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

impl Double for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn acquire(&self, partition: PartitionId) -> BoxFuture<'_, Result<Acquired, StoreError>> {
        if *self.down.lock().expect("not poisoned") || self.is_broken(partition) {
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

    fn commit(&self, mut batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        let lost = self.lost_events.lock().expect("not poisoned").map(Part::Events);
        batch.changes.retain(|change| !matches!(change, Change::PutBody { part, .. } if Some(*part) == lost));
        let fault = self.take_fault().or(*self.every_commit.lock().expect("not poisoned"));
        Box::pin(async move {
            if *self.crashed.borrow() {
                return std::future::pending().await;
            }
            if self.is_broken(batch.partition) {
                return Err(CommitError::NotApplied(Self::broken()));
            }
            self.committing.send_modify(|begun| *begun += 1);
            let only = *self.held_partition.lock().expect("not poisoned");
            if only.is_none_or(|only| only == batch.partition) {
                let mut held = self.held.subscribe();
                held.wait_for(|held| !held).await.expect("the store is still there");
            }
            let mut stalled = self.stalled.subscribe();
            let is_free = |stalled: &Option<PartitionId>| *stalled != Some(batch.partition);
            stalled.wait_for(is_free).await.expect("the store is still there");
            match fault {
                None => self.inner.commit(batch).await,
                Some(Fault::NotApplied) => Err(CommitError::NotApplied(Self::broken())),
                Some(Fault::UnknownLost) => Err(CommitError::Unknown(Self::broken())),
                Some(Fault::UnknownDone) => {
                    self.inner.commit(batch).await?;
                    Err(CommitError::Unknown(Self::broken()))
                }
                Some(Fault::TakenBack) => {
                    let acquired = self.inner.acquire(batch.partition).await;
                    acquired.map(|_its_owner_is_fenced| ()).map_err(CommitError::NotApplied)
                }
                Some(Fault::CrashBefore) => self.crash().await,
                Some(Fault::CrashAfter) => {
                    self.inner.commit(batch).await?;
                    self.crash().await
                }
            }
        })
    }

    fn read(&self, partition: PartitionId, bodies: Vec<(ItemNumber, Part)>) -> BoxFuture<'_, Vec<Body>> {
        Box::pin(async move {
            let mut held = self.reads_held.subscribe();
            held.wait_for(|held| !held).await.expect("the store is still there");
            if *self.unreadable_partition.lock().expect("not poisoned") == Some(partition) {
                return bodies.into_iter().map(|_| Self::broken().into()).collect();
            }
            let unreadable = *self.unreadable.lock().expect("not poisoned");
            let parts: Vec<Part> = bodies.iter().map(|(_, part)| *part).collect();
            let read = self.inner.read(partition, bodies).await;
            let wanted = self.damaged.lock().expect("not poisoned").clone();
            let spoilt = |body: Body| match body {
                Body::Found(body) if Some(&body) == wanted.as_ref() => {
                    let what = "on purpose".to_owned();
                    StoreError::Damaged { file: "the log".to_owned(), offset: 0, what }.into()
                }
                body @ (Body::Found(_) | Body::Absent | Body::Damaged(_) | Body::Unreadable(_)) => body,
            };
            let hidden = |(body, part)| match unreadable == Some(part) {
                true => Body::Unreadable(Self::broken()),
                false => spoilt(body),
            };
            read.into_iter().zip(parts).map(hidden).collect()
        })
    }

    fn read_events(
        &self,
        partition: PartitionId,
        number: ItemNumber,
        from: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Bytes)>, StoreError>> {
        self.event_reads.fetch_add(1, Ordering::SeqCst);
        if self.events_broken.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(Self::broken())));
        }
        self.inner.read_events(partition, number, from, bytes_max)
    }

    fn drop_partition(&self, partition: PartitionId) -> BoxFuture<'_, Result<(), StoreError>> {
        if self.drops_fail.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(Self::broken())));
        }
        self.inner.drop_partition(partition)
    }

    fn partitions(&self) -> BoxFuture<'_, Result<Vec<PartitionId>, StoreError>> {
        self.listings.fetch_add(1, Ordering::SeqCst);
        self.inner.partitions()
    }

    fn room(&self, _partition: PartitionId) -> Room {
        if *self.full.lock().expect("not poisoned") { Room::Full } else { Room::Enough }
    }
}
