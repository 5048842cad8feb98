//! Stores for tests: each does what the store within does, but for the calls that the test wants to fail, hold up or count.

use std::fmt;

use bytes::Bytes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::Part;

use super::{Acquired, Batch, Body, CommitError, Room, Rows, Store, StoreError, StoreStats, Term};
use crate::env::BoxFuture;

/// A [`Store`] around another store that is a single one. Each call goes to [`Double::inner`]; the methods of this trait can be
/// overridden, and what only a store of several members has is not passed on.
pub trait Double: Send + Sync + fmt::Debug + 'static {
    fn inner(&self) -> &dyn Store;

    fn acquire(&self, partition: PartitionId) -> BoxFuture<'_, Result<Acquired, StoreError>> {
        self.inner().acquire(partition)
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        self.inner().commit(batch)
    }

    fn sync(&self, term: Term) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner().sync(term)
    }

    fn read(&self, partition: PartitionId, bodies: Vec<(ItemNumber, Part)>) -> BoxFuture<'_, Vec<Body>> {
        self.inner().read(partition, bodies)
    }

    fn read_events(
        &self,
        partition: PartitionId,
        number: ItemNumber,
        from: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Bytes)>, StoreError>> {
        self.inner().read_events(partition, number, from, bytes_max)
    }

    fn drop_partition(&self, partition: PartitionId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner().drop_partition(partition)
    }

    fn partitions(&self) -> BoxFuture<'_, Result<Vec<PartitionId>, StoreError>> {
        self.inner().partitions()
    }

    fn room(&self, partition: PartitionId) -> Room {
        self.inner().room(partition)
    }
}

impl<D: Double> Store for D {
    fn acquire(&self, partition: PartitionId) -> BoxFuture<'_, Result<Acquired, StoreError>> {
        Double::acquire(self, partition)
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        Double::commit(self, batch)
    }

    fn sync(&self, term: Term) -> BoxFuture<'_, Result<(), StoreError>> {
        Double::sync(self, term)
    }

    fn epoch(&self, partition: PartitionId) -> u64 {
        self.inner().epoch(partition)
    }

    fn read(&self, partition: PartitionId, bodies: Vec<(ItemNumber, Part)>) -> BoxFuture<'_, Vec<Body>> {
        Double::read(self, partition, bodies)
    }

    fn read_events(
        &self,
        partition: PartitionId,
        number: ItemNumber,
        from: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Bytes)>, StoreError>> {
        Double::read_events(self, partition, number, from, bytes_max)
    }

    fn peek(&self, partition: PartitionId) -> BoxFuture<'_, Result<Box<dyn Rows>, StoreError>> {
        self.inner().peek(partition)
    }

    fn drop_partition(&self, partition: PartitionId) -> BoxFuture<'_, Result<(), StoreError>> {
        Double::drop_partition(self, partition)
    }

    fn partitions(&self) -> BoxFuture<'_, Result<Vec<PartitionId>, StoreError>> {
        Double::partitions(self)
    }

    fn batch_bytes_max(&self) -> usize {
        self.inner().batch_bytes_max()
    }

    fn room(&self, partition: PartitionId) -> Room {
        Double::room(self, partition)
    }

    fn stats(&self) -> StoreStats {
        self.inner().stats()
    }

    fn kind(&self) -> &'static str {
        self.inner().kind()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner().close()
    }
}
