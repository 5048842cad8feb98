//! What connections are doing now and have done so far, for metrics; and what they may take of memory. What each of them
//! takes is in `shares`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::budget::Budget;
use super::shares::{BodyShare, ReplyShare};

/// Replies up to this size are not counted: the kernel takes as much at once, unless its client has not read for a while.
const SMALL_REPLY_BYTES: usize = 64 * 1024;

/// Bodies up to this size have room of their own: heartbeats, completions and leases get through while large bodies fill
/// the rest.
const SMALL_BODY_BYTES: usize = 16 * 1024;
/// The part of `bytes_in_flight_max` that is added to it for small bodies.
const SMALL_SHARE: usize = 4;
/// The part that is added for large bodies of calls that keep alive or end work: work must not be done twice because too
/// much was produced. Less than `SMALL_SHARE`, so that small bodies have room beside them.
const SETTLING_SHARE: usize = 8;

/// The part of the reply budget that streams may use: their readers may be slow, and do not give way.
const STREAMS_SHARE: usize = 2;
/// The part that streams may use for events that were read ahead, which can be read again.
const READ_AHEAD_SHARE: usize = 4;

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
    bodies: Arc<Budget>,
    replies: Arc<Budget>,
    /// What streams take of `replies`.
    streams: Arc<Budget>,
}

