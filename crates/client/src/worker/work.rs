//! What a handler gets.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_api::events::NewEvent;
use windlass_api::items::LeasedItem;
use windlass_api::payload::Payload;

use super::cancellation::Cancellation;
use super::emit::{EmitError, Events};
use super::failure::Failure;
use super::slots::Slot;
use crate::events::new_event;
use crate::payload::{PayloadError, PayloadExt};
use crate::queue::QueueClient;

/// The type of events that tell how far it is.
const PROGRESS: &str = "progress";

#[derive(Serialize)]
struct Progress {
    done: u64,
    total: u64,
}

/// One item to be worked on: its payload, what else is known of it, and what a handler can do meanwhile.
#[derive(Debug)]
pub struct Work<T> {
    pub payload: T,
    item: Arc<LeasedItem>,
    queue: QueueClient,
    cancellation: Cancellation,
    slot: Arc<Slot>,
    events: Events,
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

/// What others see of it meanwhile.
impl<T> Work<T> {
    /// Appends an event to the item's stream, its payload the JSON of `value`. It returns as soon as the event is accepted
    /// for sending: what comes while others are under way goes with the next request, in order. All of it is
    /// durable before the item's end is told; [`Work::flush`] waits for that earlier.
    ///
    /// While the handler runs, a server that is away or takes no events is waited for. Once a thousand events or 8 MiB of payloads
    /// wait to be sent, this waits until there is room. It may be dropped then, as by a timeout: that event is not
    /// sent, and all others are. When the handler has ended, its events keep the item from ending for one lease timeout, at most a
    /// minute, or a second if the worker stops. What is not durable by then is given up
    /// ([`Event::EmitFailed`](super::Event::EmitFailed)): the server may have no room for events, and take the end.
    ///
    /// Somebody's wish to cancel the item is heard with the answer, as with that to a heartbeat.
    pub async fn emit(&self, r#type: &str, value: &impl Serialize) -> Result<(), EmitError> {
        self.events.emit(new_event(r#type, value)?).await
    }

    /// Like [`Work::emit`], with any payload.
    pub async fn emit_raw(&self, event: NewEvent) -> Result<(), EmitError> {
        self.events.emit(event).await
    }

    /// An event of the type `progress`: so much is done, of so much in all.
    pub async fn progress(&self, done: u64, total: u64) -> Result<(), EmitError> {
        self.emit(PROGRESS, &Progress { done, total }).await
    }

    /// When all that was emitted is durable, however long that takes.
    pub async fn flush(&self) -> Result<(), EmitError> {
        self.events.flush().await
    }

    /// For the handler to return: the item is given up until somebody answers, its attempt not counted. The reason, of which
    /// 512 bytes are kept, is shown with the item.
    pub fn suspend(&self, reason: impl Into<String>) -> Failure {
        Failure::suspend(reason)
    }

    /// The answer, if the item was suspended.
    pub fn input(&self) -> Option<&Payload> {
        self.item.input.as_ref()
    }
}

impl Work<Payload> {
    pub(super) fn new(
        mut item: LeasedItem,
        queue: QueueClient,
        cancellation: Cancellation,
        slot: Arc<Slot>,
        events: Events,
    ) -> Self {
        let payload = Payload { json: item.json.take(), utf8: item.utf8.take(), bytes: item.bytes.take() };
        Self { payload, item: Arc::new(item), queue, cancellation, slot, events }
    }

    pub(super) fn parsed<T: DeserializeOwned>(self) -> Result<Work<T>, PayloadError> {
        let Self { payload, item, queue, cancellation, slot, events } = self;
        Ok(Work { payload: payload.parse()?, item, queue, cancellation, slot, events })
    }
}
