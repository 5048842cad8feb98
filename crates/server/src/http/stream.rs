//! The stream of an item as server-sent events: `GET /v1/item.events`.

use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use serde::Serialize;
use tokio::time::sleep;
use windlass_api::EVENT_STREAM;
use windlass_api::events::{EndFrame, EventFrame, GapFrame, SnapshotFrame, StateFrame};
use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_engine::{EndReason, Frame, Outcome, Subscription};

use super::context::Context;
use super::error::Problem;
use super::record::EventRecord;
use super::reply::{refuse, wrong_method};
use super::wire::Encoding;
use super::{App, check, origin, show};
use crate::listener::{Reply, ReplyShare, RequestBody, Source, Traffic};

/// A comment goes out when nothing else has for so long: often enough for the 15 seconds that are promised.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Frames that are at hand are sent together, until they have come to so many bytes.
const PIECE_BYTES: usize = 16 << 10;
/// The number of the last event that a browser has seen.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn events(app: Arc<App>, request: Request<RequestBody>) -> Response<Reply> {
    let encoding = super::reply_encoding(request.headers());
    if request.method() != Method::GET {
        return wrong_method("GET", encoding);
    }
    let (traffic, stopping) = (Arc::clone(&app.traffic), app.is_stopping());
    match subscribe(app, &request).await {
        Ok(subscription) => streamed(subscription, traffic),
        Err(problem) if stopping => refuse(&problem.closing(), encoding),
        Err(problem) => refuse(&problem, encoding),
    }
}

async fn subscribe(app: Arc<App>, request: &Request<RequestBody>) -> Result<Subscription, Problem> {
    origin::check(request.headers(), app.limits.local)?;
    let (id, after) = asked(request.uri().query().unwrap_or_default(), request.headers())?;
    let opened = app.opened_for_work()?;
    let context = Context { app, opened, encoding: Encoding::Json };
    let subscribing = context.engine().subscribe(id, after);
    context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, subscribing).await
}

/// Which item, and after which event. A browser that comes again sends the address it began with and, in the header, how far
/// it got.
fn asked(query: &str, headers: &HeaderMap) -> Result<(ItemId, Option<u64>), Problem> {
    let (mut id, mut after) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("id", value) => id = Some(check::item_id("id", value)?),
            ("after", value) => after = Some(number("after", value)?),
            (name, _) => {
                let name: String = name.chars().take(64).collect();
                return Err(Problem::invalid(format!("no parameter `{name}`: there are `id` and `after`")));
            }
        }
    }
    let last_seen = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty());
    if let Some(value) = last_seen {
        after = Some(number("Last-Event-ID", value.to_str().unwrap_or_default())?);
    }
    let id = id.ok_or_else(|| Problem::invalid("`id` must be set: /v1/item.events?id=…"))?;
    Ok((id, after))
}

fn number(field: &str, text: &str) -> Result<u64, Problem> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| Problem::invalid(format!("`{field}` must be the number of an event, or 0")))
}

