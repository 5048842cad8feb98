//! Which damage costs something, which may, and which is harmless.
//!
//! Proven harmless is a frame that the whole snapshot covers; a frame that by its size held nothing; a frame of a partition
//! that was dropped later; a rotten body that was removed or replaced later, or of which there is another copy; a block of
//! body places whose bodies were all found; a block of rows if every frame since the beginning can be read; and a torn start
//! of a segment, if nothing says that the log goes on in it.

use std::collections::BTreeSet;

use super::rescue::Rescue;
use crate::store::StoreError;
use crate::store::log::disk::Disk;
use crate::store::log::inspect::Account;
use crate::store::log::inspect::reading::blocks::DamagedBlock;
use crate::store::log::inspect::reading::frames::Break;
use crate::store::log::segment::{self, Segment};
use crate::store::log::snapshot::file::Content;

const NO_FRAME: &str = "the segment's first frame, and no other frame can be read";
pub(crate) const ROTTEN_BODY: &str = "a body has a wrong checksum";

/// The damage that was found in a log.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Where something is or may be lost.
    pub(crate) lost: Vec<StoreError>,
    pub(crate) harmless: Vec<StoreError>,
    pub(crate) account: Account,
}

/// Damage as it is found. What it costs can be told only when everything has been read.
pub(crate) struct Damage<'a> {
    disk: &'a dyn Disk,
    lost: Vec<StoreError>,
    pub(crate) harmless: Vec<StoreError>,
    breaks: Vec<LostFrames>,
    blocks: Vec<DamagedBlock>,
    /// Partitions that had lost something before the snapshot was made, as it says itself.
    carried: Vec<(u32, StoreError)>,
    rotten: Vec<StoreError>,
    /// Segments of which neither the first frame nor another can be read, by the number of the file.
    torn_starts: Vec<(u32, String)>,
    frames_missing: u64,
    /// Something could not be read that may have held anything.
    is_unsure: bool,
    /// The highest frame that anything says was durable.
    synced: u64,
    /// The last frame of the log, readable or not.
    last: u64,
    /// The file in which the log goes on, if no segment was found that does.
    goes_on_in: Option<u32>,
    /// Every frame since the beginning can be read.
    pub(crate) rebuilt: bool,
}

struct LostFrames {
    file: String,
    offset: u32,
    from: u64,
    to: u64,
    partition: Option<u32>,
}

impl LostFrames {
    fn damaged(&self, what: &str) -> StoreError {
        let frames = numbered(self.from, self.to);
        let what = format!("{frames} cannot be read: {what}");
        StoreError::Damaged { file: self.file.clone(), offset: self.offset.into(), what }
    }
}

fn numbered(from: u64, to: u64) -> String {
    if from >= to { format!("frame {from}") } else { format!("frames {from} to {to}") }
}

impl<'a> Damage<'a> {
    pub(crate) fn new(disk: &'a dyn Disk) -> Self {
        Self {
            disk,
            lost: Vec::new(),
            harmless: Vec::new(),
            breaks: Vec::new(),
            blocks: Vec::new(),
            carried: Vec::new(),
            rotten: Vec::new(),
            torn_starts: Vec::new(),
            frames_missing: 0,
            is_unsure: false,
            synced: 0,
            last: 0,
            goes_on_in: None,
            rebuilt: true,
        }
    }

    /// A file or a part of one that may have held anything.
    pub(crate) fn lose(&mut self, error: StoreError) {
        self.lost.push(error);
        self.is_unsure = true;
    }

    /// Pieces that the disk cannot read. What they cost is told by the frames and bodies that are missed.
    pub(crate) fn unreadable(&mut self, pieces: Vec<StoreError>) {
        self.lost.extend(pieces);
    }

    /// A segment that was being begun when a crash came, unless anything says that the log goes on in it.
    pub(crate) fn torn_start(&mut self, segment: &Segment) {
        self.torn_starts.push((segment.number, segment.path.clone()));
    }

    pub(crate) fn hear(&mut self, synced: u64) {
        self.synced = self.synced.max(synced);
    }

    pub(crate) fn block(&mut self, block: DamagedBlock) {
        self.blocks.push(block);
    }

