//! Who carries a commit out: the thread that brought it, or the thread of the committer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use windlass_core::time::{Span, Timestamp};
use windlass_engine::env::{BoxFuture, Env, MayBlock, TokioEnv};
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::{CommitError, Store, StoreError};

use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, put, small};

/// Lets every thread block, or none, and counts how often that was asked for.
#[derive(Debug)]
struct Threads {
    tokio: TokioEnv,
    may_block: bool,
    asked: AtomicUsize,
}

impl Env for Threads {
    fn boot(&self) -> Duration {
        self.tokio.boot()
    }

    fn wall(&self) -> Timestamp {
        self.tokio.wall()
    }

    fn random(&self) -> u64 {
        self.tokio.random()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        self.tokio.sleep_until(at)
    }

    fn spawn_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.tokio.spawn_boxed(name, future);
    }

    fn spawn_thread_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.tokio.spawn_thread_boxed(name, future);
    }

    fn may_block(&self) -> Option<MayBlock> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.may_block.then(MayBlock::unwatched)
    }
}

async fn open(may_block: bool, options: LogOptions) -> (Arc<Threads>, Arc<MemDisk>, LogStore) {
    let env = Arc::new(Threads { tokio: TokioEnv::new(), may_block, asked: AtomicUsize::new(0) });
    let disk = Arc::new(MemDisk::default());
    let store = LogStore::open(env.clone(), Arc::clone(&disk) as Arc<dyn Disk>, options).await.unwrap();
    (env, disk, store)
}

/// Polls a commit once, and then lets it come to its end. Tells whether the first poll was enough.
async fn commit(owner: &mut Owner<'_>, number: u64) -> (bool, Result<(), CommitError>) {
    let mut commit = pin!(owner.commit(put(number, 100)));
    match commit.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => (true, done),
        Poll::Pending => (false, commit.await),
    }
}

/// Commits until the thread that answered `acquire` has let the committer rest. Tells the number of the next item.
async fn until_at_rest(owner: &mut Owner<'_>) -> u64 {
    for number in 1..10_000 {
        let (at_once, done) = commit(owner, number).await;
        done.unwrap();
        if at_once {
            return number + 1;
        }
    }
    panic!("the committer rests");
}

#[tokio::test]
async fn a_commit_that_nobody_is_ahead_of_is_carried_out_by_its_caller() {
    let (env, _disk, store) = open(true, LogOptions { segment_bytes: 8 << 20, ..small() }).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let first = until_at_rest(&mut owner).await;
    let (asked, synced) = (env.asked.load(Ordering::SeqCst), store.stats().syncs);
    for number in first..first + 20 {
        let (at_once, done) = commit(&mut owner, number).await;
        done.unwrap();
        assert!(at_once, "commit {number}");
    }
    assert_eq!(env.asked.load(Ordering::SeqCst) - asked, 20);
    assert_eq!(store.stats().syncs - synced, 20, "a sync for each commit");
    store.close().await;
}

#[tokio::test]
async fn a_thread_that_may_not_block_leaves_its_commit_to_the_committer() {
    let (_env, _disk, store) = open(false, small()).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=20 {
        owner.commit(put(number, 100)).await.unwrap();
    }
    owner.check_bodies().await;
    store.close().await;
}

/// Segments are small: again and again a commit waits for the next one to be made.
#[tokio::test]
async fn a_commit_that_has_to_wait_is_finished_by_the_committers_thread() {
    let (_env, _disk, store) = open(true, small()).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=500 {
        owner.commit(put(number, 100)).await.unwrap();
    }
    owner.check_bodies().await;
    store.close().await;
}

/// `MemDisk` holds the first write until the commits of all owners wait: the next run takes all that are left.
#[tokio::test]
async fn commits_that_wait_together_share_a_sync() {
    let (_env, disk, store) = open(false, LogOptions::default()).await;
    let mut owners = Vec::new();
    for partition in 1..=64 {
        owners.push(Owner::acquire(&store, partition).await.unwrap());
    }
    for number in 1..=20 {
        let synced = store.stats().syncs;
        disk.faults().held.store(true, Ordering::SeqCst);
        let mut commits: Vec<_> =
            owners.iter_mut().map(|owner| Box::pin(owner.commit(put(number, 10)))).collect();
        for commit in &mut commits {
            assert!(commit.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        disk.faults().held.store(false, Ordering::SeqCst);
        for commit in commits {
            commit.await.unwrap();
        }
        assert!(store.stats().syncs - synced <= 2, "the first commits, and all others");
    }
    assert_eq!(store.stats().commits, 64 * 20);

    let disk = disk.after_power_loss();
    let store = crate::log_rows::open(&disk, LogOptions::default()).await.unwrap();
    for partition in 1..=64 {
        let owner = Owner::acquire(&store, partition).await.unwrap();
        assert_eq!((owner.sequence, owner.rows.len()), (20, 20));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_come_together_are_all_answered() {
    let (_env, _disk, store) = open(true, LogOptions { segment_bytes: 256 << 10, ..small() }).await;
    let store = Arc::new(store);
    let tasks: Vec<_> = (1..=8)
        .map(|partition| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut owner = Owner::acquire(&store, partition).await.unwrap();
                for number in 1..=100 {
                    owner.commit(put(number, 100)).await.unwrap();
                }
                owner.check_bodies().await;
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(store.stats().commits, 800);
    store.close().await;
}

#[tokio::test]
async fn what_is_synced_later_is_written_by_the_committers_thread() {
    let interval = Durability::Interval(Span::from_micros(1000));
    let (env, _disk, store) = open(true, LogOptions { durability: interval, ..small() }).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=5 {
        owner.commit(put(number, 100)).await.unwrap();
    }
    assert_eq!(env.asked.load(Ordering::SeqCst), 0);
    store.close().await;
}

#[tokio::test]
async fn a_log_that_is_closed_takes_no_commit() {
    let (_env, _disk, store) = open(true, small()).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 100)).await.unwrap();
    store.close().await;
    let (_, refused) = commit(&mut owner, 2).await;
    assert!(matches!(refused, Err(CommitError::NotApplied(StoreError::Closed))), "{refused:?}");
}

#[tokio::test]
async fn a_commit_whose_sync_panics_on_the_committers_thread_is_not_waited_for() {
    let (_env, disk, store) = open(false, small()).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 100)).await.unwrap();
    disk.faults().sync_panics.store(true, Ordering::SeqCst);
    let refused = owner.commit(put(2, 100)).await.unwrap_err();
    let (CommitError::NotApplied(error) | CommitError::Unknown(error)) = refused;
    assert!(matches!(error, StoreError::Closed), "{error}");
    drop(owner);
    assert_closed(store, 1).await;
}

#[tokio::test]
async fn a_sync_that_panics_on_its_callers_thread_closes_the_log() {
    let (_env, disk, store) = open(true, LogOptions { segment_bytes: 8 << 20, ..small() }).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let next = until_at_rest(&mut owner).await;
    disk.faults().sync_panics.store(true, Ordering::SeqCst);
    {
        let mut commit = pin!(owner.commit(put(next, 100)));
        let poll = || commit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
    }
    drop(owner);
    assert_closed(store, 2).await;
}

/// The store answers `Closed`, and `close` comes to an end.
async fn assert_closed(store: LogStore, partition: u32) {
    let asked = Owner::acquire(&store, partition).await;
    assert!(matches!(asked, Err(StoreError::Closed)));
    store.close().await;
}