fn streamed(subscription: Subscription, traffic: Arc<Traffic>) -> Response<Reply> {
    let feed = Feed { subscription, traffic, share: None };
    let mut response = Response::new(Reply::stream(Pieces(State::Idle(Box::new(feed)))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that would gather a reply before they pass it on leave this one alone.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A subscription as text.
struct Feed {
    subscription: Subscription,
    traffic: Arc<Traffic>,
    /// Of the last piece and what was read ahead, if that is much: until the next is asked for.
    share: Option<ReplyShare>,
}

/// A piece, and where the next one comes from unless it was the last.
type Made = (Option<Bytes>, Option<Box<Feed>>);

/// What the connection takes piece by piece, at the pace of its client.
struct Pieces(State);

enum State {
    Idle(Box<Feed>),
    /// The next piece is being made.
    Busy(Pin<Box<dyn Future<Output = Made> + Send>>),
    Over,
}

impl Source for Pieces {
    fn poll_piece(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Bytes>> {
        loop {
            match &mut self.0 {
                State::Idle(_) => {
                    let State::Idle(feed) = std::mem::replace(&mut self.0, State::Over) else {
                        return Poll::Ready(None);
                    };
                    self.0 = State::Busy(Box::pin(feed.piece()));
                }
                State::Busy(piece) => {
                    let (piece, feed) = ready!(piece.as_mut().poll(cx));
                    self.0 = feed.map_or(State::Over, State::Idle);
                    return Poll::Ready(piece);
                }
                State::Over => return Poll::Ready(None),
            }
        }
    }
}

impl Feed {
    /// All that is at hand, or what comes first: a frame, or the time for a comment. Hands itself back unless it is over.
    async fn piece(mut self: Box<Self>) -> Made {
        self.share = None;
        let mut text = String::new();
        let mut over = tokio::select! {
            biased;
            frame = self.subscription.next() => self.put(frame, &mut text),
            () = sleep(KEEP_ALIVE) => {
                text.push_str(":\n\n");
                false
            }
        };
        while !over && text.len() < PIECE_BYTES {
            let Some(frame) = self.subscription.at_hand() else { break };
            over = self.put(Some(frame), &mut text);
        }
        self.share = self.reserve(text.len());
        if self.share.is_none() {
            // There is no memory for those who do not take what they asked for: who can, comes again by number.
            text.clear();
            self.end("lagged", self.subscription.phase(), &mut text);
            over = true;
        }
        ((!text.is_empty()).then(|| text.into()), (!over).then_some(self))
    }

    /// Room for a piece until its client has taken it, and for what was read ahead unless memory runs short: that can be
    /// read again.
    fn reserve(&mut self, bytes: usize) -> Option<ReplyShare> {
        let ahead = self.traffic.reserve_spare(bytes + self.subscription.read_ahead_bytes());
        ahead.or_else(|| {
            self.subscription.let_go();
            self.traffic.reserve_reply(bytes)
        })
    }

    /// Tells whether it was the last.
    fn put(&self, frame: Option<Frame>, text: &mut String) -> bool {
        match frame {
            None => return true,
            Some(Frame::Snapshot { item, last_seq }) => {
                put_frame(text, Some(last_seq), "snapshot", &SnapshotFrame { item: show::item(*item) });
            }
            Some(Frame::Event { seq, at, content }) => {
                let EventRecord { json, utf8, bytes, r#type } = EventRecord::from_stored(content);
                let event = EventFrame { seq, r#type: r#type.clone(), at: show::time(at), json, utf8, bytes };
                put_frame(text, Some(seq), &r#type, &event);
            }
            Some(Frame::State { phase, at, reason }) => {
                let reason = reason.as_deref().map(str::to_owned);
                let state = show::state(phase).to_owned();
                put_frame(text, None, "state", &StateFrame { state, at: show::time(at), reason });
            }
            Some(Frame::Gap { from, to }) => put_frame(text, None, "gap", &GapFrame { from, to }),
            Some(Frame::End { reason, phase }) => {
                let reason = match reason {
                    EndReason::Final => "final",
                    EndReason::Closed => "closed",
                };
                self.end(reason, phase, text);
                return true;
            }
        }
        false
    }

    fn end(&self, reason: &str, phase: Phase, text: &mut String) {
        let (reason, state) = (reason.to_owned(), show::state(phase).to_owned());
        put_frame(text, None, "end", &EndFrame { reason, state });
    }
}

/// A line end within JSON text can only stand between its parts, where a space means the same.
fn put_frame(text: &mut String, id: Option<u64>, name: &str, data: &impl Serialize) {
    let data = serde_json::to_string(data).expect("frames are made of texts and numbers");
    let data = if data.contains(['\n', '\r']) { data.replace(['\n', '\r'], " ") } else { data };
    if let Some(id) = id {
        let _never_fails = writeln!(text, "id: {id}");
    }
    let _never_fails = write!(text, "event: {name}\ndata: {data}\n\n");
}
