//! Which events of which items are kept: the spans of their batches, and nothing of what is in them.

use std::collections::{BTreeMap, VecDeque};

use super::entry::Entry;
use super::{Output, Partition};
use crate::containers::Series;
use crate::event::{EventBatch, NewEvent, pack};
use crate::id::ItemNumber;
use crate::limits::{EVENT_BATCH_OVERHEAD, EVENT_OVERHEAD, EVENTS_BYTES_MAX, EVENTS_MAX};
use crate::mutant::{self, Mutant};
use crate::row::{Change, Key, Part, Row};
use crate::time::Timestamp;

/// What one body of events may come to, if it is more than one event: readers take little at a time, and a body whole.
const BATCH_BYTES_MAX: usize = 128 << 10;

/// So many batches weigh as much as an item in slices of work: the store has to let go of each.
const BATCHES_PER_ITEM: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Events {
    /// By the number of the first event.
    batches: Series<Kept>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) last_seq: u64,
    pub(super) bytes: u64,
}

impl Events {
    pub(super) fn insert(&mut self, batch: EventBatch) {
        let EventBatch { item, first_seq, last_seq, bytes } = batch;
        self.batches.insert(item, first_seq, Kept { last_seq, bytes });
    }

    /// One batch of an item, or all.
    pub(super) fn remove(&mut self, item: ItemNumber, first_seq: Option<u64>) {
        match first_seq {
            Some(first_seq) => drop(self.batches.remove(item, first_seq)),
            None => drop(self.batches.remove_from(item, 0)),
        }
    }

    fn oldest(&self, item: ItemNumber) -> Option<(u64, Kept)> {
        self.batches.of(item)?.front().copied()
    }

    pub(super) fn has_any(&self, item: ItemNumber) -> bool {
        self.batches.of(item).is_some()
    }

    /// How many batches an item has.
    fn count(&self, item: ItemNumber) -> usize {
        self.batches.of(item).map_or(0, VecDeque::len)
    }

    /// What those of an item cost besides their payloads.
    pub(super) fn overhead(&self, item: ItemNumber) -> u64 {
        let Some(batches) = self.batches.of(item) else { return 0 };
        let (Some((first_seq, _)), Some((_, last))) = (batches.front(), batches.back()) else { return 0 };
        // None is missing between the first and the last.
        let events = last.last_seq + 1 - first_seq;
        batches.len() as u64 * EVENT_BATCH_OVERHEAD + events * EVENT_OVERHEAD
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = EventBatch> {
        self.batches.iter().map(|(item, first_seq, kept)| EventBatch {
            item,
            first_seq,
            last_seq: kept.last_seq,
            bytes: kept.bytes,
        })
    }

    /// The number of the last event of each item and the bytes that are kept of it, for a full count. An error tells of
    /// batches between which some are missing.
    pub(super) fn sums(&self) -> Result<BTreeMap<ItemNumber, (u64, u64)>, String> {
        let mut sums: BTreeMap<ItemNumber, (u64, u64)> = BTreeMap::new();
        for batch in self.rows() {
            let before = batch.first_seq.saturating_sub(1);
            let (last_seq, bytes) = sums.entry(batch.item).or_insert((before, 0));
            if batch.first_seq != *last_seq + 1 {
                return Err(format!("{batch:?} does not follow event {last_seq}"));
            }
            *last_seq = batch.last_seq;
            *bytes += batch.bytes;
        }
        Ok(sums)
    }
}

impl Output {
    /// What work on so many items comes to, with the batches that went with them.
    pub(super) fn weight(&self, items: usize) -> usize {
        items + self.batches_erased / BATCHES_PER_ITEM
    }
}

impl Partition {
    /// Adds to the events of an item, of which the oldest go when there are too many. The item itself is the caller's to
    /// write.
    pub(super) fn append(
        &mut self,
        now: Timestamp,
        number: ItemNumber,
        next: &mut Entry,
        mut events: &[NewEvent],
        out: &mut Output,
    ) {
        while !events.is_empty() {
            let (batch, rest) = events.split_at(fitting(events));
            self.append_batch(now, number, next, batch, out);
            events = rest;
        }
    }

    fn append_batch(
        &mut self,
        now: Timestamp,
        number: ItemNumber,
        next: &mut Entry,
        events: &[NewEvent],
        out: &mut Output,
    ) {
        let extras = next.extras.get_or_insert_default();
        let first_seq = extras.event_count + if mutant::active(Mutant::RepeatEvent) { 0 } else { 1 };
        let last_seq = extras.event_count + events.len() as u64;
        let bytes = events.iter().map(|event| event.bytes).sum();
        self.record(Row::Events(EventBatch { item: number, first_seq, last_seq, bytes }), out);
        out.changes.push(Change::PutBody { number, part: Part::Events(first_seq), body: pack(now, events) });
        out.totals.emitted += events.len() as u64;
        extras.event_count = last_seq;
        extras.event_bytes += bytes;
        while let Some((oldest, kept)) = self.events.oldest(number) {
            let needless = kept.last_seq < oldest_of(last_seq) || extras.event_bytes > EVENTS_BYTES_MAX;
            // What was emitted last is kept, whatever it comes to.
            if oldest == first_seq || !needless {
                break;
            }
            extras.event_bytes -= kept.bytes;
            self.erase_events(number, Some(oldest), out);
        }
    }

    /// Forgets one batch of an item, or all there are.
    pub(super) fn erase_events(&mut self, number: ItemNumber, first_seq: Option<u64>, out: &mut Output) {
        out.batches_erased += if first_seq.is_some() { 1 } else { self.events.count(number) };
        self.erase_row(Key::Events(number, first_seq), out);
    }
}

/// How many of them go together: at least one, and no more than a reader takes at once.
fn fitting(events: &[NewEvent]) -> usize {
    let mut bytes = 0;
    let fit = events.iter().take_while(|event| {
        bytes += event.content.len();
        bytes <= BATCH_BYTES_MAX
    });
    fit.count().max(1)
}

/// The number of the oldest event that counts, if this is that of the last.
pub fn oldest_of(last_seq: u64) -> u64 {
    last_seq.saturating_sub(EVENTS_MAX) + 1
}
