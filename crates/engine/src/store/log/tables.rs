//! The log's knowledge in memory: where everything is. The tables hold only what a reader may be told, and one function
//! applies a frame to them, live and at recovery alike.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::mutant::{Mutant, active};

use super::segment::frame::{self, Header, Kind, Role, padded};
use super::segment::{Pin, Segment};
use super::snapshot::file::{Section, SnapshotFile};
use crate::store::StoreError;
use crate::store::bodies::{Bodies, BodyChange, BodyKey};

/// Marks a body whose segment is gone: fine only if its removal is in the log too.
pub(super) const LOST: u32 = u32::MAX;
/// So that a segment full of empty bodies is not taken for free.
const LIVE_OVERHEAD: u64 = 16;

/// Where a body is. Small, because there is one for every item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
    pub(super) crc: u32,
}

impl Place {
    fn live_bytes(self) -> u64 {
        u64::from(self.length) + LIVE_OVERHEAD
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramePlace {
    pub(super) lsn: u64,
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
    /// Bytes of header and entries, which are all that is read again of a frame: bodies have places of their own.
    pub(super) head: u32,
}

impl FramePlace {
    pub(super) fn new(lsn: u64, segment: u32, offset: u32, frame: &[u8]) -> Self {
        let (length, head) = (frame::length(frame) as u32, frame::head_length(frame) as u32);
        Self { lsn, segment, offset, length, head }
    }
}

/// A segment in use.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) segment: Arc<Segment>,
    pub(super) generation: u64,
    pub(super) role: Role,
    pub(super) live_bytes: u64,
    /// The frame that removed the last living body.
    pub(super) dead_since: u64,
    /// Compacted away, but the snapshot still points here.
    pub(super) retired: bool,
    /// Holds a body that could not be read when it was to be moved: compaction lets it be until the next open.
    pub(super) stuck: bool,
}

impl Slot {
    pub(super) fn new(segment: Arc<Segment>, generation: u64, role: Role) -> Self {
        Self { segment, generation, role, live_bytes: 0, dead_since: 0, retired: false, stuck: false }
    }
}

/// A segment of the main chain whose frames a recovery would read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) segment: u32,
    /// The last frame before the segment.
    pub(super) after: u64,
}

#[derive(Debug, Default)]
pub(super) struct PartitionTable {
    pub(super) epoch: u64,
    /// 0: nothing durable yet.
    pub(super) sequence: u64,
    pub(super) now: u64,
    /// Commits since the snapshot.
    pub(super) frames: VecDeque<FramePlace>,
    /// The partition's part of the snapshot.
    pub(super) section: Option<Section>,
    pub(super) bodies: Bodies<Place>,
    /// Why it cannot be read back, if that is known: its next owner is refused.
    pub(super) damage: Option<Damage>,
}

#[derive(Clone, Debug)]
pub(super) struct Damage {
    pub(super) error: StoreError,
    /// Segments of lower generations may hold bodies whose places are not known: they are kept as they are. 0 if all
    /// places are known.
    pub(super) keeps_below: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) slots: BTreeMap<u32, Slot>,
    pub(super) chain: VecDeque<Link>,
    pub(super) partitions: BTreeMap<u32, PartitionTable>,
    pub(super) snapshot: Option<Arc<SnapshotFile>>,
    /// The last frame that is in these tables.
    pub(super) applied: u64,
    /// The last frame that is durable.
    pub(super) synced: u64,
    /// Bytes of frames since the snapshot.
    pub(super) tail_bytes: u64,
    pub(super) next_generation: u64,
    /// Grows when the tables are rebuilt: what was begun on older ones is void.
    pub(super) era: u64,
    /// The tables are being rebuilt from the files: nothing may be freed or moved meanwhile.
    pub(super) frozen: bool,
    /// Some segment may be free that was not.
    pub(super) something_died: bool,
    /// Bytes of bodies that died since the upkeep last looked whether tidying pays off.
    pub(super) died_bytes: u64,
    /// So much must have died until it looks again.
    pub(super) look_at_bytes: u64,
}

impl Tables {
    pub(super) fn snapshot_lsn(&self) -> u64 {
        self.snapshot.as_ref().map_or(0, |snapshot| snapshot.lsn)
    }

    pub(super) fn take_generation(&mut self) -> u64 {
        let generation = self.next_generation;
        self.next_generation += 1;
        generation
    }

    /// A partition cannot be read back: the first reason counts.
    pub(super) fn damage(&mut self, partition: u32, error: StoreError, keeps_below: u64) {
        let table = self.partitions.entry(partition).or_default();
        let damage = table.damage.get_or_insert(Damage { error, keeps_below });
        damage.keeps_below = damage.keeps_below.max(keeps_below);
    }

    /// Segments of lower generations may hold bodies of a damaged partition whose places are not known.
    pub(super) fn keeps_below(&self) -> u64 {
        let damages = self.partitions.values().filter_map(|table| table.damage.as_ref());
        damages.map(|damage| damage.keeps_below).max().unwrap_or_default()
    }

    /// Takes in a frame of the main chain.
    pub(super) fn apply(&mut self, header: &Header, place: FramePlace, bodies: &[BodyChange]) {
        self.applied = header.lsn;
        self.tail_bytes += padded(place.length as usize) as u64;
        match header.kind {
            Kind::Commit => self.apply_commit(header, place, bodies),
            Kind::Drop => self.drop_partition(header.partition),
            Kind::SegmentStart | Kind::Open | Kind::Survivors | Kind::Close | Kind::End => {}
        }
    }

