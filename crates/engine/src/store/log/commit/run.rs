//! A run: the frames that one write takes to the disk and one sync makes durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::id::PartitionId;
use windlass_core::mutant::{Mutant, active};

use crate::store::bodies::BodyChange;
use crate::store::log::segment::Segment;
use crate::store::log::segment::frame::{self, Header, Kind, padded};
use crate::store::log::tables::{FramePlace, Tables};
use crate::store::{CommitError, StoreError};

/// A frame to be written, complete but for its header, which describes the entries already.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) kind: Kind,
    pub(crate) partition: u32,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) now: u64,
    pub(crate) frame: Vec<u8>,
    pub(crate) bodies: Vec<BodyChange>,
    pub(crate) may_block: bool,
    pub(crate) answer: oneshot::Sender<Result<(), CommitError>>,
}

impl Write {
    /// Which queues there are is never taken back: what came into them later would be lost with them.
    pub(crate) fn is_of_queues(&self) -> bool {
        !active(Mutant::LazyRegistry)
            && (self.kind == Kind::Drop || self.partition == PartitionId::REGISTRY.0)
    }

    pub(crate) fn answer(self, result: Result<(), CommitError>) {
        let _caller_gone = self.answer.send(result);
    }
}

pub(crate) fn refuse(writes: Vec<Write>, error: &StoreError) {
    for write in writes {
        write.answer(Err(CommitError::NotApplied(error.clone())));
    }
}

/// A segment that the log goes on in.
#[derive(Debug)]
pub(crate) struct Begins {
    pub(crate) segment: Arc<Segment>,
    pub(crate) generation: u64,
    pub(crate) after: u64,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) segment: Arc<Segment>,
    pub(crate) base: u32,
    /// The header of the frame before the next one.
    last: Header,
    pub(crate) buffer: Vec<u8>,
    pub(crate) frames: Vec<(Header, FramePlace)>,
    pub(crate) writes: Vec<Write>,
    /// The segment it begins, if it does.
    pub(crate) begins: Option<Begins>,
}

impl Run {
    /// Goes on at the offset after a frame whose header was as given.
    pub(crate) fn after(last: Header, segment: Arc<Segment>, base: u32) -> Self {
        let (buffer, frames, writes) = (Vec::new(), Vec::new(), Vec::new());
        Self { segment, base, last, buffer, frames, writes, begins: None }
    }

    /// Begins a segment with the frame given.
    pub(crate) fn beginning(begins: Begins, start: Header) -> Self {
        let mut run = Self::after(start, Arc::clone(&begins.segment), 0);
        run.buffer.extend_from_slice(&frame::bare(&start));
        run.begins = Some(begins);
        run
    }

    /// Takes as many of the writes as there is room for, and gives the others back.
    pub(crate) fn fill(&mut self, writes: Vec<Write>) -> Vec<Write> {
        self.frames.reserve_exact(writes.len());
        self.writes.reserve_exact(writes.len());
        self.buffer.reserve(writes.iter().map(|write| padded(write.frame.len())).sum());
        let mut writes = writes.into_iter();
        for write in writes.by_ref() {
            if !self.segment.has_room(self.end(), padded(write.frame.len())) {
                return std::iter::once(write).chain(writes).collect();
            }
            self.push(write);
        }
        Vec::new()
    }

    fn push(&mut self, mut write: Write) {
        let header = Header {
            kind: write.kind,
            partition: write.partition,
            epoch: write.epoch,
            sequence: write.sequence,
            now: write.now,
            lsn: self.last.lsn + 1,
            ..self.last
        };
        frame::seal(&mut write.frame, &header);
        let place = FramePlace::new(header.lsn, self.segment.number, self.end(), &write.frame);
        self.frames.push((header, place));
        self.buffer.extend_from_slice(&write.frame);
        self.buffer.resize(padded(self.buffer.len()), 0);
        self.writes.push(write);
        self.last = header;
    }

    /// Where the next frame begins.
    pub(crate) fn end(&self) -> u32 {
        self.base + self.buffer.len() as u32
    }

    /// The number of the last frame.
    pub(crate) fn lsn(&self) -> u64 {
        self.last.lsn
    }
}

/// Keeps the writes that may be done, and tells the callers of the others.
pub(crate) fn admit(tables: &Tables, writes: Vec<Write>) -> Vec<Write> {
    let mut sequences = BTreeMap::new();
    let mut admitted = Vec::with_capacity(writes.len());
    for write in writes {
        match check_owner(tables, &mut sequences, &write) {
            Ok(()) => admitted.push(write),
            Err(error) => write.answer(Err(CommitError::NotApplied(error))),
        }
    }
    admitted
}

/// `sequences`: those of partitions that have been written to in the same run.
fn check_owner(tables: &Tables, sequences: &mut BTreeMap<u32, u64>, write: &Write) -> Result<(), StoreError> {
    if write.kind == Kind::Drop {
        // A dropped partition has no owner from here on.
        sequences.insert(write.partition, u64::MAX);
        return Ok(());
    }
    let table = tables.partitions.get(&write.partition).ok_or(StoreError::Fenced)?;
    let last = sequences.get(&write.partition).copied().unwrap_or(table.sequence);
    if table.epoch != write.epoch || last == u64::MAX {
        return Err(StoreError::Fenced);
    }
    if write.sequence != last + 1 {
        return Err(StoreError::Unusable(format!(
            "commit {} of partition {} does not follow its last one, {last}",
            write.sequence, write.partition
        )));
    }
    sequences.insert(write.partition, write.sequence);
    Ok(())
}
