//! Moves bodies that live on among much that is dead into segments of their own.
//!
//! The segments they leave are kept until the next snapshot: until then the last one still points there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::store::StoreError;
use crate::store::bodies::BodyKey;
use crate::store::entries::Draft;
use crate::store::log::read::fetch::{fetch, piece};
use crate::store::log::segment::frame::{self, HEADER_BYTES, Header, Kind, Role, padded};
use crate::store::log::segment::{Pin, Segment};
use crate::store::log::shared::Shared;
use crate::store::log::tables::{Place, Slot, Tables};

/// Bodies looked at under the lock, and bodies moved, at a time.
const SLICE: usize = 1024;
const FRAME_BODY_BYTES: u64 = 256 << 10;

/// A body on its way.
#[derive(Clone, Copy, Debug)]
struct Moving {
    partition: u32,
    key: BodyKey,
    from: Place,
}

/// Whether segments that hold old bodies take up more than twice what lives in them, and one segment.
pub(crate) fn is_due(tables: &Tables, segment_bytes: u32) -> bool {
    let held: u64 = containers(tables).map(|slot| u64::from(slot.segment.bytes)).sum();
    let live: u64 = containers(tables).map(|slot| slot.live_bytes).sum();
    held > 2 * live + u64::from(segment_bytes)
}

/// Whether a snapshot, and compaction after it, would give back more than they write: to be asked once much has died.
/// `urgent`: the disk is full, and every segment counts.
pub(crate) fn pays_off(tables: &Tables, segment_bytes: u32, urgent: bool) -> bool {
    let snapshot = tables.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes);
    let cost = if urgent { 0 } else { snapshot.max(u64::from(segment_bytes)) };
    dead_in_chain(tables) > cost || would_be_due(tables, segment_bytes, cost)
}

/// Bytes that a snapshot alone would free: segments of the log in which nothing lives, but for the one that is written to.
fn dead_in_chain(tables: &Tables) -> u64 {
    let keeps_below = tables.keeps_below();
    let covered = tables.chain.iter().rev().skip(1).filter_map(|link| tables.slots.get(&link.segment));
    let dead = covered.filter(|slot| slot.live_bytes == 0 && slot.generation >= keeps_below);
    dead.map(|slot| u64::from(slot.segment.bytes)).sum()
}

/// Whether compaction would be due after a snapshot, by more than `cost`, and find something to do.
fn would_be_due(tables: &Tables, segment_bytes: u32, cost: u64) -> bool {
    let written_to = tables.chain.back().map(|link| link.segment);
    let keeps_below = tables.keeps_below();
    let idle = |slot: &&Slot| {
        let may_move = slot.live_bytes > 0 && !slot.stuck && slot.generation >= keeps_below;
        may_move && Some(slot.segment.number) != written_to
    };
    let (mut held, mut live, mut emptiest) = (0, 0, [u64::MAX; 2]);
    for slot in tables.slots.values().filter(idle) {
        held += u64::from(slot.segment.bytes);
        live += slot.live_bytes;
        emptiest = [emptiest[0].min(slot.live_bytes), emptiest[1].min(slot.live_bytes.max(emptiest[0]))];
    }
    held > 2 * live + u64::from(segment_bytes) + cost
        && emptiest[0].saturating_add(emptiest[1]) <= moved_at_most(segment_bytes)
}

/// How much one compaction moves into its one new segment: the rest is for frames around the bodies.
fn moved_at_most(segment_bytes: u32) -> u64 {
    u64::from(segment_bytes) / 4 * 3
}

/// Segments that nothing but the bodies in them keeps.
fn containers(tables: &Tables) -> impl Iterator<Item = &Slot> {
    let keeps_below = tables.keeps_below();
    let idle = move |slot: &&Slot| {
        slot.live_bytes > 0 && !slot.retired && !slot.stuck && slot.generation >= keeps_below
    };
    tables.slots.values().filter(idle).filter(|slot| !tables.in_chain(slot.segment.number))
}

/// Empties the emptiest segments into one new one. Tells whether there were any worth it.
pub(crate) async fn compact(shared: &Shared) -> Result<bool, StoreError> {
    let era = shared.tables().era;
    let Some(victims) = retire_victims(shared) else { return Ok(false) };
    let moved = move_out(shared, era, &victims).await;
    if !matches!(moved, Ok(true)) {
        let_be(shared, era, &victims);
    }
    moved
}

/// Nothing was moved out of the victims: no snapshot is needed before they are looked at again.
fn let_be(shared: &Shared, era: u64, victims: &BTreeMap<u32, Pin>) {
    {
        let mut tables = shared.tables();
        if tables.era != era {
            return;
        }
        for number in victims.keys() {
            if let Some(slot) = tables.slots.get_mut(number) {
                slot.retired = false;
            }
        }
        tables.something_died = true;
    }
    shared.keeper_kick.notify_one();
}

/// The segment that bodies are moved to.
struct Target {
    segment: Arc<Segment>,
    /// Whether the segment is the reserve.
    is_lent: bool,
}

