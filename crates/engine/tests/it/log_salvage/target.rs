//! The log that a salvage writes, and how far the salvage is.

use std::sync::Arc;

use windlass_core::row::{Change, Row};
use windlass_engine::env::TokioEnv;
use windlass_engine::store::Store;
use windlass_engine::store::log::inspect;

use super::{as_disk, items, killed, salvage};
use crate::log_disk::MemDisk;
use crate::log_inspect::kept;
use crate::log_rows::{Owner, open, small};

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
