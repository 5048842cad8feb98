//! The snapshot's file format, and how it is read.
//!
//! Blocks with a checksum each: one that says what the file is; for every partition its rows in the order of their
//! keys, then the places of its bodies; the index of partitions; and at the very end where the index begins. A block
//! says of what it is, so that blocks can be made sense of without the index.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::store::StoreError;
use crate::store::bodies::BodyKey;
use crate::store::cursor::{Cursor, put_varint};
use crate::store::log::disk::{Disk, File, read_full};
use crate::store::log::segment::frame::u32_at;
use crate::store::log::segment::io_failed;

const BLOCK_HEADER_BYTES: usize = 8;
/// No block is ever larger: a length above it is damage, not a reason to allocate.
const BLOCK_BYTES_MAX: usize = 1 << 30;
const MAGIC: &[u8; 8] = b"WndLsnap";
const FORMAT: u32 = 2;
const FOOTER_BYTES: u64 = (BLOCK_HEADER_BYTES + TAG_BYTES) as u64 + 16;

/// The content of a block. The codes are part of the disk format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Head,
    Rows(u32),
    Bodies(u32),
    Index,
    Footer,
    /// Changes by commits to a partition whose rows or places of bodies are carried over unread.
    Changes(u32),
}

const TAG_BYTES: usize = 5;

impl Content {
    fn tag(self) -> [u8; TAG_BYTES] {
        let (code, partition) = match self {
            Self::Head => (0, 0),
            Self::Rows(partition) => (1, partition),
            Self::Bodies(partition) => (2, partition),
            Self::Index => (3, 0),
            Self::Footer => (4, 0),
            Self::Changes(partition) => (5, partition),
        };
        let [a, b, c, d] = partition.to_le_bytes();
        [code, a, b, c, d]
    }

    fn from_tag(tag: [u8; TAG_BYTES]) -> Option<Self> {
        let partition = u32::from_le_bytes([tag[1], tag[2], tag[3], tag[4]]);
        match tag[0] {
            0 => Some(Self::Head),
            1 => Some(Self::Rows(partition)),
            2 => Some(Self::Bodies(partition)),
            3 => Some(Self::Index),
            4 => Some(Self::Footer),
            5 => Some(Self::Changes(partition)),
            _ => None,
        }
    }
}

/// A block read back.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) content: Content,
    pub(crate) bytes: Vec<u8>,
    pub(crate) offset: u64,
    /// Where the next one begins.
    pub(crate) end: u64,
}

/// Room for a block's header, and what the block holds: what follows is its payload.
pub(crate) fn new_block(content: Content) -> Vec<u8> {
    let mut block = vec![0; BLOCK_HEADER_BYTES];
    block.extend_from_slice(&content.tag());
    block
}

pub(crate) fn is_empty_block(block: &[u8]) -> bool {
    block.len() <= BLOCK_HEADER_BYTES + TAG_BYTES
}

/// A partition's part of a snapshot: its state, and where its blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) now: u64,
    pub(crate) rows: u64,
    pub(crate) bodies: u64,
    pub(crate) changes: u64,
    pub(crate) end: u64,
    /// Present if rows or places of bodies were carried over unread, with the changes since behind them.
    pub(crate) carried: Option<Carried>,
}

/// A partition of which something was lost before or in this snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    /// See [`crate::store::log::tables::Damage`].
    pub(crate) keeps_below: u64,
}

#[derive(Debug)]
pub(crate) struct SnapshotFile {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) file: Arc<dyn File>,
    pub(crate) bytes: u64,
    /// The last frame whose changes the snapshot holds.
    pub(crate) lsn: u64,
    /// Every frame up to this one was durable when it was written, and the places of bodies are none later.
    pub(crate) synced: u64,
    pub(crate) sections: BTreeMap<u32, Section>,
}

pub(crate) fn name_of(lsn: u64) -> String {
    format!("snapshot-{lsn:020}.snap")
}

/// The frame in a snapshot's name, if the name is exactly as [`name_of`] makes it.
pub(crate) fn lsn_of(name: &str) -> Option<u64> {
    let lsn = name.strip_prefix("snapshot-")?.strip_suffix(".snap")?.parse().ok()?;
    (name_of(lsn) == name).then_some(lsn)
}

/// A body's place as a snapshot tells it: by generation, because a file may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyRecord {
    pub(crate) key: BodyKey,
    pub(crate) generation: u64,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) crc: u32,
}

