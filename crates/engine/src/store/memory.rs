//! A store that forgets everything with the process: for tests, and for queues that may be lost.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Key, Part, Row};
use windlass_core::time::Timestamp;

use crate::env::BoxFuture;
use crate::lock::lock;
use crate::store::{
    Acquired, Batch, Body, CommitError, Room, Rows, Store, StoreError, StoreStats, Term, remove_row,
};

const BATCH_BYTES_MAX: usize = 32 << 20;
const SLICE: usize = 1000;

#[derive(Debug)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    batch_bytes_max: usize,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::with_batch_bytes_max(BATCH_BYTES_MAX)
    }
}

#[derive(Debug, Default)]
struct Tables {
    partitions: BTreeMap<PartitionId, Table>,
    commits: u64,
}

#[derive(Debug, Default)]
struct Table {
    epoch: u64,
    sequence: u64,
    now: Timestamp,
    rows: BTreeMap<Key, Row>,
    bodies: BTreeMap<(ItemNumber, Part), Bytes>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// A store whose batches have at most `batch_bytes_max` bytes of bodies, and twice as many with the rows.
    pub fn with_batch_bytes_max(batch_bytes_max: usize) -> Self {
        Self { tables: Mutex::default(), batch_bytes_max }
    }

    fn check_size(&self, changes: &[Change]) -> Result<(), CommitError> {
        let (bytes, max) = (changes.iter().map(Change::bytes).sum(), 2 * self.batch_bytes_max);
        if bytes > max {
            return Err(CommitError::NotApplied(StoreError::TooLarge { bytes, max }));
        }
        Ok(())
    }
}

impl Table {
    fn change(&mut self, change: Change) {
        match change {
            Change::Put(row) => {
                self.rows.insert(row.key(), row);
            }
            Change::Remove(key) => {
                match key {
                    Key::Item(number) => {
                        for part in Part::ALL {
                            self.bodies.remove(&(number, part));
                        }
                    }
                    Key::Events(number, Some(first_seq)) => {
                        self.bodies.remove(&(number, Part::Events(first_seq)));
                    }
                    Key::Events(number, None) => self.remove_events(number),
                    Key::Numbers
                    | Key::Settings
                    | Key::Cleared
                    | Key::Partitions
                    | Key::Queue(_)
                    | Key::Taken(_)
                    | Key::Once(_)
                    | Key::Group(_)
                    | Key::Intake
                    | Key::Rules(_)
                    | Key::Rule(_)
                    | Key::Cron(_)
                    | Key::CronHome(_)
                    | Key::Dropped(_) => {}
                }
                remove_row(&mut self.rows, &key);
            }
            Change::PutBody { number, part, body } => {
                self.bodies.insert((number, part), body);
            }
            Change::RemoveBody { number, part } => {
                self.bodies.remove(&(number, part));
            }
        }
    }
}

impl Table {
    fn rows(&self) -> Vec<Row> {
        self.rows.values().cloned().collect()
    }

    fn remove_events(&mut self, number: ItemNumber) {
        let gone: Vec<_> = self.events(number, 1).map(|(body, _)| *body).collect();
        gone.iter().for_each(|body| drop(self.bodies.remove(body)));
    }

    /// From the batch that holds an event on.
    fn events(&self, number: ItemNumber, from: u64) -> impl Iterator<Item = (&(ItemNumber, Part), &Bytes)> {
        let batch = |first_seq| (number, Part::Events(first_seq));
        let holds = self.bodies.range(batch(1)..=batch(from)).next_back().map(|(body, _)| *body);
        self.bodies.range(holds.unwrap_or(batch(1))..=batch(u64::MAX))
    }
}

