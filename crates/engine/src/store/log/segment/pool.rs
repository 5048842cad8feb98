//! Segments that are ready: a spare one that the log goes on in, and one in reserve for a full disk.

use std::sync::Arc;

use windlass_core::mutant::{Mutant, active};

use crate::store::log::segment::{self, Segment};
use crate::store::log::shared::Shared;
use crate::store::{Room, StoreError};

/// Freed segments kept for the next spare: making one anew costs as much writing as filling it.
const FREE_MAX: usize = 1;
/// The share of a segment that must stay free on the disk when one is made: for snapshots, and the file system itself.
const MARGIN_SHARE: u64 = 4;
/// The share of the last segment that is kept for what ends or removes items.
const KEPT_SHARE: u32 = 2;

#[derive(Debug)]
pub(crate) struct Pool {
    spare: Option<Arc<Segment>>,
    /// Taken only when there is no other and the disk is full: what ends items still works then.
    reserve: Option<Arc<Segment>>,
    free: Vec<Arc<Segment>>,
    /// To be deleted.
    unwanted: Vec<Arc<Segment>>,
    /// The disk had no room for a segment that is lacking.
    full: bool,
    /// The disk had no room for a write into a segment that was made before: see [`Pool::set_unwritable`].
    unwritable: bool,
    /// Why the last segment could not be made, if not because the disk is full.
    failure: Option<StoreError>,
    /// Bytes that are left in the segment that the log is written to.
    left: u32,
    next_number: u32,
    segment_bytes: u32,
}

/// A segment that the pool lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Spare,
    Reserve,
}

impl Pool {
    pub(crate) fn new(free: Vec<Arc<Segment>>, next_number: u32, segment_bytes: u32) -> Self {
        let mut pool = Self {
            spare: None,
            reserve: None,
            free: Vec::new(),
            unwanted: Vec::new(),
            full: false,
            unwritable: false,
            failure: None,
            left: segment_bytes,
            next_number,
            segment_bytes,
        };
        pool.put_free(free);
        pool
    }

    pub(crate) fn put_free(&mut self, segments: Vec<Arc<Segment>>) {
        for segment in segments {
            let fits = segment.bytes == self.segment_bytes;
            let list = if fits { &mut self.free } else { &mut self.unwanted };
            list.push(segment);
        }
    }

    pub(crate) fn discard(&mut self, segment: Arc<Segment>) {
        self.unwanted.push(segment);
    }

    /// Takes a segment back that was taken and never written to.
    pub(crate) fn put_back(&mut self, segment: Arc<Segment>) {
        self.keep(Lack::Reserve, segment);
    }

    /// Puts a segment where it is wanted; if that place was filled meanwhile, into the other, else among the free ones.
    fn keep(&mut self, wanted: Lack, segment: Arc<Segment>) {
        let [first, second] = match wanted {
            Lack::Spare => [&mut self.spare, &mut self.reserve],
            Lack::Reserve => [&mut self.reserve, &mut self.spare],
        };
        if first.is_none() {
            *first = Some(segment);
        } else if second.is_none() {
            *second = Some(segment);
        } else {
            self.free.push(segment);
        }
        self.full &= self.lack().is_some();
    }

    /// The reserve, for a compaction that gives back more than it takes. Not if the log would be left with half a segment
    /// or less: what ends items needs that until the compacted segments are free.
    pub(crate) fn lend_reserve(&mut self) -> Option<Arc<Segment>> {
        let enough_left = self.spare.is_some() || self.left > self.segment_bytes / KEPT_SHARE;
        if enough_left { self.reserve.take() } else { None }
    }

    pub(crate) fn take_free(&mut self) -> Option<Arc<Segment>> {
        self.free.pop()
    }

    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    fn take_number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// The spare first, because the log may be waiting for it; but after the disk was full, first the reserve.
    pub(crate) fn lack(&self) -> Option<Lack> {
        match (&self.spare, &self.reserve) {
            (None, None) if self.full => Some(Lack::Reserve),
            (None, _) => Some(Lack::Spare),
            (Some(_), None) => Some(Lack::Reserve),
            (Some(_), Some(_)) => None,
        }
    }

