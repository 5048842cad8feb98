//! Disks that fail, lie or are full.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_core::id::PartitionId;
use windlass_core::row::Change;
use windlass_core::time::Span;
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::{CommitError, Room, Store, StoreError, Term};

use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, SMALL, item, open, put, remove, small};

pub(crate) async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

/// The pool has its spare and its reserve: nothing writes but who is asked to.
pub(crate) async fn ready(disk: &MemDisk, store: &LogStore) {
    ready_with(disk, SMALL, || store.stats().bytes_stored).await;
}

/// As [`ready`], for segments of another size and a store that is asked by others.
pub(crate) async fn ready_with(disk: &MemDisk, segment_bytes: u32, stored: impl Fn() -> u64) {
    let all = 3 * u64::from(segment_bytes);
    until(|| stored() == all && disk.used() > all).await;
    let no_temporary = || disk.names().iter().all(|name| !name.ends_with(".tmp"));
    until(no_temporary).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_sync_or_write_what_was_in_flight_never_happened() {
    for fail_the_write in [false, true] {
        let disk = Arc::new(MemDisk::default());
        let store = open(&disk, small()).await.unwrap();
        ready(&disk, &store).await;
        let mut owner = Owner::acquire(&store, 1).await.unwrap();
        for number in 1..=5 {
            owner.commit(put(number, 100)).await.unwrap();
        }
        let fault = if fail_the_write { &disk.faults().writes } else { &disk.faults().syncs };
        fault.store(1, Ordering::SeqCst);
        let unknown = owner.commit(put(6, 100)).await.unwrap_err();
        assert!(matches!(unknown, CommitError::Unknown(StoreError::Io { .. })), "{unknown}");
        assert_eq!(owner.read(6).await.unwrap(), None);

        let mut owner = Owner::acquire(&store, 1).await.unwrap();
        assert_eq!((owner.sequence, owner.rows.len()), (5, 5));
        owner.commit(put(7, 100)).await.unwrap();
        let rows = owner.rows.clone();
        // A killed process leaves pages that show the void frame, a power loss does not.
        for disk in [disk.after_kill(), disk.after_power_loss()] {
            let store = open(&disk, small()).await.unwrap();
            let owner = Owner::acquire(&store, 1).await.unwrap();
            assert_eq!((owner.sequence, &owner.rows), (6, &rows));
            owner.check_bodies().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_had_nothing_in_flight_does_not_notice_a_failed_sync() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    ready(&disk, &store).await;
    let mut unlucky = Owner::acquire(&store, 1).await.unwrap();
    let mut other = Owner::acquire(&store, 2).await.unwrap();
    let mut dropped = Owner::acquire(&store, 3).await.unwrap();
    other.commit(put(1, 100)).await.unwrap();
    dropped.commit(put(1, 100)).await.unwrap();
    disk.faults().syncs.store(1, Ordering::SeqCst);
    unlucky.commit(put(1, 100)).await.unwrap_err();
    store.drop_partition(PartitionId(3)).await.unwrap();
    other.commit(put(2, 100)).await.unwrap();
    let store = open(&disk.after_power_loss(), small()).await.unwrap();
    assert_eq!(store.partitions().await.unwrap(), [PartitionId(2)]);
    assert_eq!(Owner::acquire(&store, 2).await.unwrap().rows, other.rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_left_unsynced_counts_only_once_it_is_durable() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    ready(&disk, &store).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 100)).await.unwrap();
    disk.faults().syncs.store(1, Ordering::SeqCst);
    owner.commit(put(2, 100)).await.unwrap_err();
    // The machine goes on, the process does not: the next one is shown the frame, so it must become durable.
    drop(store);
    disk.unlock_for_the_next();
    let store = open(&disk, small()).await.unwrap();
    let shown = Owner::acquire(&store, 1).await.unwrap().sequence;
    let store = open(&disk.after_power_loss(), small()).await.unwrap();
    assert_eq!(Owner::acquire(&store, 1).await.unwrap().sequence, shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_keeps_failing_is_tried_at_every_acquire() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    ready(&disk, &store).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 100)).await.unwrap();
    disk.faults().syncs.store(3, Ordering::SeqCst);
    owner.commit(put(2, 100)).await.unwrap_err();
    let mut failures = 0;
    let mut owner = loop {
        match Owner::acquire(&store, 1).await {
            Ok(owner) => break owner,
            Err(_) => failures += 1,
        }
    };
    assert!(failures > 0);
    assert_eq!(owner.sequence, 1);
    owner.commit(put(3, 100)).await.unwrap();
    let store = open(&disk.after_power_loss(), small()).await.unwrap();
    assert_eq!(Owner::acquire(&store, 1).await.unwrap().rows, owner.rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_interval_sync_takes_back_what_was_not_durable() {
    let disk = Arc::new(MemDisk::default());
    let durability = Durability::Interval(Span::from_secs(3600));
    let options = LogOptions { durability, snapshot_min_bytes: u64::from(SMALL), ..small() };
    let store = open(&disk, options.clone()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let mut bystander = Owner::acquire(&store, 2).await.unwrap();
    bystander.commit(put(1, 10)).await.unwrap();
    let mut number = 0;
    let fenced = loop {
        number += 1;
        if store.stats().snapshots == 2 {
            disk.faults().syncs.store(1, Ordering::SeqCst);
        }
        if let Err(error) = owner.commit(put(number, 200)).await {
            break error;
        }
    };
    assert!(matches!(fenced, CommitError::NotApplied(_) | CommitError::Unknown(_)), "{fenced}");
    let mut again = loop {
        if let Ok(owner) = Owner::acquire(&store, 1).await {
            break owner;
        }
    };
    assert_eq!(again.rows.len() as u64, again.sequence);
    again.check_bodies().await;
    let refused = bystander.commit(put(2, 10)).await.unwrap_err();
    assert!(matches!(refused, CommitError::NotApplied(StoreError::Fenced)), "{refused}");
    again.commit([Change::Put(item(9999))]).await.unwrap();
    let rows = again.rows.clone();
    store.close().await;
    let store = open(&disk.after_power_loss(), options).await.unwrap();
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
}

/// Whoever rests something on a commit that was taken back would be the only one who knows of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_sync_is_refused_to_an_owner_whose_commits_were_taken_back() {
    let disk = Arc::new(MemDisk::default());
    for durability in [Durability::Interval(Span::from_secs(3600)), Durability::None] {
        let store = open(&disk, LogOptions { durability, ..small() }).await.unwrap();
        let mut owner = Owner::acquire(&store, 1).await.unwrap();
        let mut bystander = Owner::acquire(&store, 2).await.unwrap();
        let term = Term::now(&store, owner.partition);
        owner.commit(put(owner.sequence + 1, 100)).await.unwrap();
        store.sync(term).await.unwrap();
        let durable = owner.rows.clone();
        owner.commit(put(owner.sequence + 1, 100)).await.unwrap();
        disk.faults().writes.store(1, Ordering::SeqCst);
        bystander.commit(put(bystander.sequence + 1, 100)).await.unwrap_err();
        let bystander = Owner::acquire(&store, 2).await.unwrap();
        assert_eq!(store.stats().events.rollbacks, 1);
        store.sync(Term::now(&store, bystander.partition)).await.unwrap();
        assert!(matches!(store.sync(term).await, Err(StoreError::Fenced)));
        assert_eq!(Owner::acquire(&store, 1).await.unwrap().rows, durable);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_cannot_be_read_fails_that_read_only() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 100)).await.unwrap();
    disk.faults().reads.store(1, Ordering::SeqCst);
    assert!(matches!(owner.read(1).await, Err(StoreError::Io { .. })));
    assert!(owner.read(1).await.unwrap().is_some());
    owner.commit(put(2, 100)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_items_still_end_and_it_recovers_by_itself() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    ready(&disk, &store).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 100)).await.unwrap();
    disk.faults().room.store(disk.used(), Ordering::SeqCst);
    // Until the spare is taken and no other can be made.
    let mut number = 1;
    while store.room(PartitionId(1)) == Room::Enough {
        number += 1;
        owner.commit(put(number, 500)).await.unwrap();
    }
    // A removal is small: thousands of them go into what is left and the reserve.
    for number in 1..=number {
        owner.commit([remove(number)]).await.unwrap();
    }
    let full = loop {
        if let Err(error) = owner.commit(put(number, 500)).await {
            break error;
        }
    };
    assert!(matches!(full, CommitError::NotApplied(StoreError::Full)), "{full}");
    owner.sequence -= 1;
    let copy = open(&disk.after_power_loss(), small()).await.unwrap();
    assert_eq!(Owner::acquire(&copy, 1).await.unwrap().rows, owner.rows);

    disk.faults().room.store(u64::MAX, Ordering::SeqCst);
    until(|| store.room(PartitionId(1)) == Room::Enough).await;
    owner.commit(put(number + 1, 500)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_frees_itself_when_a_snapshot_fits() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    ready(&disk, &store).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    // Room for a snapshot, not for a segment.
    disk.faults().room.store(disk.used() + u64::from(SMALL) / 2, Ordering::SeqCst);
    let mut number = 0;
    while store.room(PartitionId(1)) == Room::Enough {
        number += 1;
        owner.commit(put(number, 500)).await.unwrap();
        owner.commit([remove(number)]).await.unwrap();
    }
    until(|| store.room(PartitionId(1)) == Room::Enough).await;
    let copy = open(&disk.after_power_loss(), small()).await.unwrap();
    assert_eq!(Owner::acquire(&copy, 1).await.unwrap().rows, owner.rows);
}

/// Nobody else may come who writes something, and repairs the log with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_failed_a_sync_is_repaired_by_the_next_one_who_asks_for_a_sync() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, LogOptions { durability: Durability::None, ..small() }).await.unwrap();
    ready(&disk, &store).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let term = Term::now(&store, owner.partition);
    owner.commit(put(1, 100)).await.unwrap();
    disk.faults().syncs.store(1, Ordering::SeqCst);
    assert!(matches!(store.sync(term).await, Err(StoreError::Io { .. })));
    assert!(matches!(store.sync(term).await, Err(StoreError::Fenced)));
    store.sync(Term::now(&store, owner.partition)).await.unwrap();
    assert_eq!(Owner::acquire(&store, 1).await.unwrap().sequence, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_panics_closes_the_store_and_nobody_waits_for_it() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    ready(&disk, &store).await;
    disk.faults().panics.store(true, Ordering::SeqCst);
    let mut number = 0;
    let refused = loop {
        number += 1;
        if let Err(error) = owner.commit(put(number, 1000)).await {
            break error;
        }
    };
    let (CommitError::NotApplied(error) | CommitError::Unknown(error)) = refused;
    assert!(matches!(error, StoreError::Closed), "{error}");
    assert!(matches!(Owner::acquire(&store, 1).await, Err(StoreError::Closed)));
    assert!(
        matches!(store.sync(Term::now(&store, owner.partition)).await, Ok(())),
        "all that was answered is durable"
    );
    store.close().await;
    disk.faults().panics.store(false, Ordering::SeqCst);
    let store = open(&disk.after_power_loss(), small()).await.unwrap();
    assert_eq!(Owner::acquire(&store, 1).await.unwrap().rows, owner.rows);
}
