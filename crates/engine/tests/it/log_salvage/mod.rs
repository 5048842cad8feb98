//! Salvage of damaged logs: what it keeps, what it and `check` tell of the cost, and the log that it writes.

mod cost;
mod damaged_frames;
mod damaged_snapshot;
mod log_id;
mod target;

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::row::Key;
use windlass_engine::env::TokioEnv;
use windlass_engine::store::Store;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::inspect::{PartitionAccount, Salvaged};
use windlass_engine::store::log::{Durability, LogOptions, LogStore, inspect};

use crate::log_disk::MemDisk;
use crate::log_failure::ready;
use crate::log_inspect::{Files, frames};
use crate::log_rows::{Owner, open, put, remove, small};

const FIRST: &str = "00000001.seg";
/// Where the entries of a frame begin.
const ENTRIES: usize = 88;

/// Commits that share one sync: no frame says that the one before it was durable.
fn unsynced() -> LogOptions {
    LogOptions { durability: Durability::None, ..small() }
}

pub(crate) fn as_disk(disk: &Arc<MemDisk>) -> Arc<dyn Disk> {
    Arc::clone(disk) as Arc<dyn Disk>
}

pub(crate) async fn salvage(disk: &Arc<MemDisk>) -> (Salvaged, LogStore) {
    let target = Arc::new(MemDisk::default());
    let env = Arc::new(TokioEnv::new());
    let salvaged = inspect::salvage(env, as_disk(disk), as_disk(&target), small()).await.unwrap();
    (salvaged, open(&target, small()).await.unwrap())
}

/// The numbers of the items that a partition holds, each with its payload.
async fn items(store: &LogStore, partition: u32) -> Vec<u64> {
    let owner = Owner::acquire(store, partition).await.unwrap();
    owner.check_bodies().await;
    owner.rows.keys().map(number_of).collect()
}

pub(crate) fn number_of(key: &Key) -> u64 {
    let Key::Item(number) = key else { panic!("{key:?}") };
    number.0
}

/// The files of a process that was killed after it put items 1 to `count` into partition 1, without any sync.
pub(crate) async fn killed(count: u64) -> Files {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, unsynced()).await.unwrap();
    // Segments in store are among the files.
    ready(&disk, &store).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=count {
        owner.commit(put(number, 200)).await.unwrap();
    }
    let files = disk.after_kill().images();
    store.close().await;
    files
}

fn flip(files: &mut Files, name: &str, at: usize) {
    files.get_mut(name).unwrap()[at] ^= 1;
}

/// Where the commit of an item begins that was the so-manieth: the start of the segment and the Open frame come first.
fn commit_at(files: &Files, nth: usize) -> usize {
    frames(&files[FIRST])[1 + nth].0
}

fn only(salvaged: &Salvaged) -> &PartitionAccount {
    &salvaged.account.partitions[&PartitionId(1)]
}

pub(crate) async fn compacted_with(
    options: LogOptions,
    kept_every: u64,
    kept_min: u64,
) -> (Files, BTreeSet<u64>) {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, options).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let mut number = 0;
    let mut moved_at = None;
    // Segments that compaction left are used again after the next snapshot.
    while number / kept_every < kept_min || moved_at.is_none_or(|at| store.stats().snapshots < at + 3) {
        number += 1;
        owner.commit(put(number, 300)).await.unwrap();
        if !number.is_multiple_of(kept_every) {
            owner.commit([remove(number)]).await.unwrap();
        }
        if store.stats().compactions > 0 && moved_at.is_none() {
            moved_at = Some(store.stats().snapshots);
        }
    }
    let kept = owner.rows.keys().map(number_of).collect();
    store.close().await;
    let mut files = disk.images();
    files.retain(|name, _| !name.ends_with(".tmp"));
    (files, kept)
}

pub(crate) fn snapshot_of(files: &Files) -> String {
    files.keys().filter(|name| name.ends_with(".snap")).max().expect("a snapshot").clone()
}

/// The items that salvage finds in partition 1, with or without payload.
pub(crate) async fn salvaged_items(files: &Files) -> BTreeSet<u64> {
    let (_, store) = salvage(&MemDisk::of(files.clone())).await;
    let found = Owner::acquire(&store, 1).await.unwrap().rows.keys().map(number_of).collect();
    store.close().await;
    found
}
