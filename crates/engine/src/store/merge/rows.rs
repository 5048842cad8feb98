//! The rows of a snapshot as bytes: key and value, one row after another, in the order of keys.

use windlass_core::codec;
use windlass_core::row::Change;

use crate::store::cursor::{Cursor, put_bytes};

pub(crate) fn put_row(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    put_bytes(out, key);
    put_bytes(out, value);
}

/// Rows as (key, value). `None` if they cannot be read although their checksum is right.
pub(crate) fn rows_of(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut cursor = Cursor { bytes, at: 0 };
    let mut rows = Vec::new();
    while !cursor.is_empty() {
        rows.push((cursor.take_bytes()?, cursor.take_bytes()?));
    }
    Some(rows)
}

/// Rows as the puts that make them anew.
pub(crate) fn changes_of(bytes: &[u8]) -> Result<Vec<Change>, String> {
    let rows = rows_of(bytes).ok_or("the rows cannot be read")?;
    let put =
        |(key, value)| codec::decode_row(key, value).map(Change::Put).map_err(|error| error.to_string());
    rows.into_iter().map(put).collect()
}
