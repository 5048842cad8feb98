//! Reads everything that a log's files still tell, damaged or not.
//!
//! The rows and bodies of the snapshot first, then the commits in their order, as far as they are there. After a gap the
//! rest is taken all the same: a row that was put later is worth having, even if what came before it is lost. Where the
//! snapshot cannot be read, commits before it that are still on the disk stand in for it.
//!
//! Reads a segment by its [`frames`] and the [`snapshot`] by its blocks, and goes on behind damage: [`resync`] finds the next
//! block, [`blocks`] tells what a damaged one may have held, [`gaps`] what is missing between two, and [`copies`] looks for
//! other copies of bodies that were not found. [`steps`] turns what was read into changes.

pub(crate) mod blocks;
mod copies;
pub(crate) mod frames;
mod gaps;
mod resync;
mod snapshot;
mod steps;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::store::StoreError;
use crate::store::log::LogStore;
use crate::store::log::disk::Disk;
use crate::store::log::inspect::Progress;
use crate::store::log::inspect::loss::rescue::{Rescue, Taken};
use crate::store::log::inspect::loss::verdict::{Damage, Verdict};
use crate::store::log::recovery::survey::Survey;
use crate::store::log::segment::frame::{Header, Kind, Role};
use crate::store::log::segment::scan::read_readable;
use crate::store::log::segment::{Segment, Start};
use frames::{Break, Found, Sound, Source, frames_of, is_same, source_of_frames, valid_sources};
use gaps::Gaps;
use steps::{Held, steps_of};

/// The result of reading a log.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) verdict: Verdict,
    pub(crate) rows: u64,
    pub(crate) removals: u64,
    pub(crate) bodies: u64,
    /// How many frames can be read in each segment, by the number of its file, and their bytes.
    pub(crate) frames: BTreeMap<u32, (u64, u64)>,
    /// The partitions that were written to the new log, each with the epoch in which they were.
    pub(crate) epochs: BTreeMap<u32, u64>,
}

/// Reads a log, and writes what it finds to the store, if there is one.
pub(crate) async fn read(
    disk: &dyn Disk,
    log: u64,
    survey: &Survey,
    failed: Vec<StoreError>,
    store: Option<&LogStore>,
    progress: Progress<'_>,
) -> Result<Read, StoreError> {
    let mut damage = Damage::new(disk);
    failed.into_iter().for_each(|error| damage.lose(error));
    let sources = sources_of(survey, log, &mut damage).await;
    let mut reading = Reading {
        damage,
        sources,
        snapshot_lsn: 0,
        knows_partitions: true,
        gaps: Gaps::default(),
        held: Vec::new(),
        rescue: Rescue::new(store),
        frames: BTreeMap::new(),
    };
    let mut progress = Told::of(survey, progress);
    if let Some(lsn) = survey.snapshots.iter().max() {
        reading.snapshot(disk, *lsn, log).await?;
    }
    reading.commits(&mut progress).await?;
    reading.compacted(&mut progress).await?;
    copies::find(&reading.sources, &mut reading.rescue).await?;
    progress.end();
    Ok(reading.finish())
}

/// All segments with frames, by generation, whether their start can be read or not.
async fn sources_of(survey: &Survey, log: u64, damage: &mut Damage<'_>) -> Vec<Source> {
    let mut sources = valid_sources(survey);
    for (segment, start) in &survey.starts {
        if matches!(start, Start::Valid(_)) {
            continue;
        }
        match source_of_frames(segment, log).await {
            Ok(Some(source)) => {
                let what = "the segment's first frame cannot be read: its other frames tell what it is";
                damage.harmless.push(segment.damaged(0, what));
                sources.push(source);
            }
            Ok(None) if *start == Start::Bad => damage.torn_start(segment),
            Ok(None) => {}
            Err(error) => damage.lose(error),
        }
    }
    sources.sort_by_key(|source| source.start.generation);
    sources
}

/// Tells how far the reading is, in bytes of segments.
struct Told<'a> {
    done: u64,
    total: u64,
    progress: Progress<'a>,
}

