//! Backups of a live log, and logs looked at from outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Key, Row};
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::backup::{self, Backup};
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::inspect::{self, Use};
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::{Store, StoreError};

use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, SMALL, body, open, put, remove, small};

pub(crate) fn tidy() -> LogOptions {
    LogOptions { snapshot_min_bytes: u64::from(SMALL), ..small() }
}

fn as_disk(disk: &Arc<MemDisk>) -> Arc<dyn Disk> {
    Arc::clone(disk) as Arc<dyn Disk>
}

async fn begun(store: &LogStore) -> Backup {
    backup::begin(&[store]).await.expect("the log holds still").remove(0)
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
    begun(&store).await.copy(as_disk(&copy), &mut |done, total| heard.push((done, total))).await.unwrap();
    busy.join_all().await;
    assert!(heard.is_sorted());
    assert!(heard.last().is_some_and(|(done, total)| done == total), "{heard:?}");

    let again = begun(&store).await.copy(as_disk(&copy), &mut |_, _| {}).await.unwrap_err();
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
    inspect::export(as_disk(&disk), None, &mut each).await.unwrap();
    assert_eq!(exported, rows);
    assert_eq!(bodies.len(), rows.len());
    assert!(bodies.iter().all(|(number, found)| *found == body(number.0, 300)));
}

/// Frames of a segment as (offset, length).
pub(crate) fn frames(bytes: &[u8]) -> Vec<(usize, usize)> {
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
    let (at, _) = frames(&files[name])[1 + 20];
    let first_entry = at + 88;
    files.get_mut(name).unwrap()[first_entry] ^= 1;
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
    assert_eq!((salvaged.lost.len(), salvaged.harmless.len()), (0, 2), "{salvaged:?}");
    let store = open(&target, small()).await.unwrap();
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    owner.check_bodies().await;
}

pub(crate) type Files = BTreeMap<String, Vec<u8>>;

async fn salvaged(disk: &Arc<MemDisk>) -> (inspect::Salvaged, LogStore) {
    let target = Arc::new(MemDisk::default());
    let env = Arc::new(TokioEnv::new());
    let salvaged = inspect::salvage(env, as_disk(disk), as_disk(&target), small()).await.unwrap();
    (salvaged, open(&target, small()).await.unwrap())
}

/// Items of several segments, all of which stay: so every frame is still on the disk behind the snapshot.
pub(crate) async fn kept(items: u64) -> (Files, BTreeMap<Key, Row>) {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=items {
        owner.commit(put(number, 300)).await.unwrap();
    }
    while store.stats().snapshots == 0 {
        tokio::task::yield_now().await;
    }
    let rows = owner.rows.clone();
    store.close().await;
    let mut files = disk.images();
    files.retain(|name, _| !name.ends_with(".tmp"));
    (files, rows)
}

pub(crate) fn lsn(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at + 40..at + 48].try_into().unwrap())
}

