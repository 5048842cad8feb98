//! Facts on disk: a body of an item that outlives its payload, and goes with its row.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Part};
use windlass_engine::env::TokioEnv;
use windlass_engine::store::Store;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::{LogOptions, LogStore, inspect};

use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, SMALL, body, open, put, remove, small, sound};

fn tidy() -> LogOptions {
    LogOptions { snapshot_min_bytes: u64::from(SMALL), ..small() }
}

fn facts(number: u64) -> Bytes {
    body(number + 1_000_000, 40)
}

fn put_with_facts(number: u64) -> Vec<Change> {
    let body = facts(number);
    let mut changes = put(number, 300).to_vec();
    changes.push(Change::PutBody { number: ItemNumber(number), part: Part::Facts, body });
    changes
}

fn drop_payload(number: u64) -> Change {
    Change::RemoveBody { number: ItemNumber(number), part: Part::Payload }
}

async fn read(store: &LogStore, number: u64) -> (Option<Bytes>, Option<Bytes>) {
    let wanted = [Part::Payload, Part::Facts].map(|part| (ItemNumber(number), part)).to_vec();
    let mut found = sound(store.read(PartitionId(1), wanted).await).into_iter();
    (found.next().unwrap(), found.next().unwrap())
}

fn is_seventh(number: u64) -> bool {
    number.is_multiple_of(7)
}

/// Every seventh item stays without its payload, the others go; over several segments and snapshots.
async fn filled(items: u64) -> Arc<MemDisk> {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=items {
        owner.commit(put_with_facts(number)).await.unwrap();
        let end = if is_seventh(number) { drop_payload(number) } else { remove(number) };
        owner.commit([end]).await.unwrap();
    }
    while store.stats().snapshots == 0 {
        tokio::task::yield_now().await;
    }
    store.close().await;
    disk
}

async fn check(store: &LogStore, items: u64) {
    for number in 1..=items {
        let expected = is_seventh(number).then(|| facts(number));
        assert_eq!(read(store, number).await, (None, expected), "item {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_are_part_two_of_an_item() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put_with_facts(5)).await.unwrap();
    let body = facts(5);
    // Put a body: key 5 × 4 + 2, checksum, length. The bytes stand behind all entries.
    let entry = [&[3, 22][..], &crc32c::crc32c(&body).to_le_bytes(), &[40]].concat();
    let segment = &disk.images()["00000001.seg"];
    for part in [&entry[..], &body] {
        assert_eq!(segment.windows(part.len()).filter(|bytes| *bytes == part).count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_outlive_the_payload_and_go_with_the_row() {
    let disk = filled(300).await;
    let store = open(&disk.after_power_loss(), tidy()).await.unwrap();
    check(&store, 300).await;
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let live = store.stats().bytes_live;
    owner.commit([remove(7)]).await.unwrap();
    assert_eq!(read(&store, 7).await, (None, None));
    assert_eq!(store.stats().bytes_live, live - 56, "a body counts with 16 bytes on top");
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_are_exported() {
    let disk = filled(300).await as Arc<dyn Disk>;
    let mut found = Vec::new();
    let mut each = |_, change| {
        if let Change::PutBody { number, part, body } = change {
            assert_eq!((part, &body), (Part::Facts, &facts(number.0)));
            found.push(number.0);
        }
    };
    inspect::export(disk, None, &mut each).await.unwrap();
    assert_eq!(found, (1..=300).filter(|number| is_seventh(*number)).collect::<Vec<_>>());
}

/// Most items stay as they are, so that every frame is still on the disk behind the snapshot.
async fn kept(items: u64) -> BTreeMap<String, Vec<u8>> {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tidy()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=items {
        owner.commit(put_with_facts(number)).await.unwrap();
        if is_seventh(number) {
            owner.commit([remove(number)]).await.unwrap();
        }
    }
    while store.stats().snapshots == 0 {
        tokio::task::yield_now().await;
    }
    store.close().await;
    let mut files = disk.images();
    files.retain(|name, _| !name.ends_with(".tmp"));
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_salvage_brings_back_facts_with_their_items_and_no_others() {
    let sound = kept(200).await;
    let name = sound.keys().rfind(|name| name.ends_with(".snap")).expect("a snapshot").clone();
    for byte in (0..sound[&name].len()).step_by(307) {
        let mut files = sound.clone();
        files.get_mut(&name).unwrap()[byte] ^= 0x40;
        let (from, to) = (MemDisk::of(files) as Arc<dyn Disk>, Arc::new(MemDisk::default()));
        let target = Arc::clone(&to) as Arc<dyn Disk>;
        inspect::salvage(Arc::new(TokioEnv::new()), from, target, small()).await.unwrap();
        let store = open(&to, small()).await.unwrap();
        for number in 1..=200 {
            let expected = (!is_seventh(number)).then(|| facts(number));
            assert_eq!(read(&store, number).await.1, expected, "item {number}, byte {byte}");
        }
    }
}