impl Traffic {
    pub(crate) fn new(bytes_in_flight_max: usize, slow_after: Duration) -> Self {
        let budget = || Arc::new(Budget::new(slow_after));
        Self {
            bytes_in_flight_max,
            bodies: budget(),
            replies: budget(),
            streams: budget(),
            ..Self::default()
        }
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

    /// Connections whose client was too slow.
    pub fn closed_by(&self, timeout: Timeout) -> u64 {
        self.timeouts[timeout as usize].load(Relaxed)
    }

    /// Bytes of request bodies that are being read or worked on now.
    pub fn bytes_in_flight(&self) -> usize {
        self.bodies.bytes()
    }

    /// Bytes of large replies that have not been taken yet.
    pub fn reply_bytes_in_flight(&self) -> usize {
        self.replies.bytes()
    }

    /// Room for a reply; slower replies give way to it. `None` if too many bytes of replies have not been taken yet. A reply
    /// larger than all there may be goes out alone: it could never go otherwise.
    pub async fn reserve_reply(&self, bytes: usize) -> Option<ReplyShare> {
        let mut reply = self.replies.share();
        let fits = bytes <= SMALL_REPLY_BYTES || reply.grow(bytes, self.bytes_in_flight_max).await;
        fits.then_some(ReplyShare::new(reply, None))
    }

    /// Room for a piece of a stream; slower replies give way to it, and other streams do not.
    pub async fn reserve_piece(&self, bytes: usize) -> Option<ReplyShare> {
        let (mut stream, mut reply) = (self.streams.share(), self.replies.share());
        let max = self.bytes_in_flight_max;
        let fits = bytes <= SMALL_REPLY_BYTES
            || stream.try_grow(bytes, max / STREAMS_SHARE) && reply.grow(bytes, max).await;
        fits.then_some(ReplyShare::new(reply, Some(stream)))
    }

    /// Room for what a stream has read ahead and can read again, however little it is. Nobody gives way to it. `None` already if
    /// it would leave replies less than half of their room.
    pub fn reserve_read_ahead(&self, bytes: usize) -> Option<ReplyShare> {
        let (mut stream, mut reply) = (self.streams.share(), self.replies.share());
        let max = self.bytes_in_flight_max;
        let streams_max = max / READ_AHEAD_SHARE;
        // `try_grow` would let more than all go out alone.
        let fits = bytes == 0
            || bytes <= streams_max && stream.try_grow(bytes, streams_max) && reply.try_grow(bytes, max / 2);
        fits.then_some(ReplyShare::new(reply, Some(stream)))
    }

    pub(super) fn body(self: &Arc<Self>, is_settling: bool) -> BodyShare {
        BodyShare::new(Arc::clone(self), self.bodies.share(), is_settling)
    }

    pub(super) fn bytes_in_flight_max(&self) -> usize {
        self.bytes_in_flight_max
    }

    /// What all bodies may take together for a body of so many bytes to grow.
    pub(super) fn bodies_max(&self, bytes: usize, is_settling: bool) -> usize {
        let max = self.bytes_in_flight_max;
        match (bytes <= SMALL_BODY_BYTES, is_settling) {
            (true, _) => max + max / SMALL_SHARE,
            (false, true) => max + max / SETTLING_SHARE,
            (false, false) => max,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = SMALL_REPLY_BYTES + 1;

    fn traffic(bytes_in_flight_max: usize) -> Arc<Traffic> {
        Arc::new(Traffic::new(bytes_in_flight_max, Duration::from_secs(1)))
    }

    #[tokio::test]
    async fn streams_leave_half_of_the_room_to_replies() {
        let traffic = traffic(4 * LARGE);
        let pieces = [traffic.reserve_piece(LARGE).await, traffic.reserve_piece(LARGE).await];
        assert!(pieces.iter().all(Option::is_some));
        assert!(traffic.reserve_piece(LARGE).await.is_none());
        let replies = [traffic.reserve_reply(LARGE).await, traffic.reserve_reply(LARGE).await];
        assert!(replies.iter().all(Option::is_some));
        assert!(traffic.reserve_reply(LARGE).await.is_none());
        drop(pieces);
        assert_eq!(traffic.reply_bytes_in_flight(), 2 * LARGE);
        drop(replies);
        assert_eq!(traffic.reply_bytes_in_flight(), 0);
    }

    #[tokio::test]
    async fn what_was_read_ahead_leaves_room_to_pieces_and_to_replies() {
        let traffic = traffic(4 * LARGE);
        let ahead = traffic.reserve_read_ahead(LARGE);
        assert!(ahead.is_some() && traffic.reserve_read_ahead(1).is_none());
        let piece = traffic.reserve_piece(LARGE).await;
        assert!(piece.is_some() && traffic.reserve_piece(LARGE).await.is_none());
        drop((ahead, piece));
        let replies = [traffic.reserve_reply(LARGE).await, traffic.reserve_reply(LARGE).await];
        assert!(traffic.reserve_read_ahead(1).is_none());
        drop(replies);
        let small = [traffic.reserve_read_ahead(1), traffic.reserve_reply(SMALL_REPLY_BYTES).await];
        assert_eq!((small.iter().flatten().count(), traffic.reply_bytes_in_flight()), (2, 1));
    }

    #[tokio::test]
    async fn small_bodies_have_room_beside_large_ones_and_settling_ones() {
        const MAX: usize = 1 << 20;
        let traffic = traffic(MAX);
        let mut produce = traffic.body(false);
        assert!(produce.grow(MAX).await && !produce.grow(1).await);
        let mut complete = traffic.body(true);
        assert!(complete.grow(MAX / SETTLING_SHARE).await && !complete.grow(1).await);
        let mut small = Vec::new();
        for _ in 0..MAX / SETTLING_SHARE / SMALL_BODY_BYTES {
            small.push(traffic.body(false));
            assert!(small.last_mut().unwrap().grow(SMALL_BODY_BYTES).await);
        }
        assert!(!traffic.body(true).grow(1).await);
    }

    #[tokio::test]
    async fn a_small_body_keeps_its_room_however_much_is_made_of_it() {
        const MAX: usize = 1 << 20;
        let traffic = traffic(MAX);
        let mut large = traffic.body(false);
        assert!(large.grow(MAX).await);
        large.is_complete();
        let mut small = traffic.body(false);
        assert!(small.grow(SMALL_BODY_BYTES).await);
        small.is_complete();
        assert!(small.grow(2 * SMALL_BODY_BYTES).await, "its class is that of the bytes that came");
        assert!(!large.grow(1).await, "a large body has no more room once it is complete");
    }
}
