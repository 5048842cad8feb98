//! Reads bodies for callers: from the cache, and the others by their place.

use bytes::Bytes;
use tokio::sync::oneshot;
use windlass_core::id::ItemNumber;
use windlass_core::row::Part;

use super::reader::{Job, ReadBodies};
use crate::store::bodies::BodyKey;
use crate::store::log::LogStore;
use crate::store::log::segment::Pin;
use crate::store::log::tables::Place;
use crate::store::{Body, StoreError};

impl LogStore {
    pub(crate) async fn read_bodies(&self, partition: u32, keys: Vec<BodyKey>) -> Vec<Body> {
        let (mut bodies, missing) = self.read_cached(partition, &keys);
        if missing.is_empty() {
            return bodies;
        }
        let (at, wanted): (Vec<usize>, Vec<(Pin, Place)>) =
            missing.into_iter().map(|(at, pin, place)| (at, (pin, place))).unzip();
        let found = self.read_places(wanted).await;
        for (at, body) in at.into_iter().zip(found) {
            bodies[at] = body;
        }
        bodies
    }

    async fn read_places(&self, wanted: Vec<(Pin, Place)>) -> Vec<Body> {
        let closed = vec![Body::Unreadable(StoreError::Closed); wanted.len()];
        let (answer, answered) = oneshot::channel();
        match self.reader.send(Job::Bodies(ReadBodies { wanted, answer })).await {
            Ok(()) => answered.await.unwrap_or(closed),
            Err(_) => closed,
        }
    }

    /// The bodies that are in memory, and what has to be read from where.
    fn read_cached(&self, partition: u32, keys: &[BodyKey]) -> (Vec<Body>, Vec<(usize, Pin, Place)>) {
        let (mut bodies, mut missing) = (Vec::with_capacity(keys.len()), Vec::new());
        let tables = self.shared.tables();
        let cache = self.shared.cache();
        for (at, key) in keys.iter().enumerate() {
            let place = tables.body(partition, *key);
            let cached = place.and_then(|_| cache.get(partition, *key));
            if let (None, Some(place)) = (&cached, place)
                && let Some(pin) = tables.pin(place.segment, &self.shared.keeper_kick)
            {
                missing.push((at, pin, place));
            }
            bodies.push(cached.into());
        }
        (bodies, missing)
    }

    /// Damaged batches are passed over: the reader finds their numbers missing, and the rest.
    pub(crate) async fn read_batches(
        &self,
        partition: u32,
        number: ItemNumber,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<(u64, Bytes)>, StoreError> {
        let mut after = 0;
        loop {
            let first_seqs = self.batches(partition, number, from, after, bytes_max);
            let Some(last) = first_seqs.last() else { return Ok(Vec::new()) };
            after = *last;
            let key = |first_seq: &u64| BodyKey::new(number, Part::Events(*first_seq));
            let keys = first_seqs.iter().map(key).collect();
            let bodies = self.read_bodies(partition, keys).await;
            let read = first_seqs.into_iter().zip(bodies);
            let found = sound_batches(read.inspect(|(first_seq, body)| {
                if let Body::Damaged(damage) = body {
                    tracing::error!(partition, number = number.0, first_seq, %damage, "events are lost");
                }
            }))?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Which of an item's batches to read, from the one that holds an event on and after another: by the numbers of their
    /// first.
    fn batches(
        &self,
        partition: u32,
        number: ItemNumber,
        from: u64,
        after: u64,
        bytes_max: usize,
    ) -> Vec<u64> {
        let tables = self.shared.tables();
        let Some(table) = tables.partitions.get(&partition) else { return Vec::new() };
        let mut bytes = 0;
        let fits = |(_, place): &(u64, &Place)| {
            let begun = bytes < bytes_max;
            bytes += place.length as usize;
            begun
        };
        let batches =
            table.bodies.events(number, from.max(after)).filter(|(first_seq, _)| *first_seq > after);
        batches.take_while(fits).map(|(first_seq, _)| first_seq).collect()
    }
}

/// The batches that are there, up to the first one that cannot be read now. If that is the first, its error.
fn sound_batches(read: impl Iterator<Item = (u64, Body)>) -> Result<Vec<(u64, Bytes)>, StoreError> {
    let mut found = Vec::new();
    for (first_seq, body) in read {
        match body.sound() {
            Ok(body) => found.extend(body.map(|body| (first_seq, body))),
            Err(error) if found.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(found)
}
