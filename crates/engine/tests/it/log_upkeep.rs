//! Snapshots, compaction, reuse: what the log does so that it stays short and its directory small.

use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::item::{Extras, Item};
use windlass_core::row::{Change, Key, Row};
use windlass_core::time::Span;
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::{Store, StoreError};

use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, SMALL, body, item, open, put, remove, small};

fn tidy() -> LogOptions {
    LogOptions { snapshot_min_bytes: u64::from(SMALL), ..small() }
}

/// Waits until a store has nothing more to do for itself.
async fn settled(store: &LogStore, done: impl Fn(&LogStore) -> bool) {
    while !done(store) {
        tokio::task::yield_now().await;
    }
}

async fn reopened(disk: &MemDisk, options: LogOptions) -> (Arc<MemDisk>, LogStore) {
    let disk = disk.after_power_loss();
    let store = open(&disk, options).await.unwrap();
    (disk, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_bodies_outlive_snapshots_compaction_and_power_losses() {
    let durabilities = [Durability::Always, Durability::Interval(Span::from_millis(1)), Durability::None];
    for durability in durabilities {
        let options = LogOptions { durability, ..tidy() };
        let mut disk = Arc::new(MemDisk::default());
        let mut store = open(&disk, options.clone()).await.unwrap();
        let mut rows = [Default::default(), Default::default()];
        for round in 0..5 {
            for partition in 0..2_u32 {
                let mut owner = Owner::acquire(&store, partition).await.unwrap();
                assert_eq!(owner.rows, rows[partition as usize], "round {round}");
                owner.check_bodies().await;
                for step in 1..=150_u64 {
                    let number = round * 1000 + step;
                    owner.commit(put(number, 200 + step as usize)).await.unwrap();
                    // One in ten stays for good, the others go after a while.
                    if step > 20 && !(step - 20).is_multiple_of(10) {
                        owner.commit([remove(number - 20)]).await.unwrap();
                    }
                }
                rows[partition as usize] = owner.rows.clone();
            }
            settled(&store, |store| store.stats().snapshots > 0).await;
            store.close().await;
            (disk, store) = reopened(&disk, options.clone()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_stays_small_when_items_come_and_go() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=3000 {
        owner.commit(put(number, 500)).await.unwrap();
        owner.commit([remove(number)]).await.unwrap();
    }
    // Two in the log, one ready, one in reserve, one free, and those a snapshot is about to free.
    settled(&store, |store| store.stats().bytes_stored <= 8 * u64::from(SMALL)).await;
    assert!(store.stats().snapshots > 10);
    let (_, store) = reopened(&disk, tidy()).await;
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!((owner.sequence, owner.rows.len()), (6000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn old_bodies_among_dead_ones_are_moved_together() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=3000_u64 {
        owner.commit(put(number, 500)).await.unwrap();
        if !number.is_multiple_of(50) {
            owner.commit([remove(number)]).await.unwrap();
        }
    }
    let enough = |store: &LogStore| {
        let stats = store.stats();
        stats.bytes_stored <= 3 * stats.bytes_live + 10 * u64::from(SMALL)
    };
    settled(&store, enough).await;
    assert!(store.stats().compactions > 0);
    owner.check_bodies().await;
    let rows = owner.rows.clone();
    let (_, store) = reopened(&disk, tidy()).await;
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    owner.check_bodies().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_log_gives_back_the_space_of_what_died() {
    // So large that the log never grows enough for a snapshot.
    let options = LogOptions { snapshot_min_bytes: 1 << 30, ..small() };
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, options.clone()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=2000 {
        owner.commit(put(number, 500)).await.unwrap();
    }
    let before = store.stats();
    assert_eq!(before.snapshots, 0, "nothing is dead yet");
    // One small commit, and nothing after it.
    let dead: Vec<Change> = (1..=2000).filter(|number| number % 50 != 0).map(remove).collect();
    for some in dead.chunks(100) {
        owner.commit(some.to_vec()).await.unwrap();
    }
    let enough = |store: &LogStore| {
        let stats = store.stats();
        stats.bytes_stored <= 3 * stats.bytes_live + 12 * u64::from(SMALL)
    };
    settled(&store, enough).await;
    let stats = store.stats();
    assert!(stats.bytes_written - before.bytes_written < 10 * u64::from(SMALL));
    // Every snapshot is paid for: by a compaction, or by an eighth of what was stored before it that died.
    assert!(stats.snapshots <= 16 + stats.compactions, "{} snapshots", stats.snapshots);
    owner.check_bodies().await;
    let rows = owner.rows.clone();
    let (_, store) = reopened(&disk, options).await;
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    owner.check_bodies().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_cannot_be_read_does_not_keep_compaction_busy() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let mut spoil_at = u64::MAX;
    for number in 1..=4000_u64 {
        owner.commit(put(number, 500)).await.unwrap();
        if number == 50 {
            // The second snapshot from here on covers it: from then on nobody reads its frame but for the body.
            spoil_at = store.stats().snapshots + 2;
        }
        if store.stats().snapshots >= spoil_at {
            assert!(disk.spoil(&body(50, 500)) > 0);
            spoil_at = u64::MAX;
        }
        if !number.is_multiple_of(50) {
            owner.commit([remove(number)]).await.unwrap();
        }
    }
    // How much of it compaction has seen by now is up to the scheduler: more to do until it has had a turn.
    let mut number = 4000;
    while store.stats().compactions == 0 {
        number += 1;
        owner.commit(put(number, 500)).await.unwrap();
        if !number.is_multiple_of(50) {
            owner.commit([remove(number)]).await.unwrap();
        }
        assert!(number < 100_000, "nothing is compacted any more");
    }
    // Each of them empties two segments at least and fills one, and each snapshot follows one or a segment's worth.
    let stats = store.stats();
    let segments = stats.bytes_written / u64::from(SMALL);
    assert!(stats.compactions < segments, "{} compactions of {segments} segments", stats.compactions);
    assert!(stats.snapshots <= segments + stats.compactions + 1, "{} snapshots", stats.snapshots);
    assert!(matches!(owner.read(50).await, Err(StoreError::Damaged { .. })));
    assert!(owner.read(100).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_acquired_long_ago_can_still_be_read_to_its_end() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=60 {
        owner.commit(put(number, 500)).await.unwrap();
    }
    let before = owner.rows.clone();
    let slow_reader = store.acquire(PartitionId(1)).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=60 {
        owner.commit([remove(number)]).await.unwrap();
    }
    let mut other = Owner::acquire(&store, 2).await.unwrap();
    let snapshots = store.stats().snapshots;
    let mut number = 0;
    while store.stats().snapshots < snapshots + 5 {
        number += 1;
        other.commit(put(number, 500)).await.unwrap();
        other.commit([remove(number)]).await.unwrap();
    }
    assert_eq!(crate::log_rows::rows_of(slow_reader).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_partition_is_in_no_snapshot() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 500)).await.unwrap();
    store.drop_partition(PartitionId(1)).await.unwrap();
    let mut other = Owner::acquire(&store, 2).await.unwrap();
    for number in 1..=100 {
        other.commit(put(number, 500)).await.unwrap();
    }
    settled(&store, |store| store.stats().snapshots > 0).await;
    let (_, store) = reopened(&disk, tidy()).await;
    assert_eq!(store.partitions().await.unwrap(), [PartitionId(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_a_later_version_survive_log_and_snapshot() {
    // Field 60, with three bytes, as a later version might write it.
    let unknown = {
        let mut later = Vec::new();
        windlass_core::codec::encode_value(&item(1), &mut later);
        later.extend_from_slice(&[60 << 1 | 1, 3, b'n', b'e', b'w']);
        let mut key = Vec::new();
        windlass_core::codec::encode_key(&item(1).key(), &mut key);
        windlass_core::codec::decode_row(&key, &later).unwrap()
    };
    let Row::Item(Item { extras: Some(extras), .. }) = &unknown else { panic!("an item with extras") };
    assert_ne!(extras.unknown, Extras::default().unknown);

    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit([Change::Put(unknown.clone())]).await.unwrap();
    for number in 2..=100 {
        owner.commit(put(number, 500)).await.unwrap();
    }
    settled(&store, |store| store.stats().snapshots > 0).await;
    let (_, store) = reopened(&disk, tidy()).await;
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows[&Key::Item(windlass_core::id::ItemNumber(1))], unknown);
}
