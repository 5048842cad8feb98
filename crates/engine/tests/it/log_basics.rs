//! The log store as its callers see it, when nothing goes wrong.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Part};
use windlass_core::time::{Span, Timestamp};
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{Durability, LogOptions};
use windlass_engine::store::{Batch, CommitError, Store, StoreError};

use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, SMALL, body, item, open, put, remove, small, sound};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_is_there_after_a_power_loss() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 3).await.unwrap();
    // Enough for several segments.
    for number in 1..200 {
        owner.commit(put(number, 300)).await.unwrap();
    }
    owner.commit([remove(7)]).await.unwrap();
    let rows = owner.rows.clone();

    let disk = disk.after_power_loss();
    let store = open(&disk, small()).await.unwrap();
    assert_eq!(store.partitions().await.unwrap(), [PartitionId(3)]);
    let owner = Owner::acquire(&store, 3).await.unwrap();
    assert_eq!(owner.sequence, 200);
    assert_eq!(owner.rows, rows);
    owner.check_bodies().await;
    assert_eq!(owner.read(7).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_on_real_files_is_opened_again_after_a_close() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::new(directory.path()).unwrap());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..100 {
        owner.commit(put(number, 500)).await.unwrap();
    }
    let rows = owner.rows.clone();
    let elsewhere = Arc::new(RealDisk::new(directory.path()).unwrap());
    let refused = open(&elsewhere, small()).await.unwrap_err();
    assert!(refused.to_string().contains("another process"), "{refused}");
    store.close().await;

    let store = open(&elsewhere, small()).await.unwrap();
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    owner.check_bodies().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_is_fenced_by_the_next_one() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut first = Owner::acquire(&store, 1).await.unwrap();
    first.commit(put(1, 10)).await.unwrap();
    let mut second = Owner::acquire(&store, 1).await.unwrap();
    assert!(second.epoch > first.epoch);
    let fenced = first.commit(put(2, 10)).await.unwrap_err();
    assert!(matches!(fenced, CommitError::NotApplied(StoreError::Fenced)), "{fenced}");
    second.commit(put(2, 10)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_out_of_order_is_not_applied() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.sequence = 7;
    let refused = owner.commit(put(1, 10)).await.unwrap_err();
    assert!(matches!(refused, CommitError::NotApplied(StoreError::Unusable(_))), "{refused}");
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!((owner.sequence, owner.rows.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_batch_is_one_commit_and_one_sync() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let before = store.stats();
    // Over the ends of segments too.
    for number in 1..=100 {
        owner.commit(put(number, 1000)).await.unwrap();
    }
    let after = store.stats();
    assert_eq!(after.commits - before.commits, 100);
    assert_eq!(after.syncs - before.syncs, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_larger_than_a_segment_is_refused_and_harms_nothing() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let refused = owner.commit(put(1, SMALL as usize)).await.unwrap_err();
    assert!(matches!(refused, CommitError::NotApplied(StoreError::TooLarge { .. })), "{refused}");
    owner.sequence = 0;
    owner.commit(put(1, SMALL as usize - 400)).await.unwrap();
    assert_eq!(owner.read(1).await.unwrap().unwrap().len(), SMALL as usize - 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_partition_is_gone_for_good() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 10)).await.unwrap();
    let mut other = Owner::acquire(&store, 2).await.unwrap();
    other.commit(put(1, 10)).await.unwrap();
    store.drop_partition(PartitionId(1)).await.unwrap();
    let fenced = owner.commit(put(2, 10)).await.unwrap_err();
    assert!(matches!(fenced, CommitError::NotApplied(StoreError::Fenced)), "{fenced}");

    let disk = disk.after_power_loss();
    let store = open(&disk, small()).await.unwrap();
    assert_eq!(store.partitions().await.unwrap(), [PartitionId(2)]);
    assert_eq!(Owner::acquire(&store, 1).await.unwrap().rows.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_read_in_the_order_asked_for_cached_or_not() {
    for body_cache_bytes in [0, 4000, 1 << 20] {
        let disk = Arc::new(MemDisk::default());
        let store = open(&disk, LogOptions { body_cache_bytes, ..small() }).await.unwrap();
        let mut owner = Owner::acquire(&store, 1).await.unwrap();
        for number in 1..=50 {
            owner.commit(put(number, 700)).await.unwrap();
        }
        let result = Change::PutBody { number: ItemNumber(9), part: Part::Result, body: body(99, 20) };
        owner.commit([result]).await.unwrap();
        owner.commit([Change::RemoveBody { number: ItemNumber(9), part: Part::Payload }]).await.unwrap();
        let payload = |number| (ItemNumber(number), Part::Payload);
        let wanted = vec![payload(40), payload(3), (ItemNumber(9), Part::Result), payload(9), payload(77)];
        for _ in 0..2 {
            let found = sound(store.read(PartitionId(1), wanted.clone()).await);
            let expected = [Some(body(40, 700)), Some(body(3, 700)), Some(body(99, 20)), None, None];
            assert_eq!(found, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sync_per_commit_everything_is_durable_after_a_close() {
    for durability in [Durability::Interval(Span::from_secs(3600)), Durability::None] {
        let disk = Arc::new(MemDisk::default());
        let options = LogOptions { durability, ..small() };
        let store = open(&disk, options.clone()).await.unwrap();
        let mut owner = Owner::acquire(&store, 1).await.unwrap();
        for number in 1..=40 {
            owner.commit(put(number, 700)).await.unwrap();
        }
        let lost = open(&disk.after_power_loss(), options.clone()).await.unwrap();
        let kept = Owner::acquire(&lost, 1).await.unwrap();
        assert!(kept.sequence < 40, "the last segment was not synced");
        assert_eq!(kept.rows.len() as u64, kept.sequence);
        store.close().await;

        let store = open(&disk.after_power_loss(), options).await.unwrap();
        let owner = Owner::acquire(&store, 1).await.unwrap();
        assert_eq!(owner.sequence, 40);
        owner.check_bodies().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn which_queues_there_are_is_durable_before_it_is_answered_in_every_mode() {
    for durability in [Durability::Always, Durability::Interval(Span::from_secs(3600)), Durability::None] {
        let disk = Arc::new(MemDisk::default());
        let options = LogOptions { durability, ..small() };
        let store = open(&disk, options.clone()).await.unwrap();
        let mut registry = Owner::acquire(&store, PartitionId::REGISTRY.0).await.unwrap();
        registry.commit([Change::Put(item(1))]).await.unwrap();
        let copy = open(&disk.after_power_loss(), options).await.unwrap();
        assert_eq!(Owner::acquire(&copy, PartitionId::REGISTRY.0).await.unwrap().rows, registry.rows);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interval_syncs_by_itself() {
    let disk = Arc::new(MemDisk::default());
    let durability = Durability::Interval(Span::from_millis(1));
    let store = open(&disk, LogOptions { durability, ..small() }).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit([Change::Put(item(1))]).await.unwrap();
    loop {
        let copy = open(&disk.after_power_loss(), small()).await.unwrap();
        if Owner::acquire(&copy, 1).await.unwrap().sequence == 1 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_not_ours_is_refused() {
    let foreign = MemDisk::of([("holiday.jpg".to_owned(), vec![1, 2, 3])].into());
    let refused = open(&foreign, small()).await.unwrap_err();
    assert!(refused.to_string().contains("holiday.jpg"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_says_so() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 10)).await.unwrap();
    store.close().await;
    let refused = owner.commit(put(2, 10)).await.unwrap_err();
    assert!(matches!(refused, CommitError::NotApplied(StoreError::Closed)), "{refused}");
    assert!(matches!(store.acquire(PartitionId(1)).await, Err(StoreError::Closed)));
    open(&disk, small()).await.unwrap();
}

#[tokio::test]
async fn under_load_an_interval_is_kept_all_the_same() {
    let disk = Arc::new(MemDisk::default());
    // A run is due to be synced as soon as it is written, whatever is queued behind it.
    let durability = Durability::Interval(Span(0));
    let store = Arc::new(open(&disk, LogOptions { durability, ..LogOptions::default() }).await.unwrap());
    let mut owners = Vec::new();
    for partition in 1..=13 {
        owners.push(store.acquire(PartitionId(partition)).await.unwrap().epoch);
    }
    let before = store.stats().syncs;
    disk.faults().held.store(true, Ordering::SeqCst);
    let mut commits = tokio::task::JoinSet::new();
    for (partition, epoch) in (1..).zip(owners) {
        let store = Arc::clone(&store);
        let (partition, changes) = (PartitionId(partition), put(1, 1 << 20).to_vec());
        let batch = Batch { partition, epoch, sequence: 1, now: Timestamp(1), changes, may_block: true };
        commits.spawn(async move { store.commit(batch).await });
    }
    // On one thread: all of them are queued when this goes on.
    tokio::task::yield_now().await;
    disk.faults().held.store(false, Ordering::SeqCst);
    while let Some(committed) = commits.join_next().await {
        committed.unwrap().unwrap();
    }
    // Four megabytes a run at most: at least four runs, and each was synced before the next.
    let syncs = store.stats().syncs - before;
    assert!(syncs >= 3, "only {syncs} syncs");
}
