//! What one request body and one reply take of the budgets, until they are dropped.

use std::sync::Arc;

use tokio::time::Instant;

use super::budget::Share;
use super::latch::Latch;
use super::traffic::Traffic;

/// What one request body takes of the bytes in flight.
#[derive(Debug)]
pub(super) struct BodyShare {
    traffic: Arc<Traffic>,
    share: Share,
    is_settling: bool,
    /// Bytes of the body once it is complete. They decide whether the body is small; what is made of it does not.
    received: Option<usize>,
}

impl BodyShare {
    pub(super) fn new(traffic: Arc<Traffic>, share: Share, is_settling: bool) -> Self {
        Self { traffic, share, is_settling, received: None }
    }

    pub(super) fn bytes(&self) -> usize {
        self.share.bytes()
    }

    pub(super) fn bytes_in_flight_max(&self) -> usize {
        self.traffic.bytes_in_flight_max()
    }

    /// Whether there was room for that many more. Slower bodies give way.
    pub(super) async fn grow(&mut self, bytes: usize) -> bool {
        let received = self.received.unwrap_or(self.share.bytes() + bytes);
        let bytes_max = self.traffic.bodies_max(received, self.is_settling);
        self.share.grow(bytes, bytes_max).await
    }

    /// The body waits for its client.
    pub(super) fn waits(&self, slow_since: Instant) {
        if self.share.bytes() > 0 {
            self.share.gives_way(slow_since);
        }
    }

    pub(super) fn eviction(&self) -> Arc<Latch> {
        self.share.eviction()
    }

    /// The whole body has come.
    pub(super) fn is_complete(&mut self) {
        self.received = Some(self.share.bytes());
        self.share.is_settled();
    }
}

/// What one reply takes of the bytes of replies that may wait to be taken.
#[derive(Debug)]
pub struct ReplyShare {
    reply: Share,
    _stream: Option<Share>,
    /// Several replies carry the same bytes.
    is_shared: bool,
}

impl ReplyShare {
    pub(super) fn new(reply: Share, stream: Option<Share>) -> Self {
        Self { reply, _stream: stream, is_shared: false }
    }

    /// For bytes that several replies carry. They give way by their age, because a reader that keeps up must not hold them
    /// for the others.
    pub fn shared(self) -> Arc<Self> {
        self.waits(Instant::now());
        Arc::new(Self { is_shared: true, ..self })
    }

    /// The reply waits for its client.
    pub(super) fn waits(&self, slow_since: Instant) {
        if self.reply.bytes() > 0 && !self.is_shared {
            self.reply.gives_way(slow_since);
        }
    }

    pub(crate) fn eviction(&self) -> Arc<Latch> {
        self.reply.eviction()
    }
}
