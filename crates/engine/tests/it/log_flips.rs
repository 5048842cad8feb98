//! One flipped bit or one unreadable piece anywhere in a log: salvage keeps whatever a start would have kept and tells the loss, never too little.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Key, Part, Row};
use windlass_engine::store::log::inspect::Salvaged;
use windlass_engine::store::log::{Durability, LogStore};
use windlass_engine::store::{Store, StoreError};

use crate::log_disk::MemDisk;
use crate::log_inspect::{Files, tidy};
use crate::log_rows::{Owner, body, item, open, remove};
use crate::log_salvage::salvage;

const PARTITIONS: u32 = 4;
/// Dropped half-way.
const DROPPED: u32 = 4;
const LOGS: u64 = 6;
const FLIPS: u64 = 60;
/// No commit puts more items.
const BATCH: u64 = 3;

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % limit
    }
}

/// The items of every partition, each with its payload.
type Items = BTreeMap<(u32, u64), Bytes>;

struct Log {
    files: Files,
    items: Items,
}

/// A log of several partitions with snapshots, compaction, updates, removals and a drop; every other one was killed.
async fn log_of(seed: u64) -> Log {
    let mut random = Random(seed);
    let disk = Arc::new(MemDisk::default());
    let durability = if random.below(2) == 0 { Durability::Always } else { Durability::None };
    let store = open(&disk, windlass_engine::store::log::LogOptions { durability, ..tidy() }).await.unwrap();
    let mut items = Items::new();
    let mut owners = Vec::new();
    for partition in 1..=PARTITIONS {
        owners.push(Owner::acquire(&store, partition).await.unwrap());
    }
    let mut number = 0;
    while number < 250 || store.stats().snapshots == 0 {
        if number > 120 && owners.len() == PARTITIONS as usize {
            owners.pop();
            store.drop_partition(PartitionId(DROPPED)).await.unwrap();
            items.retain(|(partition, _), _| *partition != DROPPED);
        }
        let at = random.below(owners.len() as u64) as usize;
        let changes = changes(&mut random, owners[at].partition.0, &mut number, &mut items);
        owners[at].commit(changes).await.unwrap();
    }
    drop(owners);
    let killed = disk.after_kill().images();
    store.close().await;
    let mut files = if seed.is_multiple_of(2) { disk.images() } else { killed };
    files.retain(|name, _| !name.ends_with(".tmp"));
    Log { files, items }
}

fn changes(random: &mut Random, partition: u32, number: &mut u64, items: &mut Items) -> Vec<Change> {
    let old: Vec<u64> =
        items.range((partition, 0)..=(partition, u64::MAX)).map(|((_, old), _)| *old).collect();
    let any = |random: &mut Random| old.get(random.below(old.len().max(1) as u64) as usize).copied();
    match (random.below(10), any(random)) {
        (0..=3, Some(old)) => {
            items.remove(&(partition, old));
            vec![remove(old)]
        }
        (4..=5, Some(old)) => vec![Change::Put(tried(old))],
        _ => (0..=random.below(BATCH)).flat_map(|_| produce(random, partition, number, items)).collect(),
    }
}

fn produce(random: &mut Random, partition: u32, number: &mut u64, items: &mut Items) -> [Change; 2] {
    *number += 1;
    let payload = body(*number, random.below(400) as usize);
    items.insert((partition, *number), payload.clone());
    let number = ItemNumber(*number);
    [Change::Put(item(number.0)), Change::PutBody { number, part: Part::Payload, body: payload }]
}

fn tried(number: u64) -> Row {
    let Row::Item(item) = item(number) else { unreachable!("the row of an item") };
    Row::Item(windlass_core::item::Item { attempts: 1, ..item })
}

/// What a log holds: the items whose row is there, and those of them whose payload is right.
async fn held(store: &LogStore, truth: &Items) -> (BTreeSet<(u32, u64)>, BTreeSet<(u32, u64)>) {
    let (mut rows, mut whole) = (BTreeSet::new(), BTreeSet::new());
    for partition in 1..=PARTITIONS {
        let Ok(owner) = Owner::acquire(store, partition).await else { continue };
        for key in owner.rows.keys() {
            let Key::Item(number) = key else { continue };
            let item = (partition, number.0);
            rows.insert(item);
            let payload = owner.read(number.0).await.ok().flatten();
            if payload.is_some() && (payload.as_ref() == truth.get(&item) || !truth.contains_key(&item)) {
                whole.insert(item);
            }
        }
    }
    (rows, whole)
}

