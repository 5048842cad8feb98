//! A partition's rows as its new owner reads them: the snapshot's, then the changes of every commit since.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use windlass_core::row::Change;

use super::fetch::{Piece, fetch};
use super::reader::Job;
use super::unreadable::Unreadable;
use crate::env::BoxFuture;
use crate::store::entries::Entries;
use crate::store::log::segment::frame::{self, Kind};
use crate::store::log::segment::{Pin, Segment};
use crate::store::log::snapshot::file::Blocks;
use crate::store::log::tables::FramePlace;
use crate::store::merge::rows;
use crate::store::{Rows, StoreError};

/// A slice is about a thousand changes: short enough not to hold up others who read.
const SLICE_FRAMES_MAX: usize = 256;
const SLICE_BYTES_MAX: usize = 256 << 10;

/// A partition's commits since the snapshot, held fast until they are read.
#[derive(Debug)]
pub(crate) struct FrameSource {
    partition: u32,
    unreadable: Unreadable,
    /// Last to first.
    frames: Vec<FramePlace>,
    pins: Arc<BTreeMap<u32, Pin>>,
}

/// A commit frame read back, and where it is.
#[derive(Debug)]
pub(crate) struct CommitFrame {
    /// Header and entries: a rotten body must not keep the rows from being read.
    pub(crate) bytes: Bytes,
    pub(crate) place: FramePlace,
    pub(crate) segment: Arc<Segment>,
}

impl FrameSource {
    /// Takes the frames in their order.
    pub(crate) fn new(partition: u32, mut frames: Vec<FramePlace>, pins: Arc<BTreeMap<u32, Pin>>) -> Self {
        frames.reverse();
        Self { partition, unreadable: Unreadable::MayPass, frames, pins }
    }

    /// A frame that the disk reports an error for is damaged, if that does not pass.
    pub(crate) fn taking(self, unreadable: Unreadable) -> Self {
        Self { unreadable, ..self }
    }

    /// The next slice, checked; empty after the last.
    pub(crate) async fn next(&mut self) -> Result<Vec<CommitFrame>, StoreError> {
        let slice = self.next_of_some().await;
        slice.into_iter().collect()
    }

    /// The next slice, in which each frame that is not right stands as what is wrong with it.
    pub(crate) async fn next_of_some(&mut self) -> Vec<Result<CommitFrame, StoreError>> {
        let places = self.take_slice();
        let pieces: Vec<Piece> = places.iter().map(|place| self.piece(place)).collect();
        let read = fetch(&pieces).await.into_iter().zip(places).zip(pieces);
        let checked = read.map(|((bytes, place), Piece { segment, .. })| {
            let bytes = bytes.map_err(|error| match self.unreadable.loses(&error) {
                true => segment.damaged(place.offset, format!("frame {}: {error}", place.lsn)),
                false => error,
            })?;
            check_frame(&bytes, self.partition, &place, &segment)?;
            Ok(CommitFrame { bytes, place, segment })
        });
        checked.collect()
    }

    fn take_slice(&mut self) -> Vec<FramePlace> {
        let mut slice = Vec::new();
        let mut bytes = 0;
        while let Some(place) = self.frames.last() {
            bytes += place.head as usize;
            if !slice.is_empty() && (bytes > SLICE_BYTES_MAX || slice.len() == SLICE_FRAMES_MAX) {
                break;
            }
            slice.extend(self.frames.pop());
        }
        slice
    }

    fn piece(&self, place: &FramePlace) -> Piece {
        let segment = Arc::clone(&self.pins[&place.segment].segment);
        Piece { segment, offset: place.offset, length: place.head }
    }
}

impl CommitFrame {
    pub(crate) fn entries(&self) -> Entries<'_> {
        frame::entries_of(&self.bytes)
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> StoreError {
        self.segment.damaged(self.place.offset, what)
    }
}

/// Everything durable of a partition at a moment, without bodies.
#[derive(Debug)]
pub(crate) struct RowSource {
    /// Why the partition is refused, if something of it is known to be lost.
    pub(crate) damage: Option<StoreError>,
    pub(crate) blocks: Option<Blocks>,
    pub(crate) frames: FrameSource,
}

impl RowSource {
    /// The next slice; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Change>>, StoreError> {
        if let Some(damage) = &self.damage {
            return Err(damage.clone());
        }
        if let Some(blocks) = &mut self.blocks {
            if let Some(block) = blocks.next().await? {
                let rows = rows::changes_of(&block.bytes);
                return rows.map(Some).map_err(|what| blocks.damaged(&block, &what));
            }
            self.blocks = None;
        }
        let frames = self.frames.next().await?;
        if frames.is_empty() {
            return Ok(None);
        }
        let mut changes = Vec::new();
        for frame in frames {
            frame.entries().row_changes(&mut changes).map_err(|what| frame.damaged(what))?;
        }
        Ok(Some(changes))
    }
}

/// A frame read again must be the one that was written there.
fn check_frame(
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

/// [`RowSource`] read on the reader's thread, because reading blocks.
#[derive(Debug)]
pub(crate) struct RowStream {
    pub(crate) source: Option<RowSource>,
    pub(crate) reader: mpsc::Sender<Job>,
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
