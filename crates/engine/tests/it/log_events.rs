//! Events on disk: batches under their item, which go one by one or all at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::event::EventBatch;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Key, Part, Row};
use windlass_engine::env::TokioEnv;
use windlass_engine::store::Store;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::{LogOptions, LogStore, inspect};

use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, SMALL, body, open, put, remove, small, sound};

fn tidy() -> LogOptions {
    LogOptions { snapshot_min_bytes: u64::from(SMALL), ..small() }
}

fn content(number: u64, seq: u64) -> Bytes {
    body(number * 1_000 + seq, 100)
}

fn batch(number: u64, seq: u64) -> [Change; 2] {
    let item = ItemNumber(number);
    let row = Row::Events(EventBatch { item, first_seq: seq, last_seq: seq, bytes: 100 });
    let body = content(number, seq);
    [Change::Put(row), Change::PutBody { number: item, part: Part::Events(seq), body }]
}

fn drop_batch(number: u64, seq: u64) -> Change {
    Change::Remove(Key::Events(ItemNumber(number), Some(seq)))
}

fn remove_with_events(number: u64) -> [Change; 2] {
    [Change::Remove(Key::Events(ItemNumber(number), None)), remove(number)]
}

async fn read(store: &LogStore, number: u64, from: u64) -> Vec<(u64, Bytes)> {
    store.read_events(PartitionId(1), ItemNumber(number), from, usize::MAX).await.unwrap()
}

/// Items 1 to 3 with batches 11 to 40 left of each but the second, which is gone; much that came and went in between.
async fn fill(store: &LogStore) -> BTreeMap<Key, Row> {
    let mut owner = Owner::acquire(store, 1).await.unwrap();
    for number in 1..=3 {
        owner.commit(put(number, 50)).await.unwrap();
    }
    for seq in 1..=40 {
        for number in 1..=3 {
            owner.commit(batch(number, seq)).await.unwrap();
            let passing = 1000 + seq * 10 + number;
            owner.commit(put(passing, 900)).await.unwrap();
            owner.commit(batch(passing, 1)).await.unwrap();
            owner.commit(batch(passing, 2)).await.unwrap();
            owner.commit(remove_with_events(passing)).await.unwrap();
            if seq > 30 {
                owner.commit([drop_batch(number, seq - 30)]).await.unwrap();
            }
        }
    }
    owner.commit(remove_with_events(2)).await.unwrap();
    owner.rows.clone()
}

async fn check(store: &LogStore) {
    let all: Vec<u64> = (11..=40).collect();
    for number in [1, 3] {
        let found = read(store, number, 1).await;
        assert_eq!(found.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), all);
        assert!(found.iter().all(|(seq, found)| *found == content(number, *seq)));
        assert_eq!(read(store, number, 35).await.len(), 6);
    }
    assert_eq!(read(store, 2, 1).await, []);
    let wanted = vec![(ItemNumber(1), Part::Events(20)), (ItemNumber(1), Part::Events(5))];
    let found = sound(store.read(PartitionId(1), wanted).await);
    assert_eq!(found, [Some(content(1, 20)), None]);
    let few = store.read_events(PartitionId(1), ItemNumber(1), 12, 250).await.unwrap();
    assert_eq!(few.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [12, 13, 14]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_outlive_snapshots_compaction_and_power_losses_and_go_with_their_item() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let rows = fill(&store).await;
    assert_eq!(rows.len(), 2 + 60);
    check(&store).await;
    while store.stats().snapshots < 2 || store.stats().compactions == 0 {
        tokio::task::yield_now().await;
        // More to do until both had a turn.
        let mut owner = Owner::acquire(&store, 1).await.unwrap();
        for number in 5000..5050 {
            owner.commit(put(number, 900)).await.unwrap();
            owner.commit([remove(number)]).await.unwrap();
        }
    }
    check(&store).await;
    drop(store);
    let disk = disk.after_power_loss();
    let store = open(&disk, tidy()).await.unwrap();
    check(&store).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    owner.commit(remove_with_events(1)).await.unwrap();
    owner.commit(remove_with_events(3)).await.unwrap();
    assert_eq!(store.stats().bytes_live, 0);
    assert_eq!(owner.rows.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_went_at_once_are_not_in_the_next_snapshot() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 50)).await.unwrap();
    owner.commit(put(2, 50)).await.unwrap();
    for seq in 1..=100 {
        owner.commit(batch(1, seq)).await.unwrap();
        owner.commit(batch(2, seq)).await.unwrap();
    }
    let mut passing = 1000;
    for snapshots in [1, 3] {
        while store.stats().snapshots < snapshots {
            passing += 1;
            owner.commit(put(passing, 900)).await.unwrap();
            owner.commit([remove(passing)]).await.unwrap();
        }
        if snapshots == 1 {
            owner.commit(remove_with_events(1)).await.unwrap();
        }
    }
    let rows = owner.rows.clone();
    drop(store);
    let store = open(&disk.after_power_loss(), tidy()).await.unwrap();
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    assert_eq!(owner.rows.len(), 1 + 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_exported_counted_and_salvaged() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let rows = fill(&store).await;
    store.close().await;
    let report = inspect::check(Arc::clone(&disk) as Arc<dyn Disk>).await.unwrap();
    assert!(report.damage.is_empty());
    let counted = report.partitions[&PartitionId(1)];
    assert_eq!((counted.rows, counted.bodies), (62, 62));
    let mut exported = BTreeMap::new();
    let mut events = 0;
    let mut each = |_, change| match change {
        Change::Put(row) => drop(exported.insert(row.key(), row)),
        Change::PutBody { number, part: Part::Events(seq), body } => {
            assert_eq!(body, content(number.0, seq));
            events += 1;
        }
        Change::PutBody { .. } | Change::Remove(_) | Change::RemoveBody { .. } => {}
    };
    inspect::export(Arc::clone(&disk) as Arc<dyn Disk>, None, &mut each).await.unwrap();
    assert_eq!((exported, events), (rows, 60));
    let to = Arc::new(MemDisk::default());
    let (from, target) = (disk as Arc<dyn Disk>, Arc::clone(&to) as Arc<dyn Disk>);
    let salvaged = inspect::salvage(Arc::new(TokioEnv::new()), from, target, small()).await.unwrap();
    assert!(salvaged.lost.is_empty(), "{salvaged:?}");
    check(&open(&to, small()).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_batch_costs_no_other() {
    let disk = Arc::new(MemDisk::default());
    // Nothing is kept in memory.
    let options = LogOptions { body_cache_bytes: 0, ..small() };
    let store = open(&disk, options).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 50)).await.unwrap();
    for seq in 1..=4 {
        owner.commit(batch(1, seq)).await.unwrap();
    }
    assert!(disk.spoil(&content(1, 2)) > 0);
    let found = |read: Vec<(u64, Bytes)>| read.iter().map(|(seq, _)| *seq).collect::<Vec<_>>();
    assert_eq!(found(read(&store, 1, 1).await), [1, 3, 4]);
    let only_that = store.read_events(PartitionId(1), ItemNumber(1), 2, 1).await.unwrap();
    assert_eq!(found(only_that), [3], "there is something to read on with");
}
