//! A partition of which something cannot be read is refused, with file and offset. The others are served, snapshots are
//! taken, the log stays short, and a salvage finds no less than before.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::row::{Change, Key, Row};
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::backup;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::inspect;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::{Store, StoreError};

use crate::log_damage::{Files, assert_damaged, frames, lsn};
use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, SMALL, item, open, put, remove, small};

pub(crate) const DAMAGED: u32 = 1;
pub(crate) const SOUND: u32 = 2;

pub(crate) fn tidy() -> LogOptions {
    LogOptions { snapshot_min_bytes: u64::from(SMALL), ..small() }
}

pub(crate) fn snapshot_of(files: &Files) -> String {
    files.keys().rfind(|name| name.ends_with(".snap")).expect("a snapshot").clone()
}

/// Where the first block of such content is in a snapshot: its first byte, and that behind its last.
pub(crate) fn block(snapshot: &[u8], content: u8, partition: u32) -> (usize, usize) {
    let mut at = 0;
    loop {
        let length = u32::from_le_bytes(snapshot[at + 4..at + 8].try_into().unwrap()) as usize;
        let of = u32::from_le_bytes(snapshot[at + 9..at + 13].try_into().unwrap());
        if (snapshot[at + 8], of) == (content, partition) {
            return (at, at + 8 + length);
        }
        at += 8 + length;
    }
}

pub(crate) const ROWS: u8 = 1;
pub(crate) const BODIES: u8 = 2;

/// Commits items that come and go, until so many more snapshots are taken. Returns the number after the last.
async fn churn(owner: &mut Owner<'_>, mut number: u64, snapshots: u64) -> u64 {
    let enough = owner.store.stats().snapshots + snapshots;
    while owner.store.stats().snapshots < enough {
        owner.commit(put(number, 300)).await.unwrap();
        owner.commit([remove(number)]).await.unwrap();
        number += 1;
    }
    number
}

/// A closed log with a snapshot of two partitions, whose items all stay: every frame is still on the disk.
pub(crate) async fn kept() -> (Files, BTreeMap<Key, Row>) {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut rows = BTreeMap::new();
    for partition in [DAMAGED, SOUND] {
        let mut owner = Owner::acquire(&store, partition).await.unwrap();
        for number in 1..=60 {
            owner.commit(put(number, 300)).await.unwrap();
        }
        rows = owner.rows.clone();
    }
    while store.stats().snapshots == 0 {
        tokio::task::yield_now().await;
    }
    let mut owner = Owner::acquire(&store, SOUND).await.unwrap();
    let next = churn(&mut owner, 1000, 2).await;
    assert_eq!(owner.rows, rows);
    // Commits of both behind the snapshot.
    let mut damaged = Owner::acquire(&store, DAMAGED).await.unwrap();
    for owner in [&mut damaged, &mut owner] {
        owner.commit(put(next, 300)).await.unwrap();
        owner.commit([remove(30)]).await.unwrap();
        rows = owner.rows.clone();
    }
    store.close().await;
    let mut files = disk.images();
    files.retain(|name, _| !name.ends_with(".tmp"));
    (files, rows)
}

pub(crate) async fn refused(store: &LogStore) -> StoreError {
    Owner::acquire(store, DAMAGED).await.err().expect("a damaged partition is refused")
}

pub(crate) async fn assert_sound(store: &LogStore, rows: &BTreeMap<Key, Row>) {
    let owner = Owner::acquire(store, SOUND).await.unwrap();
    assert_eq!(&owner.rows, rows);
    owner.check_bodies().await;
}

/// What a salvage finds of both partitions, every item with its body.
async fn assert_salvaged(disk: &Arc<MemDisk>, damaged: &BTreeMap<Key, Row>, sound: &BTreeMap<Key, Row>) {
    let target = Arc::new(MemDisk::default());
    let (env, from) = (Arc::new(TokioEnv::new()), Arc::clone(disk) as Arc<dyn Disk>);
    let salvaged = inspect::salvage(env, from, Arc::clone(&target) as Arc<dyn Disk>, small()).await.unwrap();
    // Where every row and body was found all the same, nothing is lost.
    let is_whole = damaged == sound && !salvaged.harmless.is_empty();
    assert!(is_whole || !salvaged.lost.is_empty(), "{salvaged:?}");
    let store = open(&target, small()).await.unwrap();
    for (partition, rows) in [(DAMAGED, damaged), (SOUND, sound)] {
        let owner = Owner::acquire(&store, partition).await.unwrap();
        assert_eq!(&owner.rows, rows, "partition {partition}");
        owner.check_bodies().await;
    }
}