    fn apply_commit(&mut self, header: &Header, place: FramePlace, bodies: &[BodyChange]) {
        let table = self.partitions.entry(header.partition).or_default();
        table.epoch = table.epoch.max(header.epoch);
        table.sequence = header.sequence;
        table.now = header.now;
        table.frames.push_back(place);
        for change in bodies {
            self.change_body(header.partition, place, change);
        }
    }

    fn change_body(&mut self, partition: u32, frame: FramePlace, change: &BodyChange) {
        match change {
            BodyChange::Put { key, at, length, crc, body: _ } => {
                let offset = frame.offset + at;
                let place = Place { segment: frame.segment, offset, length: *length, crc: *crc };
                self.put_body(partition, *key, place);
            }
            BodyChange::Remove { key } => self.remove_body(partition, *key),
            BodyChange::RemoveAll { number } => {
                for key in BodyKey::all_of(*number) {
                    self.remove_body(partition, key);
                }
            }
            BodyChange::RemoveEvents { number } => {
                if let Some(table) = self.partitions.get_mut(&partition) {
                    let places = table.bodies.remove_events(*number);
                    self.release_all(places);
                }
            }
        }
    }

    pub(super) fn put_body(&mut self, partition: u32, key: BodyKey, place: Place) {
        if let Some(slot) = self.slots.get_mut(&place.segment) {
            slot.live_bytes += place.live_bytes();
        }
        let table = self.partitions.entry(partition).or_default();
        if let Some(before) = table.bodies.insert(key, place) {
            self.release(before.segment, before.live_bytes());
        }
    }

    fn remove_body(&mut self, partition: u32, key: BodyKey) {
        let table = self.partitions.get_mut(&partition);
        if let Some(place) = table.and_then(|table| table.bodies.remove(key)) {
            self.release(place.segment, place.live_bytes());
        }
    }

    /// Bodies at these places are not wanted any more. What was written one after another is mostly in one segment, and let
    /// go of together: there may be thousands.
    fn release_all(&mut self, places: impl Iterator<Item = Place>) {
        let mut places = places.peekable();
        while let Some(first) = places.next() {
            let mut bytes = first.live_bytes();
            while let Some(next) = places.next_if(|next| next.segment == first.segment) {
                bytes += next.live_bytes();
            }
            self.release(first.segment, bytes);
        }
    }

    /// So much in a segment is not wanted any more.
    fn release(&mut self, segment: u32, bytes: u64) {
        let Some(slot) = self.slots.get_mut(&segment) else { return };
        slot.live_bytes -= bytes;
        self.died_bytes += bytes;
        if slot.live_bytes == 0 {
            slot.dead_since = self.applied;
            self.something_died |= !self.in_chain(segment);
        }
    }

    fn drop_partition(&mut self, partition: u32) {
        let Some(table) = self.partitions.remove(&partition) else { return };
        // Segments kept for the sake of a damaged partition may be free now.
        self.something_died |= table.damage.is_some();
        self.release_all(table.bodies.iter().map(|(_, place)| *place));
    }

    /// Compaction moved a body; unless it was removed or moved meanwhile, it is there from now on.
    /// Tells whether it is.
    pub(super) fn move_body(&mut self, partition: u32, key: BodyKey, from: Place, to: Place) -> bool {
        let is_there = self.body(partition, key) == Some(from) || active(Mutant::MoveAfterRemoval);
        if is_there {
            self.put_body(partition, key, to);
        }
        is_there
    }

    pub(super) fn body(&self, partition: u32, key: BodyKey) -> Option<Place> {
        self.partitions.get(&partition)?.bodies.get(key).copied()
    }

    pub(super) fn pin(&self, segment: u32, released: &Arc<Notify>) -> Option<Pin> {
        self.slots.get(&segment).map(|slot| Pin::new(&slot.segment, released))
    }

    pub(super) fn in_chain(&self, segment: u32) -> bool {
        self.chain.iter().any(|link| link.segment == segment)
    }

    /// A new snapshot counts: forgets what only the log before it needed. Returns the one it replaces.
    pub(super) fn adopt_snapshot(
        &mut self,
        snapshot: Arc<SnapshotFile>,
        covered_bytes: u64,
    ) -> Option<Arc<SnapshotFile>> {
        for (partition, table) in &mut self.partitions {
            while table.frames.front().is_some_and(|frame| frame.lsn <= snapshot.lsn) {
                table.frames.pop_front();
            }
            table.frames.shrink_to(2 * table.frames.len());
            table.section = snapshot.section(*partition);
        }
        while self.chain.get(1).is_some_and(|next| next.after <= snapshot.lsn) {
            self.chain.pop_front();
        }
        self.tail_bytes -= covered_bytes;
        self.something_died = true;
        self.snapshot.replace(snapshot)
    }

    pub(super) fn much_died(&self) -> bool {
        self.died_bytes >= self.look_at_bytes
    }

    /// The upkeep has looked. An eighth of what is held must die until it looks again, so that the looks, and the
    /// snapshots that follow from some, become no more than a few for every doubling.
    pub(super) fn looked(&mut self, segment_bytes: u32) {
        self.died_bytes = 0;
        self.look_at_bytes = (self.segment_bytes() / 8).max(segment_bytes.into());
    }

    fn segment_bytes(&self) -> u64 {
        self.slots.values().map(|slot| u64::from(slot.segment.bytes)).sum()
    }

    pub(super) fn bytes_stored(&self) -> u64 {
        self.segment_bytes() + self.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes)
    }

    pub(super) fn damaged_partitions(&self) -> u64 {
        self.partitions.values().filter(|table| table.damage.is_some()).count() as u64
    }

    pub(super) fn bytes_live(&self) -> u64 {
        self.slots.values().map(|slot| slot.live_bytes).sum()
    }
}