impl Target {
    async fn find(shared: &Shared) -> Result<Self, StoreError> {
        match shared.make_segment().await {
            Ok(segment) => Ok(Self { segment, is_lent: false }),
            Err(error) if error.is_full() && snapshot_fits(shared) => {
                let reserve = shared.pool().lend_reserve();
                reserve.map(|segment| Self { segment, is_lent: true }).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Nothing in it counts. `failed`: it could not be written to.
    fn give_up(self, shared: &Shared, failed: bool) {
        if self.is_lent && !failed { shared.give_back(self.segment) } else { shared.discard(self.segment) }
    }
}

/// Whether there is room for the snapshot that frees what compaction emptied: without it a reserve that was lent would
/// not come back. A disk that does not tell is taken to have none.
fn snapshot_fits(shared: &Shared) -> bool {
    let wanted = {
        let tables = shared.tables();
        tables.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes) + tables.tail_bytes
    };
    shared.disk.free_bytes().is_some_and(|free| free >= wanted)
}

fn retire_victims(shared: &Shared) -> Option<BTreeMap<u32, Pin>> {
    let mut tables = shared.tables();
    let mut candidates: Vec<(u64, u32)> =
        containers(&tables).map(|slot| (slot.live_bytes, slot.segment.number)).collect();
    candidates.sort_unstable();
    let room = moved_at_most(shared.options.segment_bytes);
    let mut live = 0;
    candidates.retain(|(bytes, _)| {
        live += bytes;
        live <= room
    });
    if candidates.len() < 2 || tables.frozen {
        return None;
    }
    let mut victims = BTreeMap::new();
    for (_, number) in candidates {
        let slot = tables.slots.get_mut(&number)?;
        slot.retired = true;
        victims.insert(number, Pin::new(&slot.segment, &shared.keeper_kick));
    }
    Some(victims)
}

async fn move_out(shared: &Shared, era: u64, victims: &BTreeMap<u32, Pin>) -> Result<bool, StoreError> {
    let numbers: BTreeSet<u32> = victims.keys().copied().collect();
    let mut moving = bodies_in(shared, &numbers);
    moving.sort_unstable_by_key(|body| (body.partition, body.from.segment, body.from.offset));
    let target = Target::find(shared).await?;
    let copied = match copy(shared, victims, &moving, &target.segment).await {
        Ok(copied) => copied,
        Err(error) => {
            target.give_up(shared, !error.is_full());
            return Err(error);
        }
    };
    // A reserve that was lent comes back only with a segment that is emptied.
    let pays = !copied.is_empty() && (!target.is_lent || copied.empties_one_of(&numbers, &moving));
    if !pays {
        target.give_up(shared, false);
        mark_stuck(shared, era, &copied);
        return Ok(false);
    }
    if !repoint(shared, era, &target.segment, &moving, &copied) {
        target.give_up(shared, false);
        return Ok(false);
    }
    mark_stuck(shared, era, &copied);
    shared.counters.compactions.fetch_add(1, Ordering::Relaxed);
    Ok(true)
}

/// A body that could not be read now will hardly be readable a moment later: to try again at once would go on for ever.
fn mark_stuck(shared: &Shared, era: u64, copied: &Copied) {
    let mut tables = shared.tables();
    if tables.era != era {
        return;
    }
    for number in &copied.unreadable {
        if let Some(slot) = tables.slots.get_mut(number) {
            tracing::warn!(file = %slot.segment.path, "bodies that cannot be read stay where they are");
            slot.stuck = true;
        }
    }
}

fn bodies_in(shared: &Shared, victims: &BTreeSet<u32>) -> Vec<Moving> {
    let mut moving = Vec::new();
    let partitions: Vec<u32> = shared.tables().partitions.keys().copied().collect();
    for partition in partitions {
        let mut from = Some(BodyKey::FIRST);
        while let Some(next) = from {
            from = collect_slice(&shared.tables(), partition, next, victims, &mut moving);
        }
    }
    moving
}

fn collect_slice(
    tables: &Tables,
    partition: u32,
    from: BodyKey,
    victims: &BTreeSet<u32>,
    moving: &mut Vec<Moving>,
) -> Option<BodyKey> {
    let table = tables.partitions.get(&partition)?;
    let mut last = None;
    for (key, place) in table.bodies.range(from).take(16 * SLICE) {
        last = Some(key.next());
        if victims.contains(&place.segment) {
            moving.push(Moving { partition, key, from: *place });
        }
    }
    last
}

/// The outcome for the bodies that were to be moved.
#[derive(Debug, Default)]
struct Copied {
    generation: u64,
    /// Where each is now, if it could be read and had room.
    places: Vec<Option<Place>>,
    /// Segments with a body that could not be read.
    unreadable: BTreeSet<u32>,
}

impl Copied {
    fn is_empty(&self) -> bool {
        self.places.iter().all(Option::is_none)
    }

    fn empties_one_of(&self, victims: &BTreeSet<u32>, moving: &[Moving]) -> bool {
        let stay = moving.iter().zip(&self.places).filter(|(_, place)| place.is_none());
        let kept: BTreeSet<u32> = stay.map(|(body, _)| body.from.segment).collect();
        kept.len() < victims.len()
    }
}

/// Writes the bodies into the segment, durably.
async fn copy(
    shared: &Shared,
    victims: &BTreeMap<u32, Pin>,
    moving: &[Moving],
    target: &Segment,
) -> Result<Copied, StoreError> {
    let (generation, synced) = {
        let mut tables = shared.tables();
        (tables.take_generation(), tables.synced)
    };
    let (kind, role, log) = (Kind::SegmentStart, Role::Compacted, shared.log);
    let (open, partition, lsn, epoch, sequence, now) = (0, 0, 0, 0, 0, 0);
    let mut header =
        Header { kind, role, log, open, partition, generation, lsn, synced, epoch, sequence, now };
    target.write(0, &frame::bare(&target.start(header))).await?;
    header.kind = Kind::Survivors;
    let mut offset = HEADER_BYTES as u32;
    let mut copied = Copied { generation, ..Copied::default() };
    let mut rest = moving;
    while !rest.is_empty() {
        let (group, after) = rest.split_at(group_length(rest));
        header.partition = group[0].partition;
        header.lsn += 1;
        let bodies = read_group(victims, group).await;
        let (frame, places) = lay_out(&header, group, &bodies, target.number, offset);
        if target.has_room(offset, padded(frame.len())) {
            target.write(offset, &frame).await?;
            offset += padded(frame.len()) as u32;
        } else {
            break;
        }
        let unread = group.iter().zip(&bodies).filter(|(_, body)| body.is_none());
        copied.unreadable.extend(unread.map(|(moving, _)| moving.from.segment));
        copied.places.extend(places);
        rest = after;
    }
    copied.places.resize(moving.len(), None);
    target.sync().await?;
    Ok(copied)
}

/// How many of the first bodies go into one frame.
fn group_length(moving: &[Moving]) -> usize {
    let mut bytes = 0;
    let fits = |body: &&Moving| {
        bytes += u64::from(body.from.length);
        body.partition == moving[0].partition && bytes <= FRAME_BODY_BYTES
    };
    moving.iter().take(SLICE).take_while(fits).count().max(1)
}

/// Bodies that cannot be read stay where they are: whoever asks for one is told.
async fn read_group(victims: &BTreeMap<u32, Pin>, group: &[Moving]) -> Vec<Option<Bytes>> {
    let pieces: Vec<_> = group.iter().map(|body| piece(victims, &body.from)).collect();
    let found = fetch(&pieces).await.into_iter().zip(group);
    let sound = |(body, moving): (Result<Bytes, StoreError>, &Moving)| {
        body.ok().filter(|body| crc32c::crc32c(body) == moving.from.crc)
    };
    found.map(sound).collect()
}

fn lay_out(
    header: &Header,
    group: &[Moving],
    bodies: &[Option<Bytes>],
    segment: u32,
    offset: u32,
) -> (Vec<u8>, Vec<Option<Place>>) {
    let mut draft = Draft::new(HEADER_BYTES, bodies.iter().flatten().map(|body| 24 + body.len()).sum());
    let mut put = |(moving, body): (&Moving, &Option<Bytes>)| {
        let at = draft.put_body(moving.key, moving.from.crc, body.as_ref()?);
        Some(Place { segment, offset: offset + at as u32, ..moving.from })
    };
    let mut places: Vec<Option<Place>> = group.iter().zip(bodies).map(&mut put).collect();
    let (mut frame, bodies_at) = frame::finish(draft);
    places.iter_mut().flatten().for_each(|place| place.offset += bodies_at as u32);
    frame::seal(&mut frame, header);
    (frame, places)
}

/// Points the tables at the copies of the bodies. `false` if the tables are not the same any more.
fn repoint(shared: &Shared, era: u64, target: &Arc<Segment>, moving: &[Moving], copied: &Copied) -> bool {
    let mut slot = Slot::new(Arc::clone(target), copied.generation, Role::Compacted);
    // Marked as retired, so that it is not taken for free before the first body is in it.
    slot.retired = true;
    {
        let mut tables = shared.tables();
        if tables.era != era || tables.frozen {
            return false;
        }
        tables.slots.insert(target.number, slot);
    }
    let mut gone = 0;
    for (moving, places) in moving.chunks(SLICE).zip(copied.places.chunks(SLICE)) {
        let mut tables = shared.tables();
        if tables.era != era || tables.frozen {
            // The rebuilt tables know nothing of it: the segment is free, as soon as a snapshot says so.
            return true;
        }
        for (body, place) in moving.iter().zip(places) {
            if let Some(place) = place {
                gone += u64::from(!tables.move_body(body.partition, body.key, body.from, *place));
            }
        }
    }
    shared.count(|events| events.bodies_removed_while_moved += gone);
    if let Some(slot) = shared.tables().slots.get_mut(&target.number) {
        slot.retired = false;
    }
    true
}
