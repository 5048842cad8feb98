//! Single bits that flip in a log, and payloads that look like a log: what is rotten is lost and told, nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::id::ItemNumber;
use windlass_core::row::{Change, Key, Part, Row};
use windlass_core::time::{Span, Timestamp};
use windlass_engine::env::{BoxFuture, Env, TokioEnv};
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::{Store, Term};

use crate::heard::Ear;
use crate::log_damage::{Files, History, assert_damaged, frames, head, lsn, tiny};
use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, SMALL, body, item, open, put, remove, small};

/// Runs everything on one thread, so that a subscriber hears all of it. The clocks stand still.
#[derive(Debug)]
struct OneThread(TokioEnv);

impl Env for OneThread {
    fn boot(&self) -> Duration {
        Duration::ZERO
    }

    fn wall(&self) -> Timestamp {
        Timestamp(1_700_000_000_000_000)
    }

    fn random(&self) -> u64 {
        self.0.random()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }

    fn spawn_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.0.spawn_boxed(name, future);
    }

    fn spawn_thread_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.0.spawn_boxed(name, future);
    }
}

async fn open_here(disk: &Arc<MemDisk>, options: LogOptions) -> LogStore {
    let env = Arc::new(OneThread(TokioEnv::new()));
    LogStore::open(env, Arc::clone(disk) as Arc<dyn Disk>, options).await.unwrap()
}

/// Where the body of each commit is that has one: segment, frame, body, end of the body, and the number of its item.
fn bodies(files: &Files) -> Vec<(String, usize, usize, usize, u64)> {
    let mut bodies = Vec::new();
    for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".seg")) {
        for (at, length) in frames(bytes) {
            let head = head(bytes, at);
            if head < length {
                // The first frame of the log is no commit.
                bodies.push((name.clone(), at, at + head, at + length, lsn(bytes, at) - 1));
            }
        }
    }
    bodies
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotten_body_in_the_log_costs_its_item_alone() {
    let history = History::write(tiny(), 40).await;
    let bodies = bodies(&history.files);
    let last = bodies.iter().map(|(.., number)| *number).max().unwrap();
    assert_eq!((bodies.len(), last), (40, 40));
    for (name, _, from, to, rotten) in bodies.iter().filter(|(.., number)| *number != last) {
        for at in [*from, *to - 1] {
            let mut files = history.files.clone();
            files.get_mut(name).unwrap()[at] ^= 0x10;
            let store = open(&MemDisk::of(files), tiny()).await.unwrap();
            let owner = Owner::acquire(&store, 1).await.unwrap();
            assert_eq!(owner.rows, history.states[40]);
            let is_wanted = owner.rows.contains_key(&Key::Item(ItemNumber(*rotten)));
            assert_eq!(store.stats().damaged_bodies, u64::from(is_wanted), "{name} {at}");
            for key in owner.rows.keys() {
                let Key::Item(ItemNumber(number)) = key else { continue };
                match owner.read(*number).await {
                    Ok(found) => assert_eq!(found.unwrap(), body(*number, 40 + *number as usize % 50)),
                    Err(refused) => {
                        assert_eq!(number, rotten);
                        assert_damaged(&refused, name, *from);
                    }
                }
            }
            assert_eq!(owner.read(*rotten).await.is_err(), is_wanted);
        }
    }
}

#[tokio::test]
async fn a_torn_tail_is_cut_and_told() {
    let history = History::write(tiny(), 40).await;
    let name = history.last_segment();
    let bytes = &history.files[&name];
    let (at, length) = *frames(bytes).last().unwrap();
    // In the entries, and in the body.
    for torn in [at + head(bytes, at) - 1, at + length - 1] {
        let mut files = history.files.clone();
        files.get_mut(&name).unwrap()[torn] ^= 0x10;
        let (ear, listening) = Ear::listening();
        let store = open_here(&MemDisk::of(files), tiny()).await;
        drop(listening);
        let owner = Owner::acquire(&store, 1).await.unwrap();
        assert_eq!((owner.sequence, &owner.rows), (39, &history.states[39]));
        let line = ear.line("the torn tail of the log was cut: nothing says that it was durable");
        assert_eq!((&*line["file"], &*line["offset"]), (&*format!("mem/{name}"), &*at.to_string()));
        let padded = length.next_multiple_of(8).to_string();
        assert_eq!((&*line["frames"], &*line["bytes"]), ("1", &*padded));
    }
}

