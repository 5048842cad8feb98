//! A full disk under the log alone: what it asks of the disk, and what it tells its callers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_core::time::Timestamp;
use windlass_engine::env::{BoxFuture, Env};
use windlass_engine::store::log::LogStore;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::{CommitError, Room, Store, StoreError};

use crate::heard::Ear;
use crate::log_disk::MemDisk;
use crate::log_failure::{ready, until};
use crate::log_rows::{Owner, SMALL, open, put, remove, small};
use crate::world::ManualEnv;

const P: PartitionId = PartitionId(1);

/// Runs the log's threads as tasks of the test's own thread, so that a subscriber hears them.
#[derive(Debug)]
struct OneThread(ManualEnv);

impl Env for OneThread {
    fn boot(&self) -> Duration {
        self.0.boot()
    }

    fn wall(&self) -> Timestamp {
        self.0.wall()
    }

    fn random(&self) -> u64 {
        self.0.random()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }

    fn spawn_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.0.spawn_boxed(name, future);
    }

    fn spawn_thread_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.0.spawn_boxed(name, future);
    }
}

/// A log on a disk with this much room left, whose time stands still.
async fn with_room(room: u64) -> (Arc<ManualEnv>, Arc<MemDisk>, LogStore) {
    let (env, disk) = (Arc::new(ManualEnv::new()), Arc::new(MemDisk::default()));
    let store = LogStore::open(env.clone(), Arc::clone(&disk) as Arc<dyn Disk>, small()).await.unwrap();
    ready(&disk, &store).await;
    disk.faults().room.store(disk.used() + room, Ordering::SeqCst);
    (env, disk, store)
}

