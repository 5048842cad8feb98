//! Request bodies.

use std::future::poll_fn;
use std::net::IpAddr;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

use super::exchange::{Exchange, Rest};
use super::inlet::{Cut, Incoming};
use super::latch::Latch;
use super::pace::Pace;
use super::shares::BodyShare;
use super::traffic::Timeout;

/// A request body that has not been read. A reply that is given before it was read to its end closes the connection.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    exchange: Arc<Exchange>,
    settling: bool,
}

/// The client's side of a connection. A client that has closed it may still want its reply, or may be gone: the request is
/// answered, and nothing waits for it.
#[derive(Clone, Debug, Default)]
pub struct ClientSide(Arc<Latch>);

impl ClientSide {
    pub async fn closed(&self) {
        self.0.wait().await;
    }

    /// The side of a client that has closed it.
    #[cfg(test)]
    pub(crate) fn already_closed() -> Self {
        let side = Self::default();
        side.0.set();
        side
    }
}

/// A whole request body. It counts among the bytes in flight until it is dropped, and keeps a buffer of its connection
/// alive until it is decoded. A handler that goes on to wait has it give way.
#[derive(Debug)]
pub struct Received {
    pub bytes: Bytes,
    in_flight: BodyShare,
}

/// Too many bytes in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    pub max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    TooLarge {
        max: usize,
    },
    /// Too many bytes in flight.
    Overloaded {
        max: usize,
    },
    /// It came slower than other bodies, which needed its room.
    Evicted {
        max: usize,
    },
    /// It did not keep up.
    Stalled,
    /// The server stops, and does not wait for the rest.
    Stopping,
    /// The connection ended, or broke the protocol.
    Cut,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, exchange: Arc<Exchange>) -> Self {
        Self { incoming, exchange, settling: false }
    }

    /// Who is connected, if that is known.
    pub fn peer(&self) -> Option<IpAddr> {
        self.exchange.peer
    }

    /// The body of a call that keeps alive or ends work: a large one has more room than those of other calls.
    pub fn settling(self) -> Self {
        Self { settling: true, ..self }
    }

    /// Tells when the client has closed its side.
    pub fn client(&self) -> ClientSide {
        ClientSide(self.exchange.client_closed())
    }

    /// A body that is declared too large is not asked for (`Expect: 100-continue`) and none of it is read.
    pub async fn read(mut self) -> Result<Received, BodyError> {
        let received = self.collect().await;
        match received {
            Ok(_) => self.exchange.set_rest(Rest::Nothing),
            Err(BodyError::Stalled) => {
                self.exchange.set_rest(Rest::Stalled);
                self.exchange.server.traffic.count_timeout(Timeout::Body);
            }
            // Its client keeps up with the pace and is heard out, so that it gets to know.
            Err(BodyError::Evicted { .. }) => self.exchange.server.traffic.count_timeout(Timeout::Body),
            Err(
                BodyError::TooLarge { .. }
                | BodyError::Overloaded { .. }
                | BodyError::Stopping
                | BodyError::Cut,
            ) => {}
        }
        received
    }

    async fn collect(&mut self) -> Result<Received, BodyError> {
        let server = Arc::clone(&self.exchange.server);
        let max = server.limits.body_bytes_max;
        let declared = self.incoming.declared();
        if declared.is_some_and(|bytes| bytes > max as u64) {
            return Err(BodyError::TooLarge { max });
        }
        let bytes_max = declared.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(max);
        let mut in_flight = server.traffic.body(self.settling);
        if let Some(bytes) = self.incoming.take_whole() {
            return received_at_once(bytes, in_flight).await;
        }
        let mut whole = Whole::new(bytes_max);
        let mut waiting = Waiting {
            pace: Pace::begin(Instant::now(), server.limits.stall_timeout),
            eviction: in_flight.eviction(),
            evicted: BodyError::Evicted { max: server.limits.bytes_in_flight_max },
            stopped: pin!(server.stopped()),
        };
        while let Some(data) = self.next(&mut waiting).await? {
            waiting.pace.progress(Instant::now(), data.len());
            if data.len() > whole.room() {
                return Err(BodyError::TooLarge { max });
            }
            // Counted as they come: a client that declares much and sends nothing takes nothing from others.
            if !in_flight.grow(data.len()).await {
                return Err(overloaded(&in_flight));
            }
            whole.push(data);
            // A client that sends fast must not keep others from this thread.
            consume_budget().await;
            if !self.incoming.is_over() {
                in_flight.waits(waiting.pace.slow_since());
            }
        }
        in_flight.is_complete();
        Ok(Received { bytes: whole.into(), in_flight })
    }

    /// `None` at the end.
    async fn next(
        &mut self,
        waiting: &mut Waiting<'_, impl Future<Output = ()>>,
    ) -> Result<Option<Bytes>, BodyError> {
        let data = tokio::select! {
            // `poll_data` first: bytes that have come count, however late.
            biased;
            data = poll_fn(|cx| self.incoming.poll_data(cx)) => data,
            () = waiting.stopped.as_mut() => return Err(BodyError::Stopping),
            () = waiting.eviction.wait() => return Err(waiting.evicted),
            () = self.exchange.server.deadlines.until(waiting.pace.deadline()) => return Err(BodyError::Stalled),
        };
        data.map_err(|cut| {
            if let Cut::Broken = cut {
                // The kernel tells of an error once: nothing else may hear of this one.
                self.exchange.client_is_gone();
            }
            BodyError::Cut
        })
    }
}

