//! Blocks of a snapshot that tell what commits did to a partition since rows or places of its bodies could be read.
//!
//! The entries of a commit, but that a body is told by its place. They are to be done after everything that the snapshot
//! and older commits say of the partition: for each row the last word of some commits, then for bodies, then the same of
//! later commits.

use super::file::{Block, BodyRecord};
use crate::store::bodies::BodyKey;
use crate::store::cursor::{Cursor, put_bytes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saved<'a> {
    PutRow { key: &'a [u8], value: &'a [u8] },
    RemoveRow { key: &'a [u8] },
    PutBody(BodyRecord),
    RemoveBody { key: BodyKey },
}

// Part of the disk format: never give one another meaning. Those of commits are the same, as far as they are there.
const PUT_ROW: u8 = 1;
const REMOVE_ROW: u8 = 2;
const REMOVE_BODY: u8 = 4;
const PUT_BODY: u8 = 5;

impl<'a> Saved<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::PutRow { key, value } => {
                out.push(PUT_ROW);
                put_bytes(out, key);
                put_bytes(out, value);
            }
            Self::RemoveRow { key } => {
                out.push(REMOVE_ROW);
                put_bytes(out, key);
            }
            Self::PutBody(record) => {
                out.push(PUT_BODY);
                record.put(out);
            }
            Self::RemoveBody { key } => {
                out.push(REMOVE_BODY);
                key.put(out);
            }
        }
    }

    fn take(cursor: &mut Cursor<'a>) -> Option<Self> {
        Some(match cursor.take(1)?[0] {
            PUT_ROW => Self::PutRow { key: cursor.take_bytes()?, value: cursor.take_bytes()? },
            REMOVE_ROW => Self::RemoveRow { key: cursor.take_bytes()? },
            PUT_BODY => Self::PutBody(BodyRecord::take(cursor)?),
            REMOVE_BODY => Self::RemoveBody { key: BodyKey::take(cursor)? },
            _ => return None,
        })
    }
}

/// `None` for a block that cannot be read although its checksum is right.
pub(crate) fn changes_of(block: &Block) -> Option<Vec<Saved<'_>>> {
    let mut cursor = Cursor { bytes: &block.bytes, at: 0 };
    let mut changes = Vec::new();
    while !cursor.is_empty() {
        changes.push(Saved::take(&mut cursor)?);
    }
    Some(changes)
}