/// Commits until there is no segment left, not even the reserve. Returns the number of the first item refused.
async fn use_up(owner: &mut Owner<'_>) -> u64 {
    for number in 1..1000 {
        if let Err(error) = owner.commit(put(number, 500)).await {
            assert!(matches!(error, CommitError::NotApplied(StoreError::Full)), "{error}");
            owner.sequence -= 1;
            return number;
        }
    }
    panic!("the disk is small");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_does_not_fit_is_not_begun() {
    let (_env, disk, store) = with_room(u64::from(SMALL) / 2).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let (written, created) = (&disk.faults().written, &disk.faults().created);
    let before = (written.load(Ordering::SeqCst), created.load(Ordering::SeqCst));
    let first_refused = use_up(&mut owner).await;
    for _ in 0..100 {
        owner.commit(put(first_refused, 500)).await.unwrap_err();
        owner.sequence -= 1;
        tokio::task::yield_now().await;
    }
    // The frames themselves, and what upkeep tries once: a snapshot, which fits.
    let log_bytes = store.stats().bytes_written;
    let spent = written.load(Ordering::SeqCst) - before.0;
    assert!(spent <= log_bytes + u64::from(SMALL) / 2, "{spent} bytes written for a log of {log_bytes}");
    let made = created.load(Ordering::SeqCst) - before.1;
    assert!(made <= 1, "{made} files begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_attempt_only_time_or_a_freed_segment_brings_the_next() {
    let (env, disk, store) = with_room(0).await;
    disk.faults().hides_room.store(true, Ordering::SeqCst);
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let first_refused = use_up(&mut owner).await;
    let created = || disk.faults().created.load(Ordering::SeqCst);
    until(|| store.room(P) != Room::Enough).await;
    let before = created();
    for _ in 0..200 {
        owner.commit(put(first_refused, 500)).await.unwrap_err();
        owner.sequence -= 1;
        tokio::task::yield_now().await;
    }
    assert_eq!(created(), before, "kicks do not cut the backoff short");
    env.advance(Duration::from_millis(250));
    until(|| created() > before).await;

    disk.faults().room.store(u64::MAX, Ordering::SeqCst);
    // Again and again: the keeper may begin to wait only after the clock was moved.
    until(|| {
        env.advance(Duration::from_secs(60));
        store.room(P) == Room::Enough
    })
    .await;
    owner.commit(put(first_refused, 500)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_cannot_make_files_is_not_called_full() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    ready(&disk, &store).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    disk.faults().creates.store(u64::MAX, Ordering::SeqCst);
    let mut number = 0;
    let failed = loop {
        number += 1;
        if let Err(error) = owner.commit(put(number, 500)).await {
            break error;
        }
        assert!(number < 1000, "no segment can be made");
    };
    assert!(matches!(failed, CommitError::NotApplied(StoreError::Io { .. })), "{failed}");
    assert!(failed.to_string().contains("the fake disk fails as asked"), "{failed}");
    assert_eq!(store.room(P), Room::Enough);
    owner.sequence -= 1;

    disk.faults().creates.store(0, Ordering::SeqCst);
    while owner.commit(put(number, 500)).await.is_err() {
        owner.sequence -= 1;
        tokio::task::yield_now().await;
    }
    let copy = open(&disk.after_power_loss(), small()).await.unwrap();
    assert_eq!(Owner::acquire(&copy, 1).await.unwrap().rows, owner.rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reserve_that_cannot_be_written_to_is_a_full_disk_and_no_broken_log() {
    let (env, disk, store) = with_room(u64::from(SMALL) / 2).await;
    disk.faults().copies_on_write.store(true, Ordering::SeqCst);
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 500)).await.unwrap();
    disk.faults().room.store(disk.used(), Ordering::SeqCst);
    let names = disk.names();
    for _ in 0..20 {
        let refused = owner.commit(put(2, 500)).await.unwrap_err();
        assert!(matches!(refused, CommitError::NotApplied(StoreError::Full)), "{refused}");
        owner.sequence -= 1;
        assert_ne!(store.room(P), Room::Enough);
    }
    assert_eq!(disk.names(), names, "no segment was given up for it");

    disk.faults().room.store(u64::MAX, Ordering::SeqCst);
    // Again and again: the keeper may begin to wait only after the clock was moved.
    until(|| {
        env.advance(Duration::from_secs(60));
        store.room(P) == Room::Enough
    })
    .await;
    owner.commit([remove(1)]).await.unwrap();
    owner.commit(put(2, 500)).await.unwrap();
    let copy = open(&disk.after_power_loss(), small()).await.unwrap();
    assert_eq!(Owner::acquire(&copy, 1).await.unwrap().rows, owner.rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_with_room_to_write_but_for_no_segment_gives_leases_again() {
    let (env, disk, store) = with_room(0).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    // The spare goes, and there is no room for another.
    for number in [1, 2] {
        owner.commit(put(number, 9000)).await.unwrap();
    }
    until(|| store.room(P) == Room::Full).await;
    disk.faults().copies_on_write.store(true, Ordering::SeqCst);
    owner.commit(put(3, 500)).await.unwrap_err();
    owner.sequence -= 1;
    assert_eq!(store.room(P), Room::Last);
    // Enough for the margin, and for no segment beside it.
    disk.faults().room.store(disk.used() + u64::from(SMALL) / 2, Ordering::SeqCst);
    until(|| {
        env.advance(Duration::from_secs(60));
        store.room(P) == Room::Full
    })
    .await;
    owner.commit(put(3, 500)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_was_full_for_a_moment_takes_new_work_again() {
    let (env, disk, store) = with_room(0).await;
    disk.faults().copies_on_write.store(true, Ordering::SeqCst);
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    disk.faults().room.store(u64::MAX, Ordering::SeqCst);
    owner.commit(put(1, 9000)).await.unwrap();
    disk.faults().room.store(disk.used(), Ordering::SeqCst);
    // The committer has the spare in hand while the keeper finds no room for the next.
    disk.faults().held.store(true, Ordering::SeqCst);
    let (refused, ()) = tokio::join!(owner.commit(put(2, 9000)), async {
        until(|| store.room(P) == Room::Full).await;
        disk.faults().held.store(false, Ordering::SeqCst);
    });
    assert!(matches!(refused, Err(CommitError::NotApplied(StoreError::Full))), "{refused:?}");
    owner.sequence -= 1;
    disk.faults().room.store(u64::MAX, Ordering::SeqCst);
    until(|| {
        env.advance(Duration::from_secs(60));
        store.room(P) == Room::Enough
    })
    .await;
    owner.commit(put(2, 9000)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_whose_name_is_not_durable_does_not_stay() {
    let (env, disk, store) = with_room(u64::MAX / 2).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    disk.faults().directory_syncs.store(u64::MAX, Ordering::SeqCst);
    let before = disk.used();
    // The spare goes, and each attempt to make another fails at the last step.
    for number in [1, 2] {
        owner.commit(put(number, 9000)).await.unwrap();
    }
    let created = || disk.faults().created.load(Ordering::SeqCst);
    for _ in 0..5 {
        let made = created();
        until(|| {
            env.advance(Duration::from_secs(60));
            created() > made
        })
        .await;
    }
    // One may be under way.
    until(|| disk.used() <= before + u64::from(SMALL)).await;
    disk.faults().directory_syncs.store(0, Ordering::SeqCst);
    until(|| {
        env.advance(Duration::from_secs(60));
        store.stats().bytes_stored == 4 * u64::from(SMALL)
    })
    .await;
    assert!(disk.used() <= before + 2 * u64::from(SMALL), "{:?}", disk.names());
}

#[tokio::test]
async fn a_full_disk_is_logged_once_and_once_when_it_is_over() {
    let ear = Ear::default();
    let _listening = tracing::subscriber::set_default(ear.clone());
    let (env, disk) = (Arc::new(OneThread(ManualEnv::new())), Arc::new(MemDisk::default()));
    let store = LogStore::open(env.clone(), Arc::clone(&disk) as Arc<dyn Disk>, small()).await.unwrap();
    ready(&disk, &store).await;
    disk.faults().room.store(disk.used(), Ordering::SeqCst);
    disk.faults().hides_room.store(true, Ordering::SeqCst);
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let first_refused = use_up(&mut owner).await;
    let created = || disk.faults().created.load(Ordering::SeqCst);
    for _ in 0..10 {
        let before = created();
        env.0.advance(Duration::from_secs(60));
        until(|| created() > before).await;
        owner.commit(put(first_refused, 500)).await.unwrap_err();
        owner.sequence -= 1;
    }
    disk.faults().room.store(u64::MAX, Ordering::SeqCst);
    env.0.advance(Duration::from_secs(60));
    until(|| store.room(P) == Room::Enough).await;
    owner.commit(put(first_refused, 500)).await.unwrap();
    let full = "the disk is full: new work is refused. Free some space, or let workers complete items";
    assert_eq!(ear.line(full)["directory"], "mem/");
    ear.line("the disk has room again");
}
