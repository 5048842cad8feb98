//! What a commit frame holds: rows put and removed, bodies put and removed, in the order of the batch. The bytes of the
//! bodies stand behind all entries, in the order of theirs.

use bytes::Bytes;
use windlass_core::codec;
use windlass_core::id::ItemNumber;
use windlass_core::row::{Change, Key, Part};

use super::body_key::BodyKey;
use super::frame::{self, HEADER_BYTES};

/// One entry. `at` is where the value of the row or the bytes of the body begin within the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    PutRow { key: &'a [u8], value: &'a [u8], at: usize },
    RemoveRow { key: &'a [u8] },
    PutBody { key: BodyKey, crc: u32, at: usize, length: usize },
    RemoveBody { key: BodyKey },
}

// Part of the disk format: never give one another meaning.
const PUT_ROW: u8 = 1;
const REMOVE_ROW: u8 = 2;
const PUT_BODY: u8 = 3;
const REMOVE_BODY: u8 = 4;

/// What a frame does to the places of bodies.
#[derive(Clone, Debug)]
pub(super) enum BodyChange {
    Put {
        key: BodyKey,
        at: u32,
        length: u32,
        crc: u32,
        body: Bytes,
    },
    Remove {
        key: BodyKey,
    },
    /// All but its events.
    RemoveAll {
        number: ItemNumber,
    },
    RemoveEvents {
        number: ItemNumber,
    },
}

impl BodyChange {
    /// What goes with a row.
    fn with_row(key: &Key) -> Option<Self> {
        match key {
            Key::Item(number) => Some(Self::RemoveAll { number: *number }),
            Key::Events(number, None) => Some(Self::RemoveEvents { number: *number }),
            Key::Events(number, Some(first_seq)) => {
                Some(Self::Remove { key: BodyKey::new(*number, Part::Events(*first_seq)) })
            }
            Key::Numbers
            | Key::Settings
            | Key::Cleared
            | Key::Partitions
            | Key::Queue(_)
            | Key::Taken(_)
            | Key::Once(_)
            | Key::Group(_)
            | Key::Intake
            | Key::Rules(_)
            | Key::Rule(_)
            | Key::Cron(_)
            | Key::CronHome(_)
            | Key::Dropped(_) => None,
        }
    }
}

/// A commit's bytes, made by its caller so that the committer has little to do.
#[derive(Debug)]
pub(super) struct Encoded {
    /// Room for the header, with the entries described already; the entries; the bodies.
    pub(super) frame: Vec<u8>,
    pub(super) bodies: Vec<BodyChange>,
}

pub(super) fn encode(changes: &[Change]) -> Encoded {
    let mut draft = Draft::with_capacity(changes.iter().map(size_hint).sum());
    let mut bodies = Vec::new();
    let mut scratch = Scratch::default();
    for change in changes {
        bodies.extend(draft.push(change, &mut scratch));
    }
    let (frame, bodies_at) = draft.finish();
    for change in &mut bodies {
        if let BodyChange::Put { at, .. } = change {
            // A frame too large for this is refused before anybody looks at it.
            *at += bodies_at as u32;
        }
    }
    Encoded { frame, bodies }
}

#[derive(Default)]
struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
}

fn size_hint(change: &Change) -> usize {
    match change {
        Change::Put(_) => 80,
        Change::Remove(_) | Change::RemoveBody { .. } => 16,
        Change::PutBody { body, .. } => 24 + body.len(),
    }
}

/// A frame in the making: its entries so far, and the bodies that come behind the last entry.
#[derive(Debug)]
pub(super) struct Draft {
    frame: Vec<u8>,
    bodies: Vec<Bytes>,
    bodies_length: usize,
}

impl Draft {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        let mut frame = Vec::with_capacity(HEADER_BYTES + bytes);
        frame.resize(HEADER_BYTES, 0);
        Self { frame, bodies: Vec::new(), bodies_length: 0 }
    }

    /// Tells what the change does to bodies. The `at` of a body counts from where bodies begin.
    fn push(&mut self, change: &Change, scratch: &mut Scratch) -> Option<BodyChange> {
        match change {
            Change::Put(row) => {
                scratch.key.clear();
                scratch.value.clear();
                codec::encode_key(&row.key(), &mut scratch.key);
                codec::encode_value(row, &mut scratch.value);
                put_row(&mut self.frame, &scratch.key, &scratch.value);
                None
            }
            Change::Remove(key) => {
                scratch.key.clear();
                codec::encode_key(key, &mut scratch.key);
                self.frame.push(REMOVE_ROW);
                put_bytes(&mut self.frame, &scratch.key);
                BodyChange::with_row(key)
            }
            Change::PutBody { number, part, body } => {
                let (key, crc) = (BodyKey::new(*number, *part), crc32c::crc32c(body));
                let at = self.put_body(key, crc, body) as u32;
                Some(BodyChange::Put { key, at, length: body.len() as u32, crc, body: body.clone() })
            }
            Change::RemoveBody { number, part } => {
                let key = BodyKey::new(*number, *part);
                self.frame.push(REMOVE_BODY);
                key.put(&mut self.frame);
                Some(BodyChange::Remove { key })
            }
        }
    }

    /// Tells where the body's bytes will be, counted from where bodies begin.
    pub(super) fn put_body(&mut self, key: BodyKey, crc: u32, body: &Bytes) -> usize {
        self.frame.push(PUT_BODY);
        key.put(&mut self.frame);
        self.frame.extend_from_slice(&crc.to_le_bytes());
        put_varint(&mut self.frame, body.len() as u64);
        let at = self.bodies_length;
        self.bodies_length += body.len();
        self.bodies.push(body.clone());
        at
    }

    /// The frame but for its header, and where in it the bodies begin.
    pub(super) fn finish(mut self) -> (Vec<u8>, usize) {
        frame::describe_entries(&mut self.frame);
        let bodies_at = self.frame.len();
        self.frame.reserve(self.bodies_length);
        for body in &self.bodies {
            self.frame.extend_from_slice(body);
        }
        (self.frame, bodies_at)
    }
}

