//! Reads a snapshot and the frames after it into tables.
//!
//! Rot stops no more than what is rotten. A frame that was durable counts although a body in it is rotten: whoever
//! reads that body finds out. A commit whose entries are rotten, or a block of the snapshot, costs its partition: it is
//! refused to its owners, and the others are served.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_core::mutant::{Mutant, active};

use super::survey::Survey;
use crate::store::StoreError;
use crate::store::bodies::BodyKey;
use crate::store::log::recovery::{Cut, End};
use crate::store::log::segment::frame::{self, Expected, HEADER_BYTES, Header, Kind, RottenBody};
use crate::store::log::segment::scan::{Found, Scanner};
use crate::store::log::segment::{Segment, Start};
use crate::store::log::tables::{FramePlace, LOST, Link, Tables};

#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) tables: Tables,
    pub(super) log: u64,
    /// The highest open number seen.
    pub(crate) open: u32,
    /// The open number of the last frame that counted.
    pub(super) last_open: u32,
    /// The highest frame that anything says was durable.
    pub(super) synced: u64,
    /// Frames above it: segment, offset and number of each.
    unsynced: VecDeque<(u64, u32, u32)>,
    /// Bodies of the snapshot whose segment is not there: partition, key and generation of each.
    pub(crate) lost: Vec<(u32, BodyKey, u64)>,
    /// The segment in which the log goes on, if a hint behind its last frame says so.
    pub(crate) goes_on_in: Option<u32>,
    /// Bodies in frames that count.
    rotten: Vec<Rotten>,
}

/// A rotten body, and where it is.
#[derive(Clone, Copy, Debug)]
struct Rotten {
    partition: u32,
    key: BodyKey,
    segment: u32,
    offset: u32,
}

/// How far the frames of a segment go.
pub(super) struct Walked {
    pub(super) lsn: u64,
    pub(super) offset: u32,
}

impl Replay {
    pub(crate) fn new(tables: Tables, log: u64) -> Self {
        let synced = tables.snapshot.as_ref().map_or(0, |snapshot| snapshot.lsn.max(snapshot.synced));
        Self {
            tables,
            log,
            open: 0,
            last_open: 0,
            synced,
            unsynced: VecDeque::new(),
            lost: Vec::new(),
            goes_on_in: None,
            rotten: Vec::new(),
        }
    }

    /// The tables as they were at a frame known to be durable, from the files alone.
    pub(crate) async fn up_to(mut self, lsn: u64) -> Result<Tables, StoreError> {
        self.load_snapshot().await?;
        self.synced = self.synced.max(lsn);
        let links: Vec<Link> = self.tables.chain.iter().copied().collect();
        for (at, link) in links.iter().enumerate() {
            let last = links.get(at + 1).map_or(lsn, |next| next.after.min(lsn));
            let walked = self.walk(*link, last, &Survey::default()).await?;
            if walked.lsn < last {
                return Err(self.segment(*link).damaged(walked.offset, "a durable frame cannot be read"));
            }
        }
        Ok(self.tables)
    }

    fn segment(&self, link: Link) -> &Arc<Segment> {
        &self.tables.slots[&link.segment].segment
    }

    /// Learns from what a frame says about the log beside its own content.
    pub(crate) fn hear(&mut self, start: &Start) {
        if let Start::Valid(header) = start {
            self.hear_frame(header);
        }
    }

    pub(super) fn hear_frame(&mut self, header: &Header) {
        self.synced = self.synced.max(header.synced);
        self.open = self.open.max(header.open);
        self.tables.next_generation = self.tables.next_generation.max(header.generation + 1);
    }

    pub(crate) async fn walk_to_the_end(
        &mut self,
        links: &[(Link, u64)],
        survey: &Survey,
    ) -> Result<Option<End>, StoreError> {
        let mut end = None;
        for (link, last) in links {
            let walked = self.walk(*link, *last, survey).await?;
            let mut cut = Cut::default();
            if walked.lsn < *last {
                cut = self.check_end(*link, &walked, survey).await?;
            }
            end = Some((*link, walked, cut));
        }
        Ok(end.map(|(link, walked, cut)| self.end_at(link, walked, cut)))
    }

    /// Applies a segment's frames up to the last that counts, or up to the first place where the next one is not.
    async fn walk(&mut self, link: Link, last: u64, survey: &Survey) -> Result<Walked, StoreError> {
        let slot = &self.tables.slots[&link.segment];
        let (segment, generation) = (Arc::clone(&slot.segment), slot.generation);
        let mut scanner = Scanner::new(&segment);
        let mut walked = Walked { lsn: link.after, offset: HEADER_BYTES as u32 };
        while walked.lsn < last {
            let expected = Expected { log: self.log, generation, lsn: walked.lsn + 1, open: self.last_open };
            let Some(found) = scanner.frame_at(walked.offset, self.log).await? else { break };
            if !expected.accepts(&found.header) {
                break;
            }
            if !found.is_whole() && !self.was_durable(&segment, &found, survey).await? {
                break;
            }
            if found.header.kind == Kind::End {
                // No frame of the chain: it bears the number of the one that should have been found elsewhere.
                self.goes_on_in = Some(found.header.partition);
                break;
            }
            walked = Walked { lsn: found.header.lsn, offset: found.next_offset() };
            self.take(&segment, &found)?;
        }
        Ok(walked)
    }

