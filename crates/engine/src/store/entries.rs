//! A batch as bytes: entries that put and remove rows and bodies, in the order of the batch, and apart from them the bytes
//! of the bodies, in the order of their entries.
//!
//! [`encode`] makes both of a batch; a durable store writes them under a header of its own, as one frame of the log or as
//! two columns of a table, and reads them back as [`Entries`]. Apart, because rows are read without bodies.
//!
//! Used by the durable stores, of which [`super::log`] is the only one so far. Nothing here knows of files or headers: what
//! stands before the entries, and where the bodies are, the store says.

use std::ops::Range;

use bytes::Bytes;
use windlass_core::codec::{self, DecodeError};
use windlass_core::row::Change;

use super::bodies::{BodyChange, BodyKey};
use super::cursor::{Cursor, put_bytes, put_varint};

/// One entry. `at` is where the value of the row begins within the bytes that were read, or where the body begins, counted
/// as the reader of [`Entries`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    PutRow { key: &'a [u8], value: &'a [u8], at: usize },
    RemoveRow { key: &'a [u8] },
    PutBody { key: BodyKey, crc: u32, at: usize, length: usize },
    RemoveBody { key: BodyKey },
}

// Part of the disk format: a code never gets another meaning.
const PUT_ROW: u8 = 1;
const REMOVE_ROW: u8 = 2;
const PUT_BODY: u8 = 3;
const REMOVE_BODY: u8 = 4;

/// Encodes a batch behind `room` zeros, and tells what it does to bodies. The `at` of a body counts from the first body on.
pub(crate) fn encode(changes: &[Change], room: usize) -> (Draft, Vec<BodyChange>) {
    let mut draft = Draft::new(room, changes.iter().map(size_hint).sum());
    let mut bodies = Vec::new();
    let mut scratch = Scratch::default();
    for change in changes {
        bodies.extend(draft.push(change, &mut scratch));
    }
    (draft, bodies)
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

/// Entries in the making, and the bodies that belong to them.
#[derive(Debug)]
pub(crate) struct Draft {
    /// The room for the store's header, and the entries so far.
    pub(crate) entries: Vec<u8>,
    pub(crate) bodies: Vec<Bytes>,
    /// Bytes of all bodies.
    pub(crate) bodies_length: usize,
}

impl Draft {
    /// Leaves `room` zeros before the first entry, and expects so many bytes behind them.
    pub(crate) fn new(room: usize, expected: usize) -> Self {
        let mut entries = Vec::with_capacity(room + expected);
        entries.resize(room, 0);
        Self { entries, bodies: Vec::new(), bodies_length: 0 }
    }

    /// Tells what the change does to bodies.
    fn push(&mut self, change: &Change, scratch: &mut Scratch) -> Option<BodyChange> {
        match change {
            Change::Put(row) => {
                scratch.key.clear();
                scratch.value.clear();
                codec::encode_key(&row.key(), &mut scratch.key);
                codec::encode_value(row, &mut scratch.value);
                self.entries.push(PUT_ROW);
                put_bytes(&mut self.entries, &scratch.key);
                put_bytes(&mut self.entries, &scratch.value);
                None
            }
            Change::Remove(key) => {
                scratch.key.clear();
                codec::encode_key(key, &mut scratch.key);
                self.entries.push(REMOVE_ROW);
                put_bytes(&mut self.entries, &scratch.key);
                BodyChange::with_row(key)
            }
            Change::PutBody { number, part, body } => {
                let (key, crc) = (BodyKey::new(*number, *part), crc32c::crc32c(body));
                let at = self.put_body(key, crc, body) as u32;
                Some(BodyChange::Put { key, at, length: body.len() as u32, crc, body: body.clone() })
            }
            Change::RemoveBody { number, part } => {
                let key = BodyKey::new(*number, *part);
                self.entries.push(REMOVE_BODY);
                key.put(&mut self.entries);
                Some(BodyChange::Remove { key })
            }
        }
    }

    /// Tells where the body will be, counted from the first body on.
    pub(crate) fn put_body(&mut self, key: BodyKey, crc: u32, body: &Bytes) -> usize {
        self.entries.push(PUT_BODY);
        key.put(&mut self.entries);
        self.entries.extend_from_slice(&crc.to_le_bytes());
        put_varint(&mut self.entries, body.len() as u64);
        let at = self.bodies_length;
        self.bodies_length += body.len();
        self.bodies.push(body.clone());
        at
    }
}

/// Why entries cannot be read although their checksum is right: a bug, or an entry that only a later version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownEntry;

/// Entries read back, first to last. Ends after the first one that cannot be read.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    cursor: Cursor<'a>,
    /// Where the next body begins.
    body_at: usize,
    /// Where the last body ends at most.
    end: usize,
}

impl<'a> Entries<'a> {
    /// The entries from `at` to the end of `bytes`. `bodies` is where their bodies are. Bodies need not be at hand: an entry
    /// only tells where its body is.
    pub(crate) fn new(bytes: &'a [u8], at: usize, bodies: Range<usize>) -> Self {
        Self { cursor: Cursor { bytes, at }, body_at: bodies.start, end: bodies.end }
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

    /// Appends the rows that the entries put and remove.
    pub(crate) fn row_changes(self, changes: &mut Vec<Change>) -> Result<(), String> {
        let unreadable = |error: DecodeError| error.to_string();
        for entry in self {
            match entry.map_err(|UnknownEntry| "a frame holds entries of an unknown kind")? {
                Entry::PutRow { key, value, at: _ } => {
                    changes.push(Change::Put(codec::decode_row(key, value).map_err(unreadable)?));
                }
                Entry::RemoveRow { key } => {
                    changes.push(Change::Remove(codec::decode_key(key).map_err(unreadable)?));
                }
                Entry::PutBody { .. } | Entry::RemoveBody { .. } => {}
            }
        }
        Ok(())
    }

    /// The bodies that the entries put and remove, without their bytes.
    pub(crate) fn body_changes(self) -> Result<Vec<BodyChange>, UnknownEntry> {
        let mut changes = Vec::new();
        for entry in self {
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
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, UnknownEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_empty() {
            return None;
        }
        let entry = self.entry().ok_or(UnknownEntry);
        if entry.is_err() {
            self.cursor.at = self.cursor.bytes.len();
        }
        Some(entry)
    }
}
