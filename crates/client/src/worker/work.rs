//! What a handler gets.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use windlass_api::items::LeasedItem;
use windlass_api::payload::Payload;

use super::cancellation::Cancellation;
use super::slots::Slot;
use crate::payload::{PayloadError, PayloadExt};
use crate::queue::QueueClient;

/// One item to be worked on: its payload, what else is known of it, and what a handler can do meanwhile.
#[derive(Debug)]
pub struct Work<T> {
    pub payload: T,
    item: Arc<LeasedItem>,
    queue: QueueClient,
    cancellation: Cancellation,
    slot: Arc<Slot>,
}

impl<T> Work<T> {
    pub fn id(&self) -> &str {
        &self.item.id
    }

    /// All that came with the lease, but for the payload.
    pub fn item(&self) -> &LeasedItem {
        &self.item
    }

    /// Where it came from; its client makes every other call.
    pub fn queue(&self) -> &QueueClient {
        &self.queue
    }

    /// When it is ready the handler should clear up and return. What it returns then: a result still counts unless the
    /// permit is lost; with an error the item is given back, its attempt not counted.
    ///
    /// A handler that goes on regardless is dropped after a while ([`Builder::abort_after`](super::Builder::abort_after)).
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// Waits for other items, and gives the slot up meanwhile, so that they can run in this worker. It is taken back when
    /// there is room again, before any new item gets it. The permit is kept throughout.
    pub async fn waiting<F: Future>(&self, wait: F) -> F::Output {
        let waiting = self.slot.give_up();
        let output = wait.await;
        waiting.take_back().await;
        output
    }
}

impl Work<Payload> {
    pub(super) fn new(
        mut item: LeasedItem,
        queue: QueueClient,
        cancellation: Cancellation,
        slot: Arc<Slot>,
    ) -> Self {
        let payload = Payload { json: item.json.take(), utf8: item.utf8.take(), bytes: item.bytes.take() };
        Self { payload, item: Arc::new(item), queue, cancellation, slot }
    }

    pub(super) fn parsed<T: DeserializeOwned>(self) -> Result<Work<T>, PayloadError> {
        let Self { payload, item, queue, cancellation, slot } = self;
        Ok(Work { payload: payload.parse()?, item, queue, cancellation, slot })
    }
}
