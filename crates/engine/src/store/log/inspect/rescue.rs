//! The new log that salvaged rows and bodies go to, and the account of them.

use std::collections::BTreeMap;

use windlass_core::id::PartitionId;
use windlass_core::row::{Change, Key};
use windlass_core::time::Timestamp;

use super::Salvaged;
use crate::store::log::LogStore;
use crate::store::log::body_key::BodyKey;
use crate::store::{Batch, CommitError, Store, StoreError};

/// A commit of the new log is at most about this large, unless a single change is larger.
const BATCH_BYTES: usize = 256 << 10;

pub(super) struct Rescue<'a> {
    store: &'a LogStore,
    owners: BTreeMap<u32, Owner>,
    pub(super) salvaged: Salvaged,
    /// Bodies whose segment is gone, with its generation: lost, unless a commit removes or replaces them.
    missing: BTreeMap<(u32, BodyKey), u64>,
}

#[derive(Clone, Copy)]
struct Owner {
    epoch: u64,
    sequence: u64,
    now: u64,
}

impl<'a> Rescue<'a> {
    pub(super) fn new(store: &'a LogStore) -> Self {
        Self { store, owners: BTreeMap::new(), salvaged: Salvaged::default(), missing: BTreeMap::new() }
    }

    pub(super) fn lose(&mut self, error: StoreError) {
        self.salvaged.lost.push(error);
    }

    pub(super) fn miss(&mut self, partition: u32, key: BodyKey, generation: u64) {
        self.missing.insert((partition, key), generation);
    }

    /// Commits in slices that fit.
    pub(super) async fn commit(
        &mut self,
        partition: u32,
        now: u64,
        changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        let bytes_max = BATCH_BYTES.min(self.store.batch_bytes_max());
        let mut slice = Vec::new();
        let mut bytes = 0;
        for change in changes {
            let size = self.count(partition, &change);
            if bytes + size > bytes_max && !slice.is_empty() {
                self.commit_slice(partition, now, std::mem::take(&mut slice)).await?;
                bytes = 0;
            }
            bytes += size;
            slice.push(change);
        }
        if slice.is_empty() { Ok(()) } else { self.commit_slice(partition, now, slice).await }
    }

    fn count(&mut self, partition: u32, change: &Change) -> usize {
        match change {
            Change::Put(_) => {
                self.salvaged.rows += 1;
                256
            }
            Change::Remove(key) => {
                self.salvaged.removals += 1;
                match key {
                    Key::Item(number) => {
                        for body in BodyKey::all_of(*number) {
                            self.missing.remove(&(partition, body));
                        }
                    }
                    Key::Events(number, first_seq) => {
                        let gone = first_seq.map_or(1..=u64::MAX, |first_seq| first_seq..=first_seq);
                        self.missing.retain(|(of, body), _| match body {
                            BodyKey::More(item, more) => {
                                (*of, *item) != (partition, number.0) || !gone.contains(more)
                            }
                            BodyKey::Plain(_) => true,
                        });
                    }
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
                32
            }
            Change::RemoveBody { number, part } => {
                self.salvaged.removals += 1;
                self.missing.remove(&(partition, BodyKey::new(*number, *part)));
                32
            }
            Change::PutBody { number, part, body } => {
                self.salvaged.bodies += 1;
                self.missing.remove(&(partition, BodyKey::new(*number, *part)));
                body.len() + 32
            }
        }
    }

    async fn commit_slice(
        &mut self,
        partition: u32,
        now: u64,
        changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        let owner = match self.owners.get(&partition) {
            Some(owner) => *owner,
            None => {
                let acquired = self.store.acquire(PartitionId(partition)).await?;
                Owner { epoch: acquired.epoch, sequence: acquired.sequence, now: acquired.now.0 }
            }
        };
        let owner = Owner { sequence: owner.sequence + 1, now: owner.now.max(now), ..owner };
        self.owners.insert(partition, owner);
        let Owner { epoch, sequence, now } = owner;
        let batch =
            Batch { partition: PartitionId(partition), epoch, sequence, now: Timestamp(now), changes };
        self.store.commit(batch).await.map_err(|error| match error {
            CommitError::NotApplied(error) | CommitError::Unknown(error) => error,
        })
    }

    pub(super) async fn drop_partition(&mut self, partition: u32) -> Result<(), StoreError> {
        self.owners.remove(&partition);
        self.missing.retain(|(of, _), _| *of != partition);
        self.store.drop_partition(PartitionId(partition)).await
    }

    /// The account, once everything is done.
    pub(super) fn finish(mut self) -> Salvaged {
        let mut bodies: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        for ((partition, _), generation) in &self.missing {
            *bodies.entry((*generation, *partition)).or_default() += 1;
        }
        for ((generation, partition), count) in bodies {
            self.lose(StoreError::Unusable(format!(
                "the segment of generation {generation} is gone, and {count} bodies of partition {partition} were in it"
            )));
        }
        self.salvaged
    }
}
