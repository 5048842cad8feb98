//! Frames: the unit in which the log grows, and by which it knows its own words from old ones.
//!
//! Segments are reused, so a segment holds old frames whose checksums are right. That is why a frame says, inside its
//! checksum, which log, open and segment generation it belongs to and the place it has in the order of all frames.
//! Frames begin at multiples of eight bytes. All numbers are little-endian.
//!
//! A frame is a header, then entries, then the bytes of bodies. Header and entries have a checksum each, and an entry
//! holds the checksum of its body: a rotten body costs that body and not the frame, and the header's length is used
//! only once the header is known to be right and of this log.

use windlass_core::mutant::{Mutant, active};
use windlass_core::row::Change;

use crate::store::bodies::{BodyChange, BodyKey};
use crate::store::entries::{self, Draft, Entries, Entry, UnknownEntry};

pub(crate) const HEADER_BYTES: usize = 88;
pub(crate) const FORMAT: u16 = 2;
const MAGIC: u32 = u32::from_le_bytes(*b"WndL");
const ALIGNMENT: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first frame of a segment. Its sequence number is that of the frame the segment continues after.
    SegmentStart,
    /// The log was opened by a new process.
    Open,
    Commit,
    /// The partition is gone, with everything in it.
    Drop,
    /// Bodies that compaction moved here, of one partition.
    Survivors,
    /// The log was closed in good order.
    Close,
    /// The log goes on in the segment whose file number stands in place of a partition. Only a hint, and no frame of
    /// the chain: see [`super::hint`].
    End,
}

/// The purpose of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A link of the chain that commits are written to.
    Main,
    /// Bodies that outlived the segments they were written to.
    Compacted,
}

/// Everything a frame says about itself beside its length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) role: Role,
    pub(crate) log: u64,
    pub(crate) open: u32,
    pub(crate) partition: u32,
    pub(crate) generation: u64,
    /// The place in the order of all frames: one more for each frame of the main chain.
    pub(crate) lsn: u64,
    /// Every frame up to this one was durable when this one was written.
    pub(crate) synced: u64,
    pub(crate) epoch: u64,
    /// A commit's number in its partition; in a segment's first frame, how many bytes the file has.
    pub(crate) sequence: u64,
    pub(crate) now: u64,
}

/// The header fields that make a frame the next one of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) log: u64,
    pub(crate) generation: u64,
    pub(crate) lsn: u64,
    /// The highest so far: it never falls.
    pub(crate) open: u32,
}

impl Expected {
    pub(crate) fn accepts(&self, header: &Header) -> bool {
        let is_next =
            header.generation == self.generation && header.open >= self.open && header.lsn == self.lsn;
        header.log == self.log
            && header.kind != Kind::SegmentStart
            && (is_next || active(Mutant::AcceptOldFrame))
    }
}

/// The room a frame of this length takes up.
pub(crate) const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// A frame of nothing but a header.
pub(crate) fn bare(header: &Header) -> [u8; HEADER_BYTES] {
    let mut frame = [0; HEADER_BYTES];
    seal(&mut frame, header);
    frame
}

/// A commit's frame but for its header, which describes the entries already, and what it does to bodies. Made by the
/// caller, so that the committer has little to do.
pub(crate) fn of_batch(changes: &[Change]) -> (Vec<u8>, Vec<BodyChange>) {
    let (draft, mut bodies) = entries::encode(changes, HEADER_BYTES);
    let (frame, bodies_at) = finish(draft);
    for change in &mut bodies {
        if let BodyChange::Put { at, .. } = change {
            // A frame too large for this is refused before anybody looks at it.
            *at += bodies_at as u32;
        }
    }
    (frame, bodies)
}

/// A frame of entries behind room for a header: all but that header, and where in it the bodies begin.
pub(crate) fn finish(draft: Draft) -> (Vec<u8>, usize) {
    let Draft { entries: mut frame, bodies, bodies_length } = draft;
    describe_entries(&mut frame);
    let bodies_at = frame.len();
    frame.reserve(bodies_length);
    for body in &bodies {
        frame.extend_from_slice(body);
    }
    (frame, bodies_at)
}

