//! The sending end of a mailbox, and its bounds: in messages, and in bytes of bodies.
//!
//! [`Urgency::Ordinary`] messages fill at most three quarters of either. The last quarter is kept for
//! [`Urgency::Settling`] ones: work must not be done twice because too much was produced.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use windlass_core::urgency::Urgency;

use super::Served;
use super::message::Message;
use crate::error::EngineError;
use crate::store::StoreError;

const MESSAGES_MAX: usize = 4096;
const BYTES_MAX: usize = 64 << 20;
const ORDINARY_MESSAGES_MAX: usize = MESSAGES_MAX / 4 * 3;
const ORDINARY_BYTES_MAX: usize = BYTES_MAX / 4 * 3;

#[derive(Debug)]
pub(super) struct Inbox<M: Served> {
    sender: mpsc::Sender<Message<M>>,
    /// Bytes of all messages that wait.
    bytes: Amount,
    ordinary_messages: Amount,
    ordinary_bytes: Amount,
}

impl<M: Served> Inbox<M> {
    pub(super) fn new() -> (Self, mpsc::Receiver<Message<M>>) {
        let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
        let inbox = Self {
            sender,
            bytes: Amount::new("bytes waiting for one partition", BYTES_MAX),
            ordinary_messages: Amount::new("requests waiting for one partition", ORDINARY_MESSAGES_MAX),
            ordinary_bytes: Amount::new("bytes waiting for one partition", ORDINARY_BYTES_MAX),
        };
        (inbox, receiver)
    }

    pub(super) fn send(&self, message: Message<M>) -> Result<(), EngineError> {
        let (bytes, urgency) = (message.bytes(), message.urgency());
        let max = match urgency {
            Urgency::Ordinary => ORDINARY_BYTES_MAX,
            Urgency::Settling => BYTES_MAX,
        };
        if bytes > max {
            return Err(EngineError::TooLarge(StoreError::TooLarge { bytes, max }));
        }
        // Counted before the message is sent: the writer may take it out at any moment after.
        self.count(urgency, bytes)?;
        self.sender.try_send(message).map_err(|error| {
            self.uncount(urgency, bytes);
            match error {
                mpsc::error::TrySendError::Full(_) => {
                    EngineError::Overloaded { what: "requests waiting for one partition", max: MESSAGES_MAX }
                }
                mpsc::error::TrySendError::Closed(_) => EngineError::not_applied("the partition is closed"),
            }
        })
    }

    /// Gives the message's room back. The writer calls it for each message that it takes out of the inbox.
    pub(super) fn taken(&self, message: &Message<M>) {
        self.uncount(message.urgency(), message.bytes());
    }

    fn count(&self, urgency: Urgency, bytes: usize) -> Result<(), EngineError> {
        match urgency {
            Urgency::Ordinary => all_or_none([
                (&self.ordinary_bytes, bytes),
                (&self.ordinary_messages, 1),
                // Last: an ordinary message that is refused takes no room from others, not even for a moment.
                (&self.bytes, bytes),
            ]),
            Urgency::Settling => all_or_none([(&self.bytes, bytes)]),
        }
    }

    fn uncount(&self, urgency: Urgency, bytes: usize) {
        self.bytes.sub(bytes);
        if urgency == Urgency::Ordinary {
            self.ordinary_bytes.sub(bytes);
            self.ordinary_messages.sub(1);
        }
    }
}

fn all_or_none<const N: usize>(added: [(&Amount, usize); N]) -> Result<(), EngineError> {
    for (index, (amount, more)) in added.iter().enumerate() {
        if let Err(full) = amount.add(*more) {
            added[..index].iter().for_each(|(amount, more)| amount.sub(*more));
            return Err(full);
        }
    }
    Ok(())
}

/// Something that waits in the inbox, and the most there may be of it.
#[derive(Debug)]
struct Amount {
    what: &'static str,
    now: AtomicUsize,
    max: usize,
}

impl Amount {
    fn new(what: &'static str, max: usize) -> Self {
        Self { what, now: AtomicUsize::new(0), max }
    }

    fn add(&self, more: usize) -> Result<(), EngineError> {
        if self.now.fetch_add(more, Ordering::Relaxed) + more > self.max {
            self.sub(more);
            return Err(EngineError::Overloaded { what: self.what, max: self.max });
        }
        Ok(())
    }

    fn sub(&self, less: usize) {
        self.now.fetch_sub(less, Ordering::Relaxed);
    }
}
