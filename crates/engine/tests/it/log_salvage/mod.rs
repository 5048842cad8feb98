//! What salvage keeps behind damage, what it and `check` tell of the cost, and which damage is harmless.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Key, Part, Partitions, Row};
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::inspect::{self, PartitionAccount, Salvaged};
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::{Store, StoreError};

use crate::log_disk::MemDisk;
use crate::log_inspect::{Files, frames, kept, used};
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

#[tokio::test(flavor = "multi_thread")]
async fn frames_behind_an_unreadable_frame_of_their_own_sync_are_salvaged() {
    let files = killed(30).await;
    // In the header, and in the entries.
    for within in [20, ENTRIES + 3] {
        let mut files = files.clone();
        let at = commit_at(&files, 10);
        flip(&mut files, FIRST, at + within);
        let (salvaged, store) = salvage(&MemDisk::of(files.clone())).await;
        let expected: Vec<u64> = (1..=30).filter(|number| *number != 10).collect();
        assert_eq!(items(&store, 1).await, expected);
        let [StoreError::Damaged { offset, what, .. }] = &salvaged.lost[..] else { panic!("{salvaged:?}") };
        assert_eq!(*offset, at as u64);
        assert!(what.contains("possibly lost"), "{what}");
        let account = only(&salvaged);
        assert_eq!((account.items, account.commits_missing), (29, 1), "{account:?}");
        assert!(account.may_miss_more, "{account:?}");

        let report = inspect::check(as_disk(&MemDisk::of(files))).await.unwrap();
        let [StoreError::Damaged { offset, what, .. }] = &report.damage[..] else { panic!("{report:?}") };
        assert_eq!(*offset, at as u64);
        assert!(what.contains("possibly lost") && what.contains("a start cuts the log here"), "{what}");
        assert_eq!(report.account, salvaged.account);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn items_that_an_unreadable_frame_still_names_are_counted_as_lost() {
    let mut files = killed(30).await;
    let at = commit_at(&files, 10);
    flip(&mut files, FIRST, at + 20);
    let (salvaged, _) = salvage(&MemDisk::of(files)).await;
    assert_eq!(only(&salvaged).items_lost, 1, "{salvaged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_frame_may_be_torn_or_damaged_and_is_told_as_a_possible_loss() {
    let files = killed(5).await;
    for within in [20, 36, 45, ENTRIES + 3] {
        let mut files = files.clone();
        let at = commit_at(&files, 5);
        flip(&mut files, FIRST, at + within);
        let (salvaged, store) = salvage(&MemDisk::of(files.clone())).await;
        assert_eq!(items(&store, 1).await, [1, 2, 3, 4]);
        let [StoreError::Damaged { what, .. }] = &salvaged.lost[..] else { panic!("{salvaged:?}") };
        assert!(what.contains("possibly lost"), "{what}");
        assert!(salvaged.account.may_miss_more());
        let report = inspect::check(as_disk(&MemDisk::of(files))).await.unwrap();
        assert_eq!((report.damage.len(), report.refused.is_none()), (1, true), "{report:?}");
    }
    let (salvaged, _) = salvage(&MemDisk::of(files)).await;
    assert!(salvaged.lost.is_empty() && salvaged.harmless.is_empty(), "{salvaged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotten_payload_costs_its_payload_exactly() {
    let mut files = killed(5).await;
    let (at, length) = frames(&files[FIRST])[1 + 3];
    flip(&mut files, FIRST, at + length - 1);
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows.len(), 5);
    let account = only(&salvaged);
    assert_eq!((account.items, account.items_lost, account.payloads_lost), (5, 0, 1), "{account:?}");
    assert!(!salvaged.account.may_miss_more(), "{account:?}");
    assert_eq!(salvaged.lost.len(), 1, "{salvaged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotten_payload_in_the_last_frame_is_told_with_the_commits_that_a_start_cuts() {
    let mut files = killed(5).await;
    let (at, length) = frames(&files[FIRST])[1 + 5];
    flip(&mut files, FIRST, at + length - 1);
    let report = inspect::check(as_disk(&MemDisk::of(files.clone()))).await.unwrap();
    let cut_here = |what: &str| what.contains("a start cuts the log here");
    let tells_cut = |error: &StoreError| matches!(error, StoreError::Damaged { offset, what, .. } if *offset == at as u64 && cut_here(what));
    assert!(report.damage.iter().any(tells_cut), "{report:?}");
    assert_eq!(report.cut, BTreeSet::from([PartitionId(1)]));

    let (_, salvaged) = salvage(&MemDisk::of(files.clone())).await;
    assert_eq!(Owner::acquire(&salvaged, 1).await.unwrap().rows.len(), 5);
    let started = open(&MemDisk::of(files), small()).await.unwrap();
    assert_eq!(items(&started, 1).await, [1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_a_start_cuts_are_told_although_the_damage_before_them_costs_nothing() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, unsynced()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 200)).await.unwrap();
    owner.commit(put(2, 200)).await.unwrap();
    owner.commit([remove(1)]).await.unwrap();
    let mut files = disk.after_kill().images();
    store.close().await;
    let (at, length) = frames(&files[FIRST])[1 + 1];
    flip(&mut files, FIRST, at + length - 1);
    let report = inspect::check(as_disk(&MemDisk::of(files.clone()))).await.unwrap();
    assert_eq!((report.damage.len(), report.cut.len()), (1, 1), "{report:?}");
    let started = open(&MemDisk::of(files), small()).await.unwrap();
    assert_eq!(items(&started, 1).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_to_what_was_removed_later_is_harmless() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, unsynced()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 200)).await.unwrap();
    owner.commit(put(2, 200)).await.unwrap();
    owner.commit([remove(1)]).await.unwrap();
    store.close().await;
    let mut files = disk.images();
    let (at, length) = frames(&files[FIRST])[1 + 1];
    flip(&mut files, FIRST, at + length - 1);
    let disk = MemDisk::of(files);
    let (salvaged, store) = salvage(&disk).await;
    assert_eq!(items(&store, 1).await, [2]);
    assert_eq!((salvaged.lost.len(), salvaged.harmless.len()), (0, 1), "{salvaged:?}");
    let report = inspect::check(as_disk(&disk)).await.unwrap();
    assert_eq!((report.damage.len(), report.harmless.len()), (0, 1), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_to_a_partition_that_was_dropped_later_is_harmless() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut dropped = Owner::acquire(&store, 2).await.unwrap();
    dropped.commit(put(1, 200)).await.unwrap();
    dropped.commit(put(2, 200)).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 200)).await.unwrap();
    store.drop_partition(PartitionId(2)).await.unwrap();
    store.close().await;
    let mut files = disk.images();
    let at = commit_at(&files, 1);
    flip(&mut files, FIRST, at + ENTRIES + 3);
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    assert_eq!(items(&store, 1).await, [1]);
    assert_eq!((salvaged.lost.len(), salvaged.harmless.len()), (0, 1), "{salvaged:?}");
    assert_eq!(salvaged.account.frames_missing, 0);
    assert!(!salvaged.account.may_miss_more(), "{salvaged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_to_a_frame_that_the_snapshot_covers_is_harmless() {
    let (files, rows) = kept(200).await;
    let name = used(&files).into_iter().min_by_key(|name| crate::log_inspect::lsn(&files[name], 0)).unwrap();
    let mut files = files;
    let (at, _) = frames(&files[&name])[2];
    flip(&mut files, &name, at + ENTRIES + 3);
    let disk = MemDisk::of(files);
    let report = inspect::check(as_disk(&disk)).await.unwrap();
    assert_eq!((report.damage.len(), report.harmless.len()), (0, 1), "{report:?}");
    let (salvaged, store) = salvage(&disk).await;
    assert_eq!((salvaged.lost.len(), salvaged.harmless.len()), (0, 1), "{salvaged:?}");
    assert_eq!(items(&store, 1).await.len(), rows.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_of_an_earlier_use_of_a_segment_are_not_taken_for_later_ones() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, crate::log_inspect::tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=400 {
        owner.commit(put(number, 300)).await.unwrap();
        owner.commit([remove(number)]).await.unwrap();
    }
    owner.commit(put(401, 300)).await.unwrap();
    store.close().await;
    let files = disk.images();
    let mut salvages = 0;
    for name in used(&files) {
        for (at, _) in frames(&files[&name]).into_iter().skip(1).rev().take(3) {
            let mut files = files.clone();
            flip(&mut files, &name, at + 20);
            let (_, store) = salvage(&MemDisk::of(files)).await;
            let found = items(&store, 1).await;
            // The frame that is damaged may have removed an item; nothing else may come back.
            let back = found.iter().filter(|number| **number != 401).count();
            assert!(back <= 1, "{name} at {at}: {found:?}");
            salvages += 1;
        }
    }
    assert!(salvages >= 6, "only {salvages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_an_earlier_start_cut_off_do_not_come_back() {
    let mut files = killed(5).await;
    let at = commit_at(&files, 3);
    files.get_mut(FIRST).unwrap()[at..at + ENTRIES].fill(0);
    // The start cuts the log after item 2; the frames of items 4 and 5 stay behind the new end.
    let disk = MemDisk::of(files);
    let store = open(&disk, unsynced()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(6, 10)).await.unwrap();
    let files = disk.after_kill().images();
    store.close().await;
    let (salvaged, store) = salvage(&MemDisk::of(files.clone())).await;
    assert_eq!(items(&store, 1).await, [1, 2, 6]);
    assert!(salvaged.lost.is_empty() && salvaged.harmless.is_empty(), "{salvaged:?}");
    // The frames of the second start: its Open frame, then item 6.
    let mut files = files;
    let at = commit_at(&files, 4);
    flip(&mut files, FIRST, at + 20);
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    assert_eq!(items(&store, 1).await, [1, 2]);
    assert_eq!(salvaged.lost.len(), 1, "{salvaged:?}");
}

/// Items 1 to 5 are durable; 6 and 7 were written, and a failed sync made them void; 8 is in the next segment.
async fn repaired() -> Files {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, unsynced()).await.unwrap();
    let mut registry = Owner::acquire(&store, 0).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=5 {
        owner.commit(put(number, 200)).await.unwrap();
    }
    // What is of queues is synced in every mode.
    let counted = |last| [Change::Put(Row::Partitions(Partitions { last, unknown: Vec::new() }))];
    registry.commit(counted(1)).await.unwrap();
    owner.commit(put(6, 200)).await.unwrap();
    owner.commit(put(7, 200)).await.unwrap();
    disk.faults().syncs.store(1, std::sync::atomic::Ordering::SeqCst);
    registry.commit(counted(2)).await.unwrap_err();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(8, 200)).await.unwrap();
    store.close().await;
    disk.images()
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_a_later_segment_made_void_do_not_come_back() {
    let files = repaired().await;
    // The commit of item 5; that of the registry; and the hint in the place of item 6.
    for (nth, kept) in [(5, vec![1, 2, 3, 4, 8]), (6, vec![1, 2, 3, 4, 5, 8]), (7, vec![1, 2, 3, 4, 5, 8])] {
        let mut files = files.clone();
        let at = commit_at(&files, nth);
        flip(&mut files, FIRST, at + 20);
        let (salvaged, store) = salvage(&MemDisk::of(files)).await;
        assert_eq!(items(&store, 1).await, kept, "{nth}");
        let durable = |error: &&StoreError| error.to_string().contains("it was durable");
        let told = salvaged.lost.iter().filter(durable).count();
        assert_eq!(told, usize::from(nth < 7), "{nth}: {salvaged:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_segment_that_is_gone_is_told_although_other_damage_is_harmless() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=4 {
        owner.commit(put(number, 12_000)).await.unwrap();
    }
    store.close().await;
    let mut files = disk.images();
    let newest =
        used(&files).into_iter().max_by_key(|name| crate::log_inspect::lsn(&files[name], 0)).unwrap();
    files.remove(&newest);
    files.insert("format".to_owned(), b"nonsense".to_vec());
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    assert_eq!(items(&store, 1).await, [1, 2, 3]);
    assert_eq!(salvaged.lost.len(), 1, "{salvaged:?}");
    assert!(salvaged.account.may_miss_more());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_logs_id_is_found_although_the_format_file_is_wrong_or_gone() {
    let (files, rows) = kept(100).await;
    let text = String::from_utf8(files["format"].clone()).unwrap();
    let digit = text.find("log = ").expect("the file names the log") + 8;
    let mut wrong = text.clone().into_bytes();
    for copy in [0, text.len() / 2] {
        wrong[copy + digit] = if wrong[copy + digit] == b'0' { b'1' } else { b'0' };
    }
    for format in [Some(wrong), Some(b"nonsense".to_vec()), None] {
        let mut files = files.clone();
        match format {
            Some(format) => drop(files.insert("format".to_owned(), format)),
            None => drop(files.remove("format")),
        }
        // A segment of another log is outvoted.
        files.insert("00000900.seg".to_owned(), killed(3).await[FIRST].clone());
        let disk = MemDisk::of(files);
        let (salvaged, store) = salvage(&disk).await;
        assert_eq!(items(&store, 1).await.len(), rows.len(), "{salvaged:?}");
        let report = inspect::check(as_disk(&disk)).await.unwrap();
        assert!(report.refused.is_some() && !report.damage.is_empty(), "{report:?}");
        assert_eq!(report.account.items(), rows.len() as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_logs_id_is_found_in_any_frame_if_no_file_begins_well() {
    let mut files = killed(5).await;
    files.remove("format");
    files.get_mut(FIRST).unwrap()[..ENTRIES].fill(0xff);
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    assert_eq!(items(&store, 1).await, [1, 2, 3, 4, 5]);
    assert_eq!((salvaged.lost.len(), salvaged.harmless.len()), (0, 2), "{salvaged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_whose_queue_is_lost_are_named() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut registry = Owner::acquire(&store, 0).await.unwrap();
    registry
        .commit([Change::Put(Row::Partitions(Partitions { last: 1, unknown: Vec::new() }))])
        .await
        .unwrap();
    Owner::acquire(&store, 1).await.unwrap().commit(put(1, 10)).await.unwrap();
    store.close().await;
    let (salvaged, _) = salvage(&disk).await;
    assert_eq!(salvaged.account.unclaimed().collect::<Vec<_>>(), [PartitionId(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_and_salvage_tell_how_far_they_are() {
    let (files, _) = kept(100).await;
    let is_segment = |(name, _): &(&String, &Vec<u8>)| name.ends_with(".seg");
    let bytes: u64 = files.iter().filter(is_segment).map(|(_, bytes)| bytes.len() as u64).sum();
    let disk = MemDisk::of(files);
    let mut heard = Vec::new();
    inspect::check_with(as_disk(&disk), &mut |done, total| heard.push((done, total))).await.unwrap();
    assert_eq!((heard.first(), heard.last()), (Some(&(0, bytes)), Some(&(bytes, bytes))));
    assert!(heard.is_sorted() && heard.len() > 3, "{heard:?}");
    let mut again = Vec::new();
    let (env, target) = (Arc::new(TokioEnv::new()), Arc::new(MemDisk::default()));
    let progress = &mut |done, total| again.push((done, total));
    inspect::salvage_with(env, as_disk(&disk), as_disk(&target), small(), progress).await.unwrap();
    assert_eq!(again, heard);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_whose_places_are_lost_with_the_snapshot_are_found_where_compaction_put_them() {
    let (files, kept) = compacted().await;
    let name = files.keys().filter(|name| name.ends_with(".snap")).max().unwrap().clone();
    let snapshot = &files[&name];
    // The places of bodies are the last block before the index: its payload begins with the first kept item.
    let places =
        blocks(snapshot).into_iter().find(|at| snapshot[at + 8] == 2).expect("a block of body places");
    let mut files = files.clone();
    flip(&mut files, &name, places + 20);
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    assert_eq!(items(&store, 1).await, kept.into_iter().collect::<Vec<_>>());
    assert_eq!((salvaged.lost.len(), salvaged.account.payloads_lost()), (0, 0), "{salvaged:?}");
}

/// A log whose first kept items are told by nothing but the snapshot and a compacted segment, and the items it holds.
async fn compacted() -> (Files, BTreeSet<u64>) {
    compacted_with(crate::log_inspect::tidy(), 20, 0).await
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

/// Where the blocks of a snapshot begin.
fn blocks(snapshot: &[u8]) -> Vec<usize> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < snapshot.len() {
        blocks.push(at);
        at += 8 + u32::from_le_bytes(snapshot[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    blocks
}

#[tokio::test(flavor = "multi_thread")]
async fn items_whose_rows_are_lost_with_a_block_of_the_snapshot_are_counted() {
    let (mut files, kept) = compacted().await;
    let name = files.keys().filter(|name| name.ends_with(".snap")).max().unwrap().clone();
    let rows =
        blocks(&files[&name]).into_iter().find(|at| files[&name][at + 8] == 1).expect("a block of rows");
    flip(&mut files, &name, rows + 30);
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    let found: BTreeSet<u64> = Owner::acquire(&store, 1).await.unwrap().rows.keys().map(number_of).collect();
    let lost = kept.difference(&found).count() as u64;
    assert!(lost > 0, "older frames replaced every row");
    let account = only(&salvaged);
    assert!(account.items_lost >= lost && account.may_miss_more, "{lost} lost: {account:?}");
    assert_eq!(salvaged.lost.len(), 1, "{salvaged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_and_other_bodies_are_counted_by_what_they_are() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, unsynced()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let Row::Item(mut item) = crate::log_rows::item(1) else { unreachable!() };
    let outcome = windlass_core::item::Outcome {
        end: windlass_core::item::End::Completed,
        finished_at: windlass_core::time::Timestamp(1),
        kept_bytes: 3,
        has_result: true,
        outgoing: None,
    };
    item.state = windlass_core::item::State::Final(Box::new(outcome));
    let result = Change::PutBody { number: ItemNumber(1), part: Part::Result, body: "yes".into() };
    owner.commit([Change::Put(Row::Item(item)), result]).await.unwrap();
    let mut files = disk.after_kill().images();
    store.close().await;
    let (at, length) = frames(&files[FIRST])[1 + 1];
    flip(&mut files, FIRST, at + length - 1);
    let (salvaged, _) = salvage(&MemDisk::of(files)).await;
    let account = only(&salvaged);
    assert_eq!((account.items, account.results_lost, account.payloads_lost), (1, 1, 0), "{account:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_leaves_out_a_rotten_payload_and_tells_it_at_the_end() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=5 {
        owner.commit(put(number, 200)).await.unwrap();
    }
    store.close().await;
    let mut files = disk.images();
    let (at, length) = frames(&files[FIRST])[1 + 3];
    flip(&mut files, FIRST, at + length - 1);
    let (mut rows, mut bodies) = (0, Vec::new());
    let mut each = |_, change| match change {
        Change::Put(_) => rows += 1,
        Change::PutBody { number, .. } => bodies.push(number.0),
        Change::Remove(_) | Change::RemoveBody { .. } => panic!("an export removes nothing"),
    };
    let told = inspect::export(as_disk(&MemDisk::of(files)), None, &mut each).await.unwrap();
    assert!(told.damage[&PartitionId(1)].is_damage(), "{told:?}");
    assert_eq!((rows, bodies), (5, vec![1, 2, 4, 5]));
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

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_length_costs_no_more_than_its_block() {
    let options = LogOptions { snapshot_block_bytes: 256, ..crate::log_inspect::tidy() };
    let (mut files, kept) = compacted_with(options, 5, 120).await;
    let name = snapshot_of(&files);
    for has_index in [true, false] {
        if !has_index {
            let end = files[&name].len();
            files.get_mut(&name).unwrap()[end - 60..].fill(0);
        }
        let blocks: Vec<usize> =
            if has_index { blocks(&files[&name]) } else { blocks_of_rows(&files[&name]) };
        let rows: Vec<usize> = blocks.into_iter().filter(|at| files[&name][at + 8] == 1).collect();
        assert!(rows.len() > 4, "only {} blocks", rows.len());
        let block = rows[1];
        // A block whose length is right costs what was in it alone.
        let mut rotten = files.clone();
        flip(&mut rotten, &name, block + 30);
        let expected = salvaged_items(&rotten).await;
        assert!(expected.len() + 20 > kept.len() && expected.len() < kept.len(), "{expected:?} of {kept:?}");
        for bit in 0..32 {
            let mut files = files.clone();
            files.get_mut(&name).unwrap()[block + 4 + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(salvaged_items(&files).await, expected, "bit {bit}, index {has_index}");
        }
    }
}

/// Where the blocks of a snapshot begin up to the last block of rows: what is behind it may be damaged.
fn blocks_of_rows(snapshot: &[u8]) -> Vec<usize> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at + 13 <= snapshot.len() && snapshot[at + 8] <= 1 {
        blocks.push(at);
        at += 8 + u32::from_le_bytes(snapshot[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    blocks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_salvage_that_was_ended_half_way_is_not_served() {
    let files = killed(30).await;
    let (env, target) = (Arc::new(TokioEnv::new()), Arc::new(MemDisk::default()));
    let mut kills = Vec::new();
    let progress = &mut |_, _| kills.push((target.after_kill(), target.after_power_loss()));
    let to = as_disk(&target);
    inspect::salvage_with(env, as_disk(&MemDisk::of(files.clone())), to, small(), progress).await.unwrap();
    assert!(kills.len() > 1);
    for disk in kills.iter().flat_map(|(killed, powerless)| [killed, powerless]) {
        if disk.names().iter().all(|name| name.ends_with(".tmp")) {
            continue;
        }
        let refused = open(disk, small()).await.expect_err("half of a log").to_string();
        assert!(refused.contains("not finished") && refused.contains("mem/"), "{refused}");
        let report = inspect::check(as_disk(disk)).await.unwrap();
        assert!(report.refused.is_some_and(|error| error.to_string().contains("not finished")));
        let env = Arc::new(TokioEnv::new());
        let again = inspect::salvage(env, as_disk(&MemDisk::of(files.clone())), as_disk(disk), small()).await;
        let again = again.expect_err("the directory is not empty").to_string();
        assert!(again.contains("not finished") && again.contains("empty"), "{again}");
    }
    let store = open(&target.after_power_loss(), small()).await.unwrap();
    assert_eq!(items(&store, 1).await, (1..=30).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_salvage_onto_a_full_disk_is_not_served() {
    let files = killed(150).await;
    let target = Arc::new(MemDisk::default());
    target.faults().room.store(40_000, std::sync::atomic::Ordering::SeqCst);
    let env = Arc::new(TokioEnv::new());
    let full = inspect::salvage(env, as_disk(&MemDisk::of(files)), as_disk(&target), small()).await;
    assert!(full.is_err_and(|error| error.is_full()));
    let refused = open(&target.after_kill(), small()).await.expect_err("half of a log").to_string();
    assert!(refused.contains("not finished"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn salvage_syncs_a_segment_at_a_time_and_tells_a_failed_sync() {
    let disk = MemDisk::of(killed(40).await);
    let target = Arc::new(MemDisk::default());
    let env = Arc::new(TokioEnv::new());
    inspect::salvage(env, as_disk(&disk), as_disk(&target), small()).await.unwrap();
    let synced = target.faults().synced.load(std::sync::atomic::Ordering::SeqCst);
    assert!(synced < 20, "{synced} syncs for 40 commits");

    let target = Arc::new(MemDisk::default());
    let fail_at_the_end = &mut |done, total| {
        let fails = u64::from(done == total);
        target.faults().syncs.store(fails, std::sync::atomic::Ordering::SeqCst);
    };
    let env = Arc::new(TokioEnv::new());
    let failed = inspect::salvage_with(env, as_disk(&disk), as_disk(&target), small(), fail_at_the_end).await;
    assert!(failed.is_err(), "{failed:?}");
    let refused = open(&target.after_kill(), small()).await.expect_err("not durable").to_string();
    assert!(refused.contains("not finished"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_rows_are_salvaged_in_commits_that_fit() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, crate::log_inspect::tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let large = |number| {
        let Row::Item(item) = crate::log_rows::item(number) else { unreachable!("the row of an item") };
        Change::Put(Row::Item(windlass_core::item::Item { kind: "k".repeat(2000).into(), ..item }))
    };
    let mut number = 0;
    while store.stats().snapshots < 2 {
        number += 1;
        owner.commit([large(number)]).await.unwrap();
    }
    let rows = owner.rows.clone();
    store.close().await;
    let (salvaged, store) = salvage(&disk).await;
    assert_eq!(Owner::acquire(&store, 1).await.unwrap().rows, rows, "{salvaged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_torn_start_of_a_fresh_segment_is_harmless() {
    let mut files = killed(5).await;
    let mut torn = vec![0; files[FIRST].len()];
    torn[..40].copy_from_slice(&files[FIRST][..40]);
    files.insert("00000077.seg".to_owned(), torn);
    open(&MemDisk::of(files.clone()), small()).await.expect("a torn start keeps no server from starting");
    let report = inspect::check(as_disk(&MemDisk::of(files.clone()))).await.unwrap();
    assert_eq!((report.damage.len(), report.harmless.len()), (0, 1), "{report:?}");
    assert!(report.harmless[0].to_string().contains("torn"), "{report:?}");
    assert!(!report.account.may_miss_more(), "{report:?}");
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    assert_eq!((salvaged.lost.len(), salvaged.harmless.len()), (0, 1), "{salvaged:?}");
    assert_eq!(items(&store, 1).await, [1, 2, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_the_log_goes_on_in_is_not_taken_for_a_torn_start() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=4 {
        owner.commit(put(number, 12_000)).await.unwrap();
    }
    store.close().await;
    let mut files = disk.images();
    let newest =
        used(&files).into_iter().max_by_key(|name| crate::log_inspect::lsn(&files[name], 0)).unwrap();
    files.get_mut(&newest).unwrap()[40..].fill(0);
    let report = inspect::check(as_disk(&MemDisk::of(files))).await.unwrap();
    assert!(report.damage.iter().any(|error| error.to_string().contains(&newest)), "{report:?}");
    assert!(report.account.may_miss_more(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_was_cut_or_lost_its_first_blocks_is_told_as_loss() {
    let options = LogOptions { snapshot_block_bytes: 256, ..crate::log_inspect::tidy() };
    let (files, kept) = compacted_with(options, 5, 120).await;
    let name = snapshot_of(&files);
    let mut damaged = Vec::new();
    for at in blocks(&files[&name]) {
        let mut cut = files.clone();
        cut.get_mut(&name).unwrap().truncate(at);
        let mut zeros = files.clone();
        zeros.get_mut(&name).unwrap()[..at].fill(0);
        let mut without_end = files.clone();
        without_end.get_mut(&name).unwrap()[at..].fill(0);
        damaged.extend([cut, zeros, without_end].map(|files| (at, files)));
    }
    for (at, files) in damaged {
        let (salvaged, store) = salvage(&MemDisk::of(files)).await;
        let owner = Owner::acquire(&store, 1).await.unwrap();
        let found: BTreeSet<u64> = owner.rows.keys().map(number_of).collect();
        let lost = kept.difference(&found).count() as u64;
        let account = &salvaged.account;
        assert!(lost == 0 || !salvaged.lost.is_empty(), "{at}: {lost} lost; {salvaged:?}");
        assert!(account.items_lost() >= lost || account.may_miss_more(), "{at}: {lost} lost; {salvaged:?}");
    }
}
