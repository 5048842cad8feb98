//! Replies, and who wants to know that they are out.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::exchange::{Delivered, Exchange};

/// The body of a reply.
#[derive(Default)]
pub struct Reply {
    bytes: Bytes,
    delivered: Option<Delivered>,
}

impl Reply {
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), delivered: None }
    }

    /// To be called once the whole reply was handed to the kernel; dropped uncalled if it never was.
    pub fn on_delivery(self, delivered: impl FnOnce() + Send + 'static) -> Self {
        Self { delivered: Some(Box::new(delivered)), ..self }
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// A reply on its way out.
#[derive(Debug)]
pub(super) struct Outgoing {
    bytes: Bytes,
    promise: Option<Promise>,
}

impl Outgoing {
    pub(super) fn new(reply: Reply, exchange: Arc<Exchange>) -> Self {
        let promise = Promise { exchange, delivered: reply.delivered };
        Self { bytes: reply.bytes, promise: Some(promise) }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.promise = None;
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// Passes on to the connection when hyper takes the bytes, or does not want them: an empty body, the answer to `HEAD`.
struct Promise {
    exchange: Arc<Exchange>,
    delivered: Option<Delivered>,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.exchange.replied(self.delivered.take());
    }
}

impl fmt::Debug for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").finish_non_exhaustive()
    }
}
