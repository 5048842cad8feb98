//! Events of one item, from its handler to the server: in order, each once, and as many to a request as have come meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use windlass_api::Code;
use windlass_api::events::{EmitReply, EmitRequest, NewEvent};
use windlass_api::items::{Held, LeasedItem};

use super::event::{Event, Observer};
use super::heart::Heart;
use crate::client::Client;
use crate::error::{ClientError, Outcome};
use crate::payload::{LeasedItemExt, PayloadError};
use crate::retries::{Retries, may_pass_some_day};

/// The most that one call can emit; and as many may wait to be sent before a handler has to.
const EVENTS_MAX: usize = 1000;
/// A request that has come to so many bytes of payloads takes no more.
const BYTES_MAX: usize = 1 << 20;

/// Why an event is not in the stream.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    #[error(transparent)]
    BadPayload(#[from] PayloadError),
    /// The server refused this one or one before it. It takes no more of this attempt: a story with a hole is none.
    #[error("the item's events are refused: {0}")]
    Refused(Arc<ClientError>),
    /// The handler has ended, or the item is not this worker's any more.
    #[error("the item is not worked on any more")]
    Ended,
}

/// The handler's side.
#[derive(Clone, Debug)]
pub(super) struct Events {
    events: mpsc::Sender<NewEvent>,
    taken: Arc<AtomicU64>,
    progress: watch::Receiver<Progress>,
}

/// How far the other side is.
#[derive(Clone, Debug, Default)]
struct Progress {
    durable: u64,
    refused: Option<Arc<ClientError>>,
}

impl Events {
    pub(super) async fn emit(&self, event: NewEvent) -> Result<(), EmitError> {
        let place = self.events.reserve().await.map_err(|_| self.why())?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        place.send(event);
        Ok(())
    }

    pub(super) async fn flush(&self) -> Result<(), EmitError> {
        let taken = self.taken.load(Ordering::Relaxed);
        let mut progress = self.progress.clone();
        let there = progress.wait_for(|now| now.durable >= taken || now.refused.is_some()).await;
        let durable = there.is_ok_and(|now| now.durable >= taken);
        if durable { Ok(()) } else { Err(self.why()) }
    }

    fn why(&self) -> EmitError {
        self.progress.borrow().refused.clone().map_or(EmitError::Ended, EmitError::Refused)
    }
}

/// Sends until the item ends. Gone with whoever has it.
#[derive(Debug)]
pub(super) struct Emitter {
    sending: JoinSet<()>,
    end: oneshot::Sender<()>,
}

impl Emitter {
    pub(super) fn start(
        client: Client,
        heart: &Arc<Heart>,
        item: &LeasedItem,
        observer: &Observer,
    ) -> (Events, Self) {
        let (events, emitted) = mpsc::channel(EVENTS_MAX);
        let (tell, progress) = watch::channel(Progress::default());
        let (end, ended) = oneshot::channel();
        let (heart, observer) = (Arc::clone(heart), observer.clone());
        let (held, last_seq) = (item.held(), item.event_count.unwrap_or_default());
        let sender = Sender { client, heart, held, observer, last_seq, progress: tell };
        let mut sending = JoinSet::new();
        sending.spawn(sender.run(emitted, ended));
        (Events { events, taken: Arc::default(), progress }, Self { sending, end })
    }

    /// When all that was emitted is durable or refused. Nothing more is taken.
    pub(super) async fn ended(mut self) {
        drop(self.end);
        let _last = self.sending.join_next().await;
    }
}

struct Sender {
    client: Client,
    heart: Arc<Heart>,
    held: Held,
    observer: Observer,
    /// The number of the item's last event. Only who holds the item can add any.
    last_seq: u64,
    progress: watch::Sender<Progress>,
}

impl Sender {
    async fn run(mut self, mut emitted: mpsc::Receiver<NewEvent>, mut end: oneshot::Receiver<()>) {
        let mut waiting = Vec::new();
        loop {
            if waiting.is_empty() {
                tokio::select! {
                    biased;
                    taken = emitted.recv_many(&mut waiting, EVENTS_MAX) => if taken == 0 { return },
                    _ = &mut end, if !emitted.is_closed() => {
                        emitted.close();
                        continue;
                    }
                }
            }
            let batch: Vec<NewEvent> = waiting.drain(..fitting(&waiting)).collect();
            let count = batch.len() as u64;
            match self.emit(batch).await {
                Ok(()) => self.progress.send_modify(|progress| progress.durable += count),
                Err(error) => {
                    self.observer.tell(Event::EmitFailed { id: &self.held.id, error: &error });
                    self.progress.send_modify(|progress| progress.refused = Some(Arc::new(error)));
                    return;
                }
            }
        }
    }

    /// Again and again, for as long as it is polled: a server that is away comes back.
    async fn emit(&mut self, events: Vec<NewEvent>) -> Result<(), ClientError> {
        let (mut may_be_done, mut times) = (false, 0);
        loop {
            match self.try_emit(&events).await {
                Ok(reply) => {
                    self.last_seq = reply.last_seq;
                    if reply.cancel_requested {
                        self.heart.is_to_be_cancelled(&self.held);
                    }
                    return Ok(());
                }
                Err(error) if may_be_done && self.was_done(&error, events.len()) => {
                    self.last_seq += events.len() as u64;
                    return Ok(());
                }
                Err(error) if may_pass_some_day(&error) => {
                    may_be_done |= error.outcome() == Outcome::Unknown;
                }
                Err(error) => {
                    if matches!(error.code(), Some(Code::LeaseLost | Code::NotFound)) {
                        self.heart.is_lost(&self.held);
                    }
                    return Err(error);
                }
            }
            times += 1;
            sleep(Retries::default().backoff(times, fastrand::f64())).await;
        }
    }

    async fn try_emit(&self, events: &[NewEvent]) -> Result<EmitReply, ClientError> {
        let (Held { id, permit }, after) = (self.held.clone(), Some(self.last_seq));
        self.client.emit(EmitRequest { id, permit, after, events: events.to_vec() }).await
    }

    /// Whether a refusal only says that the server had done it before.
    fn was_done(&self, error: &ClientError, events: usize) -> bool {
        let ClientError::Refused { code, details, .. } = error else { return false };
        *code == Code::WrongState && details.last_seq == Some(self.last_seq + events as u64)
    }
}

/// How many of them go with one request: at least one.
fn fitting(events: &[NewEvent]) -> usize {
    let mut bytes = 0;
    let fits = |event: &&NewEvent| {
        let room = bytes < BYTES_MAX;
        let text = event.json.as_ref().or(event.utf8.as_ref()).map(String::len);
        bytes += text.or(event.bytes.as_ref().map(bytes::Bytes::len)).unwrap_or_default();
        room
    };
    events.iter().take_while(fits).count()
}