    pub(crate) fn carried(&mut self, partition: u32, error: StoreError) {
        self.carried.push((partition, error));
    }

    fn incomplete(&mut self, what: String) {
        self.lost.push(StoreError::Incomplete { directory: self.disk.path(""), what });
    }

    pub(crate) fn frames_in_no_file(&mut self, from: u64, to: u64) {
        self.frames_missing += to - from + 1;
        self.incomplete(format!("frames {from} to {to} are not in any file"));
    }

    /// Bodies in frames: whether one is wanted is known by those who look for it.
    pub(crate) fn rotten_bodies(&mut self, segment: &Segment, offsets: &[u32]) {
        self.rotten.extend(offsets.iter().map(|offset| segment.damaged(*offset, ROTTEN_BODY)));
    }

    /// A segment was read to its end. `goes_on_in` counts if no other segment comes after it.
    pub(crate) fn end(&mut self, goes_on_in: Option<u32>, last: u64) {
        self.last = self.last.max(last);
        self.goes_on_in = goes_on_in;
    }

    /// A frame whose checksums are right holds what this version cannot read.
    pub(crate) fn lost_frame(&mut self, error: StoreError) {
        self.frames_missing += 1;
        self.lost.push(error);
    }

    /// Frames whose rows are in the snapshot, or whose bodies are looked for one by one.
    pub(crate) fn covered(&mut self, segment: &Segment, broken: &Break) {
        let lost = lost_frames(segment, broken, broken.lsn, broken.last());
        self.harmless.push(lost.damaged("the log does not need it any more"));
    }

    /// Frames that could have stood in for a damaged block of the snapshot.
    pub(crate) fn stand_in(&mut self, segment: &Segment, broken: &Break) {
        let lost = lost_frames(segment, broken, broken.lsn, broken.last());
        self.lost.push(lost.damaged("it could have stood in for the damaged snapshot"));
    }

    /// Frames after the snapshot.
    pub(crate) fn broken(&mut self, segment: &Segment, broken: &Break, snapshot_lsn: u64, last: u64) {
        let (from, to) = (broken.lsn.max(snapshot_lsn + 1), broken.last().min(last));
        let lost = lost_frames(segment, broken, from, to);
        if broken.is_bare() {
            let what = "by its size it held no rows; if it was to drop a partition, that is back";
            return self.harmless.push(lost.damaged(what));
        }
        self.frames_missing += to.saturating_sub(from) + 1;
        self.breaks.push(lost);
    }

    /// Whatever the partition lost is not wanted any more.
    pub(crate) fn drop_partition(&mut self, partition: u32) {
        let dropped = "its partition was dropped later";
        let breaks =
            self.breaks.extract_if(.., |lost| lost.partition == Some(partition) && lost.from == lost.to);
        self.harmless.extend(breaks.map(|lost| lost.damaged(dropped)));
        let blocks = self.blocks.extract_if(.., |block| block.partition() == Some(partition));
        self.harmless.extend(blocks.map(|block| block.error));
        self.carried.retain(|(carried, _)| *carried != partition);
    }

    pub(crate) fn finish(mut self, rescue: &mut Rescue<'_>, snapshot_lsn: u64) -> Verdict {
        self.judge_end(snapshot_lsn);
        self.judge_breaks();
        self.judge_blocks(rescue);
        self.lost.extend(rescue.missing_bodies(&self.disk.path("")));
        self.harmless.append(&mut rescue.harmless);
        let unexplained = self.frames_missing > rescue.ledger.commits_missing();
        if self.is_unsure || unexplained {
            rescue.ledger.miss_rows_anywhere();
        }
        let account =
            rescue.ledger.finish(self.frames_missing.saturating_sub(rescue.ledger.commits_dropped()));
        if self.lost.is_empty() && account.partitions.values().any(|partition| partition.commits_missing > 0)
        {
            self.incomplete("commits are missing although every frame can be read".to_owned());
        }
        self.harmless.append(&mut self.rotten);
        let harmless = without(self.harmless, &self.lost);
        Verdict { lost: self.lost, harmless, account }
    }

