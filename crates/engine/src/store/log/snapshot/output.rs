//! Blocks of a snapshot on their way to the file.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::file::{self, Content, Section};
use crate::store::log::disk::{File, write_all};

pub(crate) const WRITE_BYTES: usize = 1 << 20;

/// Blocks on their way to the file.
pub(crate) struct Output {
    file: Arc<dyn File>,
    /// The block that is being filled.
    pub(crate) block: Vec<u8>,
    content: Content,
    /// Finished blocks that are not written yet.
    ready: Vec<u8>,
    written: u64,
    /// A block is closed once it holds this much.
    block_bytes: usize,
    /// Rows or places of bodies went on in another block.
    pub(crate) has_several_blocks: bool,
}

impl Output {
    pub(crate) fn new(file: Arc<dyn File>, block_bytes: usize) -> Self {
        let content = Content::Head;
        let (block, ready) = (file::new_block(content), Vec::new());
        Self { file, block, content, ready, written: 0, block_bytes, has_several_blocks: false }
    }

    pub(crate) async fn close_full_block(&mut self) -> io::Result<()> {
        if self.block.len() >= self.block_bytes {
            self.has_several_blocks = true;
            self.close_block().await?;
        }
        Ok(())
    }

    /// Tells where the next block begins.
    pub(crate) async fn begin(&mut self, content: Content) -> io::Result<u64> {
        self.close_block().await?;
        self.content = content;
        self.block = file::new_block(content);
        Ok(self.written + self.ready.len() as u64)
    }

    async fn close_block(&mut self) -> io::Result<()> {
        if !file::is_empty_block(&self.block) {
            let next = file::new_block(self.content);
            let mut block = std::mem::replace(&mut self.block, next);
            file::seal_block(&mut block);
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
    pub(crate) async fn put_raw(&mut self, blocks: &[u8]) -> io::Result<()> {
        self.ready.extend_from_slice(blocks);
        self.write_ready().await
    }

    /// Tells the size of the whole file.
    pub(crate) async fn finish(&mut self, sections: &BTreeMap<u32, Section>, synced: u64) -> io::Result<u64> {
        let index_at = self.begin(Content::Index).await?;
        let mut index = file::new_block(Content::Index);
        index.extend(file::index(sections));
        file::seal_block(&mut index);
        self.ready.extend(index);
        self.ready.extend(file::footer(index_at, synced));
        self.write_ready().await?;
        Ok(self.written)
    }
}
