//! One file: what readers see, and what a crash would leave of it.

use std::ops::Range;

use crate::fault::Fault;
use crate::rng::Rng;

/// What a disk writes whole or not at all.
pub const SECTOR: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Image {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Written and not synced, oldest first.
    unsynced: Vec<Write>,
    writes: u64,
}

#[derive(Debug)]
struct Write {
    number: u64,
    offset: usize,
    bytes: Vec<u8>,
}

/// How much of one unsynced write reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lost,
    Kept,
    Torn,
}

/// How bad it is: a whole file's unsynced writes together, or each by itself.
#[derive(Clone, Copy, Debug)]
enum Mood {
    NothingKept,
    AllKept,
    EachByItself,
}

impl Write {
    fn sectors(&self) -> std::ops::Range<usize> {
        self.offset / SECTOR..(self.offset + self.bytes.len()).div_ceil(SECTOR)
    }

    /// What of the write lies in the sector, as offset in the file and bytes.
    fn in_sector(&self, sector: usize) -> (usize, &[u8]) {
        let from = self.offset.max(sector * SECTOR);
        let to = (self.offset + self.bytes.len()).min((sector + 1) * SECTOR);
        (from, &self.bytes[from - self.offset..to - self.offset])
    }
}

impl Image {
    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.live.len());
        let read = buffer.len().min(self.live.len() - from);
        buffer[..read].copy_from_slice(&self.live[from..from + read]);
        read
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let offset = usize::try_from(offset).expect("simulated files are small");
        put(&mut self.live, offset, bytes);
        self.writes += 1;
        self.unsynced.push(Write { number: self.writes, offset, bytes: bytes.to_vec() });
    }

    /// How many bytes a write there would add to the file.
    pub(super) fn growth(&self, offset: u64, len: usize) -> u64 {
        (offset + len as u64).saturating_sub(self.live.len() as u64)
    }

    /// The writes so far: those a sync that begins now speaks for.
    pub(super) fn mark(&self) -> u64 {
        self.writes
    }

    pub(super) fn synced(&mut self, mark: u64) {
        for write in take_until(&mut self.unsynced, mark) {
            put(&mut self.durable, write.offset, &write.bytes);
        }
    }

    /// As Linux does it: some of it is on disk, and the rest is taken for written. Readers still see it, and no
    /// later sync will bring it there.
    pub(super) fn sync_failed(&mut self, mark: u64, rng: &mut Rng) {
        let writes = take_until(&mut self.unsynced, mark);
        keep_some(&mut self.durable, &writes, rng);
    }

    /// Flips a bit on the disk, as readers see it from now on. False if the byte is not durable, or if a write to it is
    /// under way: that would mend it.
    pub(super) fn flip(&mut self, offset: usize, bit: u8) -> bool {
        let covers = |write: &Write| (write.offset..write.offset + write.bytes.len()).contains(&offset);
        if offset >= self.durable.len() || self.unsynced.iter().any(covers) {
            return false;
        }
        self.durable[offset] ^= 1 << bit;
        self.live[offset] ^= 1 << bit;
        true
    }

    /// Flips one bit of a range, synced or not. Bytes that are zero are spared: a segment is mostly zeros.
    pub(super) fn flip_a_bit(&mut self, bytes: Range<usize>, rng: &mut Rng) {
        let end = bytes.end.min(self.live.len());
        let used: Vec<usize> = (bytes.start..end).filter(|at| self.live[*at] != 0).collect();
        if used.is_empty() {
            return;
        }
        let (at, bit) = (*rng.pick(&used), 1 << rng.below(8));
        self.live[at] ^= bit;
        if let Some(byte) = self.durable.get_mut(at) {
            *byte ^= bit;
        }
    }

    /// What is left after the power went: told with what happened to make it so.
    pub(super) fn crash(&mut self, rng: &mut Rng) -> Vec<Fault> {
        let writes = std::mem::take(&mut self.unsynced);
        let faults = keep_some(&mut self.durable, &writes, rng);
        self.live.clone_from(&self.durable);
        faults
    }
}

fn put(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(bytes);
}

fn take_until(unsynced: &mut Vec<Write>, mark: u64) -> Vec<Write> {
    let later = unsynced.partition_point(|write| write.number <= mark);
    let rest = unsynced.split_off(later);
    std::mem::replace(unsynced, rest)
}

/// Brings a random part of the writes to the disk. A sector on disk is always a sector as memory once had it: if a
/// write is in it, so is every earlier one.
fn keep_some(durable: &mut Vec<u8>, writes: &[Write], rng: &mut Rng) -> Vec<Fault> {
    if writes.is_empty() {
        return Vec::new();
    }
    let fates = draw_fates(writes.len(), rng);
    let mut newest: std::collections::BTreeMap<usize, u64> = std::collections::BTreeMap::new();
    for (write, fate) in writes.iter().zip(&fates) {
        for sector in write.sectors() {
            let kept = match fate {
                Fate::Lost => false,
                Fate::Kept => true,
                Fate::Torn => rng.percent(50),
            };
            if kept {
                newest.insert(sector, write.number);
            }
        }
    }
    for write in writes {
        for sector in write.sectors() {
            if newest.get(&sector).is_some_and(|newest| write.number <= *newest) {
                let (offset, bytes) = write.in_sector(sector);
                put(durable, offset, bytes);
            }
        }
    }
    faults_of(&fates)
}

fn draw_fates(count: usize, rng: &mut Rng) -> Vec<Fate> {
    let mood = *rng.pick(&[
        Mood::NothingKept,
        Mood::AllKept,
        Mood::EachByItself,
        Mood::EachByItself,
        Mood::EachByItself,
    ]);
    let fate = |_| match mood {
        Mood::NothingKept => Fate::Lost,
        Mood::AllKept => Fate::Kept,
        Mood::EachByItself => *rng.pick(&[Fate::Lost, Fate::Kept, Fate::Torn]),
    };
    (0..count).map(fate).collect()
}

fn faults_of(fates: &[Fate]) -> Vec<Fault> {
    let mut faults = Vec::new();
    if fates.contains(&Fate::Lost) {
        faults.push(Fault::LostWrite);
    }
    if fates.contains(&Fate::Torn) {
        faults.push(Fault::TornWrite);
    }
    let first_lost = fates.iter().position(|fate| *fate == Fate::Lost);
    if first_lost.is_some_and(|lost| fates[lost..].contains(&Fate::Kept)) {
        faults.push(Fault::ReorderedWrite);
    }
    faults
}
