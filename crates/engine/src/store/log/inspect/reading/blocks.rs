//! Guesses about a damaged block of the snapshot, or a frame that cannot be read: where it belongs, and which items
//! its bytes still name.

use std::collections::BTreeSet;

use windlass_core::codec;
use windlass_core::id::ItemNumber;
use windlass_core::row::Row;

use super::frames::Break;
use super::resync::{self, BLOCK_START_BYTES};
use crate::store::StoreError;
use crate::store::cursor::Cursor;
use crate::store::entries::Entry;
use crate::store::log::disk::read_pieces;
use crate::store::log::segment::Segment;
use crate::store::log::segment::frame::{self, HEADER_BYTES, u32_at, u64_at};
use crate::store::log::segment::scan::read_readable;
use crate::store::log::snapshot;
use crate::store::log::snapshot::file::{Content, SnapshotFile};

/// No more of a damaged place is looked at.
const LOOK_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct DamagedBlock {
    pub(crate) error: StoreError,
    /// The content by the block's place in the index, or between other blocks. `None`: it may have held anything.
    pub(crate) content: Option<Content>,
    /// Items that its bytes name: nothing vouches for them.
    pub(crate) items: Vec<(u32, ItemNumber)>,
    /// Where to go on reading.
    pub(crate) after: Option<u64>,
}

impl DamagedBlock {
    /// A snapshot that cannot be read at all.
    pub(crate) fn unknown(error: StoreError) -> Self {
        Self { error, content: None, items: Vec::new(), after: None }
    }

    pub(crate) async fn of(snapshot: &SnapshotFile, offset: u64, error: StoreError) -> Self {
        let error = if let StoreError::Io { source, .. } = &error {
            snapshot.damaged(offset, &format!("a block of the snapshot cannot be read: {source}"))
        } else {
            error
        };
        let known = match content_by_index(snapshot, offset) {
            Some(content) => Some(content),
            None => content_of_end(snapshot, offset).await,
        };
        let after = after_damage(snapshot, offset, known).await;
        let content = match (known, after) {
            (None, Some(after)) => content_between(snapshot, offset, after).await,
            (known, _) => known,
        };
        let items = match content {
            Some(Content::Rows(partition)) => items_in_rows(snapshot, offset, after, partition).await,
            Some(
                Content::Head | Content::Bodies(_) | Content::Changes(_) | Content::Index | Content::Footer,
            )
            | None => Vec::new(),
        };
        Self { error, content, items, after }
    }

    /// Whether older commits can stand in for it. For changes they cannot: those are of no certain keys.
    pub(crate) fn leaves_gap(&self) -> bool {
        match self.content {
            Some(Content::Rows(_) | Content::Bodies(_)) | None => true,
            Some(Content::Head | Content::Changes(_) | Content::Index | Content::Footer) => false,
        }
    }

    /// Whether rows of the partition may be lost with it.
    pub(crate) fn is_of_rows(&self, partition: u32) -> bool {
        match self.content {
            Some(Content::Rows(of) | Content::Changes(of)) => of == partition,
            Some(Content::Bodies(_) | Content::Head | Content::Index | Content::Footer) => false,
            None => true,
        }
    }

    pub(crate) fn partition(&self) -> Option<u32> {
        match self.content? {
            Content::Rows(partition) | Content::Bodies(partition) | Content::Changes(partition) => {
                Some(partition)
            }
            Content::Head | Content::Index | Content::Footer => None,
        }
    }
}

/// The content that the index tells of the offset. `None` if the index cannot be read.
fn content_by_index(snapshot: &SnapshotFile, offset: u64) -> Option<Content> {
    for (partition, section) in &snapshot.sections {
        if (section.rows..section.bodies).contains(&offset) {
            return Some(Content::Rows(*partition));
        }
        if (section.bodies..section.changes).contains(&offset) {
            return Some(Content::Bodies(*partition));
        }
        if (section.changes..section.end).contains(&offset) {
            return Some(Content::Changes(*partition));
        }
    }
    let end = snapshot.sections.values().map(|section| section.end).max()?;
    Some(if offset >= end { Content::Index } else { Content::Head })
}

/// Whether the index or the footer stands at the offset, as far as one of them tells.
async fn content_of_end(snapshot: &SnapshotFile, offset: u64) -> Option<Content> {
    let footer_bytes = snapshot::file::footer(0, 0).len() as u64;
    let footer_at = snapshot.bytes.saturating_sub(footer_bytes);
    let claimed = snapshot.claimed_content(offset).await;
    let claimed_end = snapshot.after_block(offset).await.ok();
    if offset == footer_at && (claimed == Some(Content::Footer) || claimed_end == Some(snapshot.bytes)) {
        return Some(Content::Footer);
    }
    let footer = snapshot.block(footer_at).await.ok().filter(|block| block.content == Content::Footer);
    let index_at = footer.filter(|footer| footer.bytes.len() >= 8).map(|footer| u64_at(&footer.bytes, 0));
    let claims_index = claimed == Some(Content::Index) && claimed_end == Some(footer_at);
    (claims_index || index_at.is_some_and(|index_at| offset >= index_at)).then_some(Content::Index)
}