    fn take(&mut self, segment: &Segment, found: &Found<'_>) -> Result<(), StoreError> {
        let header = &found.header;
        let (partition, number) = (header.partition, segment.number);
        let rotten = |body: &RottenBody| {
            let offset = found.offset + body.at;
            Rotten { partition, key: body.key, segment: number, offset }
        };
        self.rotten.extend(found.rotten.iter().map(rotten));
        self.last_open = header.open;
        self.hear_frame(header);
        self.unsynced.push_back((header.lsn, segment.number, found.offset));
        while self.unsynced.front().is_some_and(|(lsn, ..)| *lsn <= self.synced) {
            self.unsynced.pop_front();
        }
        if header.lsn <= self.tables.snapshot_lsn() {
            return Ok(());
        }
        self.check_sequence(segment, found)?;
        let bodies = match header.kind {
            Kind::Commit if found.is_readable => frame::entries_of(found.frame).body_changes().ok(),
            Kind::Commit => None,
            Kind::SegmentStart | Kind::Open | Kind::Drop | Kind::Survivors | Kind::Close | Kind::End => {
                Some(Vec::new())
            }
        };
        let place = FramePlace::new(header.lsn, segment.number, found.offset, found.frame);
        self.tables.apply(header, place, bodies.as_deref().unwrap_or_default());
        if bodies.is_none() {
            let error = segment.damaged(found.offset, format!("the entries of frame {}", header.lsn));
            self.tables.damage(partition, error, self.tables.next_generation);
        }
        Ok(())
    }

    /// A partition's commits are numbered without gaps: one that does not follow tells of a commit that is missing.
    fn check_sequence(&self, segment: &Segment, found: &Found<'_>) -> Result<(), StoreError> {
        let Header { kind, partition, sequence, .. } = found.header;
        let last = self.tables.partitions.get(&partition).map_or(0, |table| table.sequence);
        if kind != Kind::Commit || sequence == last + 1 {
            return Ok(());
        }
        let what = format!("commit {sequence} of partition {partition} does not follow its last one, {last}");
        Err(segment.damaged(found.offset, what))
    }

    fn end_at(&self, link: Link, walked: Walked, cut: Cut) -> End {
        let slot = &self.tables.slots[&link.segment];
        let first = HEADER_BYTES as u32;
        let unsynced = self.unsynced.iter().find(|(_, number, _)| *number == link.segment);
        let unsynced_from = unsynced.map_or(walked.offset, |(_, _, offset)| *offset);
        End {
            segment: Arc::clone(&slot.segment),
            generation: slot.generation,
            offset: walked.offset,
            lsn: walked.lsn,
            // The segment's first frame was synced together with the one after it.
            unsynced_from: if unsynced_from == first { 0 } else { unsynced_from },
            cut,
        }
    }

    /// A rotten body that was removed or put anew since costs nothing.
    pub(crate) fn rotten_and_wanted(&self) -> Vec<StoreError> {
        let is_wanted = |rotten: &&Rotten| {
            let place = self.tables.body(rotten.partition, rotten.key);
            place.is_some_and(|place| (place.segment, place.offset) == (rotten.segment, rotten.offset))
        };
        let told = |rotten: &Rotten| {
            let segment = &self.tables.slots[&rotten.segment].segment;
            segment.damaged(rotten.offset, "a body has a wrong checksum")
        };
        self.rotten.iter().filter(is_wanted).map(told).collect()
    }

    /// A body in a segment that is gone must be gone too.
    pub(crate) fn missing_body(&self) -> Option<String> {
        let still_lost = |(partition, key, _): &&(u32, BodyKey, u64)| {
            let is_damaged =
                self.tables.partitions.get(partition).is_some_and(|table| table.damage.is_some());
            // Which bodies a damaged partition still has is not known, and the partition is refused.
            !is_damaged && self.tables.body(*partition, *key).is_some_and(|place| place.segment == LOST)
        };
        let mut lost = self.lost.iter().filter(|_| !active(Mutant::NoLostBodyCheck));
        let (partition, key, generation) = lost.find(still_lost)?;
        let number = key.number().0;
        Some(format!(
            "the segment of generation {generation} is gone, and item {number} of partition {partition} was in it"
        ))
    }
}