fn overloaded(in_flight: &BodyShare) -> BodyError {
    BodyError::Overloaded { max: in_flight.bytes_in_flight_max() }
}

/// A body that came with its head.
async fn received_at_once(bytes: Bytes, mut in_flight: BodyShare) -> Result<Received, BodyError> {
    if !in_flight.grow(bytes.len()).await {
        return Err(overloaded(&in_flight));
    }
    in_flight.is_complete();
    Ok(Received { bytes, in_flight })
}

/// Reasons to stop waiting for the next data of a body.
struct Waiting<'a, S> {
    pace: Pace,
    eviction: Arc<Latch>,
    evicted: BodyError,
    stopped: Pin<&'a mut S>,
}

impl Received {
    /// A body that has come in whole, for tests of handlers.
    #[cfg(test)]
    pub(crate) async fn of(traffic: &Arc<super::Traffic>, bytes: Vec<u8>) -> Self {
        let mut in_flight = traffic.body(false);
        assert!(in_flight.grow(bytes.len()).await, "there is room");
        in_flight.is_complete();
        Self { bytes: bytes.into(), in_flight }
    }

    /// Lets go of the bytes, because the request has been made of them. Its texts take as much as they did, and everything
    /// else so many bytes more. A request that is larger than all there may be takes all there is.
    pub async fn decoded(&mut self, more: usize) -> Result<(), NoRoom> {
        self.bytes = Bytes::new();
        let max = self.in_flight.bytes_in_flight_max();
        let more = more.min(max.saturating_sub(self.counted()));
        let fits = more == 0 || self.in_flight.grow(more).await;
        if fits { Ok(()) } else { Err(NoRoom { max }) }
    }

    /// What it takes of the bytes in flight.
    pub fn counted(&self) -> usize {
        self.in_flight.bytes()
    }

    /// The handler goes on to wait: from now on the body gives way to bodies that need its room.
    pub fn gives_way(&self) {
        self.in_flight.waits(Instant::now());
    }

    /// When others need the room of this body.
    pub async fn evicted(&self) {
        self.in_flight.eviction().wait().await;
    }
}

impl Deref for Received {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

/// The data of a body: what came at once is kept as it is, several pieces are copied together.
#[derive(Debug)]
struct Whole {
    first: Bytes,
    copied: Vec<u8>,
    bytes_max: usize,
}

impl Whole {
    fn new(bytes_max: usize) -> Self {
        Self { first: Bytes::new(), copied: Vec::new(), bytes_max }
    }

    fn len(&self) -> usize {
        self.first.len() + self.copied.len()
    }

    fn room(&self) -> usize {
        self.bytes_max - self.len()
    }

    fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        let first = std::mem::take(&mut self.first);
        self.make_room(first.len() + data.len());
        self.copied.extend_from_slice(&first);
        self.copied.extend_from_slice(&data);
    }

    /// At most doubles, so that memory follows what has come, and ends at what was declared.
    fn make_room(&mut self, bytes: usize) {
        let (len, capacity) = (self.copied.len(), self.copied.capacity());
        if capacity - len < bytes {
            let most = self.bytes_max - len;
            self.copied.reserve_exact(bytes.max(len).min(most));
        }
    }
}

impl From<Whole> for Bytes {
    fn from(whole: Whole) -> Self {
        if whole.copied.is_empty() { whole.first } else { whole.copied.into() }
    }
}