pub(crate) fn used(files: &Files) -> Vec<String> {
    let used = files.iter().filter(|(name, bytes)| name.ends_with(".seg") && frames(bytes).len() > 1);
    used.map(|(name, _)| name.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_salvaged_only_into_an_empty_directory() {
    let (disk, _) = filled(200).await;
    let (target, rows) = filled(300).await;
    let env = Arc::new(TokioEnv::new());
    let refused = inspect::salvage(env, as_disk(&disk), as_disk(&target), small()).await.unwrap_err();
    assert!(refused.to_string().contains("empty directory"), "{refused}");
    let store = open(&target, small()).await.unwrap();
    assert_eq!(Owner::acquire(&store, 1).await.unwrap().rows, rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_without_its_start_loses_no_frame() {
    let (files, rows) = kept(200).await;
    for name in used(&files) {
        for zeros in [false, true] {
            let mut files = files.clone();
            let start = &mut files.get_mut(&name).unwrap()[..88];
            if zeros {
                start.fill(0)
            } else {
                start[33] ^= 1
            }
            let (salvaged, store) = salvaged(&MemDisk::of(files)).await;
            assert!(salvaged.lost.is_empty(), "{salvaged:?}");
            let [StoreError::Damaged { file, offset: 0, .. }] = &salvaged.harmless[..] else {
                panic!("{salvaged:?}")
            };
            assert_eq!(*file, format!("mem/{name}"));
            let owner = Owner::acquire(&store, 1).await.unwrap();
            assert_eq!(owner.rows, rows);
            owner.check_bodies().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_damaged_snapshot_does_not_tell_older_frames_do() {
    let (files, rows) = kept(200).await;
    let name = files.keys().rfind(|name| name.ends_with(".snap")).expect("a snapshot").clone();
    for byte in (0..files[&name].len()).step_by(101) {
        let mut files = files.clone();
        files.get_mut(&name).unwrap()[byte] ^= 0x40;
        let (salvaged, store) = salvaged(&MemDisk::of(files)).await;
        // Every frame since the beginning is there, so nothing is lost with the snapshot.
        assert_eq!((salvaged.lost.len(), salvaged.harmless.len()), (0, 1), "{byte}: {salvaged:?}");
        let owner = Owner::acquire(&store, 1).await.unwrap();
        assert_eq!(owner.rows, rows, "{byte}");
        owner.check_bodies().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_snapshot_is_not_mixed_with_older_frames() {
    // Old segments are kept by single bodies: their frames put items of which the removals are gone.
    let (disk, rows) = filled(300).await;
    let now = {
        let store = open(&disk, tidy()).await.unwrap();
        let now = store.acquire(PartitionId(1)).await.unwrap().now;
        store.close().await;
        now
    };
    let (salvaged, store) = salvaged(&disk).await;
    assert!(salvaged.lost.is_empty(), "{:?}", salvaged.lost);
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    owner.check_bodies().await;
    assert_eq!(store.acquire(PartitionId(1)).await.unwrap().now, now);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_partition_is_salvaged_with_its_snapshot() {
    let (mut files, rows) = kept(200).await;
    // The snapshot alone, with the first segment to tell the log by.
    files.retain(|name, _| !name.ends_with(".seg") || name == "00000001.seg");
    let (_, store) = salvaged(&MemDisk::of(files)).await;
    let acquired = store.acquire(PartitionId(1)).await.unwrap();
    let now = acquired.now.0;
    let found = crate::log_rows::rows_of(acquired).await.unwrap();
    assert!(!found.is_empty() && found.iter().all(|(key, row)| rows[key] == *row));
    // In these tests the time of a commit is its number, and each puts one item.
    assert_eq!(now, found.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_and_frames_of_a_segment_that_is_gone_are_told() {
    let (files, _) = kept(200).await;
    let used = used(&files);
    let first = used.first().unwrap();
    let mut without = files.clone();
    without.remove(first);
    let (salvaged_without, _) = salvaged(&MemDisk::of(without)).await;
    let commits = frames(&files[first]).iter().filter(|(at, _)| files[first][at + 14] == 3).count();
    let told: Vec<String> = salvaged_without.lost.iter().map(ToString::to_string).collect();
    assert!(
        told.iter().any(|lost| lost.contains(&format!("and {commits} bodies of partition 1"))),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_frames_of_a_segment_that_is_gone_are_told_exactly() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=4 {
        owner.commit(put(number, 12_000)).await.unwrap();
    }
    store.close().await;
    let mut files = disk.images();
    let mut used = used(&files);
    used.sort_by_key(|name| lsn(&files[name], 0));
    let missing = lsn(&files[&used[2]], 0);
    assert_eq!(missing, lsn(&files[&used[1]], 0) + 1, "the segment holds one frame");
    files.remove(&used[1]);
    let (salvaged, _) = salvaged(&MemDisk::of(files)).await;
    let told: Vec<String> = salvaged.lost.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(&format!("frames {missing} to {missing} are not in any file")), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_ends_neither_check_nor_salvage() {
    let (files, rows) = kept(200).await;
    for name in used(&files) {
        let disk = MemDisk::of(files.clone());
        disk.make_unreadable(&name);
        let report = inspect::check(as_disk(&disk)).await.unwrap();
        let failed =
            |error: &StoreError| matches!(error, StoreError::Io { file, .. } if file.contains(&name));
        assert!(report.damage.iter().any(failed), "{:?}", report.damage);
        let (salvaged, store) = salvaged(&disk).await;
        assert!(salvaged.lost.iter().any(failed), "{:?}", salvaged.lost);
        let owner = Owner::acquire(&store, 1).await.unwrap();
        assert!(owner.rows.iter().all(|(key, row)| rows[key] == *row));
        assert!(owner.rows.len() > 100, "{name}: only {}", owner.rows.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_refuses_is_found_and_told_as_lost() {
    let (files, _) = kept(300).await;
    let names: Vec<String> = files.keys().filter(|name| name.ends_with(".seg")).cloned().collect();
    let mut blows: Vec<Files> = Vec::new();
    for name in &names {
        let mut without = files.clone();
        without.remove(name);
        let mut cut = files.clone();
        cut.get_mut(name).unwrap().truncate(SMALL as usize / 2);
        blows.extend([without, cut]);
    }
    let mut without_any = files.clone();
    without_any.retain(|name, _| !name.ends_with(".seg"));
    blows.push(without_any);
    let mut refusals = 0;
    for files in blows {
        let report = inspect::check(as_disk(&MemDisk::of(files.clone()))).await.unwrap();
        let (salvage, store) = salvaged(&MemDisk::of(files.clone())).await;
        store.close().await;
        match open(&MemDisk::of(files), tidy()).await {
            Ok(store) => {
                store.close().await;
                assert!(report.damage.is_empty() && salvage.lost.is_empty(), "{report:?} {salvage:?}");
            }
            Err(refused) => {
                refusals += 1;
                assert!(refused.is_damage(), "{refused}");
                assert!(report.damage.iter().all(StoreError::is_damage), "{report:?}");
                assert!(!report.damage.is_empty() && !salvage.lost.is_empty(), "{refused}");
            }
        }
    }
    assert!(refusals > names.len(), "only {refusals} of {} files were missed", names.len());
}
