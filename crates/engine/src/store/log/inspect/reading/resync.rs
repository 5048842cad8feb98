//! Finds the next block of a snapshot behind a damaged one by its bytes: a wrong length must not cost the blocks behind it.

use std::ops::Range;

use crate::store::log::disk::read_pieces;
use crate::store::log::segment::frame::u32_at;
use crate::store::log::snapshot;
use crate::store::log::snapshot::file::{Content, SnapshotFile};

/// The bytes of a block before its payload: checksum, length, content.
pub(crate) const BLOCK_START_BYTES: usize = 13;
/// Checksum and length.
const HEADER_BYTES: usize = 8;
const WINDOW_BYTES: u64 = 1 << 20;
/// So many bytes are read at most to check what only looks like a block.
const CHECKED_BYTES_MAX: u64 = 1 << 30;

/// The first sound block that begins and ends in the range: of the wanted content, or of any that can stand there.
pub(crate) async fn next_block(
    snapshot: &SnapshotFile,
    range: Range<u64>,
    wanted: Option<Content>,
) -> Option<u64> {
    let tag = wanted.map(|content| snapshot::file::new_block(content).split_off(HEADER_BYTES));
    let mut checked = 0;
    let mut from = range.start;
    while from + BLOCK_START_BYTES as u64 <= range.end {
        let mut window = vec![0; WINDOW_BYTES.min(range.end - from) as usize];
        read_pieces(&*snapshot.file, from, &mut window).await;
        for (at, start) in window.windows(BLOCK_START_BYTES).enumerate() {
            let offset = from + at as u64;
            let length = u64::from(u32_at(start, 4));
            let fits = offset + HEADER_BYTES as u64 + length <= range.end;
            if !fits || !looks_right(&start[HEADER_BYTES..], tag.as_deref()) {
                continue;
            }
            if snapshot.block(offset).await.is_ok() {
                return Some(offset);
            }
            checked += length;
            if checked > CHECKED_BYTES_MAX {
                return None;
            }
        }
        // A block may begin at the end of this window.
        from += (window.len() - BLOCK_START_BYTES + 1) as u64;
    }
    None
}

/// Whether a block may say this of its content. The first block of a snapshot is not looked for.
fn looks_right(content: &[u8], wanted: Option<&[u8]>) -> bool {
    match wanted {
        Some(wanted) => content == wanted,
        None => (1..=5).contains(&content[0]),
    }
}