    pub(crate) fn put(&mut self, lack: Lack, segment: Arc<Segment>) {
        self.keep(lack, segment);
        self.failure = None;
    }

    /// A segment could not be made. Tells whether that is news.
    pub(crate) fn not_made(&mut self, error: StoreError) -> bool {
        if error.is_full() {
            self.failure = None;
            // The segment that was lacking may have been put back meanwhile.
            let is_full = self.lack().is_some();
            is_full && !std::mem::replace(&mut self.full, is_full)
        } else {
            // The disk was asked for room before, and had it.
            self.full = false;
            self.failure.replace(error).is_none()
        }
    }

    /// A write into a segment that was made before found no room, as happens where a file system copies on write.
    pub(crate) fn set_unwritable(&mut self) {
        self.unwritable = true;
    }

    pub(crate) fn set_writable(&mut self) {
        self.unwritable = false;
    }

    pub(crate) fn is_unwritable(&self) -> bool {
        self.unwritable
    }

    pub(crate) fn set_left(&mut self, bytes: u32) {
        self.left = bytes;
    }

    pub(crate) fn room(&self) -> Room {
        let more = self.spare.is_some() || self.reserve.is_some();
        match (self.full, more) {
            _ if active(Mutant::NeverFull) => Room::Enough,
            _ if self.unwritable => Room::Last,
            (false, _) => Room::Enough,
            (true, true) => Room::Full,
            (true, false) if self.left > self.segment_bytes / KEPT_SHARE => Room::Full,
            (true, false) => Room::Last,
        }
    }

    /// Segments beyond those that the pool keeps.
    pub(crate) fn take_surplus(&mut self) -> Vec<Arc<Segment>> {
        let mut surplus = std::mem::take(&mut self.unwanted);
        if self.lack().is_none() && self.free.len() > FREE_MAX {
            surplus.extend(self.free.drain(FREE_MAX..));
        }
        surplus
    }

    pub(crate) fn bytes_stored(&self) -> u64 {
        let ready = self.spare.iter().chain(&self.reserve);
        ready.chain(&self.free).chain(&self.unwanted).map(|segment| u64::from(segment.bytes)).sum()
    }

    /// `None`: wait for the keeper.
    fn take(&mut self) -> Option<Result<Arc<Segment>, StoreError>> {
        if let Some(spare) = self.spare.take() {
            return Some(Ok(spare));
        }
        if self.full
            && !active(Mutant::NoReserve)
            && let Some(reserve) = self.reserve.take()
        {
            return Some(Ok(reserve));
        }
        let cause = self.failure.clone().or_else(|| self.full.then_some(StoreError::Full))?;
        Some(Err(cause))
    }
}

impl Shared {
    /// A segment for the log to go on in.
    pub(crate) async fn take_segment(&self) -> Result<Arc<Segment>, StoreError> {
        loop {
            if self.is_closing() {
                return Err(StoreError::Closed);
            }
            let (taken, is_reserve) = {
                let mut pool = self.pool();
                let had_reserve = pool.reserve.is_some();
                (pool.take(), had_reserve && pool.reserve.is_none())
            };
            self.count(|events| events.reserves_taken += u64::from(is_reserve));
            self.keeper_kick.notify_one();
            match taken {
                Some(taken) => return taken,
                None => self.pool_changed.notified().await,
            }
        }
    }

    /// A freed segment, or a new one if the disk has room for it.
    pub(crate) async fn make_segment(&self) -> Result<Arc<Segment>, StoreError> {
        let free = self.pool().take_free();
        if let Some(free) = free {
            self.count(|events| events.segments_reused += u64::from(free.was_used()));
            return Ok(free);
        }
        let bytes = self.options.segment_bytes;
        // The disk is asked first: zeros written until the disk is full would be all for nothing.
        if !self.disk_has_room_for(bytes.into()) {
            return Err(StoreError::Full);
        }
        let number = self.pool().take_number();
        segment::create(&*self.disk, number, bytes).await
    }

