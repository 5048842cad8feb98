//! The next batch of moves, with their bodies. An item or a cron whose payload is lost goes without it.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::attempt;
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemId, ItemNumber};
use windlass_core::item::{MoveNumber, Origin};
use windlass_core::row::Part;
use windlass_core::verbs::{Arriving, ArrivingItem, Departing, Departure, Move};

use super::Carrier;
use crate::error::EngineError;
use crate::store::{Body, StoreError};

/// How many bytes of bodies one batch holds, unless it is only one item.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Bodies that are read at once: their sizes are only known afterwards.
const READ_SLICE: usize = 25;
/// The bodies that go along, before those of the attempt log.
const PARTS: [Part; 2] = [Part::Payload, Part::Facts];

/// One batch of moves.
#[derive(Default)]
pub(super) struct Load {
    pub(super) last: MoveNumber,
    pub(super) moves: Vec<Move>,
    pub(super) lost: Vec<Lost>,
    bytes: usize,
}

/// One move of a batch.
struct Loaded {
    moved: Move,
    lost: Option<Lost>,
    bytes: usize,
}

/// An item whose payload this move found lost, or the item that a cron makes.
pub(super) struct Lost {
    pub(super) item: ItemNumber,
    pub(super) damage: String,
}

impl Load {
    fn with(mut self, Loaded { moved, lost, bytes }: Loaded) -> Self {
        self.last = moved.number;
        self.moves.push(moved);
        self.lost.extend(lost);
        self.bytes += bytes;
        self
    }
}

impl Carrier {
    /// As many as fit a batch, with their payloads, up to the first whose payload cannot be read now. Nothing if there are
    /// none.
    pub(super) async fn load(&self, departures: Vec<Departure>) -> Result<Option<Load>, EngineError> {
        let bytes_max = BATCH_BYTES_MAX.min(self.store.batch_bytes_max() / 2);
        let mut load: Option<Load> = None;
        for slice in departures.chunks(READ_SLICE) {
            let parts = |departure: &Departure| -> Vec<(ItemNumber, Part)> {
                let attempts = attempt::parts(departure.attempts_logged);
                PARTS.into_iter().chain(attempts).map(|part| (departure.body, part)).collect()
            };
            let bodies = self.store.read(self.source.id, slice.iter().flat_map(parts).collect()).await;
            let mut bodies = bodies.into_iter();
            for departure in slice {
                let mut next = || bodies.next().expect("a store answers for each body");
                let payload_and_facts = PARTS.map(|_| next());
                let attempts = attempt::parts(departure.attempts_logged).map(|_| next()).collect();
                let loaded = match load.take() {
                    // The first one goes however large it is: it was taken in once.
                    None => Load::default().with(self.moved(departure, payload_and_facts, attempts)?),
                    Some(load) => match self.moved(departure, payload_and_facts, attempts) {
                        Ok(next) if load.bytes + next.bytes <= bytes_max => load.with(next),
                        Ok(_) | Err(_) => return Ok(Some(load)),
                    },
                };
                load = Some(loaded);
            }
        }
        Ok(load)
    }

    /// A departure with its bodies. A lost payload stays behind: its item goes without. So do attempts.
    fn moved(
        &self,
        departure: &Departure,
        bodies: [Body; PARTS.len()],
        attempts: Vec<Body>,
    ) -> Result<Loaded, EngineError> {
        let unreadable = |error: StoreError| EngineError::not_applied(error.to_string());
        let [payload, facts] = bodies;
        let facts = facts.sound().map_err(unreadable)?;
        let (payload, damage) = match payload {
            _ if departure.payload_lost => (None, None),
            Body::Found(payload) => (Some(payload), None),
            Body::Absent => (None, Some("the store has no such body".to_owned())),
            Body::Damaged(damage) => (None, Some(damage.to_string())),
            Body::Unreadable(error) => return Err(unreadable(error)),
        };
        let lost = damage.map(|damage| Lost { item: departure.body, damage });
        let attempts = attempts.into_iter().filter_map(|attempt| attempt.sound().transpose());
        let attempts: Vec<Bytes> = attempts.collect::<Result<_, _>>().map_err(unreadable)?;
        let bytes = payload.iter().chain(&facts).chain(&attempts).map(Bytes::len).sum();
        let what = self.arriving(&departure.what);
        let moved = Move { number: departure.number, what, body: payload, facts, attempts };
        Ok(Loaded { moved, lost, bytes })
    }

    fn arriving(&self, departing: &Departing) -> Arriving {
        let item = match departing {
            Departing::Cron(cron) => return Arriving::Cron(cron.clone()),
            Departing::Item(item) => item,
        };
        let id = ItemId { partition: self.source.id, number: item.number };
        let was_an_item = !item.reason.is_of_group();
        let origin = Origin {
            queue: Arc::clone(&self.queue.name),
            id: was_an_item.then_some(id),
            group: item.group.clone(),
            address: item.address.clone(),
            attempts: was_an_item.then_some(item.attempts),
            reason: item.reason,
            error: item.error.clone(),
            moved_at: item.left_at,
            unknown: Vec::new(),
        };
        Arriving::Item(Box::new(ArrivingItem {
            kind: Arc::clone(&item.kind),
            priority: item.priority,
            origin,
            address: item.address_there.clone(),
            address_taken: false,
            cron: item.cron.clone(),
            hashes: Hashes::Unknown,
            enqueue_at: item.enqueue_at,
            max_attempts: item.max_attempts,
            dead_timeout: item.dead_timeout,
        }))
    }
}
