//! Pieces of files that the disk cannot read: salvage keeps everything else, and a start never takes one for the end of the
//! log.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_engine::store::log::LogOptions;
use windlass_engine::store::log::inspect;
use windlass_engine::store::{Store, StoreError};

use crate::log_disk::MemDisk;
use crate::log_inspect::{Files, frames, tidy};
use crate::log_rows::{Owner, open, put, small};
use crate::log_salvage::{as_disk, compacted_with, killed, number_of, salvage, salvaged_items, snapshot_of};

const FIRST: &str = "00000001.seg";

const PIECE: usize = 4 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_piece_of_a_segment_costs_what_is_in_it_alone() {
    let files = killed(35).await;
    let all = frames(&files[FIRST]);
    for from in (0..files[FIRST].len()).step_by(PIECE) {
        let disk = MemDisk::of(files.clone());
        disk.make_range_unreadable(FIRST, from, from + PIECE);
        let touches = |(at, length): (usize, usize)| at < from + PIECE && from < at + length;
        let expected: Vec<u64> = (1..=35).filter(|number| !touches(all[1 + *number as usize])).collect();
        let (salvaged, store) = salvage(&disk).await;
        let found = Owner::acquire(&store, 1)
            .await
            .map(|owner| owner.rows.keys().map(number_of).collect::<BTreeSet<u64>>());
        let found = found.unwrap_or_default();
        assert!(expected.iter().all(|number| found.contains(number)), "{from}: {found:?}");
        assert!(expected.len() > 15 && !salvaged.lost.is_empty(), "{from}: {salvaged:?}");
        let lost = 35 - found.len() as u64;
        let account = &salvaged.account;
        assert!(account.items_lost() >= lost || account.may_miss_more(), "{from}: {salvaged:?}");
        let report = inspect::check(as_disk(&disk)).await.unwrap();
        assert_eq!(report.account, salvaged.account);
        assert!(!report.damage.is_empty(), "{from}: {report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_piece_of_a_snapshot_costs_the_blocks_in_it_alone() {
    let options = LogOptions { snapshot_block_bytes: 256, ..tidy() };
    let (files, kept) = compacted_with(options, 5, 400).await;
    let name = snapshot_of(&files);
    let length = files[&name].len();
    assert!(length > 2 * PIECE, "{length}");
    for from in (0..length).step_by(PIECE) {
        let mut zeros = files.clone();
        zeros.get_mut(&name).unwrap()[from..length.min(from + PIECE)].fill(0);
        let expected = salvaged_items(&zeros).await;
        let disk = MemDisk::of(files.clone());
        disk.make_range_unreadable(&name, from, from + PIECE);
        let (salvaged, store) = salvage(&disk).await;
        let owner = Owner::acquire(&store, 1).await.unwrap();
        let found: BTreeSet<u64> = owner.rows.keys().map(number_of).collect();
        assert_eq!(found, expected, "{from}");
        assert!(found.len() * 4 > kept.len(), "{from}: {} of {}", found.len(), kept.len());
        let is_told =
            salvaged.lost.iter().chain(&salvaged.harmless).any(|told| told.to_string().contains(&name));
        assert!(is_told, "{from}: {salvaged:?}");
        let report = inspect::check(as_disk(&disk)).await.unwrap();
        assert!(!report.damage.is_empty(), "{from}: {report:?}");
    }
}

/// A closed log with small and large items, and how many: the bodies of the large ones fill whole pieces.
async fn large_items(options: LogOptions) -> (Files, u64) {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, options).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let count = 6;
    for number in 1..=count {
        owner.commit(put(number, if number.is_multiple_of(2) { 10_000 } else { 100 })).await.unwrap();
    }
    store.close().await;
    let mut files = disk.images();
    files.retain(|name, _| !name.ends_with(".tmp"));
    (files, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_an_unreadable_piece_loses_a_body_or_is_refused() {
    let options = LogOptions { segment_bytes: 64 << 10, ..small() };
    let (files, count) = large_items(options.clone()).await;
    let (mut started, mut refused) = (0, 0);
    for from in (0..files[FIRST].len()).step_by(PIECE) {
        let disk = MemDisk::of(files.clone());
        disk.make_range_unreadable(FIRST, from, from + PIECE);
        let store = match open(&disk, options.clone()).await {
            Ok(store) => store,
            Err(error) => {
                assert!(matches!(error, StoreError::Io { .. }), "{from}: {error}");
                refused += 1;
                continue;
            }
        };
        started += 1;
        let owner = Owner::acquire(&store, 1).await.unwrap();
        assert_eq!(owner.rows.len() as u64, count, "{from}: a piece was taken for the end of the log");
        let mut unreadable = 0;
        for number in 1..=count {
            unreadable += usize::from(owner.read(number).await.is_err());
        }
        assert_eq!(unreadable, 1, "{from}");
        store.close().await;
    }
    // Three bodies of 10,000 bytes hold one or two whole pieces each.
    assert!(started >= 3 && refused >= 5, "{started} started, {refused} refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_piece_in_the_last_frame_refuses_the_start() {
    let disk = Arc::new(MemDisk::default());
    let options = LogOptions { segment_bytes: 64 << 10, ..small() };
    let store = open(&disk, options.clone()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 100)).await.unwrap();
    owner.commit(put(2, 12_000)).await.unwrap();
    let killed = disk.after_kill();
    store.close().await;
    let (at, length) = *frames(&killed.images()[FIRST]).last().unwrap();
    for from in (at / PIECE * PIECE..at + length + 2 * PIECE).step_by(PIECE) {
        let disk = killed.after_kill();
        disk.make_range_unreadable(FIRST, from, from + PIECE);
        let error = open(&disk, options.clone()).await.expect_err("it may hold the last commit");
        assert!(matches!(error, StoreError::Io { .. }), "{from}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_piece_of_a_segment_without_frames_is_told() {
    let files = killed(5).await;
    let free =
        files.iter().find(|(name, bytes)| name.ends_with(".seg") && bytes.iter().all(|byte| *byte == 0));
    let name = free.expect("a segment in store").0.clone();
    for from in [0, PIECE] {
        let disk = MemDisk::of(files.clone());
        disk.make_range_unreadable(&name, from, from + PIECE);
        let (salvaged, store) = salvage(&disk).await;
        assert_eq!(Owner::acquire(&store, 1).await.unwrap().rows.len(), 5);
        assert!(salvaged.lost.iter().any(|error| error.to_string().contains(&name)), "{salvaged:?}");
        assert!(salvaged.account.may_miss_more(), "{salvaged:?}");
    }
}
