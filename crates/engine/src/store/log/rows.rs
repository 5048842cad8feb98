//! A partition's rows as its new owner reads them: the snapshot's, then the changes of every commit since.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};
use windlass_core::codec::{self, DecodeError};
use windlass_core::row::Change;

use super::entry::{Entries, Entry};
use super::fetch::{Piece, fetch};
use super::frame::{self, Kind};
use super::reader::Job;
use super::segment::{Pin, Segment};
use super::snapshot_file::{Blocks, rows_of};
use super::tables::FramePlace;
use crate::env::BoxFuture;
use crate::store::{Rows, StoreError};

/// A slice is about this many changes: short enough not to hold up others who read.
const SLICE_FRAMES_MAX: usize = 256;
const SLICE_BYTES_MAX: usize = 256 << 10;

/// Everything durable of a partition at a moment, held fast until it is read.
#[derive(Debug)]
pub(super) struct RowSource {
    pub(super) partition: u32,
    pub(super) blocks: Option<Blocks>,
    /// Last to first.
    pub(super) frames: Vec<FramePlace>,
    pub(super) pins: BTreeMap<u32, Pin>,
}

impl RowSource {
    /// The next slice; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Change>>, StoreError> {
        if let Some(blocks) = &mut self.blocks {
            if let Some((block, at)) = blocks.next().await? {
                let rows = changes_of_block(&block);
                return rows.map(Some).map_err(|what| blocks.damaged(at, &what));
            }
            self.blocks = None;
        }
        if self.frames.is_empty() {
            return Ok(None);
        }
        self.next_frames().await.map(Some)
    }

    async fn next_frames(&mut self) -> Result<Vec<Change>, StoreError> {
        let places = self.take_slice();
        let pieces: Vec<Piece> = places.iter().map(|place| self.piece(place)).collect();
        let mut changes = Vec::new();
        for ((frame, place), piece) in fetch(&pieces).await.into_iter().zip(&places).zip(&pieces) {
            let frame = frame?;
            check_frame(&frame, self.partition, place, &piece.segment)?;
            let damaged = |what: String| piece.segment.damaged(place.offset, what);
            changes_of_frame(&frame, &mut changes).map_err(damaged)?;
        }
        Ok(changes)
    }

    fn take_slice(&mut self) -> Vec<FramePlace> {
        let mut slice = Vec::new();
        let mut bytes = 0;
        while let Some(place) = self.frames.last() {
            bytes += place.length as usize;
            if !slice.is_empty() && (bytes > SLICE_BYTES_MAX || slice.len() == SLICE_FRAMES_MAX) {
                break;
            }
            slice.extend(self.frames.pop());
        }
        slice
    }

    fn piece(&self, place: &FramePlace) -> Piece {
        let segment = self.pins[&place.segment].segment.clone();
        Piece { segment, offset: place.offset, length: place.length }
    }
}

/// A frame read again must be the one that was written there.
pub(super) fn check_frame(
    frame: &[u8],
    partition: u32,
    place: &FramePlace,
    segment: &Segment,
) -> Result<(), StoreError> {
    let is_the_one = frame::open(frame).is_some_and(|header| {
        header.lsn == place.lsn && header.partition == partition && header.kind == Kind::Commit
    });
    if is_the_one { Ok(()) } else { Err(segment.damaged(place.offset, format!("frame {}", place.lsn))) }
}

fn changes_of_block(block: &[u8]) -> Result<Vec<Change>, String> {
    let rows = rows_of(block).ok_or("the rows cannot be read")?;
    rows.into_iter().map(|(key, value)| put_of(key, value).map_err(|error| error.to_string())).collect()
}

fn put_of(key: &[u8], value: &[u8]) -> Result<Change, DecodeError> {
    codec::decode_row(key, value).map(Change::Put)
}

fn changes_of_frame(frame: &[u8], changes: &mut Vec<Change>) -> Result<(), String> {
    for entry in Entries::of(frame) {
        match entry.map_err(|_| "a frame holds entries of an unknown kind")? {
            Entry::PutRow { key, value, at: _ } => {
                changes.push(put_of(key, value).map_err(|error| error.to_string())?);
            }
            Entry::RemoveRow { key } => {
                let key = codec::decode_key(key).map_err(|error| error.to_string())?;
                changes.push(Change::Remove(key));
            }
            Entry::PutBody { .. } | Entry::RemoveBody { .. } => {}
        }
    }
    Ok(())
}

/// [`RowSource`] read on the reader's thread, because reading blocks.
#[derive(Debug)]
pub(super) struct RowStream {
    pub(super) source: Option<RowSource>,
    pub(super) reader: mpsc::Sender<Job>,
}

impl Rows for RowStream {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Change>>, StoreError>> {
        Box::pin(async {
            let Some(mut source) = self.source.take() else { return Ok(None) };
            let (answer, answered) = oneshot::channel();
            let job = async move {
                let slice = source.next().await;
                let _caller_gone = answer.send((source, slice));
            };
            let sent = self.reader.send(Job::Run(Box::pin(job))).await;
            sent.map_err(|_| StoreError::Closed)?;
            let (source, slice) = answered.await.map_err(|_| StoreError::Closed)?;
            self.source = Some(source);
            slice
        })
    }
}
