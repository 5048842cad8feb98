//! Blocks of a snapshot on their way to the file.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::disk::{File, write_all};
use super::snapshot_file::{self, Content, Section};

pub(super) const WRITE_BYTES: usize = 1 << 20;

/// Blocks on their way to the file.
pub(super) struct Output {
    file: Arc<dyn File>,
    /// The block that is being filled.
    pub(super) block: Vec<u8>,
    content: Content,
    /// Finished blocks that are not written yet.
    ready: Vec<u8>,
    written: u64,
    /// A block is closed once it holds this much.
    block_bytes: usize,
    /// Rows or places of bodies went on in another block.
    pub(super) has_several_blocks: bool,
}

impl Output {
    pub(super) fn new(file: Arc<dyn File>, block_bytes: usize) -> Self {
        let content = Content::Head;
        let (block, ready) = (snapshot_file::new_block(content), Vec::new());
        Self { file, block, content, ready, written: 0, block_bytes, has_several_blocks: false }
    }

    pub(super) async fn close_full_block(&mut self) -> io::Result<()> {
        if self.block.len() >= self.block_bytes {
            self.has_several_blocks = true;
            self.close_block().await?;
        }
        Ok(())
    }

    /// Tells where the next block begins.
    pub(super) async fn begin(&mut self, content: Content) -> io::Result<u64> {
        self.close_block().await?;
        self.content = content;
        self.block = snapshot_file::new_block(content);
        Ok(self.written + self.ready.len() as u64)
    }

    async fn close_block(&mut self) -> io::Result<()> {
        if !snapshot_file::is_empty_block(&self.block) {
            let next = snapshot_file::new_block(self.content);
            let mut block = std::mem::replace(&mut self.block, next);
            snapshot_file::seal_block(&mut block);
            self.ready.extend_from_slice(&block);
        }
        if self.ready.len() >= WRITE_BYTES {
            self.write_ready().await?;
        }
        Ok(())
    }

    async fn write_ready(&mut self) -> io::Result<()> {
        write_all(&*self.file, self.written, &self.ready).await?;
        self.written += self.ready.len() as u64;
        self.ready.clear();
        Ok(())
    }

    /// Writes bytes that are blocks already, right or wrong.
    pub(super) async fn put_raw(&mut self, blocks: &[u8]) -> io::Result<()> {
        self.ready.extend_from_slice(blocks);
        self.write_ready().await
    }

    /// Tells the size of the whole file.
    pub(super) async fn finish(&mut self, sections: &BTreeMap<u32, Section>, synced: u64) -> io::Result<u64> {
        let index_at = self.begin(Content::Index).await?;
        let mut index = snapshot_file::new_block(Content::Index);
        index.extend(snapshot_file::index(sections));
        snapshot_file::seal_block(&mut index);
        self.ready.extend(index);
        self.ready.extend(snapshot_file::footer(index_at, synced));
        self.write_ready().await?;
        Ok(self.written)
    }
}