impl BodyRecord {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.key.put(out);
        put_varint(out, self.generation);
        put_varint(out, self.offset.into());
        put_varint(out, self.length.into());
        out.extend_from_slice(&self.crc.to_le_bytes());
    }

    pub(crate) fn take(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            key: BodyKey::take(cursor)?,
            generation: cursor.take_varint()?,
            offset: u32::try_from(cursor.take_varint()?).ok()?,
            length: u32::try_from(cursor.take_varint()?).ok()?,
            crc: cursor.take_u32()?,
        })
    }
}

pub(crate) fn head(log: u64, lsn: u64) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&FORMAT.to_le_bytes());
    head.extend_from_slice(&log.to_le_bytes());
    head.extend_from_slice(&lsn.to_le_bytes());
    head
}

pub(crate) fn index(sections: &BTreeMap<u32, Section>) -> Vec<u8> {
    let mut index = Vec::new();
    for (partition, section) in sections {
        index.extend_from_slice(&partition.to_le_bytes());
        let Section { epoch, sequence, now, rows, bodies, changes, end, carried } = *section;
        for number in [epoch, sequence, now, rows, bodies, changes, end] {
            index.extend_from_slice(&number.to_le_bytes());
        }
        index.push(u8::from(carried.is_some()));
        index.extend_from_slice(&carried.map_or(0, |carried| carried.keeps_below).to_le_bytes());
    }
    index
}

/// Turns what follows the first bytes into a block: they were left free for its length and checksum.
pub(crate) fn seal_block(block: &mut [u8]) {
    let length = u32::try_from(block.len() - BLOCK_HEADER_BYTES).expect("a block is far smaller than 4 GiB");
    block[4..8].copy_from_slice(&length.to_le_bytes());
    let crc = crc32c::crc32c(&block[4..]);
    block[..4].copy_from_slice(&crc.to_le_bytes());
}

impl SnapshotFile {
    pub(crate) async fn open(disk: &dyn Disk, name: &str, log: u64) -> Result<Self, StoreError> {
        let mut snapshot = Self::open_bare(disk, name).await?;
        snapshot.check_head(log).await?;
        (snapshot.synced, snapshot.sections) = snapshot.read_index().await?;
        Ok(snapshot)
    }

    /// Without a look at its content: for one that may be damaged.
    pub(crate) async fn open_bare(disk: &dyn Disk, name: &str) -> Result<Self, StoreError> {
        let path = disk.path(name);
        let failed = |error| io_failed("cannot open", disk.path(name), error);
        let file = disk.open(name).await.map_err(failed)?;
        let bytes = file.len().await.map_err(failed)?;
        let lsn = lsn_of(name).unwrap_or_default();
        let name = name.to_owned();
        Ok(Self { name, path, file, bytes, lsn, synced: 0, sections: BTreeMap::new() })
    }

    pub(crate) fn section(&self, partition: u32) -> Option<Section> {
        self.sections.get(&partition).copied()
    }

    async fn check_head(&self, log: u64) -> Result<(), StoreError> {
        let block = self.block(0).await?;
        if block.bytes == head(log, self.lsn) {
            Ok(())
        } else {
            Err(self.damaged(0, "it is not the snapshot of this log that its name says"))
        }
    }

    async fn read_index(&self) -> Result<(u64, BTreeMap<u32, Section>), StoreError> {
        let footer_at = self.bytes.saturating_sub(FOOTER_BYTES);
        let footer = self.block(footer_at).await?;
        let mut footer = Cursor { bytes: &footer.bytes, at: 0 };
        let (Some(index_at), Some(synced)) = (footer.take_u64(), footer.take_u64()) else {
            return Err(self.damaged(footer_at, "the snapshot has no index"));
        };
        let index = self.block(index_at).await?;
        let sections = if index.end == footer_at { take_index(&index.bytes) } else { None };
        let sections = sections.ok_or_else(|| self.damaged(index_at, "the index cannot be read"))?;
        Ok((synced, sections))
    }