/// The content between the offset and the next sound block, if the index cannot be read. Damage may span several blocks, and
/// nothing vouches for what a damaged block says of itself, unless the next one says the same.
async fn content_between(snapshot: &SnapshotFile, offset: u64, after: u64) -> Option<Content> {
    let head_bytes = BLOCK_START_BYTES + snapshot::file::head(0, 0).len();
    if offset == 0 && after == head_bytes as u64 {
        return Some(Content::Head);
    }
    let next = snapshot.block(after).await.ok()?.content;
    let claimed = snapshot.claimed_content(offset).await?;
    let is_of_partition = match claimed {
        Content::Rows(_) | Content::Bodies(_) | Content::Changes(_) => true,
        Content::Head | Content::Index | Content::Footer => false,
    };
    (claimed == next && is_of_partition).then_some(claimed)
}

/// Where to go on behind a damaged block: behind its end, if another block begins there; where the next block is found by
/// its bytes; or where the next part of the snapshot begins.
async fn after_damage(snapshot: &SnapshotFile, offset: u64, content: Option<Content>) -> Option<u64> {
    if matches!(content, Some(Content::Index | Content::Footer)) {
        // Nothing else is behind these.
        return None;
    }
    let sections = snapshot.sections.values();
    let parts: BTreeSet<u64> =
        sections.flat_map(|part| [part.rows, part.bodies, part.changes, part.end]).collect();
    let next_part = parts.range(offset + 1..).next().copied();
    if let Ok(claimed) = snapshot.after_block(offset).await
        && (next_part == Some(claimed) || is_block_at(snapshot, claimed, next_part).await)
    {
        return Some(claimed);
    }
    // Between two parts of the index all blocks are of one kind.
    let wanted = content.filter(|_| next_part.is_some());
    let end = next_part.unwrap_or(snapshot.bytes);
    resync::next_block(snapshot, offset + 1..end, wanted).await.or(next_part)
}

/// Whether a sound block begins there. A length that reaches into the next part is wrong.
async fn is_block_at(snapshot: &SnapshotFile, at: u64, next_part: Option<u64>) -> bool {
    next_part.is_none_or(|next| at < next) && snapshot.block(at).await.is_ok()
}

async fn items_in_rows(
    snapshot: &SnapshotFile,
    offset: u64,
    after: Option<u64>,
    partition: u32,
) -> Vec<(u32, ItemNumber)> {
    let from = offset + BLOCK_START_BYTES as u64;
    let length = after.unwrap_or(snapshot.bytes).saturating_sub(from).min(LOOK_BYTES_MAX);
    let mut bytes = vec![0; length as usize];
    read_pieces(&*snapshot.file, from, &mut bytes).await;
    let mut cursor = Cursor { bytes: &bytes, at: 0 };
    let mut items = Vec::new();
    while let (Some(key), Some(value)) = (cursor.take_bytes(), cursor.take_bytes()) {
        items.extend(item_of(key, value).map(|number| (partition, number)));
    }
    items
}

fn item_of(key: &[u8], value: &[u8]) -> Option<ItemNumber> {
    match codec::decode_row(key, value) {
        Ok(Row::Item(item)) => Some(item.number),
        Ok(_) | Err(_) => None,
    }
}

/// The partition that a frame claims to be of, and the items whose rows its bytes still show. Nothing vouches for them.
pub(crate) async fn items_in_frame(segment: &Segment, broken: &Break) -> (u32, Vec<ItemNumber>) {
    let end = broken.next.map_or(segment.bytes, |(next, _)| next);
    let length = u64::from(end.saturating_sub(broken.offset)).min(LOOK_BYTES_MAX);
    let (bytes, _told_by_the_scanner) = read_readable(segment, broken.offset, length as usize).await;
    if bytes.len() < HEADER_BYTES || frame::head_length(&bytes) > bytes.len() {
        return (0, Vec::new());
    }
    let partition = broken.header.map_or_else(|| u32_at(&bytes, 28), |header| header.partition);
    let readable = frame::entries_of(&bytes).map_while(Result::ok);
    let item = |entry| match entry {
        Entry::PutRow { key, value, .. } => item_of(key, value),
        Entry::RemoveRow { .. } | Entry::PutBody { .. } | Entry::RemoveBody { .. } => None,
    };
    (partition, readable.filter_map(item).collect())
}
