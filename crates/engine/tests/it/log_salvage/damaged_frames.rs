//! Damage to frames: which frames behind it are kept, and which must not come back.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::row::{Change, Partitions, Row};
use windlass_engine::store::log::inspect;
use windlass_engine::store::{Store, StoreError};

use super::{ENTRIES, FIRST, as_disk, commit_at, flip, items, killed, number_of, only, salvage, unsynced};
use crate::log_disk::MemDisk;
use crate::log_inspect::{Files, frames, used};
use crate::log_rows::{Owner, body, open, put, remove, small};

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
            let (salvaged, store) = salvage(&MemDisk::of(files)).await;
            let owner = Owner::acquire(&store, 1).await.unwrap();
            let found: Vec<u64> = owner.rows.keys().map(number_of).collect();
            // The frame that is damaged may have removed an item; nothing else may come back.
            let back = found.iter().filter(|number| **number != 401).count();
            assert!(back <= 1, "{name} at {at}: {found:?}");
            // Where a snapshot has the row of that item, the segment of its payload may be in use again.
            let mut without_payload = 0;
            for number in found {
                match owner.read(number).await.unwrap() {
                    Some(payload) => assert_eq!(payload, body(number, payload.len()), "item {number}"),
                    None => without_payload += 1,
                }
            }
            assert_eq!(without_payload, only(&salvaged).payloads_lost, "{name} at {at}: {salvaged:?}");
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
    // Commits of the registry are synced in every mode.
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
