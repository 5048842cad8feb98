//! What goes into a partition's mailbox.

use std::fmt;

use tokio::sync::oneshot;
use windlass_core::id::ItemNumber;
use windlass_core::item::Item;
use windlass_core::partition::Partition;
use windlass_core::time::Timestamp;
use windlass_core::urgency::Urgency;

use crate::partition::call::Call;
use crate::partition::streams::Followed;

/// Looks at the state between two verbs, and returns what to call once that state is durable.
pub(crate) type Question = Box<dyn FnOnce(&Partition, Timestamp) -> Box<dyn FnOnce() + Send> + Send>;

pub(crate) enum Message {
    Call(Box<dyn Call>),
    Query(Question),
    /// Somebody waits for the item to end; answered by the item as it is.
    Watch {
        number: ItemNumber,
        responder: oneshot::Sender<Option<Item>>,
    },
    /// Somebody wants to hear everything of the item; answered by the item as it is.
    Follow {
        number: ItemNumber,
        responder: oneshot::Sender<Option<Followed>>,
    },
}

impl Message {
    /// Bytes of bodies that come with it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Call(call) => call.bytes(),
            Self::Query(_) | Self::Watch { .. } | Self::Follow { .. } => 0,
        }
    }

    pub(super) fn urgency(&self) -> Urgency {
        match self {
            Self::Call(call) => call.urgency(),
            Self::Query(_) | Self::Watch { .. } | Self::Follow { .. } => Urgency::Ordinary,
        }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => f.debug_tuple("Call").field(call).finish(),
            Self::Query(_) => f.write_str("Query"),
            Self::Watch { number, .. } => f.debug_tuple("Watch").field(number).finish(),
            Self::Follow { number, .. } => f.debug_tuple("Follow").field(number).finish(),
        }
    }
}