fn put_row(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.push(PUT_ROW);
    put_bytes(out, key);
    put_bytes(out, value);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Why entries cannot be read although their checksum is right: a bug, or a later version's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// The entries of a frame, first to last. Ends after the first one that cannot be read.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    cursor: Cursor<'a>,
    /// Where the next body begins within the frame.
    body_at: usize,
    /// Where the frame ends, and with it the last body.
    end: usize,
}

impl<'a> Entries<'a> {
    /// Of a frame whose header is right. Its bodies need not be there: an entry only tells where its body is.
    pub(super) fn of(frame: &'a [u8]) -> Self {
        let body_at = frame::head_length(frame);
        let cursor = Cursor { bytes: &frame[..body_at], at: HEADER_BYTES };
        Self { cursor, body_at, end: frame::length(frame) }
    }

    fn entry(&mut self) -> Option<Entry<'a>> {
        let cursor = &mut self.cursor;
        match cursor.take(1)?[0] {
            PUT_ROW => {
                let key = cursor.take_bytes()?;
                let value = cursor.take_bytes()?;
                Some(Entry::PutRow { key, value, at: cursor.at - value.len() })
            }
            REMOVE_ROW => Some(Entry::RemoveRow { key: cursor.take_bytes()? }),
            PUT_BODY => {
                let key = BodyKey::take(cursor)?;
                let crc = cursor.take_u32()?;
                let length = usize::try_from(cursor.take_varint()?).ok()?;
                let at = self.body_at;
                self.body_at = at.checked_add(length).filter(|end| *end <= self.end)?;
                Some(Entry::PutBody { key, crc, at, length })
            }
            REMOVE_BODY => Some(Entry::RemoveBody { key: BodyKey::take(cursor)? }),
            _ => None,
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_empty() {
            return None;
        }
        let entry = self.entry().ok_or(Unreadable);
        if entry.is_err() {
            self.cursor.at = self.cursor.bytes.len();
        }
        Some(entry)
    }
}

/// Reads numbers and byte strings one after another, and never beyond the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    pub(super) fn take_bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.take_varint()?).ok()?;
        self.take(length)
    }

    pub(super) fn take_u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn take_u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(super) fn take_varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

/// What a frame read back does to the places of bodies.
pub(super) fn body_changes(frame: &[u8]) -> Result<Vec<BodyChange>, Unreadable> {
    let mut changes = Vec::new();
    for entry in Entries::of(frame) {
        match entry? {
            Entry::PutRow { .. } => {}
            Entry::RemoveRow { key } => {
                let key = codec::decode_key(key).ok();
                changes.extend(key.as_ref().and_then(BodyChange::with_row));
            }
            Entry::PutBody { key, crc, at, length } => {
                let (at, length) = (at as u32, length as u32);
                changes.push(BodyChange::Put { key, at, length, crc, body: Bytes::new() });
            }
            Entry::RemoveBody { key } => changes.push(BodyChange::Remove { key }),
        }
    }
    Ok(changes)
}

/// A body whose bytes are not those that its entry tells the checksum of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RottenBody {
    pub(super) key: BodyKey,
    /// Where its bytes begin within the frame.
    pub(super) at: u32,
}

/// The rotten bodies of a whole frame whose entries are right.
pub(super) fn rotten_bodies(frame: &[u8]) -> Vec<RottenBody> {
    let rotten = |entry| match entry {
        Ok(Entry::PutBody { key, crc, at, length }) => {
            let body = frame.get(at..at + length);
            let is_right = body.is_some_and(|body| crc32c::crc32c(body) == crc);
            (!is_right).then_some(RottenBody { key, at: at as u32 })
        }
        Ok(Entry::PutRow { .. } | Entry::RemoveRow { .. } | Entry::RemoveBody { .. }) | Err(Unreadable) => {
            None
        }
    };
    Entries::of(frame).filter_map(rotten).collect()
}
