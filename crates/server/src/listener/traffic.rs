//! What connections are doing now and have done so far, for metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Replies up to this size are not counted: the kernel takes as much at once, but from who has not read for a while.
const SMALL_REPLY_BYTES: usize = 64 * 1024;

/// Bodies of calls that keep alive or end work may take such a part beside what all bodies may take: work must not be done
/// twice because too much was produced.
const SETTLING_SHARE: usize = 4;

/// A wait that came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    FirstByte,
    Head,
    Idle,
    Body,
    Reply,
}

impl Timeout {
    pub const ALL: [Self; 5] = [Self::FirstByte, Self::Head, Self::Idle, Self::Body, Self::Reply];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstByte => "first_byte",
            Self::Head => "head",
            Self::Idle => "idle",
            Self::Body => "body",
            Self::Reply => "reply",
        }
    }
}

/// The numbers are independent of each other, and each is right by itself.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Of requests and of replies, apart: neither can keep the other from having its share.
    bytes_in_flight_max: usize,
    open: AtomicUsize,
    accepted: AtomicU64,
    refused: AtomicU64,
    accept_failures: AtomicU64,
    timeouts: [AtomicU64; Timeout::ALL.len()],
    bytes_in_flight: AtomicUsize,
    reply_bytes_in_flight: AtomicUsize,
}

impl Traffic {
    pub(super) fn new(bytes_in_flight_max: usize) -> Self {
        Self { bytes_in_flight_max, ..Self::default() }
    }

    /// Connections that are open now, without those that are being refused.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    pub fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Connections over `connections_max`.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Times that no connection could be accepted, as when there is no file descriptor left.
    pub fn accept_failures(&self) -> u64 {
        self.accept_failures.load(Relaxed)
    }

    /// Connections that a timeout ended.
    pub fn closed_by(&self, timeout: Timeout) -> u64 {
        self.timeouts[timeout as usize].load(Relaxed)
    }

    /// Bytes of request bodies that are being read or worked on now.
    pub fn bytes_in_flight(&self) -> usize {
        self.bytes_in_flight.load(Relaxed)
    }

    /// Bytes of large replies that have not been taken yet.
    pub fn reply_bytes_in_flight(&self) -> usize {
        self.reply_bytes_in_flight.load(Relaxed)
    }

    /// `None` if too many bytes of replies have not been taken yet. A reply larger than all there may be goes out alone:
    /// it could never go otherwise.
    pub fn reserve_reply(self: &Arc<Self>, bytes: usize) -> Option<ReplyShare> {
        let counted = if bytes <= SMALL_REPLY_BYTES { 0 } else { bytes };
        self.reserve(counted, |now, then| now == 0 || then <= self.bytes_in_flight_max)
    }

    /// The same for what waits for its turn and can be had again, however little it is: `None` already if it would leave
    /// replies less than half of what they may take.
    pub fn reserve_spare(self: &Arc<Self>, bytes: usize) -> Option<ReplyShare> {
        self.reserve(bytes, |_, then| then <= self.bytes_in_flight_max / 2)
    }

    fn reserve(self: &Arc<Self>, bytes: usize, fits: impl Fn(usize, usize) -> bool) -> Option<ReplyShare> {
        if bytes == 0 {
            return Some(ReplyShare { traffic: Arc::clone(self), bytes });
        }
        let room = |now: usize| now.checked_add(bytes).filter(|then| fits(now, *then));
        self.reply_bytes_in_flight.fetch_update(Relaxed, Relaxed, room).ok()?;
        Some(ReplyShare { traffic: Arc::clone(self), bytes })
    }

    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn count_accept_failure(&self) {
        self.accept_failures.fetch_add(1, Relaxed);
    }

    pub(super) fn count_timeout(&self, timeout: Timeout) {
        self.timeouts[timeout as usize].fetch_add(1, Relaxed);
    }
}

/// The place of one connection among `connections_max`.
#[derive(Debug)]
pub(super) struct Slot(Arc<Traffic>);

impl Slot {
    /// Only the accept loop takes slots: between the question and the answer there can only be fewer.
    pub(super) fn take(traffic: &Arc<Traffic>, connections_max: usize) -> Option<Self> {
        if traffic.open() >= connections_max {
            return None;
        }
        traffic.open.fetch_add(1, Relaxed);
        traffic.accepted.fetch_add(1, Relaxed);
        Some(Self(Arc::clone(traffic)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// What one request body takes of `bytes_in_flight_max`.
#[derive(Debug)]
pub(super) struct InFlight {
    traffic: Arc<Traffic>,
    bytes: usize,
    settling: bool,
}

impl InFlight {
    pub(super) fn none(traffic: &Arc<Traffic>, settling: bool) -> Self {
        Self { traffic: Arc::clone(traffic), bytes: 0, settling }
    }

    /// Whether there was room for that many more.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let ordinary_max = self.traffic.bytes_in_flight_max;
        let max = if self.settling { ordinary_max + ordinary_max / SETTLING_SHARE } else { ordinary_max };
        let room = |now: usize| now.checked_add(bytes).filter(|then| *then <= max);
        let grown = self.traffic.bytes_in_flight.fetch_update(Relaxed, Relaxed, room).is_ok();
        if grown {
            self.bytes += bytes;
        }
        grown
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.traffic.bytes_in_flight.fetch_sub(self.bytes, Relaxed);
    }
}

/// What one reply takes of the bytes of replies that may wait to be taken.
#[derive(Debug)]
pub struct ReplyShare {
    traffic: Arc<Traffic>,
    bytes: usize,
}

impl Drop for ReplyShare {
    fn drop(&mut self) {
        self.traffic.reply_bytes_in_flight.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = SMALL_REPLY_BYTES + 1;

    #[test]
    fn what_can_be_had_again_leaves_half_of_the_room_to_replies() {
        let traffic = Arc::new(Traffic::new(4 * LARGE));
        let spare = [traffic.reserve_spare(LARGE), traffic.reserve_spare(LARGE)];
        assert!(spare.iter().all(Option::is_some));
        assert!(traffic.reserve_spare(LARGE).is_none());
        let replies = [traffic.reserve_reply(LARGE), traffic.reserve_reply(LARGE)];
        assert!(replies.iter().all(Option::is_some));
        assert!(traffic.reserve_reply(LARGE).is_none());
        drop(spare);
        assert!(traffic.reserve_spare(LARGE).is_none());
        drop(replies);
        assert_eq!(traffic.reply_bytes_in_flight(), 0);
        let small = [traffic.reserve_spare(1), traffic.reserve_reply(SMALL_REPLY_BYTES)];
        assert_eq!((small.iter().flatten().count(), traffic.reply_bytes_in_flight()), (2, 1));
    }
}
