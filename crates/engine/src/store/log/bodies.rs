//! Bodies kept in memory, up to so many bytes: what was committed or read lately is likely to be read soon.

use std::collections::VecDeque;

use bytes::Bytes;
use windlass_core::sorted::SortedMap;

use super::entry::BodyKey;

/// What an entry costs beside its bytes.
const OVERHEAD: usize = 128;

type Name = (u32, BodyKey);

/// Evicts in the order of arrival, with a second chance for what was read since.
#[derive(Debug)]
pub(super) struct BodyCache {
    bytes_max: usize,
    bytes: usize,
    entries: SortedMap<Name, Cached>,
    /// May name entries that are gone or came anew: their arrivals differ.
    queue: VecDeque<(Name, u64)>,
    arrivals: u64,
}

#[derive(Debug)]
struct Cached {
    body: Bytes,
    arrival: u64,
    read: bool,
}

impl BodyCache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, entries: SortedMap::new(), queue: VecDeque::new(), arrivals: 0 }
    }

    pub(super) fn get(&mut self, partition: u32, key: BodyKey) -> Option<Bytes> {
        let cached = self.entries.get_mut(&(partition, key))?;
        cached.read = true;
        Some(cached.body.clone())
    }

    pub(super) fn put(&mut self, partition: u32, key: BodyKey, body: Bytes) {
        let name = (partition, key);
        if body.len() + OVERHEAD > self.bytes_max {
            return self.remove(partition, key);
        }
        self.bytes += body.len() + OVERHEAD;
        self.arrivals += 1;
        let before = self.entries.insert(name, Cached { body, arrival: self.arrivals, read: false });
        self.bytes -= before.map_or(0, |before| before.body.len() + OVERHEAD);
        self.queue.push_back((name, self.arrivals));
        self.evict();
        self.forget_stale();
    }

    pub(super) fn remove(&mut self, partition: u32, key: BodyKey) {
        if let Some(cached) = self.entries.remove(&(partition, key)) {
            self.bytes -= cached.body.len() + OVERHEAD;
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.bytes_max);
    }

    fn evict(&mut self) {
        while self.bytes > self.bytes_max {
            let Some((name, arrival)) = self.queue.pop_front() else { return };
            let Some(cached) = self.entries.get_mut(&name) else { continue };
            if cached.arrival != arrival {
                continue;
            }
            if std::mem::take(&mut cached.read) {
                self.queue.push_back((name, arrival));
            } else {
                self.remove(name.0, name.1);
            }
        }
    }

    /// Removed entries leave their names in the queue: swept out before they are the larger part of it.
    fn forget_stale(&mut self) {
        if self.queue.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.queue.retain(|(name, arrival)| entries.get(name).is_some_and(|c| c.arrival == *arrival));
        }
    }
}
