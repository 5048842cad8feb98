//! Connections, and how they are kept from doing harm: every wait has an end and every amount a limit.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub struct Limits {
    pub connections_max: usize,
    /// Of the request line and all headers together.
    pub head_bytes_max: usize,
    pub headers_max: usize,
    /// Until a new connection sends anything.
    pub first_byte_timeout: Duration,
    /// From the first byte of a request until its head is complete.
    pub head_timeout: Duration,
    /// Between two requests.
    pub idle_timeout: Duration,
    /// A request body must keep up, and a reply must be taken: no longer than this without progress.
    pub stall_timeout: Duration,
    pub body_bytes_max: usize,
    /// Bytes of all request bodies together that are being read or worked on.
    pub bytes_in_flight_max: usize,
}

/// Answers requests.
pub trait Handler: Send + Sync + fmt::Debug + 'static {
    /// Dropped when the client is gone.
    fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
    ) -> Pin<Box<dyn Future<Output = Response<Reply>> + Send>>;
}

/// A request body that has not been read.
#[derive(Debug)]
pub struct RequestBody {}

impl RequestBody {
    pub async fn read(self) -> Result<Received, BodyError> {
        todo!()
    }
}

/// A whole request body. It counts among the bytes in flight until it is dropped.
#[derive(Debug)]
pub struct Received {
    pub bytes: Bytes,
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
    /// The connection ended, or broke the protocol.
    Cut,
}

/// The body of a reply.
#[derive(Default)]
pub struct Reply {
    _bytes: Bytes,
    _delivered: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

impl Reply {
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { _bytes: bytes.into(), _delivered: None }
    }

    /// To be called once the whole reply was handed to the kernel; dropped uncalled if it never was.
    pub fn on_delivery(self, delivered: impl FnOnce() + Send + 'static) -> Self {
        Self { _delivered: Some(Box::new(delivered)), ..self }
    }
}

/// What connections are doing now, for metrics.
#[derive(Debug, Default)]
pub struct Traffic {}

#[derive(Debug)]
pub struct Listener {}

impl Listener {
    pub async fn bind(_address: SocketAddr, _limits: Limits) -> std::io::Result<Self> {
        todo!()
    }

    pub fn local_addr(&self) -> SocketAddr {
        todo!()
    }

    pub fn traffic(&self) -> Arc<Traffic> {
        todo!()
    }

    /// Until `stopping` is true: then takes no new connection, closes idle ones, lets requests under way be answered,
    /// and returns when the last connection is gone, or those that are left were cut at `grace`.
    pub async fn run(self, _handler: Arc<dyn Handler>, _stopping: watch::Receiver<bool>, _grace: Duration) {
        todo!()
    }
}
