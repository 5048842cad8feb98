//! Takes in what is read of a log: counts it, and writes it to a new log if there is one.

use std::collections::BTreeMap;

use windlass_core::codec;
use windlass_core::id::PartitionId;
use windlass_core::row::{Change, Key, Part};
use windlass_core::time::Timestamp;

use super::ledger::Ledger;
use crate::store::bodies::BodyKey;
use crate::store::log::LogStore;
use crate::store::{Batch, CommitError, Store, StoreError};

/// A commit of the new log is at most about this large, unless a single change is larger.
const BATCH_BYTES: usize = 256 << 10;

/// Bytes that an entry of a frame takes at most beside a row or a body.
const ENTRY_BYTES: usize = 64;

/// A step of a commit, as far as it can be read.
#[derive(Debug)]
pub(crate) enum Step {
    Change(Change),
    /// A body was put, and cannot be read or reads differently from what was written.
    Missing(BodyKey, Missing),
}

/// A body that a frame or the snapshot names and that could not be read.
#[derive(Debug)]
pub(crate) enum Missing {
    Rotten {
        crc: u32,
        error: StoreError,
    },
    /// The body was in a segment of this generation, which is gone.
    Gone {
        generation: u64,
        crc: u32,
    },
}

impl Missing {
    pub(crate) fn crc(&self) -> u32 {
        match self {
            Self::Rotten { crc, .. } | Self::Gone { crc, .. } => *crc,
        }
    }
}

/// How much was taken in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) rows: u64,
    pub(crate) removals: u64,
    pub(crate) bodies: u64,
}

pub(crate) struct Rescue<'a> {
    /// The new log, if one is to be made.
    store: Option<&'a LogStore>,
    owners: BTreeMap<u32, Owner>,
    pub(crate) ledger: Ledger,
    pub(crate) taken: Taken,
    /// Lost, unless a later commit removes or replaces the body.
    missing: BTreeMap<(u32, BodyKey), Missing>,
    /// Rotten bodies that were removed or replaced later.
    pub(crate) harmless: Vec<StoreError>,
}

#[derive(Clone, Copy)]
struct Owner {
    epoch: u64,
    sequence: u64,
    now: u64,
}

impl<'a> Rescue<'a> {
    pub(crate) fn new(store: Option<&'a LogStore>) -> Self {
        Self {
            store,
            owners: BTreeMap::new(),
            ledger: Ledger::default(),
            taken: Taken::default(),
            missing: BTreeMap::new(),
            harmless: Vec::new(),
        }
    }

    fn miss(&mut self, partition: u32, key: BodyKey, missing: Missing) {
        self.unmiss(partition, key);
        self.missing.insert((partition, key), missing);
    }

    pub(crate) fn missing(&self, partition: u32, key: BodyKey) -> Option<&Missing> {
        self.missing.get(&(partition, key))
    }

    /// The body is not wanted any more, or was found elsewhere.
    fn unmiss(&mut self, partition: u32, key: BodyKey) {
        match self.missing.remove(&(partition, key)) {
            Some(Missing::Rotten { error, .. }) => self.harmless.push(error),
            Some(Missing::Gone { .. }) | None => {}
        }
    }

    fn unmiss_events(&mut self, partition: u32, from: BodyKey, to: BodyKey) {
        let events = self.missing.range((partition, from)..=(partition, to));
        let events: Vec<BodyKey> = events.map(|((_, key), _)| *key).collect();
        events.into_iter().for_each(|key| self.unmiss(partition, key));
    }

    /// Takes in what a commit did, in slices that fit.
    pub(crate) async fn commit(
        &mut self,
        partition: u32,
        now: u64,
        steps: Vec<Step>,
    ) -> Result<(), StoreError> {
        let bytes_max = BATCH_BYTES.min(self.store.map_or(BATCH_BYTES, Store::batch_bytes_max));
        let mut slice = Vec::new();
        let mut bytes = 0;
        for step in steps {
            let change = self.take_step(partition, step);
            if self.store.is_none() {
                continue;
            }
            let size = size_of(&change);
            if bytes + size > bytes_max && !slice.is_empty() {
                self.commit_slice(partition, now, std::mem::take(&mut slice)).await?;
                bytes = 0;
            }
            bytes += size;
            slice.push(change);
        }
        if slice.is_empty() { Ok(()) } else { self.commit_slice(partition, now, slice).await }
    }

