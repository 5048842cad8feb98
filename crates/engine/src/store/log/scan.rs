//! Reads a segment's frames one after another, and searches for frames where there is no telling where one begins.

use super::entry::{self, RottenBody};
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

/// A frame of the log whose header is right.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) offset: u32,
    pub(super) header: Header,
    /// Header, entries and bodies, as far as the segment goes.
    pub(super) frame: &'a [u8],
    /// Whether the entries are right.
    pub(super) is_readable: bool,
    /// Bodies that are not what readable entries say.
    pub(super) rotten: Vec<RottenBody>,
}

impl<'a> Found<'a> {
    fn new(offset: u32, header: Header, frame: &'a [u8]) -> Self {
        let is_readable = frame::entries_are_right(frame);
        let rotten = if is_readable { entry::rotten_bodies(frame) } else { Vec::new() };
        Self { offset, header, frame, is_readable, rotten }
    }

    /// Whether header, entries and all bodies are right.
    pub(super) fn is_whole(&self) -> bool {
        self.is_readable && self.rotten.is_empty()
    }

    /// Where the frame after this one begins.
    pub(super) fn next_offset(&self) -> u32 {
        self.offset.saturating_add(padded(frame::length(self.frame)) as u32)
    }

    /// Where to go on searching. Behind a whole frame; but other frames may stand within one that is not whole, because
    /// a write that the disk lost leaves an old header before newer frames.
    pub(super) fn search_from(&self) -> u32 {
        if self.is_whole() { self.next_offset() } else { self.offset + HEADER_BYTES as u32 }
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(segment: &'a Segment) -> Self {
        Self { segment, buffer: Vec::new(), start: 0 }
    }

    /// The frame of the log that begins here, if one does. A length is used only once the header is known to be right.
    pub(super) async fn frame_at(&mut self, offset: u32, log: u64) -> Result<Option<Found<'_>>, StoreError> {
        let start = self.window(offset, HEADER_BYTES).await?;
        let Some(header) = frame::header_of(start).filter(|header| header.log == log) else {
            return Ok(None);
        };
        let length = frame::length(start);
        let frame = self.window(offset, length).await?;
        Ok(Some(Found::new(offset, header, frame)))
    }

    /// The first frame of the log at or after the offset, wherever it begins.
    pub(super) async fn search(&mut self, from: u32, log: u64) -> Result<Option<Found<'_>>, StoreError> {
        let mut offset = from.next_multiple_of(STEP);
        while let Some(candidate) = self.candidate(offset, log).await? {
            let start = self.window(candidate, HEADER_BYTES).await?;
            if frame::header_of(start).is_some() {
                return self.frame_at(candidate, log).await;
            }
            offset = candidate + STEP;
        }
        Ok(None)
    }

    /// The first place at or after the offset that looks like the beginning of a frame of the log.
    async fn candidate(&mut self, mut offset: u32, log: u64) -> Result<Option<u32>, StoreError> {
        loop {
            let ahead = self.buffered(offset).await?;
            if ahead.len() < HEADER_BYTES {
                return Ok(None);
            }
            let places = (0..ahead.len() - HEADER_BYTES + 1).step_by(STEP as usize);
            let passed = places.len() as u32 * STEP;
            for at in places {
                if frame::may_begin(&ahead[at..], log) {
                    return Ok(Some(offset + at as u32));
                }
            }
            offset += passed;
        }
    }

    /// The bytes from the offset on that are in the buffer: a header's at least, unless the segment ends before.
    async fn buffered(&mut self, offset: u32) -> Result<&[u8], StoreError> {
        self.window(offset, HEADER_BYTES).await?;
        Ok(self.buffer.get((offset - self.start) as usize..).unwrap_or_default())
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