impl<'a> Told<'a> {
    fn of(survey: &Survey, progress: Progress<'a>) -> Self {
        let total = survey.starts.iter().map(|(segment, _)| u64::from(segment.bytes)).sum();
        progress(0, total);
        Self { done: 0, total, progress }
    }

    /// Segments without frames were not read.
    fn end(&mut self) {
        (self.progress)(self.total, self.total);
    }

    fn read(&mut self, segment: &Segment) {
        self.done = (self.done + u64::from(segment.bytes)).min(self.total);
        (self.progress)(self.done, self.total);
    }
}

pub(crate) struct Reading<'a> {
    pub(crate) damage: Damage<'a>,
    pub(crate) sources: Vec<Source>,
    pub(crate) snapshot_lsn: u64,
    /// Whether there is no snapshot, or its index tells all its partitions.
    pub(crate) knows_partitions: bool,
    /// The parts that the snapshot should tell, but does not.
    pub(crate) gaps: Gaps,
    /// The changes in blocks of changes, to be done after the commits up to the snapshot.
    pub(crate) held: Vec<(u32, Vec<Held>)>,
    pub(crate) rescue: Rescue<'a>,
    frames: BTreeMap<u32, (u64, u64)>,
}

impl Reading<'_> {
    async fn commits(&mut self, progress: &mut Told<'_>) -> Result<(), StoreError> {
        let mains = self.sources.iter().filter(|source| source.start.role == Role::Main);
        let mut mains: VecDeque<Source> = mains.cloned().collect();
        let mut done = if self.gaps.is_empty() { self.snapshot_lsn } else { 0 };
        while let Some(source) = mains.pop_front() {
            // A later segment that continues after an earlier frame makes void the frames after that one.
            let last = mains.iter().map(|later| later.start.lsn).min().unwrap_or(u64::MAX);
            done = self.main(&source, done, last).await?;
            progress.read(&source.segment);
        }
        self.damage.rebuilt &= done >= self.snapshot_lsn && !self.gaps.is_empty();
        self.release().await
    }

    /// Takes the frames of a segment from behind `done` up to the last that counts. Tells the last it came to.
    async fn main(&mut self, source: &Source, mut done: u64, last: u64) -> Result<u64, StoreError> {
        let (known, after) = (done.max(self.snapshot_lsn), source.start.lsn);
        if last > known && after > known {
            self.damage.frames_in_no_file(known + 1, after);
            done = after;
        }
        self.damage.hear(source.start.synced);
        let frames = frames_of(source, last).await;
        self.count_frames(&source.segment, &frames.found);
        self.damage.rotten_bodies(&source.segment, &frames.rotten_bodies);
        for found in &frames.found {
            match found {
                Found::Sound(frame) => {
                    self.damage.hear(frame.header.synced);
                    if frame.header.lsn > self.snapshot_lsn {
                        self.release().await?;
                    }
                    if frame.header.lsn > done {
                        self.damage.rebuilt &= frame.header.lsn == done + 1;
                        self.frame(&source.segment, frame).await?;
                        done = frame.header.lsn;
                    }
                }
                Found::Break(broken) => {
                    self.broken(&source.segment, broken, last).await;
                    done = done.max(broken.last().min(last));
                }
            }
        }
        self.damage.end(frames.goes_on_in.filter(|_| last == u64::MAX), done);
        self.damage.unreadable(frames.unreadable);
        frames.failed.into_iter().for_each(|error| self.damage.lose(error));
        Ok(done)
    }

    fn count_frames(&mut self, segment: &Segment, found: &[Found]) {
        let lengths = found.iter().filter_map(|found| match found {
            Found::Sound(frame) => Some(u64::from(frame.length)),
            Found::Break(_) => None,
        });
        let counted = lengths.fold((0, 0), |(frames, bytes), length| (frames + 1, bytes + length));
        self.frames.insert(segment.number, counted);
    }

    /// The number before a partition's first commit, where nothing else is known of the partition.
    fn first_sequence(&self) -> Option<u64> {
        self.knows_partitions.then_some(0)
    }

    async fn frame(&mut self, segment: &Segment, frame: &Sound) -> Result<(), StoreError> {
        let Header { kind, partition, now, lsn, sequence, .. } = frame.header;
        let is_covered = lsn <= self.snapshot_lsn;
        match kind {
            Kind::Commit => {}
            Kind::Drop if is_covered && self.gaps.names(partition) => return Ok(()),
            Kind::Drop => {
                self.damage.drop_partition(partition);
                return self.rescue.drop_partition(partition).await;
            }
            Kind::SegmentStart | Kind::Open | Kind::Survivors | Kind::Close | Kind::End => return Ok(()),
        }
        // A file that was cut may end within the last body.
        let length = frame.length.min(segment.bytes.saturating_sub(frame.offset));
        let (bytes, _told_by_the_scanner) = read_readable(segment, frame.offset, length as usize).await;
        let steps = if is_same(&bytes, frame) {
            steps_of(&bytes, segment, frame.offset)
        } else {
            Err(format!("frame {lsn} cannot be read a second time"))
        };
        let steps = steps.map_err(|what| segment.damaged(frame.offset, what));
        let first = self.first_sequence();
        match steps {
            Ok(steps) if is_covered => {
                let steps = self.gaps.fill(partition, steps);
                self.rescue.commit(partition, now, steps).await
            }
            Ok(steps) => {
                self.rescue.ledger.commit(partition, sequence, first);
                self.rescue.commit(partition, now, steps).await
            }
            Err(error) => {
                self.rescue.ledger.lost_commit(partition, sequence, first);
                self.damage.lost_frame(error);
                Ok(())
            }
        }
    }

    /// Takes note of frames that cannot be read, and of the items that their remains name.
    async fn broken(&mut self, segment: &Arc<Segment>, broken: &Break, last: u64) {
        let end = if broken.hides_end { last } else { broken.last().min(last) };
        let is_covered = end <= self.snapshot_lsn;
        if is_covered && self.gaps.is_empty() {
            return self.damage.covered(segment, broken);
        }
        if is_covered {
            self.damage.rebuilt = false;
            return self.damage.stand_in(segment, broken);
        }
        let commit = broken.header.filter(|header| header.kind == Kind::Commit);
        if let Some(header) = commit {
            let first = self.first_sequence();
            self.rescue.ledger.lost_commit(header.partition, header.sequence, first);
        }
        let (partition, items) = blocks::items_in_frame(segment, broken).await;
        if self.rescue.ledger.knows(partition) {
            items.into_iter().for_each(|number| self.rescue.ledger.suspect(partition, number));
        }
        self.damage.broken(segment, broken, self.snapshot_lsn, last);
    }

    /// Segments of moved bodies: a frame that cannot be read costs nothing but the bodies in it, which are checked one by one.
    async fn compacted(&mut self, progress: &mut Told<'_>) -> Result<(), StoreError> {
        let compacted = self.sources.iter().filter(|source| source.start.role == Role::Compacted);
        for source in compacted.cloned().collect::<Vec<_>>() {
            self.damage.hear(source.start.synced);
            let frames = frames_of(&source, u64::MAX).await;
            self.count_frames(&source.segment, &frames.found);
            self.damage.rotten_bodies(&source.segment, &frames.rotten_bodies);
            for found in &frames.found {
                if let Found::Break(broken) = found {
                    self.damage.covered(&source.segment, broken);
                }
            }
            self.damage.unreadable(frames.unreadable);
            frames.failed.into_iter().for_each(|error| self.damage.lose(error));
            progress.read(&source.segment);
        }
        Ok(())
    }

    fn finish(mut self) -> Read {
        let known = self.snapshot_lsn;
        let verdict = self.damage.finish(&mut self.rescue, known);
        let Taken { rows, removals, bodies } = self.rescue.taken;
        Read { verdict, rows, removals, bodies, frames: self.frames, epochs: self.rescue.epochs() }
    }
}
