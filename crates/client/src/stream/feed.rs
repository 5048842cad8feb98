//! Frames from one subscription after the other, as if there were only one.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};
use windlass_api::events::{EndFrame, EventFrame, GapFrame, SnapshotFrame, StateFrame};

use super::sse::{Parser, Raw};
use super::{Frame, Subscription};
use crate::client::Client;
use crate::error::ClientError;
use crate::retries::{Retries, asked_pause, may_pass_some_day};

/// The server lets no more than 15 s pass without a word: after three times that the connection is dead.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The end of an item's stream; of all other ends one comes back.
const FINAL: &str = "final";

pub(super) struct Feed {
    client: Client,
    /// The next one, if this one breaks.
    subscription: Subscription,
    /// A final state comes again if the connection was cut between it and the end.
    last_state: Option<StateFrame>,
    open: Option<Open>,
    trouble: Trouble,
    over: bool,
}

/// A subscription.
struct Open {
    since: Instant,
    body: Incoming,
    parser: Parser,
    frames: VecDeque<Raw>,
}

/// Subscriptions that failed, one after the other.
#[derive(Default)]
struct Trouble {
    since: Option<Instant>,
    times: u32,
    /// Before the next one.
    pause: Option<Duration>,
}

impl Feed {
    pub(super) fn new(client: Client, subscription: Subscription) -> Self {
        let trouble = Trouble::default();
        Self { client, subscription, last_state: None, open: None, trouble, over: false }
    }

    pub(super) async fn next(&mut self) -> Option<Result<Frame, ClientError>> {
        while !self.over {
            if let Some(pause) = self.trouble.pause.take() {
                sleep(pause).await;
            }
            let error = match self.read().await {
                Ok(Some(frame)) => return Some(Ok(frame)),
                Ok(None) => continue,
                Err(error) => error,
            };
            self.hang_up();
            self.over = !may_pass_some_day(&error);
            if self.over || self.trouble.is_to_be_told(self.client.retries(), &error) {
                return Some(Err(error));
            }
        }
        None
    }

    /// None if it was told before.
    async fn read(&mut self) -> Result<Option<Frame>, ClientError> {
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let body = self.client.subscribe(&self.subscription).await?;
                // With `after`, `follow` is accepted only if the item was not moved: the stream is of this item, and a move made
                // meanwhile must not refuse the next subscription.
                self.subscription.follow &= self.subscription.after.is_none();
                self.open.insert(Open::new(body))
            }
        };
        let raw = open.next().await.map_err(|reason| lost(&self.client, reason))?;
        let frame = self.understood(&raw)?;
        if frame.is_some() {
            self.trouble = Trouble::default();
        }
        Ok(frame)
    }

    fn hang_up(&mut self) {
        let open = self.open.take();
        // One that held for a while was a good one, also if there was nothing to tell.
        if open.is_some_and(|open| open.since.elapsed() >= self.client.retries().delay_max) {
            self.trouble = Trouble::default();
        }
    }

    fn understood(&mut self, raw: &Raw) -> Result<Option<Frame>, ClientError> {
        match raw.event.as_str() {
            "snapshot" => {
                let SnapshotFrame { item } = parsed(raw)?;
                let last_seq = raw.id.as_deref().and_then(|id| id.parse().ok());
                let last_seq =
                    last_seq.ok_or_else(|| strange("a snapshot without the number of an event"))?;
                if std::mem::take(&mut self.subscription.follow) {
                    self.subscription.id.clone_from(&item.id);
                }
                self.subscription.after = Some(last_seq);
                Ok(Some(Frame::Snapshot { item: Box::new(item), last_seq }))
            }
            "state" => {
                let state: StateFrame = parsed(raw)?;
                let known = self.last_state.replace(state.clone()).is_some_and(|last| last == state);
                Ok((!known).then_some(Frame::State(state)))
            }
            "gap" => {
                let gap: GapFrame = parsed(raw)?;
                self.subscription.after = Some(gap.to);
                Ok(Some(Frame::Gap(gap)))
            }
            "end" => {
                let end: EndFrame = parsed(raw)?;
                if end.reason != FINAL {
                    return Err(lost(&self.client, format!("the server ended it ({})", end.reason)));
                }
                self.over = true;
                Ok(Some(Frame::End(end)))
            }
            _ => self.event(parsed(raw)?),
        }
    }

    fn event(&mut self, event: EventFrame) -> Result<Option<Frame>, ClientError> {
        match self.subscription.after {
            Some(after) if event.seq <= after => return Ok(None),
            Some(after) if event.seq > after + 1 => {
                return Err(strange(&format!("event {} after event {after}", event.seq)));
            }
            Some(_) | None => {}
        }
        self.subscription.after = Some(event.seq);
        Ok(Some(Frame::Event(event)))
    }
}

impl Open {
    fn new(body: Incoming) -> Self {
        Self { since: Instant::now(), body, parser: Parser::default(), frames: VecDeque::new() }
    }

    /// Fails with the reason when the connection has.
    async fn next(&mut self) -> Result<Raw, String> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(frame);
            }
            let heard = timeout(SILENCE_MAX, self.body.frame()).await;
            let heard = heard.map_err(|_| format!("nothing was heard for {SILENCE_MAX:?}"))?;
            let heard = heard.ok_or("it was closed without an end")?;
            let heard = heard.map_err(|error| error.to_string())?;
            if let Ok(bytes) = heard.into_data() {
                self.parser.feed(&bytes, &mut self.frames);
            }
        }
    }
}

impl Trouble {
    /// With one more: whether it has gone on for long enough, or is still passed over.
    fn is_to_be_told(&mut self, retries: Retries, error: &ClientError) -> bool {
        self.times = self.times.saturating_add(1);
        let pause = retries.backoff(self.times, fastrand::f64()).saturating_add(asked_pause(error));
        self.pause = Some(pause);
        let spent = self.since.get_or_insert_with(Instant::now).elapsed();
        self.times >= retries.attempts_max || spent.saturating_add(pause) > retries.total_max
    }
}

fn parsed<T: DeserializeOwned>(raw: &Raw) -> Result<T, ClientError> {
    serde_json::from_str(&raw.data)
        .map_err(|error| strange(&format!("a frame `{}` that cannot be read ({error})", raw.event)))
}

fn strange(what: &str) -> ClientError {
    ClientError::BadReply { status: 200, reason: format!("the stream has {what}"), request_id: None }
}

fn lost(client: &Client, reason: String) -> ClientError {
    ClientError::StreamLost { url: client.url(), reason }
}
