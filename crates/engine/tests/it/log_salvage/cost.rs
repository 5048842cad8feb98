//! The cost of damage as `check` and salvage tell it, and which damage is harmless.

use std::sync::Arc;

use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Part, Partitions, Row};
use windlass_engine::store::Store;
use windlass_engine::store::log::inspect;

use super::{ENTRIES, FIRST, as_disk, commit_at, flip, items, killed, only, salvage, unsynced};
use crate::log_disk::MemDisk;
use crate::log_inspect::{frames, kept, used};
use crate::log_rows::{Owner, open, put, remove, small};

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
async fn results_and_other_bodies_are_counted_by_what_they_are() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, unsynced()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let Row::Item(mut item) = crate::log_rows::item(1) else { unreachable!() };
    let outcome = windlass_core::item::Outcome {
        end: windlass_core::item::End::Completed,
        changed_at: windlass_core::time::Timestamp(1),
        finished_at: windlass_core::time::Timestamp(1),
        kept_bytes: 3,
        has_result: true,
        payload_kept: false,
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