    /// The log must reach as far as anything says it did.
    fn judge_end(&mut self, snapshot_lsn: u64) {
        let last = self.last.max(snapshot_lsn);
        self.judge_torn_starts(last);
        if self.synced > last {
            return self.frames_in_no_file(last + 1, self.synced);
        }
        if let Some(number) = self.goes_on_in {
            self.frames_missing += 1;
            let name = segment::name_of(number);
            self.incomplete(format!("the log goes on in {name}, of which no frame can be read"));
        }
    }

    fn judge_torn_starts(&mut self, last: u64) {
        for (number, file) in std::mem::take(&mut self.torn_starts) {
            let goes_on = self.synced > last || self.goes_on_in == Some(number);
            let torn = |what: &str| StoreError::Damaged { file, offset: 0, what: what.to_owned() };
            if goes_on || last == 0 {
                self.lose(torn(NO_FRAME));
            } else {
                let what = "the segment's first frame is torn: nothing says that the log goes on here";
                self.harmless.push(torn(what));
            }
        }
    }

    fn judge_breaks(&mut self) {
        for lost in std::mem::take(&mut self.breaks) {
            let what = if self.synced >= lost.from {
                "it was durable, so this is damage"
            } else {
                "possibly lost. Either damage, or a write that a crash tore before it was answered: nothing tells which"
            };
            self.lost.push(lost.damaged(what));
        }
    }

    fn judge_blocks(&mut self, rescue: &mut Rescue<'_>) {
        let rebuilt = self.rebuilt;
        for (partition, error) in self.carried.extract_if(.., |_| !rebuilt) {
            rescue.ledger.miss_rows(partition);
            // A damaged block of the partition tells where it lost something.
            if self.blocks.iter().all(|block| !block.is_of_rows(partition)) {
                self.lost.push(error);
            }
        }
        for block in std::mem::take(&mut self.blocks) {
            let ledger = &mut rescue.ledger;
            let is_harmless = match block.content {
                Some(Content::Head | Content::Index | Content::Footer) => true,
                Some(Content::Bodies(partition)) => !ledger.lacks_bodies(partition),
                Some(Content::Rows(_)) => self.rebuilt,
                Some(Content::Changes(_)) => false,
                None => self.rebuilt && ledger.lacking().is_empty(),
            };
            if is_harmless {
                block.items.iter().for_each(|(partition, number)| ledger.unsuspect(*partition, *number));
                self.harmless.push(block.error);
                continue;
            }
            match block.content {
                Some(Content::Rows(partition) | Content::Changes(partition)) => ledger.miss_rows(partition),
                Some(Content::Head | Content::Bodies(_) | Content::Index | Content::Footer) => {}
                None => self.is_unsure = true,
            }
            self.lost.push(block.error);
        }
    }
}

fn lost_frames(segment: &Segment, broken: &Break, from: u64, to: u64) -> LostFrames {
    let partition = broken.header.map(|header| header.partition);
    LostFrames { file: segment.path.clone(), offset: broken.offset, from, to, partition }
}

/// Where the damage is, if it has a place.
pub(crate) fn place(error: &StoreError) -> Option<(String, u64)> {
    match error {
        StoreError::Damaged { file, offset, .. } => Some((file.clone(), *offset)),
        StoreError::Fenced
        | StoreError::Full
        | StoreError::TooLarge { .. }
        | StoreError::Closed
        | StoreError::Io { .. }
        | StoreError::Incomplete { .. }
        | StoreError::Unusable(_) => None,
    }
}

/// Adds what follows from damage to what is told of it, if it is told by its place.
pub(crate) fn add(error: &mut StoreError, consequence: &str) {
    match error {
        StoreError::Damaged { what, .. } | StoreError::Incomplete { what, .. } => {
            what.push_str("; ");
            what.push_str(consequence);
        }
        StoreError::Fenced
        | StoreError::Full
        | StoreError::TooLarge { .. }
        | StoreError::Closed
        | StoreError::Io { .. }
        | StoreError::Unusable(_) => {}
    }
}

/// Each place once, and none that costs something.
fn without(harmless: Vec<StoreError>, lost: &[StoreError]) -> Vec<StoreError> {
    let mut told: BTreeSet<(String, u64)> = lost.iter().filter_map(place).collect();
    harmless.into_iter().filter(|error| place(error).is_none_or(|place| told.insert(place))).collect()
}
