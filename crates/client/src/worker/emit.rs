//! Events of one item, from its handler to the server: in order, each once, and as many to a request as have come meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use windlass_api::Code;
use windlass_api::events::{EmitReply, EmitRequest, NewEvent};
use windlass_api::items::{Held, LeasedItem};

use super::event::{Event, Observer};
use super::heart::Heart;
use crate::client::Client;
use crate::error::{ClientError, Outcome};
use crate::payload::{LeasedItemExt, PayloadError};
use crate::retries::{Retries, asked_pause, may_pass_some_day};

/// The most that one call can emit; and as many may wait for the next one before a handler has to.
const EVENTS_MAX: usize = 1000;
/// A request that has come to so many bytes of payloads takes no more.
const BYTES_MAX: usize = 1 << 20;
/// So many bytes of payloads may be accepted and not durable yet; one that is larger than that goes alone.
const UNSENT_BYTES_MAX: usize = 8 << 20;

/// Why an event is not in the stream.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    #[error(transparent)]
    BadPayload(#[from] PayloadError),
    /// The server refused this one or one before it, or did not take it in time. It takes no more of this attempt: a story with
    /// a hole is none.
    #[error("the item's events are refused: {0}")]
    Refused(Arc<ClientError>),
    /// The handler has ended, or the item is not this worker's any more.
    #[error("the item is not worked on any more")]
    Ended,
}

/// The handler's side.
#[derive(Clone, Debug)]
pub(super) struct Events {
    events: mpsc::Sender<Unsent>,
    room: Arc<Semaphore>,
    taken: Arc<AtomicU64>,
    progress: watch::Receiver<Progress>,
}

/// An event, and its share of the room for such until it is durable.
#[derive(Debug)]
struct Unsent {
    event: NewEvent,
    room: OwnedSemaphorePermit,
}

/// How long it is tried to send them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Patience {
    /// As long as it takes, while the handler runs.
    Endless,
    /// The handler has ended: nothing more is taken.
    Ending,
    /// What is not sent now is given up.
    Over,
}

/// How far the other side is.
#[derive(Clone, Debug, Default)]
struct Progress {
    durable: u64,
    refused: Option<Arc<ClientError>>,
}

impl Events {
    pub(super) async fn emit(&self, event: NewEvent) -> Result<(), EmitError> {
        let bytes = u32::try_from(size(&event).min(UNSENT_BYTES_MAX)).expect("all of the room fits");
        // First come, first served; and what is dropped unsent gives its room back.
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.expect("it is never closed");
        let place = self.events.reserve().await.map_err(|_| self.why())?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        place.send(Unsent { event, room });
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
    patience: watch::Sender<Patience>,
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
        let patience = watch::Sender::new(Patience::Endless);
        let (heart, observer) = (Arc::clone(heart), observer.clone());
        let (held, last_seq) = (item.held(), item.event_count.unwrap_or_default());
        let sender = Sender { client, heart, held, observer, last_seq, progress: tell };
        let mut sending = JoinSet::new();
        sending.spawn(sender.run(emitted, patience.subscribe()));
        let room = Arc::new(Semaphore::new(UNSENT_BYTES_MAX));
        (Events { events, room, taken: Arc::default(), progress }, Self { sending, patience })
    }

    /// When all that was emitted is durable, refused, or, after so long, given up. Nothing more is taken.
    pub(super) async fn ended(mut self, no_longer: impl Future<Output = ()>) {
        self.patience.send_replace(Patience::Ending);
        tokio::select! {
            biased;
            _sent = self.sending.join_next() => return,
            () = no_longer => {}
        }
        self.patience.send_replace(Patience::Over);
        let _given_up = self.sending.join_next().await;
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
    async fn run(mut self, mut emitted: mpsc::Receiver<Unsent>, mut patience: watch::Receiver<Patience>) {
        let mut waiting = Vec::new();
        loop {
            if waiting.is_empty() {
                tokio::select! {
                    biased;
                    taken = emitted.recv_many(&mut waiting, EVENTS_MAX) => if taken == 0 { return },
                    Ok(_) = patience.wait_for(|now| *now != Patience::Endless), if !emitted.is_closed() => {
                        emitted.close();
                        continue;
                    }
                }
            }
            let (batch, rooms): (Vec<_>, Vec<_>) =
                waiting.drain(..fitting(&waiting)).map(|Unsent { event, room }| (event, room)).unzip();
            match self.emit(&batch, &mut patience).await {
                Ok(()) => self.progress.send_modify(|progress| progress.durable += batch.len() as u64),
                Err(error) => {
                    self.observer.tell(Event::EmitFailed { id: &self.held.id, error: &error });
                    self.progress.send_modify(|progress| progress.refused = Some(Arc::new(error)));
                    return;
                }
            }
            drop(rooms);
        }
    }

    /// Fails with the last trouble when the patience is over.
    async fn emit(
        &mut self,
        events: &[NewEvent],
        patience: &mut watch::Receiver<Patience>,
    ) -> Result<(), ClientError> {
        let (begun, mut trouble) = (Instant::now(), None);
        tokio::select! {
            biased;
            emitted = self.persist(events, &mut trouble) => return emitted,
            Ok(_) = patience.wait_for(|now| *now == Patience::Over) => {}
        }
        Err(trouble.unwrap_or_else(|| ClientError::Timeout {
            url: self.client.url(),
            waited: begun.elapsed(),
            outcome: Outcome::Unknown,
        }))
    }

    /// Again and again, for as long as it is polled: a server that is away comes back.
    async fn persist(
        &mut self,
        events: &[NewEvent],
        trouble: &mut Option<ClientError>,
    ) -> Result<(), ClientError> {
        let (mut may_be_done, mut times) = (false, 0);
        loop {
            let error = match self.try_emit(events).await {
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
                Err(error) if may_pass_some_day(&error) => error,
                Err(error) => {
                    if matches!(error.code(), Some(Code::LeaseLost | Code::NotFound)) {
                        self.heart.is_lost(&self.held);
                    }
                    return Err(error);
                }
            };
            may_be_done |= error.outcome() == Outcome::Unknown;
            times += 1;
            let pause =
                Retries::default().backoff(times, fastrand::f64()).saturating_add(asked_pause(&error));
            *trouble = Some(error);
            sleep(pause).await;
        }
    }

    async fn try_emit(&self, events: &[NewEvent]) -> Result<EmitReply, ClientError> {
        let (Held { id, permit }, after) = (self.held.clone(), Some(self.last_seq));
        self.client.call_once(&EmitRequest { id, permit, after, events: events.to_vec() }).await
    }

    /// Whether a refusal only says that the server had done it before.
    fn was_done(&self, error: &ClientError, events: usize) -> bool {
        let ClientError::Refused { code, details, .. } = error else { return false };
        *code == Code::WrongState && details.last_seq == Some(self.last_seq + events as u64)
    }
}

/// How many of them go with one request: at least one.
fn fitting(events: &[Unsent]) -> usize {
    let mut bytes = 0;
    let fits = |unsent: &&Unsent| {
        let room = bytes < BYTES_MAX;
        bytes += size(&unsent.event);
        room
    };
    events.iter().take_while(fits).count()
}

/// The bytes of its payload.
fn size(event: &NewEvent) -> usize {
    let text = event.json.as_ref().or(event.utf8.as_ref()).map(String::len);
    text.or(event.bytes.as_ref().map(bytes::Bytes::len)).unwrap_or_default()
}