/// Writes into the header how long the entries are, and their checksum. The frame ends with its entries as yet.
fn describe_entries(frame: &mut [u8]) {
    let entries = u32::try_from(frame.len() - HEADER_BYTES).expect("entries fit a segment");
    let crc = crc32c::crc32c(&frame[HEADER_BYTES..]);
    frame[80..84].copy_from_slice(&entries.to_le_bytes());
    frame[84..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Fills in the header of a frame whose entries are described and whose bodies are in place.
pub(crate) fn seal(frame: &mut [u8], header: &Header) {
    let length = u32::try_from(frame.len()).expect("a frame fits a segment, and a segment is under 4 GiB");
    frame[4..8].copy_from_slice(&length.to_le_bytes());
    frame[8..12].copy_from_slice(&MAGIC.to_le_bytes());
    frame[12..14].copy_from_slice(&FORMAT.to_le_bytes());
    frame[14] = header.kind.code();
    frame[15] = header.role.code();
    frame[16..24].copy_from_slice(&header.log.to_le_bytes());
    frame[24..28].copy_from_slice(&header.open.to_le_bytes());
    frame[28..32].copy_from_slice(&header.partition.to_le_bytes());
    let numbers = [header.generation, header.lsn, header.synced, header.epoch, header.sequence, header.now];
    for (field, number) in frame[32..80].chunks_exact_mut(8).zip(numbers) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    let crc = crc32c::crc32c(&frame[4..HEADER_BYTES]);
    frame[..4].copy_from_slice(&crc.to_le_bytes());
}

/// The bytes without padding of a frame whose header is right.
pub(crate) fn length(frame: &[u8]) -> usize {
    u32_at(frame, 4) as usize
}

/// The bytes of header and entries of a frame whose header is right. The bodies begin behind them.
pub(crate) fn head_length(frame: &[u8]) -> usize {
    HEADER_BYTES + u32_at(frame, 80) as usize
}

/// The entries of a frame whose header is right. All places count from the beginning of the frame.
pub(crate) fn entries_of(frame: &[u8]) -> Entries<'_> {
    let head = head_length(frame);
    Entries::new(&frame[..head], HEADER_BYTES, head..length(frame))
}

/// A body whose bytes are not those that its entry tells the checksum of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RottenBody {
    pub(crate) key: BodyKey,
    /// Where its bytes begin within the frame.
    pub(crate) at: u32,
}

/// The rotten bodies of a whole frame whose entries are right.
pub(crate) fn rotten_bodies(frame: &[u8]) -> Vec<RottenBody> {
    let rotten = |entry| match entry {
        Ok(Entry::PutBody { key, crc, at, length }) => {
            let body = frame.get(at..at + length);
            let is_right = body.is_some_and(|body| crc32c::crc32c(body) == crc);
            (!is_right).then_some(RottenBody { key, at: at as u32 })
        }
        Ok(Entry::PutRow { .. } | Entry::RemoveRow { .. } | Entry::RemoveBody { .. }) | Err(UnknownEntry) => {
            None
        }
    };
    entries_of(frame).filter_map(rotten).collect()
}

/// Whether the bytes may be the beginning of a frame of the log: cheap to ask, at every place of a segment.
pub(crate) fn may_begin(bytes: &[u8], log: u64) -> bool {
    bytes.len() >= HEADER_BYTES && u32_at(bytes, 8) == MAGIC && u64_at(bytes, 16) == log
}

/// The header that the bytes begin with, if its checksum is right. Nothing of it is looked at before.
pub(crate) fn header_of(bytes: &[u8]) -> Option<Header> {
    let bytes = bytes.get(..HEADER_BYTES)?;
    if u32_at(bytes, 0) != crc32c::crc32c(&bytes[4..]) {
        return None;
    }
    let is_frame = u32_at(bytes, 8) == MAGIC && u16::from_le_bytes([bytes[12], bytes[13]]) == FORMAT;
    if !is_frame || head_length(bytes) > length(bytes) {
        return None;
    }
    Some(Header {
        kind: Kind::from_code(bytes[14])?,
        role: Role::from_code(bytes[15])?,
        log: u64_at(bytes, 16),
        open: u32_at(bytes, 24),
        partition: u32_at(bytes, 28),
        generation: u64_at(bytes, 32),
        lsn: u64_at(bytes, 40),
        synced: u64_at(bytes, 48),
        epoch: u64_at(bytes, 56),
        sequence: u64_at(bytes, 64),
        now: u64_at(bytes, 72),
    })
}

/// Whether the entries of a frame whose header is right have the checksum that it says.
pub(crate) fn entries_are_right(frame: &[u8]) -> bool {
    let entries = frame.get(HEADER_BYTES..head_length(frame));
    entries.is_some_and(|entries| u32_at(frame, 84) == crc32c::crc32c(entries))
}

/// The header of a frame, if it and the entries are right. Bodies need not be there.
pub(crate) fn open(frame: &[u8]) -> Option<Header> {
    header_of(frame).filter(|_| entries_are_right(frame))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a slice of eight bytes"))
}

// The codes are part of the disk format: never give one another meaning.
impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::SegmentStart => 1,
            Self::Open => 2,
            Self::Commit => 3,
            Self::Drop => 4,
            Self::Survivors => 5,
            Self::Close => 6,
            Self::End => 7,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::SegmentStart),
            2 => Some(Self::Open),
            3 => Some(Self::Commit),
            4 => Some(Self::Drop),
            5 => Some(Self::Survivors),
            6 => Some(Self::Close),
            7 => Some(Self::End),
            _ => None,
        }
    }
}

impl Role {
    const fn code(self) -> u8 {
        match self {
            Self::Main => 0,
            Self::Compacted => 1,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Main),
            1 => Some(Self::Compacted),
            _ => None,
        }
    }
}
