//! Bodies kept in memory from their commit on, up to so many bytes, so that most leases need not read the disk.
//!
//! When it is full, new ones are not taken in: work is done in the order it came, so those that are in go first. But
//! what is never asked for must not keep others out for good. Once as much was turned away as the cache can hold, it
//! begins anew.

use bytes::Bytes;
use windlass_core::sorted::SortedMap;

use super::entry::BodyKey;

/// What an entry costs beside its bytes.
const OVERHEAD: usize = 64;

#[derive(Debug)]
pub(super) struct BodyCache {
    bytes_max: usize,
    bytes: usize,
    /// Bytes turned away since it last began anew.
    refused: usize,
    entries: SortedMap<(u32, BodyKey), Bytes>,
}

impl BodyCache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, refused: 0, entries: SortedMap::new() }
    }

    pub(super) fn get(&self, partition: u32, key: BodyKey) -> Option<Bytes> {
        self.entries.get(&(partition, key)).cloned()
    }

    pub(super) fn put(&mut self, partition: u32, key: BodyKey, body: Bytes) {
        let bytes = cost(&body);
        if self.bytes + bytes > self.bytes_max {
            self.refused += bytes;
            if bytes > self.bytes_max || self.refused <= self.bytes_max {
                return self.remove(partition, key);
            }
            self.clear();
        }
        self.bytes += bytes;
        let before = self.entries.insert((partition, key), body);
        self.bytes -= before.as_ref().map_or(0, cost);
    }

    pub(super) fn remove(&mut self, partition: u32, key: BodyKey) {
        let gone = self.entries.remove(&(partition, key));
        self.bytes -= gone.as_ref().map_or(0, cost);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.bytes_max);
    }
}

fn cost(body: &Bytes) -> usize {
    body.len() + OVERHEAD
}
