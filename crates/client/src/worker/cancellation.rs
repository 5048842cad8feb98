//! How a handler learns that it is not to go on.

use tokio::sync::watch;

/// Why a handler is not left to finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The permit is void: somebody else may be working on the item. Whatever comes out is not told.
    LeaseLost,
    /// The lease could not be extended and is about to end: somebody else will have the item then. A result still counts
    /// if it can be told before.
    LeaseEnding,
    /// Somebody wants the item cancelled.
    CancelRequested,
    /// The worker stops, and the grace is over.
    Stopping,
}

/// Tells a handler that it is not to go on. Cheap to clone, and may be passed on.
#[derive(Clone, Debug)]
pub struct Cancellation(watch::Receiver<Option<Reason>>);

/// The side that says so.
#[derive(Debug)]
pub(super) struct Cancel(watch::Sender<Option<Reason>>);

pub(super) fn cancellation() -> (Cancel, Cancellation) {
    let (sender, receiver) = watch::channel(None);
    (Cancel(sender), Cancellation(receiver))
}

impl Cancel {
    pub(super) fn cancel(&self, reason: Reason) {
        self.0.send_replace(Some(reason));
    }
}

impl Cancellation {
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// None as long as the handler may go on.
    pub fn reason(&self) -> Option<Reason> {
        *self.0.borrow()
    }

    /// When the handler is not to go on. May be dropped and asked again; of an item that has ended it is never ready.
    pub async fn cancelled(&self) -> Reason {
        let mut receiver = self.0.clone();
        let reason = receiver.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
        match reason {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }
}
