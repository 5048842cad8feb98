//! [`Exchange`]: what a connection is doing, as its I/O, its requests and their bodies must all know it.
//!
//! Requests of a connection go strictly one after the other, pipelined or not: no head is read before the last reply is out,
//! and a reply that is given before its request's body has come to an end closes the connection.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use super::Server;
use super::latch::Latch;
use super::reply::Delivery;
use super::shares::ReplyShare;
use super::traffic::Timeout;

/// Doubtful deliveries of one connection. A client that closes its side behind more pipelined requests than this is still answered;
/// its oldest replies are taken for delivered.
const DOUBTFUL_MAX: usize = 1024;

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
    /// Deliveries of replies to a client that had closed its side, the oldest first, until it is known whether that client is gone.
    doubtful: VecDeque<Delivery>,
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
    /// All of the reply is there, and it is being written.
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

/// What is known of the client's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientEnd {
    Open,
    /// The client sends no more. Whether it still reads is not known.
    Closed,
    /// The connection is broken.
    Gone,
}

impl Exchange {
    pub(super) fn new(server: Arc<Server>, peer: Option<IpAddr>) -> Self {
        let until = Instant::now() + server.limits.first_byte_timeout;
        let stage = Stage::Quiet { until, timeout: Timeout::FirstByte };
        let doing =
            Mutex::new(Doing { stage, rest: Rest::Nothing, streamed: false, doubtful: VecDeque::new() });
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

    /// The rest of the reply is about to be written.
    pub(super) fn replies(&self, delivery: Delivery) {
        let doing = &mut *self.doing();
        if !matches!(doing.stage, Stage::Closed) {
            doing.stage = Stage::Replying(delivery);
        }
    }

    /// All that was written is with the kernel. Gives back a delivery that is done, if there is one: that of the reply, unless its
    /// client has closed its side. Such a delivery is kept for [`Self::take_doubtful`]; of more than `DOUBTFUL_MAX` the oldest is done.
    pub(super) fn flushed(&self, client_end: impl FnOnce() -> ClientEnd) -> Option<Delivery> {
        let delivery = self.take_replied()?;
        if !delivery.matters() {
            return Some(delivery);
        }
        let end = if self.client_closed.is_set() { ClientEnd::Closed } else { client_end() };
        match end {
            ClientEnd::Open => Some(delivery),
            ClientEnd::Closed => self.doubt(delivery.without_bytes()),
            ClientEnd::Gone => {
                self.client_is_gone();
                None
            }
        }
    }

    /// Delivery of the reply that was written, if there was one. The client is idle from now on.
    fn take_replied(&self) -> Option<Delivery> {
        let doing = &mut *self.doing();
        let Stage::Replying(delivery) = &mut doing.stage else { return None };
        let delivery = std::mem::take(delivery);
        let until = Instant::now() + self.server.limits.idle_timeout;
        doing.stage = Stage::Quiet { until, timeout: Timeout::Idle };
        Some(delivery)
    }

    fn doubt(&self, delivery: Delivery) -> Option<Delivery> {
        let doubtful = &mut self.doing().doubtful;
        doubtful.push_back(delivery);
        if doubtful.len() > DOUBTFUL_MAX { doubtful.pop_front() } else { None }
    }

    /// Deliveries of the replies whose client had closed its side before and may be gone, the oldest first.
    pub(super) fn take_doubtful(&self) -> VecDeque<Delivery> {
        std::mem::take(&mut self.doing().doubtful)
    }

    /// The connection is broken: what was doubtful is not delivered.
    pub(super) fn client_is_gone(&self) {
        // `take_doubtful` has let go of the lock: a closure may do anything when it is dropped.
        drop(self.take_doubtful());
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

#[cfg(test)]
pub(super) mod tests {
    use std::pin::Pin;

    use http::{Request, Response, StatusCode};
    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::listener::{Handler, Limits, Reply, RequestBody, Traffic};

    #[derive(Debug)]
    struct Unasked;

    impl Handler for Unasked {
        fn handle(
            self: Arc<Self>,
            _: Request<RequestBody>,
        ) -> Pin<Box<dyn Future<Output = Response<Reply>> + Send>> {
            unreachable!("no request is made")
        }

        fn refused(&self, _: StatusCode) -> String {
            unreachable!("no connection is refused")
        }
    }

    pub(in crate::listener) fn exchange() -> Arc<Exchange> {
        let limits = Limits::default();
        let traffic = Arc::new(Traffic::new(limits.bytes_in_flight_max, limits.slow_after));
        let server = Server::new(limits, traffic, Arc::new(Unasked), watch::channel(false).1);
        Arc::new(Exchange::new(Arc::new(server), None))
    }

    /// Has a reply written. The receiver hears of its delivery, or is disconnected without it.
    pub(in crate::listener) fn reply(exchange: &Arc<Exchange>) -> mpsc::Receiver<()> {
        let (sender, told) = mpsc::channel(1);
        let reply = Reply::new("").on_delivery(move || sender.try_send(()).expect("told once"));
        exchange.replies(reply.delivery);
        told
    }

    const UNDECIDED: Result<(), mpsc::error::TryRecvError> = Err(mpsc::error::TryRecvError::Empty);
    pub(in crate::listener) const UNDELIVERED: Result<(), mpsc::error::TryRecvError> =
        Err(mpsc::error::TryRecvError::Disconnected);

    #[test]
    fn a_reply_to_a_client_that_is_there_is_done() {
        let exchange = exchange();
        let mut told = reply(&exchange);
        exchange.flushed(|| ClientEnd::Open).expect("the delivery is done").done();
        assert_eq!(told.try_recv(), Ok(()));
        assert!(exchange.take_doubtful().is_empty());
        assert!(exchange.flushed(|| ClientEnd::Open).is_none(), "no other reply was written");
    }

    #[test]
    fn a_reply_to_a_client_that_has_closed_its_side_is_doubtful() {
        let exchange = exchange();
        let mut told = reply(&exchange);
        assert!(!exchange.client_closed().is_set());
        assert!(exchange.flushed(|| ClientEnd::Closed).is_none());
        assert_eq!(told.try_recv(), UNDECIDED);
        assert_eq!(exchange.take_doubtful().len(), 1);
    }

    #[test]
    fn a_client_that_is_known_to_have_closed_its_side_is_not_looked_at_again() {
        let exchange = exchange();
        let _told = reply(&exchange);
        exchange.client_closed().set();
        assert!(exchange.flushed(|| unreachable!("the latch is set")).is_none());
        assert_eq!(exchange.take_doubtful().len(), 1);
    }

    #[test]
    fn a_broken_connection_has_delivered_nothing_that_was_doubtful() {
        let exchange = exchange();
        let mut earlier = reply(&exchange);
        assert!(exchange.flushed(|| ClientEnd::Closed).is_none());
        let mut later = reply(&exchange);
        assert!(exchange.flushed(|| ClientEnd::Gone).is_none());
        assert_eq!((earlier.try_recv(), later.try_recv()), (UNDELIVERED, UNDELIVERED));
    }

    #[test]
    fn all_doubtful_deliveries_are_kept_up_to_a_number() {
        let exchange = exchange();
        let mut told = Vec::new();
        for _ in 0..DOUBTFUL_MAX {
            told.push(reply(&exchange));
            assert!(exchange.flushed(|| ClientEnd::Closed).is_none());
        }
        let _last = reply(&exchange);
        exchange.flushed(|| ClientEnd::Closed).expect("one is too many").done();
        assert_eq!((told[0].try_recv(), told[1].try_recv()), (Ok(()), UNDECIDED));
        assert_eq!(exchange.take_doubtful().len(), DOUBTFUL_MAX);
    }
}