    /// The block that begins at the offset.
    pub(crate) async fn block(&self, offset: u64) -> Result<Block, StoreError> {
        let (header, end) = self.block_header(offset).await?;
        let mut bytes = vec![0; (end - offset) as usize - BLOCK_HEADER_BYTES];
        self.read(offset + BLOCK_HEADER_BYTES as u64, &mut bytes).await?;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[4..]), &bytes);
        let tag = bytes.first_chunk().copied().and_then(Content::from_tag);
        let Some(content) = tag.filter(|_| crc == u32_at(&header, 0)) else {
            return Err(self.damaged(offset, "a block of the snapshot has a wrong checksum"));
        };
        bytes.drain(..TAG_BYTES);
        Ok(Block { content, bytes, offset, end })
    }

    /// Where the block after this one begins, as far as its length can be believed.
    pub(crate) async fn after_block(&self, offset: u64) -> Result<u64, StoreError> {
        self.block_header(offset).await.map(|(_, end)| end)
    }

    /// The content that the block at the offset claims to hold, right or wrong.
    pub(crate) async fn claimed_content(&self, offset: u64) -> Option<Content> {
        let mut tag = [0; TAG_BYTES];
        self.read(offset + BLOCK_HEADER_BYTES as u64, &mut tag).await.ok()?;
        Content::from_tag(tag)
    }

    async fn block_header(&self, offset: u64) -> Result<([u8; BLOCK_HEADER_BYTES], u64), StoreError> {
        let mut header = [0; BLOCK_HEADER_BYTES];
        self.read(offset, &mut header).await?;
        let length = u32_at(&header, 4) as usize;
        let end = offset + (BLOCK_HEADER_BYTES + length) as u64;
        if !(TAG_BYTES..=BLOCK_BYTES_MAX).contains(&length) || end > self.bytes {
            return Err(self.damaged(offset, "a block of the snapshot is cut short"));
        }
        Ok((header, end))
    }

    pub(crate) async fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        match read_full(&*self.file, offset, buffer).await {
            Ok(read) if read == buffer.len() => Ok(()),
            Ok(read) => Err(self.damaged(offset + read as u64, "the snapshot ends too early")),
            Err(error) => Err(io_failed("cannot read", self.path.clone(), error)),
        }
    }

    pub(crate) fn damaged(&self, offset: u64, what: &str) -> StoreError {
        StoreError::Damaged { file: self.path.clone(), offset, what: what.to_owned() }
    }
}

pub(crate) fn footer(index_at: u64, synced: u64) -> Vec<u8> {
    let mut block = new_block(Content::Footer);
    block.extend_from_slice(&index_at.to_le_bytes());
    block.extend_from_slice(&synced.to_le_bytes());
    seal_block(&mut block);
    block
}

fn take_index(index: &[u8]) -> Option<BTreeMap<u32, Section>> {
    let mut cursor = Cursor { bytes: index, at: 0 };
    let mut sections = BTreeMap::new();
    while !cursor.is_empty() {
        let partition = cursor.take_u32()?;
        let section = Section {
            epoch: cursor.take_u64()?,
            sequence: cursor.take_u64()?,
            now: cursor.take_u64()?,
            rows: cursor.take_u64()?,
            bodies: cursor.take_u64()?,
            changes: cursor.take_u64()?,
            end: cursor.take_u64()?,
            carried: {
                let is_carried = cursor.take(1)?[0] != 0;
                let keeps_below = cursor.take_u64()?;
                is_carried.then_some(Carried { keeps_below })
            },
        };
        sections.insert(partition, section);
    }
    Some(sections)
}

/// The blocks of a part of a snapshot, one after another.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) snapshot: Arc<SnapshotFile>,
    at: u64,
    end: u64,
}

impl Blocks {
    pub(crate) fn of_rows(snapshot: Arc<SnapshotFile>, section: Section) -> Self {
        Self { snapshot, at: section.rows, end: section.bodies }
    }

    pub(crate) fn of_bodies(snapshot: Arc<SnapshotFile>, section: Section) -> Self {
        Self { snapshot, at: section.bodies, end: section.changes }
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Block>, StoreError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let block = self.snapshot.block(self.at).await?;
        self.at = block.end;
        Ok(Some(block))
    }

    pub(crate) fn damaged(&self, block: &Block, what: &str) -> StoreError {
        self.snapshot.damaged(block.offset, what)
    }
}

/// `None` for a block that cannot be read although its checksum is right.
pub(crate) fn bodies_of(block: &Block) -> Option<Vec<BodyRecord>> {
    let mut cursor = Cursor { bytes: &block.bytes, at: 0 };
    let mut bodies = Vec::new();
    while !cursor.is_empty() {
        bodies.push(BodyRecord::take(&mut cursor)?);
    }
    Some(bodies)
}
