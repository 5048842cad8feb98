//! Bodies kept in memory from their commit on, up to so many bytes, so that most leases need not read the store.
//!
//! A full cache takes no new bodies in: work is done in the order it came, so the bodies that are in are asked for first.
//! But bodies that are never asked for must not keep others out for good. Once as much was turned away as the cache can
//! hold, the cache begins anew.
//!
//! Events are another matter: a reader of an item's stream asks for them a moment after they were written, and hardly
//! anybody later. So the latest events are kept, apart from the other bodies.

use std::collections::VecDeque;

use bytes::Bytes;
use windlass_core::containers::SortedMap;
use windlass_core::mutant::{Mutant, active};
use windlass_core::row::Part;

use super::{BodyChange, BodyKey};

/// Bytes that an entry costs beside its body.
const OVERHEAD: usize = 64;

#[derive(Debug)]
pub(crate) struct BodyCache {
    bytes_max: usize,
    bytes: usize,
    /// Bytes turned away since the cache last began anew.
    refused: usize,
    entries: SortedMap<(u32, BodyKey), Bytes>,
    recent: Recent,
}

/// The bodies of events that were written last.
#[derive(Debug, Default)]
struct Recent {
    bytes_max: usize,
    bytes: usize,
    entries: SortedMap<(u32, BodyKey), Bytes>,
    /// Keys as they came. A key that was removed since stays until it is the oldest.
    order: VecDeque<((u32, BodyKey), usize)>,
}

impl Recent {
    fn put(&mut self, key: (u32, BodyKey), body: Bytes) {
        let bytes = cost(&body);
        if bytes > self.bytes_max {
            self.entries.remove(&key);
            return;
        }
        self.entries.insert(key, body);
        self.order.push_back((key, bytes));
        self.bytes += bytes;
        while self.bytes > self.bytes_max {
            let Some((oldest, bytes)) = self.order.pop_front() else { return };
            self.entries.remove(&oldest);
            self.bytes -= bytes;
        }
    }
}

impl BodyCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let recent = Recent { bytes_max: bytes_max / 8, ..Recent::default() };
        Self { bytes_max, bytes: 0, refused: 0, entries: SortedMap::new(), recent }
    }

    pub(crate) fn get(&self, partition: u32, key: BodyKey) -> Option<Bytes> {
        let entries = if is_events(key) { &self.recent.entries } else { &self.entries };
        entries.get(&(partition, key)).cloned()
    }

    fn put(&mut self, partition: u32, key: BodyKey, body: Bytes) {
        if is_events(key) {
            return self.recent.put((partition, key), body);
        }
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

    fn remove(&mut self, partition: u32, key: BodyKey) {
        if active(Mutant::CacheKeepsRemoved) {
            return;
        }
        if is_events(key) {
            self.recent.entries.remove(&(partition, key));
            return;
        }
        let gone = self.entries.remove(&(partition, key));
        self.bytes -= gone.as_ref().map_or(0, cost);
    }

    /// Takes in a batch that became durable: bodies just written are likely to be read soon, and those removed never again.
    pub(crate) fn apply(&mut self, partition: u32, changes: &[BodyChange]) {
        for change in changes {
            match change {
                // Attempts are hardly ever asked for.
                BodyChange::Put { key, .. } if matches!(key.part(), Part::Attempt(_)) => {
                    self.remove(partition, *key);
                }
                BodyChange::Put { key, body, .. } => self.put(partition, *key, body.clone()),
                BodyChange::Remove { key } => self.remove(partition, *key),
                BodyChange::RemoveAll { number } => {
                    for key in BodyKey::all_of(*number) {
                        self.remove(partition, key);
                    }
                }
                // Events are not asked for any more, and soon pushed out by others.
                BodyChange::RemoveEvents { .. } => {}
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.bytes_max);
    }
}

fn is_events(key: BodyKey) -> bool {
    matches!(key.part(), Part::Events(_))
}

fn cost(body: &Bytes) -> usize {
    body.len() + OVERHEAD
}
