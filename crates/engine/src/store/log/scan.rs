//! Reads a segment's frames one after another, and searches for frames where there is no telling where one begins.

use super::frame::{self, HEADER_BYTES, Header, padded};
use super::segment::Segment;
use crate::store::StoreError;

const READ_BYTES: usize = 1 << 20;
const STEP: u32 = 8;

#[derive(Debug)]
pub(super) struct Scanner<'a> {
    segment: &'a Segment,
    buffer: Vec<u8>,
    /// Where the buffer's first byte is in the segment.
    start: u32,
}

/// A frame whose checksum is right.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) offset: u32,
    pub(super) header: Header,
    pub(super) frame: &'a [u8],
}

impl Found<'_> {
    pub(super) fn next_offset(&self) -> u32 {
        self.offset + padded(self.frame.len()) as u32
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(segment: &'a Segment) -> Self {
        Self { segment, buffer: Vec::new(), start: 0 }
    }

    /// The frame that begins here, if one does.
    pub(super) async fn frame_at(&mut self, offset: u32) -> Result<Option<Found<'_>>, StoreError> {
        let Some(length) = frame::claimed_length(self.window(offset, HEADER_BYTES).await?) else {
            return Ok(None);
        };
        let bytes = self.window(offset, length).await?;
        Ok(frame::open(bytes).map(|header| Found { offset, header, frame: bytes }))
    }

    /// The first frame at or after the offset that belongs to this log, wherever it begins.
    pub(super) async fn search(&mut self, from: u32, log: u64) -> Result<Option<Found<'_>>, StoreError> {
        let mut offset = from.next_multiple_of(STEP);
        while offset < self.segment.bytes {
            let found = self.frame_at(offset).await?;
            if found.is_some_and(|found| found.header.log == log) {
                return self.frame_at(offset).await;
            }
            offset = self.skip_zeros(offset.saturating_add(STEP)).await?;
        }
        Ok(None)
    }

    /// A frame's length is never zero, so it does not begin where eight bytes are.
    async fn skip_zeros(&mut self, mut offset: u32) -> Result<u32, StoreError> {
        loop {
            let window = self.window(offset, STEP as usize).await?;
            if window.len() < STEP as usize || window != [0; STEP as usize] {
                return Ok(offset);
            }
            offset += STEP;
        }
    }

    /// The bytes from the offset on: as many as asked for, or up to the segment's end.
    async fn window(&mut self, offset: u32, length: usize) -> Result<&[u8], StoreError> {
        let left = self.segment.bytes.saturating_sub(offset) as usize;
        let length = length.min(left);
        let begin = offset.wrapping_sub(self.start) as usize;
        if offset < self.start || begin + length > self.buffer.len() {
            self.buffer = self.segment.read(offset, length.max(READ_BYTES).min(left)).await?;
            self.start = offset;
        }
        let begin = (offset - self.start) as usize;
        Ok(&self.buffer[begin..begin + length])
    }
}
