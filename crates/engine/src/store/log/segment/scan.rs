//! Reads a segment's frames one after another, and searches for frames where there is no telling where one begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::frame::{self, HEADER_BYTES, Header, RottenBody, padded};
use crate::store::StoreError;
use crate::store::log::disk::{Unreadable, read_pieces};
use crate::store::log::segment::Segment;

const READ_BYTES: usize = 1 << 20;
const STEP: u32 = 8;

#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    segment: &'a Segment,
    buffer: Vec<u8>,
    /// Where the buffer's first byte is in the segment.
    start: u32,
    /// Pieces that could not be read, by where they begin.
    unreadable: BTreeMap<u64, Unreadable>,
    is_lenient: bool,
}

/// A frame of the log whose header is right.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) offset: u32,
    pub(crate) header: Header,
    /// Header, entries and bodies, as far as the segment goes.
    pub(crate) frame: &'a [u8],
    /// Whether the entries are right.
    pub(crate) is_readable: bool,
    /// Bodies that are not what readable entries say.
    pub(crate) rotten: Vec<RottenBody>,
}

impl<'a> Found<'a> {
    fn new(offset: u32, header: Header, frame: &'a [u8]) -> Self {
        let is_readable = frame::entries_are_right(frame);
        let rotten = if is_readable { frame::rotten_bodies(frame) } else { Vec::new() };
        Self { offset, header, frame, is_readable, rotten }
    }

    /// Whether header, entries and all bodies are right.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_readable && self.rotten.is_empty()
    }

    /// Where the frame after this one begins.
    pub(crate) fn next_offset(&self) -> u32 {
        let length = u32::try_from(padded(frame::length(self.frame))).unwrap_or(u32::MAX);
        self.offset.saturating_add(length)
    }

    /// Where to go on searching. Behind a whole frame; but other frames may stand within one that is not whole, because
    /// a write that the disk lost leaves an old header before newer frames.
    pub(crate) fn search_from(&self) -> u32 {
        if self.is_whole() { self.next_offset() } else { self.offset.saturating_add(HEADER_BYTES as u32) }
    }
}

impl<'a> Scanner<'a> {
    /// For a log that is to be opened: an unreadable piece where a frame is expected is an error.
    pub(crate) fn new(segment: &'a Segment) -> Self {
        Self { segment, buffer: Vec::new(), start: 0, unreadable: BTreeMap::new(), is_lenient: false }
    }

    /// For a log that is looked at: unreadable pieces are read as zeros.
    pub(crate) fn lenient(segment: &'a Segment) -> Self {
        Self { is_lenient: true, ..Self::new(segment) }
    }

    /// Pieces that could not be read so far: where each begins and ends, and why. Neighbours are told as one.
    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        let mut joined: Vec<Unreadable> = Vec::new();
        for piece in self.unreadable.values() {
            match joined.last_mut().filter(|last| last.to >= piece.from) {
                Some(last) => last.to = last.to.max(piece.to),
                None => joined.push(piece.clone()),
            }
        }
        joined
    }

    /// The error of the first unreadable piece that was passed at or after the offset.
    pub(crate) fn failed_behind(&self, offset: u32) -> Option<StoreError> {
        let passed = self.unreadable.values().find(|piece| piece.to > u64::from(offset));
        passed.map(|piece| self.failed(piece))
    }

    fn failed(&self, piece: &Unreadable) -> StoreError {
        let (file, source) = (self.segment.path.clone(), Arc::clone(&piece.error));
        StoreError::Io { action: "cannot read", file, source }
    }

    /// An error if anything of the range could not be read and this scanner is not lenient.
    fn require(&self, offset: u32, length: usize) -> Result<(), StoreError> {
        let (from, to) = (u64::from(offset), u64::from(offset) + length as u64);
        let touched = self.unreadable.values().find(|piece| piece.from < to && from < piece.to);
        match touched {
            Some(piece) if !self.is_lenient => Err(self.failed(piece)),
            Some(_) | None => Ok(()),
        }
    }

    /// The frame of the log that begins here, if one does. A length is used only once the header is known to be right.
    /// Bodies in unreadable pieces are rotten ones; header and entries must be readable.
    pub(crate) async fn frame_at(&mut self, offset: u32, log: u64) -> Result<Option<Found<'_>>, StoreError> {
        let start = self.window(offset, HEADER_BYTES).await?;
        // A payload may bear a header of another log, with any length.
        if frame::header_of(start).is_none_or(|header| header.log != log) {
            self.require(offset, HEADER_BYTES)?;
            return Ok(None);
        }
        let (length, head) = (frame::length(start), frame::head_length(start));
        if !frame::entries_are_right(self.window(offset, length).await?) {
            self.require(offset, head)?;
        }
        self.heard_at(offset, log).await
    }

    /// Like [`Self::frame_at`], whatever of the frame beside its header can be read.
    async fn heard_at(&mut self, offset: u32, log: u64) -> Result<Option<Found<'_>>, StoreError> {
        let start = self.window(offset, HEADER_BYTES).await?;
        let Some(header) = frame::header_of(start).filter(|header| header.log == log) else {
            return Ok(None);
        };
        let length = frame::length(start);
        let frame = self.window(offset, length).await?;
        Ok(Some(Found::new(offset, header, frame)))
    }

    /// The first frame of the log at or after the offset, wherever it begins. Unreadable pieces are passed over: see
    /// [`Self::failed_behind`].
    pub(crate) async fn search(&mut self, from: u32, log: u64) -> Result<Option<Found<'_>>, StoreError> {
        let mut offset = from.next_multiple_of(STEP);
        while let Some(candidate) = self.candidate(offset, log).await? {
            let start = self.window(candidate, HEADER_BYTES).await?;
            if frame::header_of(start).is_some() {
                return self.heard_at(candidate, log).await;
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
            self.buffer = self.load(offset, length.max(READ_BYTES).min(left)).await?;
            self.start = offset;
        }
        let begin = (offset - self.start) as usize;
        Ok(&self.buffer[begin..begin + length])
    }

    /// Reads piece by piece what cannot be read at once: an unreadable piece must not cost its neighbours.
    async fn load(&mut self, offset: u32, length: usize) -> Result<Vec<u8>, StoreError> {
        match self.segment.read(offset, length).await {
            Err(StoreError::Io { .. }) => {
                let (bytes, unreadable) = read_readable(self.segment, offset, length).await;
                self.unreadable.extend(unreadable.into_iter().map(|piece| (piece.from, piece)));
                Ok(bytes)
            }
            read => read,
        }
    }
}

/// The bytes of a segment with zeros in place of what cannot be read, and what that is.
pub(crate) async fn read_readable(
    segment: &Segment,
    offset: u32,
    length: usize,
) -> (Vec<u8>, Vec<Unreadable>) {
    let mut bytes = vec![0; length];
    let unreadable = read_pieces(&*segment.file, offset.into(), &mut bytes).await;
    (bytes, unreadable)
}
