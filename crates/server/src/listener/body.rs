//! Request bodies.

use std::net::IpAddr;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, sleep_until};

use super::exchange::{Exchange, Rest};
use super::pace::Pace;
use super::traffic::{InFlight, Timeout};

/// A request body that has not been read. A reply that is given before it was read to its end closes the connection.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    exchange: Arc<Exchange>,
    settling: bool,
}

/// A whole request body. It counts among the bytes in flight until it is dropped, and keeps a buffer of its connection
/// alive: a handler that goes on to wait lets go of it first.
#[derive(Debug)]
pub struct Received {
    pub bytes: Bytes,
    _in_flight: InFlight,
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

    /// The body of a call that keeps alive or ends work: there is room for it beside the bytes in flight of all others.
    pub fn settling(self) -> Self {
        Self { settling: true, ..self }
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
        if self.incoming.size_hint().lower() > max as u64 {
            return Err(BodyError::TooLarge { max });
        }
        let declared = self.incoming.size_hint().upper();
        let bytes_max = declared.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(max);
        let mut whole = Whole::new(bytes_max);
        let mut in_flight = InFlight::none(&server.traffic, self.settling);
        let mut pace = Pace::begin(Instant::now());
        let mut stopped = pin!(server.stopped());
        while let Some(data) = self.next(&pace, stopped.as_mut()).await? {
            pace.progress(Instant::now(), data.len());
            if data.len() > whole.room() {
                return Err(BodyError::TooLarge { max });
            }
            // Counted as they come: who declares much and sends nothing takes nothing from others.
            if !in_flight.grow(data.len()) {
                return Err(BodyError::Overloaded { max: server.limits.bytes_in_flight_max });
            }
            whole.push(data);
        }
        Ok(Received { bytes: whole.into(), _in_flight: in_flight })
    }

    /// `None` at the end.
    async fn next(
        &mut self,
        pace: &Pace,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<Bytes>, BodyError> {
        let deadline = pace.deadline(self.exchange.server.limits.stall_timeout);
        loop {
            let frame = tokio::select! {
                // What has come counts, however late it is.
                biased;
                frame = self.incoming.frame() => frame,
                () = stopped.as_mut() => return Err(BodyError::Stopping),
                () = sleep_until(deadline) => return Err(BodyError::Stalled),
            };
            let Some(frame) = frame else { return Ok(None) };
            // What is no data is trailers, which mean nothing here.
            if let Ok(data) = frame.map_err(|_| BodyError::Cut)?.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

impl Deref for Received {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

/// The frames of a body: one is kept as it is, several are copied together.
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