impl Store for MemoryStore {
    fn acquire(&self, partition: PartitionId) -> BoxFuture<'_, Result<Acquired, StoreError>> {
        let mut tables = lock(&self.tables);
        let table = tables.partitions.entry(partition).or_default();
        table.epoch += 1;
        let acquired = Acquired {
            epoch: table.epoch,
            sequence: table.sequence,
            now: table.now,
            rows: Box::new(Copied(table.rows().into_iter())),
        };
        Box::pin(std::future::ready(Ok(acquired)))
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        if let Err(too_large) = self.check_size(&batch.changes) {
            return Box::pin(std::future::ready(Err(too_large)));
        }
        let mut tables = lock(&self.tables);
        let fenced = || CommitError::NotApplied(StoreError::Fenced);
        let result = match tables.partitions.get_mut(&batch.partition) {
            Some(table) if table.epoch == batch.epoch && table.sequence + 1 == batch.sequence => {
                table.sequence = batch.sequence;
                table.now = batch.now;
                batch.changes.into_iter().for_each(|change| table.change(change));
                tables.commits += 1;
                Ok(())
            }
            Some(_) | None => Err(fenced()),
        };
        Box::pin(std::future::ready(result))
    }

    fn sync(&self, term: Term) -> BoxFuture<'_, Result<(), StoreError>> {
        let is_over = self.epoch(term.partition) != term.epoch;
        Box::pin(std::future::ready(if is_over { Err(StoreError::Fenced) } else { Ok(()) }))
    }

    fn epoch(&self, partition: PartitionId) -> u64 {
        lock(&self.tables).partitions.get(&partition).map_or(0, |table| table.epoch)
    }

    fn read(&self, partition: PartitionId, bodies: Vec<(ItemNumber, Part)>) -> BoxFuture<'_, Vec<Body>> {
        let tables = lock(&self.tables);
        let table = tables.partitions.get(&partition);
        let stored = |body| table.and_then(|table| table.bodies.get(body)).cloned();
        let found = bodies.iter().map(|body| stored(body).into()).collect();
        Box::pin(std::future::ready(found))
    }

    fn read_events(
        &self,
        partition: PartitionId,
        number: ItemNumber,
        from: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Bytes)>, StoreError>> {
        let tables = lock(&self.tables);
        let mut found = Vec::new();
        let mut bytes = 0;
        if let Some(table) = tables.partitions.get(&partition) {
            for ((_, part), body) in table.events(number, from) {
                let Part::Events(first_seq) = part else { continue };
                if bytes >= bytes_max {
                    break;
                }
                bytes += body.len();
                found.push((*first_seq, body.clone()));
            }
        }
        Box::pin(std::future::ready(Ok(found)))
    }

    fn peek(&self, partition: PartitionId) -> BoxFuture<'_, Result<Box<dyn Rows>, StoreError>> {
        let rows = lock(&self.tables).partitions.get(&partition).map(Table::rows).unwrap_or_default();
        Box::pin(std::future::ready(Ok(Box::new(Copied(rows.into_iter())) as Box<dyn Rows>)))
    }

    fn drop_partition(&self, partition: PartitionId) -> BoxFuture<'_, Result<(), StoreError>> {
        lock(&self.tables).partitions.remove(&partition);
        Box::pin(std::future::ready(Ok(())))
    }

    fn partitions(&self) -> BoxFuture<'_, Result<Vec<PartitionId>, StoreError>> {
        let tables = lock(&self.tables);
        let durable =
            tables.partitions.iter().filter(|(_, table)| table.sequence > 0).map(|(id, _)| *id).collect();
        Box::pin(std::future::ready(Ok(durable)))
    }

    fn batch_bytes_max(&self) -> usize {
        self.batch_bytes_max
    }

    fn room(&self, _partition: PartitionId) -> Room {
        Room::Enough
    }

    fn kind(&self) -> &'static str {
        "memory"
    }

    fn stats(&self) -> StoreStats {
        let tables = lock(&self.tables);
        let bytes = tables
            .partitions
            .values()
            .flat_map(|table| table.bodies.values())
            .map(|body| body.len() as u64)
            .sum();
        StoreStats {
            commits: tables.commits,
            bytes_stored: bytes,
            bytes_live: bytes,
            ..StoreStats::default()
        }
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[derive(Debug)]
struct Copied(std::vec::IntoIter<Row>);

impl Rows for Copied {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Change>>, StoreError>> {
        let slice: Vec<Change> = self.0.by_ref().take(SLICE).map(Change::Put).collect();
        Box::pin(std::future::ready(Ok((!slice.is_empty()).then_some(slice))))
    }
}
