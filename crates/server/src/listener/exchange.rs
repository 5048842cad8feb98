//! What one connection is doing, as its I/O, its service and its request bodies must all know it.
//!
//! Requests of a connection go strictly one after the other, pipelined or not: a reply that is given before its
//! request's body has come to an end closes the connection, so hyper never reads a head before the last reply is out.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use super::Server;
use super::latch::Latch;
use super::reply::Delivery;
use super::shares::ReplyShare;
use super::traffic::Timeout;

pub(super) struct Exchange {
    pub(super) server: Arc<Server>,
    pub(super) peer: Option<IpAddr>,
    doing: Mutex<Doing>,
    client_closed: Arc<Latch>,
}

struct Doing {
    stage: Stage,
    rest: Rest,
    /// Whether the latest reply came piece by piece: its last ones have as much time as the others.
    streamed: bool,
    /// Delivery of the latest reply to a client that had closed its side, until it is known whether that client is gone.
    doubtful: Option<Delivery>,
}

enum Stage {
    /// Nothing of a request has come.
    Quiet {
        until: Instant,
        timeout: Timeout,
    },
    /// Some of its head has come.
    Head {
        until: Instant,
    },
    /// The handler has the request. It may take as long as it likes.
    Working,
    /// The handler's reply comes piece by piece.
    Streaming,
    /// hyper has all of the reply.
    Replying(Delivery),
    Closed,
}

/// What is left of the latest request's body on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    /// The client may still be sending it.
    Unread,
    /// The client did not keep up, and is not waited for again.
    Stalled,
}

impl Exchange {
    pub(super) fn new(server: Arc<Server>, peer: Option<IpAddr>) -> Self {
        let until = Instant::now() + server.limits.first_byte_timeout;
        let stage = Stage::Quiet { until, timeout: Timeout::FirstByte };
        let doing = Mutex::new(Doing { stage, rest: Rest::Nothing, streamed: false, doubtful: None });
        Self { server, peer, doing, client_closed: Arc::default() }
    }

    /// Bytes have come.
    pub(super) fn received(&self) {
        let doing = &mut *self.doing();
        match doing.stage {
            Stage::Quiet { .. } => {
                doing.stage = Stage::Head { until: Instant::now() + self.server.limits.head_timeout };
            }
            // The deadline of a head counts from its first byte; the other stages have nothing to do with reading.
            Stage::Head { .. } | Stage::Working | Stage::Streaming | Stage::Replying(_) | Stage::Closed => {}
        }
    }

    /// The head of a request is complete.
    pub(super) fn begin(&self, rest: Rest) {
        let doing = &mut *self.doing();
        (doing.stage, doing.rest, doing.streamed) = (Stage::Working, rest, false);
    }

    pub(super) fn set_rest(&self, rest: Rest) {
        self.doing().rest = rest;
    }

    pub(super) fn rest(&self) -> Rest {
        self.doing().rest
    }

    /// The reply comes piece by piece: until it is over, its client has time.
    pub(super) fn streams(&self) {
        let doing = &mut *self.doing();
        if !matches!(doing.stage, Stage::Closed) {
            doing.stage = Stage::Streaming;
            doing.streamed = true;
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        self.doing().streamed
    }

    /// hyper has taken the reply.
    pub(super) fn replied(&self, delivery: Delivery) {
        let doing = &mut *self.doing();
        if !matches!(doing.stage, Stage::Closed) {
            doing.stage = Stage::Replying(delivery);
        }
    }

    /// All that was written is with the kernel. Gives back the delivery that is done, if a reply was written. The delivery of a reply
    /// to a client that has closed its side is kept for [`Self::take_doubtful`], and the one that was kept before is done.
    pub(super) fn flushed(&self, has_closed_side: impl FnOnce() -> bool) -> Option<Delivery> {
        let doing = &mut *self.doing();
        let Stage::Replying(delivery) = &mut doing.stage else { return None };
        let delivery = std::mem::take(delivery);
        let until = Instant::now() + self.server.limits.idle_timeout;
        doing.stage = Stage::Quiet { until, timeout: Timeout::Idle };
        if delivery.matters() && (self.client_closed.is_set() || has_closed_side()) {
            return doing.doubtful.replace(delivery.without_bytes());
        }
        Some(delivery)
    }

    /// Delivery of the last reply, if its client had closed its side before and may be gone.
    pub(super) fn take_doubtful(&self) -> Option<Delivery> {
        self.doing().doubtful.take()
    }

    /// What the reply that is being written takes of the reply budget.
    pub(super) fn reply_share(&self) -> Option<Arc<ReplyShare>> {
        match &self.doing().stage {
            Stage::Replying(delivery) => delivery.share(),
            Stage::Quiet { .. } | Stage::Head { .. } | Stage::Working | Stage::Streaming | Stage::Closed => {
                None
            }
        }
    }

    /// Set once the client has closed its side.
    pub(super) fn client_closed(&self) -> Arc<Latch> {
        Arc::clone(&self.client_closed)
    }

    /// Whether what is written now answers a request.
    pub(super) fn answers(&self) -> bool {
        matches!(self.doing().stage, Stage::Working | Stage::Streaming | Stage::Replying(_))
    }

    /// Whether no head of a request is complete that was not answered.
    pub(super) fn is_unasked(&self) -> bool {
        matches!(self.doing().stage, Stage::Quiet { .. } | Stage::Head { .. })
    }

    /// Until when the client must send something.
    pub(super) fn deadline(&self) -> Option<(Instant, Timeout)> {
        match self.doing().stage {
            Stage::Quiet { until, timeout } => Some((until, timeout)),
            Stage::Head { until } => Some((until, Timeout::Head)),
            Stage::Working | Stage::Streaming | Stage::Replying(_) | Stage::Closed => None,
        }
    }

    /// Nothing can be written any more.
    pub(super) fn close(&self) {
        let last = std::mem::replace(&mut self.doing().stage, Stage::Closed);
        // Outside of the lock: a closure may do anything when it is dropped.
        drop(last);
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().expect("nothing panics while this lock is held")
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}
