//! What the tests of the log store have in common: rows to write, and a partition's owner who writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::{Item, PayloadSize, State};
use windlass_core::row::{Change, Key, Part, Row};
use windlass_core::time::Timestamp;
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::{Acquired, Batch, Body, CommitError, Store, StoreError};

pub(crate) const SMALL: u32 = 16 << 10;

pub(crate) fn small() -> LogOptions {
    LogOptions {
        segment_bytes: SMALL,
        body_cache_bytes: 0,
        snapshot_min_bytes: u64::MAX,
        ..LogOptions::default()
    }
}

pub(crate) async fn open(disk: &Arc<impl Disk>, options: LogOptions) -> Result<LogStore, StoreError> {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    LogStore::open(Arc::new(TokioEnv::new()), disk, options).await
}

pub(crate) fn item(number: u64) -> Row {
    Row::Item(Item {
        number: ItemNumber(number),
        place: number,
        kind: "mail".into(),
        priority: 5,
        created_at: Timestamp(number),
        attempts: 0,
        era: 0,
        group: None,
        payload_size: PayloadSize::default(),
        state: State::Waiting { since: Timestamp(number) },
        extras: None,
    })
}

pub(crate) fn body(number: u64, length: usize) -> Bytes {
    let text = format!("body {number} ");
    text.bytes().cycle().take(length).collect::<Vec<u8>>().into()
}

pub(crate) fn put(number: u64, length: usize) -> [Change; 2] {
    let body = body(number, length);
    [Change::Put(item(number)), Change::PutBody { number: ItemNumber(number), part: Part::Payload, body }]
}

/// Bodies of which none is damaged.
pub(crate) fn sound(bodies: Vec<Body>) -> Vec<Option<Bytes>> {
    bodies.into_iter().map(|body| body.sound().unwrap()).collect()
}

pub(crate) fn remove(number: u64) -> Change {
    Change::Remove(Key::Item(ItemNumber(number)))
}

/// A partition's owner, who remembers what every commit made of it.
pub(crate) struct Owner<'a> {
    pub(crate) store: &'a LogStore,
    pub(crate) partition: PartitionId,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) rows: BTreeMap<Key, Row>,
}

impl<'a> Owner<'a> {
    pub(crate) async fn acquire(store: &'a LogStore, partition: u32) -> Result<Self, StoreError> {
        let partition = PartitionId(partition);
        let acquired = store.acquire(partition).await?;
        let (epoch, sequence) = (acquired.epoch, acquired.sequence);
        let rows = rows_of(acquired).await?;
        Ok(Self { store, partition, epoch, sequence, rows })
    }

    pub(crate) async fn commit(&mut self, changes: impl Into<Vec<Change>>) -> Result<(), CommitError> {
        let changes = changes.into();
        self.sequence += 1;
        let batch = Batch {
            partition: self.partition,
            epoch: self.epoch,
            sequence: self.sequence,
            now: Timestamp(self.sequence),
            changes: changes.clone(),
            may_block: true,
        };
        self.store.commit(batch).await?;
        apply(&mut self.rows, changes);
        Ok(())
    }

    pub(crate) async fn read(&self, number: u64) -> Result<Option<Bytes>, StoreError> {
        let wanted = vec![(ItemNumber(number), Part::Payload)];
        match self.store.read(self.partition, wanted).await.remove(0) {
            Body::Found(body) => Ok(Some(body)),
            Body::Absent => Ok(None),
            Body::Damaged(error) | Body::Unreadable(error) => Err(error),
        }
    }

    /// Every item of the partition has its body, whole.
    pub(crate) async fn check_bodies(&self) {
        for key in self.rows.keys() {
            if let Key::Item(ItemNumber(number)) = key {
                let found = self.read(*number).await.unwrap().expect("an item has its body");
                assert_eq!(found, body(*number, found.len()), "item {number}");
            }
        }
    }
}

pub(crate) async fn rows_of(mut acquired: Acquired) -> Result<BTreeMap<Key, Row>, StoreError> {
    let mut rows = BTreeMap::new();
    while let Some(changes) = acquired.rows.next().await? {
        apply(&mut rows, changes);
    }
    Ok(rows)
}

pub(crate) fn apply(rows: &mut BTreeMap<Key, Row>, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Put(row) => {
                rows.insert(row.key(), row);
            }
            Change::Remove(Key::Events(number, None)) => {
                rows.retain(|key, _| !matches!(key, Key::Events(of, _) if *of == number));
            }
            Change::Remove(key) => {
                rows.remove(&key);
            }
            Change::PutBody { .. } | Change::RemoveBody { .. } => {}
        }
    }
}