/// A bit that is likely to matter: most of a segment is zeros.
fn flip(random: &mut Random, files: &mut Files) -> (String, usize) {
    let names: Vec<String> = files.keys().cloned().collect();
    let mut place = (String::new(), 0);
    for _ in 0..20 {
        let name = &names[random.below(names.len() as u64) as usize];
        let bytes = &files[name];
        if bytes.is_empty() {
            continue;
        }
        place = (name.clone(), random.below(bytes.len() as u64) as usize);
        if bytes[place.1] != 0 {
            break;
        }
    }
    files.get_mut(&place.0).unwrap()[place.1] ^= 1 << random.below(8);
    place
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_bit_is_flipped_salvage_keeps_the_rest_and_tells_the_loss() {
    let (mut hurt, mut harmless, mut lost_items) = (0, 0, 0);
    for seed in 0..LOGS {
        let log = log_of(seed).await;
        let (sound, store) = salvage(&MemDisk::of(log.files.clone())).await;
        let (_, whole) = held(&store, &log.items).await;
        assert!(sound.lost.is_empty() && sound.harmless.is_empty(), "seed {seed}: {sound:?}");
        assert_eq!(whole, log.items.keys().copied().collect(), "seed {seed}");
        for flipped in 0..FLIPS {
            let mut random = Random(seed << 32 | flipped);
            let mut files = log.files.clone();
            let place = flip(&mut random, &mut files);
            let told = judge(&log, files, &format!("seed {seed}, flip {flipped} at {place:?}")).await;
            hurt += u64::from(!told.lost.is_empty());
            harmless += u64::from(told.lost.is_empty() && !told.harmless.is_empty());
            lost_items += told.account.items_lost() + told.account.payloads_lost();
        }
    }
    // Flips of every kind were among them.
    assert!(hurt > 20 && harmless > 20 && lost_items > 20, "{hurt} {harmless} {lost_items}");
}

/// Holds what salvage makes of damaged files to what the sound ones held, and to what a start makes of them.
async fn judge(log: &Log, files: Files, which: &str) -> Salvaged {
    let Judged { told, whole, lost } = judge_salvage(log, &MemDisk::of(files.clone()), which).await;
    if !which.contains(".snap") {
        assert!(lost <= BATCH, "{which}: {lost} lost; {told:?}");
    }
    if let Ok(started) = open(&MemDisk::of(files), tidy()).await {
        let (_, started_whole) = held(&started, &log.items).await;
        let missed: Vec<_> = started_whole
            .iter()
            .filter(|item| log.items.contains_key(*item) && !whole.contains(*item))
            .collect();
        assert!(missed.is_empty(), "{which}: {told:?}; a start keeps {missed:?}");
        started.close().await;
    }
    told
}

struct Judged {
    told: Salvaged,
    /// Items that salvage kept with their payload.
    whole: BTreeSet<(u32, u64)>,
    /// Rows and payloads that it did not.
    lost: u64,
}

/// Salvages, and holds what is told to be lost to what is.
async fn judge_salvage(log: &Log, disk: &Arc<MemDisk>, which: &str) -> Judged {
    let (told, store) = salvage(disk).await;
    let (rows, whole) = held(&store, &log.items).await;
    let truth: BTreeSet<(u32, u64)> = log.items.keys().copied().collect();
    let rows_lost = truth.difference(&rows).count() as u64;
    let payloads_lost = truth.intersection(&rows).filter(|item| !whole.contains(*item)).count() as u64;
    let account = &told.account;
    let context = || format!("{which}: {rows_lost} rows and {payloads_lost} payloads lost; {told:?}");
    if told.lost.is_empty() {
        assert_eq!((rows_lost, payloads_lost), (0, 0), "{}", context());
    }
    if told.lost.is_empty() && told.harmless.is_empty() {
        assert_eq!(rows, truth, "{}", context());
    }
    assert!(account.items_lost() >= rows_lost || account.may_miss_more(), "{}", context());
    assert!(account.payloads_lost() >= payloads_lost, "{}", context());
    assert_eq!(account.items(), rows.len() as u64, "{}", context());
    Judged { whole, lost: rows_lost + payloads_lost, told }
}

/// What a disk reads whole or not at all.
const PIECE: usize = 4 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn whatever_piece_cannot_be_read_salvage_keeps_the_rest_and_no_start_loses_a_row() {
    let (mut started, mut refused, mut lost) = (0, 0, 0);
    for seed in 0..LOGS {
        let log = log_of(seed).await;
        for (name, bytes) in log.files.iter().filter(|(name, _)| *name != "format") {
            for from in (0..bytes.len()).step_by(PIECE) {
                let which = format!("seed {seed}, {name} from byte {from}");
                let disk = MemDisk::of(log.files.clone());
                disk.make_range_unreadable(name, from, from + PIECE);
                lost += judge_salvage(&log, &disk, &which).await.lost;
                match open(&disk, tidy()).await {
                    Ok(store) => {
                        started += 1;
                        assert_starts_whole(&store, &log, &which).await;
                        store.close().await;
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(matches!(error, StoreError::Io { .. }), "{which}: {error}");
                    }
                }
            }
        }
    }
    assert!(started > 20 && refused > 20 && lost > 20, "{started} {refused} {lost}");
}

/// A partition has all of its rows, or cannot be read at all.
async fn assert_starts_whole(store: &LogStore, log: &Log, which: &str) {
    for partition in (1..=PARTITIONS).filter(|partition| *partition != DROPPED) {
        let Ok(owner) = Owner::acquire(store, partition).await else { continue };
        let found = owner.rows.len();
        let all = log.items.range((partition, 0)..=(partition, u64::MAX)).count();
        assert_eq!(found, all, "{which}: partition {partition}");
    }
}
