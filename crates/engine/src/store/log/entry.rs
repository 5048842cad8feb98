//! What a commit frame holds: rows put and removed, bodies put and removed, in the order of the batch.

use bytes::Bytes;
use windlass_core::codec;
use windlass_core::id::ItemNumber;
use windlass_core::row::{Change, Key, Part};

use super::body_key::BodyKey;
use super::frame::HEADER_BYTES;

/// One entry of a payload. `at` is where its bytes begin within the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    PutRow { key: &'a [u8], value: &'a [u8], at: usize },
    RemoveRow { key: &'a [u8] },
    PutBody { key: BodyKey, crc: u32, body: &'a [u8], at: usize },
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
            | Key::CronHome(_) => None,
        }
    }
}

/// A commit's bytes, made by its caller so that the committer has little to do.
#[derive(Debug)]
pub(super) struct Encoded {
    /// Room for the header, then the payload.
    pub(super) frame: Vec<u8>,
    pub(super) bodies: Vec<BodyChange>,
}

pub(super) fn encode(changes: &[Change]) -> Encoded {
    let mut frame = Vec::with_capacity(HEADER_BYTES + changes.iter().map(size_hint).sum::<usize>());
    frame.resize(HEADER_BYTES, 0);
    let mut encoded = Encoded { frame, bodies: Vec::new() };
    let mut scratch = Scratch::default();
    for change in changes {
        encoded.push(change, &mut scratch);
    }
    encoded
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

impl Encoded {
    fn push(&mut self, change: &Change, scratch: &mut Scratch) {
        match change {
            Change::Put(row) => {
                scratch.key.clear();
                scratch.value.clear();
                codec::encode_key(&row.key(), &mut scratch.key);
                codec::encode_value(row, &mut scratch.value);
                put_row(&mut self.frame, &scratch.key, &scratch.value);
            }
            Change::Remove(key) => {
                scratch.key.clear();
                codec::encode_key(key, &mut scratch.key);
                self.frame.push(REMOVE_ROW);
                put_bytes(&mut self.frame, &scratch.key);
                self.bodies.extend(BodyChange::with_row(key));
            }
            Change::PutBody { number, part, body } => self.put_body(BodyKey::new(*number, *part), body),
            Change::RemoveBody { number, part } => {
                let key = BodyKey::new(*number, *part);
                self.frame.push(REMOVE_BODY);
                key.put(&mut self.frame);
                self.bodies.push(BodyChange::Remove { key });
            }
        }
    }

    fn put_body(&mut self, key: BodyKey, body: &Bytes) {
        let crc = crc32c::crc32c(body);
        let at = put_body(&mut self.frame, key, crc, body);
        // A frame too large for these is refused before anybody looks at them.
        let (at, length) = (at as u32, body.len() as u32);
        self.bodies.push(BodyChange::Put { key, at, length, crc, body: body.clone() });
    }
}

fn put_row(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.push(PUT_ROW);
    put_bytes(out, key);
    put_bytes(out, value);
}

/// Tells where the body's bytes begin.
pub(super) fn put_body(out: &mut Vec<u8>, key: BodyKey, crc: u32, body: &[u8]) -> usize {
    out.push(PUT_BODY);
    key.put(out);
    out.extend_from_slice(&crc.to_le_bytes());
    put_varint(out, body.len() as u64);
    let at = out.len();
    out.extend_from_slice(body);
    at
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

/// Why a payload cannot be read although its checksum is right: a bug, or a later version's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// The entries of a frame, first to last. Ends after the first one that cannot be read.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Entries<'a> {
    /// Of a whole frame, header included.
    pub(super) fn of(frame: &'a [u8]) -> Self {
        Self { cursor: Cursor { bytes: frame, at: HEADER_BYTES } }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_empty() {
            return None;
        }
        let entry = self.cursor.entry().ok_or(Unreadable);
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

    fn entry(&mut self) -> Option<Entry<'a>> {
        match self.take(1)?[0] {
            PUT_ROW => {
                let key = self.take_bytes()?;
                let value = self.take_bytes()?;
                Some(Entry::PutRow { key, value, at: self.at - value.len() })
            }
            REMOVE_ROW => Some(Entry::RemoveRow { key: self.take_bytes()? }),
            PUT_BODY => {
                let key = BodyKey::take(self)?;
                let crc = self.take_u32()?;
                let body = self.take_bytes()?;
                Some(Entry::PutBody { key, crc, body, at: self.at - body.len() })
            }
            REMOVE_BODY => Some(Entry::RemoveBody { key: BodyKey::take(self)? }),
            _ => None,
        }
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
            Entry::PutBody { key, crc, body, at } => {
                let (at, length) = (at as u32, body.len() as u32);
                changes.push(BodyChange::Put { key, at, length, crc, body: Bytes::new() });
            }
            Entry::RemoveBody { key } => changes.push(BodyChange::Remove { key }),
        }
    }
    Ok(changes)
}