    fn take_step(&mut self, partition: u32, step: Step) -> Change {
        match step {
            Step::Change(change) => {
                self.count(partition, &change);
                change
            }
            Step::Missing(key, missing) => {
                // An earlier body of that name is not the one that the row speaks of.
                let change = Change::RemoveBody { number: key.number(), part: key.part() };
                self.ledger.apply(partition, &change);
                self.miss(partition, key, missing);
                change
            }
        }
    }

    fn count(&mut self, partition: u32, change: &Change) {
        self.ledger.apply(partition, change);
        match change {
            Change::Put(_) => self.taken.rows += 1,
            Change::Remove(key) => {
                self.taken.removals += 1;
                self.forget_bodies(partition, key);
            }
            Change::RemoveBody { number, part } => {
                self.taken.removals += 1;
                self.unmiss(partition, BodyKey::new(*number, *part));
            }
            Change::PutBody { number, part, .. } => {
                self.taken.bodies += 1;
                self.unmiss(partition, BodyKey::new(*number, *part));
            }
        }
    }

    /// Bodies that go with a row are not missed.
    fn forget_bodies(&mut self, partition: u32, key: &Key) {
        let batch = |number, first_seq| BodyKey::new(number, Part::Events(first_seq));
        match *key {
            Key::Item(number) => {
                BodyKey::all_of(number).into_iter().for_each(|body| self.unmiss(partition, body));
            }
            Key::Events(number, None) => {
                self.unmiss_events(partition, batch(number, 1), batch(number, BodyKey::FIRST_SEQ_MAX));
            }
            Key::Events(number, Some(first_seq)) => self.unmiss(partition, batch(number, first_seq)),
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
    }

    async fn commit_slice(
        &mut self,
        partition: u32,
        now: u64,
        changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        let Some(store) = self.store else { return Ok(()) };
        let owner = match self.owners.get(&partition) {
            Some(owner) => *owner,
            None => {
                let acquired = store.acquire(PartitionId(partition)).await?;
                Owner { epoch: acquired.epoch, sequence: acquired.sequence, now: acquired.now.0 }
            }
        };
        let owner = Owner { sequence: owner.sequence + 1, now: owner.now.max(now), ..owner };
        self.owners.insert(partition, owner);
        let Owner { epoch, sequence, now } = owner;
        let batch = Batch {
            partition: PartitionId(partition),
            epoch,
            sequence,
            now: Timestamp(now),
            changes,
            may_block: false,
        };
        store.commit(batch).await.map_err(CommitError::into_cause)
    }

    /// The partitions that were written, each with the epoch in which they were.
    pub(crate) fn epochs(&self) -> BTreeMap<u32, u64> {
        self.owners.iter().map(|(partition, owner)| (*partition, owner.epoch)).collect()
    }

    pub(crate) async fn drop_partition(&mut self, partition: u32) -> Result<(), StoreError> {
        self.owners.remove(&partition);
        let all: Vec<BodyKey> =
            self.missing.keys().filter(|(of, _)| *of == partition).map(|(_, key)| *key).collect();
        all.into_iter().for_each(|key| self.unmiss(partition, key));
        self.ledger.drop_partition(partition);
        match self.store {
            Some(store) => store.drop_partition(PartitionId(partition)).await,
            None => Ok(()),
        }
    }

    /// Why bodies are missing that are still wanted, once everything is read.
    pub(crate) fn missing_bodies(&self, directory: &str) -> Vec<StoreError> {
        let mut gone: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        let mut errors = Vec::new();
        for ((partition, _), missing) in &self.missing {
            match missing {
                Missing::Rotten { error, .. } => errors.push(error.clone()),
                Missing::Gone { generation, .. } => *gone.entry((*generation, *partition)).or_default() += 1,
            }
        }
        errors.extend(gone.into_iter().map(|((generation, partition), count)| {
            let what = format!(
                "the segment of generation {generation} is gone, and {count} bodies of partition {partition} were in it"
            );
            StoreError::Incomplete { directory: directory.to_owned(), what }
        }));
        errors
    }
}

/// Bytes that a change takes in a commit, or a little more.
fn size_of(change: &Change) -> usize {
    let mut encoded = Vec::new();
    match change {
        Change::Put(row) => {
            codec::encode_key(&row.key(), &mut encoded);
            codec::encode_value(row, &mut encoded);
        }
        Change::Remove(key) => codec::encode_key(key, &mut encoded),
        Change::RemoveBody { .. } => {}
        Change::PutBody { body, .. } => return body.len() + ENTRY_BYTES,
    }
    encoded.len() + ENTRY_BYTES
}