#[tokio::test]
async fn rotten_bodies_are_told_once_per_open() {
    let history = History::write(tiny(), 40).await;
    let mut files = history.files.clone();
    let all = bodies(&history.files);
    let rotten: Vec<_> = all.iter().filter(|(.., number)| [13, 35, 37].contains(number)).collect();
    for (name, _, from, ..) in &rotten {
        files.get_mut(name).unwrap()[*from] ^= 1;
    }
    let (ear, _listening) = Ear::listening();
    open_here(&MemDisk::of(files), tiny()).await;
    let line = ear.line("bodies in the log are damaged: each costs its item");
    assert_eq!(line["bodies"], "2", "item 13 was removed");
    let first = rotten.iter().find(|(.., number)| *number == 35).unwrap();
    assert!(line["first"].contains(&format!("mem/{}: damaged at byte {}", first.0, first.2)), "{line:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_back_reads_on_behind_a_rotten_body() {
    let disk = Arc::new(MemDisk::default());
    let options = LogOptions { durability: Durability::Interval(Span::from_secs(3600)), ..small() };
    let store = open(&disk, options).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=9 {
        owner.commit(put(number, 100)).await.unwrap();
    }
    store.sync(Term::now(&store, owner.partition)).await.unwrap();
    let rows = owner.rows.clone();
    assert_eq!(disk.spoil(&body(5, 100)), 1);
    disk.faults().writes.store(1, Ordering::SeqCst);
    owner.commit(put(10, 100)).await.unwrap_err();
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    assert!(owner.read(5).await.unwrap_err().is_damage());
    assert_eq!(owner.read(6).await.unwrap().unwrap(), body(6, 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotten_body_does_not_keep_rows_from_snapshots_and_owners() {
    let disk = Arc::new(MemDisk::default());
    let options = LogOptions { snapshot_min_bytes: 4 << 10, ..small() };
    let store = open(&disk, options.clone()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(1, 100)).await.unwrap();
    assert_eq!(disk.spoil(&body(1, 100)), 1);
    assert_eq!(Owner::acquire(&store, 1).await.unwrap().rows, owner.rows);
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let mut number = 1;
    while store.stats().snapshots == 0 {
        number += 1;
        owner.commit(put(number, 100)).await.unwrap();
    }
    let again = open(&disk.after_kill(), options).await.unwrap();
    let again = Owner::acquire(&again, 1).await.unwrap();
    assert_eq!(again.rows, owner.rows);
    assert!(again.read(1).await.unwrap_err().is_damage());
}

/// What a client may send that does not know the id of the log: headers that claim much, at every place where a frame
/// may begin.
fn like_frames(segment: &[u8], length: usize) -> Vec<u8> {
    let (magic_and_format, claimed) = (&segment[8..14], 1_500_000_u32.to_le_bytes());
    let mut payload = vec![0xAA; length];
    for (at, header) in payload.chunks_exact_mut(4096).enumerate() {
        // Where the payload begins within a multiple of eight is not up to the client.
        let at = 64 + at % 8;
        header[at + 4..at + 8].copy_from_slice(&claimed);
        header[at + 8..at + 14].copy_from_slice(magic_and_format);
    }
    payload
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_looks_like_frames_does_not_hold_up_the_open() {
    const SEGMENT: u32 = 8 << 20;
    let disk = Arc::new(MemDisk::default());
    let options = LogOptions { segment_bytes: SEGMENT, ..small() };
    let store = open(&disk, options.clone()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let payload = like_frames(&disk.images()["00000001.seg"], 6 << 20);
    let body = payload.into();
    let commit = [Change::Put(item(1)), Change::PutBody { number: ItemNumber(1), part: Part::Payload, body }];
    owner.commit(commit).await.unwrap();
    let mut files = disk.after_kill().images();
    files.retain(|name, _| !name.ends_with(".tmp"));
    let segment = files.get_mut("00000001.seg").unwrap();
    let (at, _) = *frames(segment).last().unwrap();
    // Of its header the last write left nothing: what is behind is searched.
    segment[at..at + 64].fill(0);
    let disk = MemDisk::of(files);
    let store = open(&disk, options).await.unwrap();
    assert_eq!(Owner::acquire(&store, 1).await.unwrap().sequence, 0);
    let read = disk.faults().read.load(Ordering::SeqCst);
    // The segment that the log ends in, once to walk it and once to search it, and those without a start once.
    assert!(read <= 5 * u64::from(SEGMENT), "{read} bytes were read");
}

#[tokio::test]
async fn the_id_of_a_log_does_not_follow_from_clocks() {
    let mut ids = Vec::new();
    for _ in 0..3 {
        let disk = Arc::new(MemDisk::default());
        open_here(&disk, small()).await;
        ids.push(disk.images()["format"].clone());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "logs made at one moment have one id");
}

#[tokio::test(flavor = "multi_thread")]
async fn padding_between_frames_counts_for_nothing() {
    let history = History::write(tiny(), 40).await;
    let mut flipped = 0;
    for (name, bytes) in history.files.iter().filter(|(name, _)| name.ends_with(".seg")) {
        for (at, length) in frames(bytes) {
            for padding in at + length..at + length.next_multiple_of(8) {
                let mut files = history.files.clone();
                files.get_mut(name).unwrap()[padding] ^= 0x10;
                let store = open(&MemDisk::of(files), tiny()).await.unwrap();
                let owner = Owner::acquire(&store, 1).await.unwrap();
                assert_eq!(owner.rows, history.states[40]);
                owner.check_bodies().await;
                flipped += 1;
            }
        }
    }
    assert!(flipped > 40, "only {flipped} bytes of padding");
}

/// A closed log in which compaction has moved bodies, and what its partition is.
async fn compacted() -> (Files, BTreeMap<Key, Row>) {
    let disk = Arc::new(MemDisk::default());
    let options = LogOptions { snapshot_min_bytes: u64::from(SMALL), ..small() };
    let store = open(&disk, options).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let mut number = 0;
    while store.stats().compactions < 2 {
        number += 1;
        owner.commit(put(number, 500)).await.unwrap();
        if !number.is_multiple_of(50) {
            owner.commit([remove(number)]).await.unwrap();
        }
    }
    let rows = owner.rows.clone();
    store.close().await;
    let mut files = disk.images();
    files.retain(|name, _| !name.ends_with(".tmp"));
    (files, rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_compacted_segment_only_its_start_and_its_bodies_are_needed() {
    const COMPACTED: u8 = 1;
    let (files, rows) = compacted().await;
    let mut lost = 0;
    for (name, bytes) in &files {
        if !name.ends_with(".seg") || bytes[15] != COMPACTED {
            continue;
        }
        for (at, length) in frames(bytes).into_iter().skip(1) {
            let head = head(bytes, at);
            for place in [at, at + 5, at + 50, at + 88, at + head - 1, at + head, at + length - 1] {
                let mut files = files.clone();
                files.get_mut(name).unwrap()[place] ^= 0x10;
                let store = open(&MemDisk::of(files), small()).await.unwrap();
                let owner = Owner::acquire(&store, 1).await.unwrap();
                assert_eq!(owner.rows, rows);
                let mut unreadable = 0;
                for key in rows.keys() {
                    let Key::Item(ItemNumber(number)) = key else { continue };
                    match owner.read(*number).await {
                        Ok(found) => assert_eq!(found.unwrap(), body(*number, 500)),
                        Err(refused) => {
                            assert!(refused.is_damage(), "{refused}");
                            unreadable += 1;
                        }
                    }
                }
                assert!(unreadable <= u32::from(place >= at + head), "{name} {place}: {unreadable}");
                lost += unreadable;
            }
        }
    }
    assert!(lost > 0, "no living body is in a compacted segment: the test shows nothing");
}
