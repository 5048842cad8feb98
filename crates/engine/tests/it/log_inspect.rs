//! Backups of a live log, and logs looked at from outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Key, Row};
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::inspect::{self, Use};
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::{Store, StoreError};

use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, SMALL, body, open, put, remove, small};

fn tidy() -> LogOptions {
    LogOptions { snapshot_min_bytes: u64::from(SMALL), ..small() }
}

fn as_disk(disk: &Arc<MemDisk>) -> Arc<dyn Disk> {
    Arc::clone(disk) as Arc<dyn Disk>
}

/// Items that stay and items that go, over several segments and snapshots.
async fn fill(store: &LogStore, partition: u32, items: u64) -> BTreeMap<Key, Row> {
    let mut owner = Owner::acquire(store, partition).await.unwrap();
    for number in 1..=items {
        owner.commit(put(number, 300)).await.unwrap();
        if !number.is_multiple_of(7) {
            owner.commit([remove(number)]).await.unwrap();
        }
    }
    owner.rows
}

async fn filled(items: u64) -> (Arc<MemDisk>, BTreeMap<Key, Row>) {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let rows = fill(&store, 1, items).await;
    while store.stats().snapshots == 0 {
        tokio::task::yield_now().await;
    }
    store.close().await;
    (disk, rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_busy_log_opens_and_is_one_moment_of_it() {
    let disk = Arc::new(MemDisk::default());
    let store = Arc::new(open(&disk, tidy()).await.unwrap());
    let rows = fill(&store, 1, 300).await;
    let busy = {
        let store = Arc::clone(&store);
        tokio::task::JoinSet::from_iter([async move { fill(&store, 2, 300).await }])
    };
    let copy = Arc::new(MemDisk::default());
    let mut heard = Vec::new();
    store.backup(as_disk(&copy), &mut |done, total| heard.push((done, total))).await.unwrap();
    busy.join_all().await;
    assert!(heard.is_sorted());
    assert!(heard.last().is_some_and(|(done, total)| done == total), "{heard:?}");

    let again = store.backup(as_disk(&copy), &mut |_, _| {}).await.unwrap_err();
    assert!(again.to_string().contains("empty directory"), "{again}");
    let copy = open(&copy.after_power_loss(), tidy()).await.unwrap();
    let owner = Owner::acquire(&copy, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    owner.check_bodies().await;
    let mut other = Owner::acquire(&copy, 2).await.unwrap();
    other.check_bodies().await;
    other.commit(put(5000, 10)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_log_is_counted() {
    let (disk, rows) = filled(300).await;
    let before = disk.images();
    let report = inspect::check(as_disk(&disk)).await.unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    let partition = &report.partitions[&PartitionId(1)];
    assert_eq!(partition.rows, rows.len() as u64);
    assert_eq!(partition.bodies, rows.len() as u64);
    assert_eq!(partition.body_bytes, 300 * rows.len() as u64);
    assert!(report.snapshot.is_some());
    assert!(report.segments.iter().any(|file| matches!(file.used_for, Use::Log { .. }) && file.frames > 0));
    assert_eq!(disk.images(), before, "looking at a log changes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_file_that_was_cut_fails() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    fill(&store, 1, 100).await;
    disk.cut("00000001.seg", 5000);
    let target = Arc::new(MemDisk::default());
    let refused = store.backup(as_disk(&target), &mut |_, _| {}).await.unwrap_err();
    let StoreError::Damaged { file, offset: 5000, .. } = &refused else { panic!("{refused}") };
    assert_eq!(file, "mem/00000001.seg");
    assert!(!target.names().contains("format"), "a copy that is not whole opens");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_use_is_not_inspected() {
    let disk = Arc::new(MemDisk::default());
    let _store = open(&disk, small()).await.unwrap();
    let refused = inspect::check(as_disk(&disk)).await.unwrap_err();
    assert!(refused.to_string().contains("another process"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_makes_the_log_anew() {
    let (disk, rows) = filled(300).await;
    let mut exported = BTreeMap::new();
    let mut bodies = BTreeMap::new();
    let mut each = |partition, change| {
        assert_eq!(partition, PartitionId(1));
        match change {
            Change::Put(row) => drop(exported.insert(row.key(), row)),
            Change::PutBody { number, body, .. } => drop(bodies.insert(number, body)),
            Change::Remove(_) | Change::RemoveBody { .. } => panic!("an export removes nothing"),
        }
    };
    inspect::export(as_disk(&disk), &mut each).await.unwrap();
    assert_eq!(exported, rows);
    assert_eq!(bodies.len(), rows.len());
    assert!(bodies.iter().all(|(number, found)| *found == body(number.0, 300)));
}

/// Frames of a segment as (offset, length).
fn frames(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut frames = Vec::new();
    let mut at = 0;
    while bytes.get(at + 8..at + 12) == Some(b"WndL") {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        frames.push((at, length));
        at += length.next_multiple_of(8);
    }
    frames
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_found_and_everything_else_salvaged() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=100 {
        owner.commit(put(number, 300)).await.unwrap();
    }
    let mut rows = owner.rows.clone();
    store.close().await;
    let mut files = disk.images();
    let name = "00000001.seg";
    // The start of the segment, the open frame, then one commit for each item.
    let (at, length) = frames(&files[name])[1 + 20];
    files.get_mut(name).unwrap()[at + length / 2] ^= 1;
    let disk = MemDisk::of(files);

    let report = inspect::check(as_disk(&disk)).await.unwrap();
    let [StoreError::Damaged { file, offset, .. }] = &report.damage[..] else {
        panic!("{:?}", report.damage)
    };
    assert_eq!((file.as_str(), *offset), (&*format!("mem/{name}"), at as u64));

    let target = Arc::new(MemDisk::default());
    let env = Arc::new(TokioEnv::new());
    let salvaged = inspect::salvage(env, as_disk(&disk), as_disk(&target), small()).await.unwrap();
    assert_eq!((salvaged.rows, salvaged.bodies, salvaged.lost.len()), (99, 99, 1), "{salvaged:?}");
    let store = open(&target, small()).await.unwrap();
    let owner = Owner::acquire(&store, 1).await.unwrap();
    rows.remove(&Key::Item(ItemNumber(20)));
    assert_eq!(owner.rows, rows);
    owner.check_bodies().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_format_file_or_snapshot_index_is_salvaged_whole() {
    let (disk, rows) = filled(300).await;
    let mut files = disk.images();
    files.remove("format");
    let snapshot = files.iter_mut().find(|(name, _)| name.ends_with(".snap")).expect("a snapshot").1;
    let end = snapshot.len();
    snapshot[end - 60..].fill(0);
    let disk = MemDisk::of(files);
    let target = Arc::new(MemDisk::default());
    let env = Arc::new(TokioEnv::new());
    let salvaged = inspect::salvage(env, as_disk(&disk), as_disk(&target), small()).await.unwrap();
    assert!(!salvaged.lost.is_empty());
    let store = open(&target, small()).await.unwrap();
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    owner.check_bodies().await;
}