    /// Whether so many bytes fit, and the margin beside them. A disk that does not tell is taken to have room.
    pub(crate) fn disk_has_room_for(&self, bytes: u64) -> bool {
        let margin = u64::from(self.options.segment_bytes) / MARGIN_SHARE;
        self.disk.free_bytes().is_none_or(|free| free >= bytes + margin)
    }

    pub(crate) fn discard(&self, segment: Arc<Segment>) {
        self.count(|events| events.segments_discarded += 1);
        self.pool().discard(segment);
        self.keeper_kick.notify_one();
    }

    /// Takes back what was lent.
    pub(crate) fn give_back(&self, segment: Arc<Segment>) {
        self.pool().put_back(segment);
        self.pool_changed.notify_one();
        self.keeper_kick.notify_one();
    }

    /// Takes note that a write found no room. `untouched` is the segment that was to be begun with it.
    pub(crate) fn no_room_to_write(&self, untouched: Option<Arc<Segment>>) {
        let mut pool = self.pool();
        pool.set_unwritable();
        if let Some(segment) = untouched {
            pool.put_back(segment);
        }
        drop(pool);
        self.keeper_kick.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::log::disk::real::RealDisk;

    const BYTES: u32 = 64;

    struct Made {
        disk: RealDisk,
        pool: Pool,
        _directory: tempfile::TempDir,
    }

    impl Made {
        /// A pool that has its spare and its reserve.
        async fn ready() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let disk = RealDisk::new(directory.path()).expect("a disk");
            let mut made = Self { disk, pool: Pool::new(Vec::new(), 0, BYTES), _directory: directory };
            for lack in [Lack::Spare, Lack::Reserve] {
                let segment = made.segment().await;
                made.pool.put(lack, segment);
            }
            made
        }

        async fn segment(&mut self) -> Arc<Segment> {
            let number = self.pool.take_number();
            segment::create(&self.disk, number, BYTES).await.expect("a segment")
        }

        fn take(&mut self) -> Arc<Segment> {
            self.pool.take().expect("ready").expect("ready")
        }
    }

    fn not_full() -> StoreError {
        StoreError::Unusable("the disk fails".to_owned())
    }

    #[tokio::test]
    async fn a_segment_put_back_ends_a_full_disk_if_nothing_is_lacking_then() {
        let mut made = Made::ready().await;
        let spare = made.take();
        made.pool.not_made(StoreError::Full);
        assert_eq!(made.pool.room(), Room::Full);
        made.pool.put_back(spare);
        assert_eq!((made.pool.lack(), made.pool.room()), (None, Room::Enough));
    }

    #[tokio::test]
    async fn a_disk_without_room_is_not_full_if_what_was_lacking_was_put_back_meanwhile() {
        let mut made = Made::ready().await;
        let spare = made.take();
        made.pool.put_back(spare);
        made.pool.not_made(StoreError::Full);
        assert_eq!((made.pool.lack(), made.pool.room()), (None, Room::Enough));
    }

    #[tokio::test]
    async fn a_segment_made_for_a_place_that_was_filled_meanwhile_is_kept_too() {
        let mut made = Made::ready().await;
        let spare = made.take();
        let (lack, segment) = (made.pool.lack().expect("the spare"), made.segment().await);
        made.pool.put_back(spare);
        made.pool.put(lack, segment);
        assert_eq!(made.pool.bytes_stored(), 3 * u64::from(BYTES));
    }

    #[tokio::test]
    async fn a_disk_that_fails_is_not_called_full_any_more() {
        let mut made = Made::ready().await;
        let _spare = made.take();
        made.pool.not_made(StoreError::Full);
        assert!(made.pool.not_made(not_full()), "news");
        assert_eq!(made.pool.room(), Room::Enough);
        made.pool.not_made(StoreError::Full);
        assert_eq!(made.pool.room(), Room::Full);
    }
}
