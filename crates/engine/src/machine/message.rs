//! What goes into a mailbox.

use std::fmt;

use windlass_core::time::Timestamp;
use windlass_core::urgency::Urgency;

use super::Served;
use super::call::Call;

/// Looks at the state between two verbs, and returns what to call once that state is durable.
pub(crate) type Question<M> = Box<dyn FnOnce(&M, Timestamp) -> Box<dyn FnOnce() + Send> + Send>;

pub(crate) enum Message<M: Served> {
    Call(Box<dyn Call<M>>),
    Query(Question<M>),
    Request(M::Request),
}

impl<M: Served> Message<M> {
    /// Bytes of bodies that come with it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Call(call) => call.bytes(),
            Self::Query(_) | Self::Request(_) => 0,
        }
    }

    pub(super) fn urgency(&self) -> Urgency {
        match self {
            Self::Call(call) => call.urgency(),
            Self::Query(_) => Urgency::Ordinary,
            Self::Request(request) => M::urgency(request),
        }
    }
}

impl<M: Served> fmt::Debug for Message<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => f.debug_tuple("Call").field(call).finish(),
            Self::Query(_) => f.write_str("Query"),
            Self::Request(request) => f.debug_tuple("Request").field(request).finish(),
        }
    }
}