/// Opens a log with one damaged partition, goes on with the other through snapshots and another open, and salvages it.
async fn goes_on_without_it(
    files: Files,
    rows: &BTreeMap<Key, Row>,
    damaged: &BTreeMap<Key, Row>,
) -> StoreError {
    assert_salvaged(&MemDisk::of(files.clone()), damaged, rows).await;
    let disk = MemDisk::of(files);
    let store = open(&disk, tidy()).await.unwrap();
    let first = refused(&store).await;
    assert_sound(&store, rows).await;
    let before = store.stats().bytes_stored;
    let mut owner = Owner::acquire(&store, SOUND).await.unwrap();
    let next = churn(&mut owner, 2000, 4).await;
    // Rows are read when they are wanted: by an owner, or for a snapshot.
    assert_eq!(store.stats().damaged_partitions, 1);
    assert!(store.stats().bytes_stored <= before + 5 * u64::from(SMALL), "the log grows");
    refused(&store).await;
    store.close().await;
    let disk = disk.after_kill();
    let store = open(&disk, tidy()).await.unwrap();
    assert!(refused(&store).await.is_damage());
    assert_sound(&store, rows).await;
    let mut owner = Owner::acquire(&store, SOUND).await.unwrap();
    churn(&mut owner, next, 2).await;
    store.close().await;
    let disk = disk.after_kill();
    assert_salvaged(&disk, damaged, rows).await;
    // Once it is dropped, nothing is kept for its sake.
    let store = open(&disk, tidy()).await.unwrap();
    store.drop_partition(PartitionId(DAMAGED)).await.unwrap();
    assert_eq!(store.stats().damaged_partitions, 0);
    assert_sound(&store, rows).await;
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_block_of_rows_costs_its_partition_alone() {
    let (mut files, rows) = kept().await;
    let name = snapshot_of(&files);
    let (at, end) = block(&files[&name], ROWS, DAMAGED);
    files.get_mut(&name).unwrap()[(at + end) / 2] ^= 0x10;
    let told = goes_on_without_it(files, &rows, &rows).await;
    assert_damaged(&told, &name, at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_block_of_body_places_costs_its_partition_alone() {
    let (mut files, rows) = kept().await;
    let name = snapshot_of(&files);
    let (at, end) = block(&files[&name], BODIES, DAMAGED);
    files.get_mut(&name).unwrap()[(at + end) / 2] ^= 0x10;
    let told = goes_on_without_it(files, &rows, &rows).await;
    assert_damaged(&told, &name, at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_with_an_impossible_length_costs_its_partition_alone() {
    let (mut files, rows) = kept().await;
    let name = snapshot_of(&files);
    let (at, _) = block(&files[&name], ROWS, DAMAGED);
    files.get_mut(&name).unwrap()[at + 7] ^= 0x10;
    let told = goes_on_without_it(files, &rows, &rows).await;
    assert_damaged(&told, &name, at);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_leaves_out_a_damaged_partition_and_tells_it_at_the_end() {
    let (mut files, rows) = kept().await;
    let name = snapshot_of(&files);
    let (at, end) = block(&files[&name], ROWS, DAMAGED);
    files.get_mut(&name).unwrap()[(at + end) / 2] ^= 0x10;
    let mut exported = BTreeMap::new();
    let mut each = |partition, change| {
        assert_eq!(partition, PartitionId(SOUND));
        if let Change::Put(row) = change {
            exported.insert(row.key(), row);
        }
    };
    let told = inspect::export(MemDisk::of(files.clone()), None, &mut each).await.unwrap();
    assert_damaged(&told.damage[&PartitionId(DAMAGED)], &name, at);
    assert_eq!(told.damage.len(), 1);
    assert_eq!(exported, rows);
    let sound = [PartitionId(SOUND)].into();
    let told = inspect::export(MemDisk::of(files), Some(&sound), &mut |_, _| {}).await.unwrap();
    assert!(told.damage.is_empty(), "{told:?}");
}

/// The commits of the damaged partition in their order, each by segment and offset.
pub(crate) fn commits(files: &Files) -> Vec<(String, usize)> {
    let mut commits = Vec::new();
    for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".seg")) {
        let of_damaged = |at: &usize| bytes[at + 14] == 3 && bytes[at + 28] == DAMAGED as u8;
        let offsets = frames(bytes).into_iter().map(|(at, _)| at);
        commits.extend(offsets.filter(of_damaged).map(|at| (lsn(bytes, at), name.clone(), at)));
    }
    commits.sort();
    commits.into_iter().map(|(_, name, at)| (name, at)).collect()
}

/// What is left when the last item of the partition was not put.
fn without_last(rows: &BTreeMap<Key, Row>) -> BTreeMap<Key, Row> {
    let mut left = rows.clone();
    left.pop_last();
    left
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_with_rotten_entries_costs_its_partition_alone() {
    let (mut files, rows) = kept().await;
    // Before it goes the one that puts the last item, whose entries begin at byte 88.
    let (name, at) = commits(&files).into_iter().nth_back(1).unwrap();
    files.get_mut(&name).unwrap()[at + 90] ^= 0x10;
    let told = goes_on_without_it(files, &rows, &without_last(&rows)).await;
    assert_damaged(&told, &name, at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_lost_all_commits_since_the_snapshot_is_refused_for_good() {
    let (mut files, rows) = kept().await;
    let lost: Vec<(String, usize)> = commits(&files).into_iter().rev().take(2).collect();
    for (name, at) in &lost {
        files.get_mut(name).unwrap()[at + 90] ^= 0x10;
    }
    // The second of them removed an item.
    let mut left = without_last(&rows);
    left.insert(item(30).key(), item(30));
    let told = goes_on_without_it(files, &rows, &left).await;
    assert_damaged(&told, &lost[1].0, lost[1].1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_in_use_works_on_when_its_snapshot_rots_and_loses_no_change_since() {
    let (files, rows) = kept().await;
    let name = snapshot_of(&files);
    let (at, end) = block(&files[&name], ROWS, DAMAGED);
    let disk = MemDisk::of(files);
    let store = open(&disk, tidy()).await.unwrap();
    let mut damaged = Owner::acquire(&store, DAMAGED).await.unwrap();
    let mut sound = Owner::acquire(&store, SOUND).await.unwrap();
    disk.flip(&name, (at + end) / 2);
    for round in 0..3 {
        damaged.commit(put(5000 + round, 300)).await.unwrap();
        damaged.commit([remove(10 + round)]).await.unwrap();
        churn(&mut sound, 2000 + 1000 * round, 2).await;
        assert_eq!(store.stats().damaged_partitions, 1);
    }
    assert_eq!(sound.rows, rows);
    let expected = damaged.rows.clone();
    damaged.check_bodies().await;
    assert!(refused(&store).await.is_damage());
    store.close().await;
    let disk = disk.after_kill();
    let again = open(&disk, tidy()).await.unwrap();
    assert!(refused(&again).await.is_damage());
    assert_sound(&again, &rows).await;
    again.close().await;
    assert_salvaged(&disk.after_kill(), &expected, &rows).await;
}

/// What `check` tells as damage and as harmless.
async fn checked(disk: &Arc<MemDisk>) -> (Vec<String>, Vec<String>) {
    let report = inspect::check(Arc::clone(disk) as Arc<dyn Disk>).await.unwrap();
    let told = |errors: &[StoreError]| errors.iter().map(ToString::to_string).collect();
    (told(&report.damage), told(&report.harmless))
}

fn assert_told_as_refused(damage: &[String], place: &str) {
    let [told] = damage else { panic!("{damage:?}") };
    for part in [place, "would not serve partition 1", "salvage keeps all of it"] {
        assert!(told.contains(part), "no `{part}` in {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_a_server_refuses_is_told_as_damage_although_nothing_is_lost() {
    for content in [ROWS, BODIES] {
        let (mut files, _) = crate::log_inspect::kept(200).await;
        let name = snapshot_of(&files);
        let (at, end) = block(&files[&name], content, DAMAGED);
        files.get_mut(&name).unwrap()[(at + end) / 2] ^= 0x10;
        let disk = MemDisk::of(files);
        let (damage, harmless) = checked(&disk).await;
        assert_told_as_refused(&damage, &format!("{name}: damaged at byte {at}"));
        assert!(harmless.is_empty(), "{harmless:?}");

        // A backup holds what is left, and its check says the same.
        let store = open(&disk, small()).await.unwrap();
        let copy = Arc::new(MemDisk::default());
        let backup = backup::begin(&[&store]).await.unwrap().remove(0);
        let copied = backup.copy(Arc::clone(&copy) as Arc<dyn Disk>, &mut |_, _| {}).await.unwrap();
        let told: Vec<String> = copied.damage.iter().map(ToString::to_string).collect();
        assert_told_as_refused(&told, &format!("{name}: damaged at byte {at}"));

        // The same once the partition is carried over by a later snapshot.
        store.close().await;
        let store = open(&disk, tidy()).await.unwrap();
        let mut owner = Owner::acquire(&store, SOUND).await.unwrap();
        churn(&mut owner, 2000, 3).await;
        store.close().await;
        let (damage, _) = checked(&disk).await;
        assert!(damage.iter().any(|told| told.contains("would not serve partition 1")), "{damage:?}");
    }
}
