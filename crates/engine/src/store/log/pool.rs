//! Segments that are ready: a spare one that the log goes on in, and one in reserve for a full disk.

use std::sync::Arc;

use super::segment::Segment;
use super::shared::Shared;
use crate::store::{Room, StoreError};

/// Freed segments kept for the next spare: making one anew costs as much writing as filling it.
const FREE_MAX: usize = 1;

#[derive(Debug)]
pub(super) struct Pool {
    spare: Option<Arc<Segment>>,
    /// Taken only when there is no other and none can be made: what ends items still works then.
    reserve: Option<Arc<Segment>>,
    free: Vec<Arc<Segment>>,
    /// To be deleted.
    unwanted: Vec<Arc<Segment>>,
    /// No segment could be made when one was needed.
    full: bool,
    next_number: u32,
    segment_bytes: u32,
}

/// What the pool lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    Spare,
    Reserve,
}

impl Pool {
    pub(super) fn new(free: Vec<Arc<Segment>>, next_number: u32, segment_bytes: u32) -> Self {
        let mut pool = Self {
            spare: None,
            reserve: None,
            free: Vec::new(),
            unwanted: Vec::new(),
            full: false,
            next_number,
            segment_bytes,
        };
        pool.put_free(free);
        pool
    }

    pub(super) fn put_free(&mut self, segments: Vec<Arc<Segment>>) {
        for segment in segments {
            let fits = segment.bytes == self.segment_bytes;
            let list = if fits { &mut self.free } else { &mut self.unwanted };
            list.push(segment);
        }
    }

    pub(super) fn discard(&mut self, segment: Arc<Segment>) {
        self.unwanted.push(segment);
    }

    pub(super) fn take_free(&mut self) -> Option<Arc<Segment>> {
        self.free.pop()
    }

    pub(super) fn take_number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// The spare first, because the log may be waiting for it; but after the disk was full, first the reserve.
    pub(super) fn lack(&self) -> Option<Lack> {
        match (&self.spare, &self.reserve) {
            (None, None) if self.full => Some(Lack::Reserve),
            (None, _) => Some(Lack::Spare),
            (Some(_), None) => Some(Lack::Reserve),
            (Some(_), Some(_)) => None,
        }
    }

    pub(super) fn put(&mut self, lack: Lack, segment: Arc<Segment>) {
        match lack {
            Lack::Spare => self.spare = Some(segment),
            Lack::Reserve => self.reserve = Some(segment),
        }
        self.full &= self.lack().is_some();
    }

    pub(super) fn set_full(&mut self) {
        self.full = true;
    }

    pub(super) fn room(&self) -> Room {
        if self.full { Room::Full } else { Room::Enough }
    }

    /// What is more than the pool keeps.
    pub(super) fn take_surplus(&mut self) -> Vec<Arc<Segment>> {
        let mut surplus = std::mem::take(&mut self.unwanted);
        if self.lack().is_none() && self.free.len() > FREE_MAX {
            surplus.extend(self.free.drain(FREE_MAX..));
        }
        surplus
    }

    pub(super) fn bytes_stored(&self) -> u64 {
        let ready = self.spare.iter().chain(&self.reserve);
        ready.chain(&self.free).chain(&self.unwanted).map(|segment| u64::from(segment.bytes)).sum()
    }

    /// `None`: wait for the keeper.
    fn take(&mut self) -> Option<Result<Arc<Segment>, StoreError>> {
        if let Some(spare) = self.spare.take() {
            return Some(Ok(spare));
        }
        if !self.full {
            return None;
        }
        Some(self.reserve.take().ok_or(StoreError::Full))
    }
}

impl Shared {
    /// A segment for the log to go on in.
    pub(super) async fn take_segment(&self) -> Result<Arc<Segment>, StoreError> {
        loop {
            if self.is_closing() {
                return Err(StoreError::Closed);
            }
            let taken = self.pool().take();
            self.keeper_kick.notify_one();
            match taken {
                Some(taken) => return taken,
                None => self.pool_changed.notified().await,
            }
        }
    }

    pub(super) fn discard(&self, segment: Arc<Segment>) {
        self.pool().discard(segment);
        self.keeper_kick.notify_one();
    }
}
