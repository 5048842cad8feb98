//! Replies, and who wants to know that they are out.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::shares::ReplyShare;

/// What comes piece by piece, for as long as it takes. Asked for the next one when the connection has room for it, and
/// dropped when that is gone.
pub trait Source: Send {
    /// `None` after the last.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// The body of a reply.
#[derive(Default)]
pub struct Reply {
    pub(super) bytes: Bytes,
    /// Unset for a reply that is whole.
    pub(super) source: Option<Box<dyn Source>>,
    pub(super) delivery: Delivery,
}

impl Reply {
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), ..Self::default() }
    }

    /// One whose client may take as long as it likes, if only it takes something now and then.
    pub fn stream(source: impl Source + 'static) -> Self {
        Self { source: Some(Box::new(source)), ..Self::default() }
    }

    /// To be called once the whole reply was handed to the kernel; dropped uncalled if it never was.
    pub fn on_delivery(mut self, delivered: impl FnOnce() + Send + 'static) -> Self {
        self.delivery.delivered = Some(Box::new(delivered));
        self
    }

    /// Holds on to the share until the whole reply was handed to the kernel, or never will be.
    pub fn counted(mut self, share: impl Into<Arc<ReplyShare>>) -> Self {
        self.delivery.share = Some(share.into());
        self
    }

    /// Holds on to something for as long as to the share: until the whole reply was handed to the kernel, or never will be.
    pub fn holding(mut self, held: impl Send + 'static) -> Self {
        self.delivery.held = Some(Box::new(held));
        self
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

/// What ends with a reply.
#[derive(Default)]
pub(super) struct Delivery {
    /// `share` and `held` are dropped before `delivered`: a handler that is told finds the bytes of the reply given back.
    share: Option<Arc<ReplyShare>>,
    held: Option<Box<dyn Send>>,
    delivered: Option<Box<dyn FnOnce() + Send>>,
}

impl Delivery {
    pub(super) fn share(&self) -> Option<Arc<ReplyShare>> {
        self.share.clone()
    }

    /// Whether the handler is to be told ([`Reply::on_delivery`]).
    pub(super) fn matters(&self) -> bool {
        self.delivered.is_some()
    }

    /// Gives the bytes of the reply back, before it is known whether they were delivered.
    pub(super) fn without_bytes(self) -> Self {
        Self { share: None, held: None, ..self }
    }

    /// The whole reply is with the kernel.
    pub(super) fn done(self) {
        drop((self.share, self.held));
        if let Some(delivered) = self.delivered {
            delivered();
        }
    }
}
