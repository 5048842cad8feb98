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
use tokio::time::{sleep, timeout};
use windlass_api::EVENT_STREAM;
use windlass_api::events::{EndFrame, EventFrame, GapFrame, SnapshotFrame, StateFrame};
use windlass_core::item::{MovedTo, Phase};
use windlass_engine::{EndReason, Frame, Outcome, Subscription};

use super::check::ItemName;
use super::context::Context;
use super::error::Problem;
use super::item::{Sought, sought};
use super::missing::naming;
use super::record::EventRecord;
use super::reply::{refuse, wrong_method};
use super::wire::Encoding;
use super::{App, check, query, show};
use crate::listener::{ClientSide, Reply, ReplyShare, RequestBody, Source, Traffic};

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
    let client = request.body().client();
    match subscribe(app, &request).await {
        Ok(subscription) => streamed(Feed { subscription, traffic, client, shares: [None, None] }),
        Err(problem) if stopping => refuse(&problem.closing(), encoding),
        Err(problem) => refuse(&problem, encoding),
    }
}

async fn subscribe(app: Arc<App>, request: &Request<RequestBody>) -> Result<Subscription, Problem> {
    let Asked { name, after, follow } = asked(request.uri().query().unwrap_or_default(), request.headers())?;
    let opened = app.opened_for_work()?;
    let client = request.body().client();
    let context = Context { app, opened, encoding: Encoding::Json, client, body: None };
    let mut sought = sought(&context, name, check::COMMIT_TIMEOUT).await?;
    if follow && after.is_some() {
        sought = unmoved(&context, sought).await?;
    }
    let Sought { id, missing } = sought;
    let subscribing = async {
        match (follow, after) {
            (true, None) => context.engine().subscribe_to_latest(id).await,
            (true, Some(_)) | (false, _) => context.engine().subscribe(id, after).await,
        }
    };
    let subscribing = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, subscribing);
    subscribing.await.map_err(naming(missing))
}

/// The item that was sought, unless it goes on as another, or another is followed instead: `after` is the number of an event,
/// and each item numbers its own.
async fn unmoved(context: &Context, sought: Sought) -> Result<Sought, Problem> {
    let looking = async {
        let item = context.engine().get(sought.id).await?.item;
        let has_moved = item.extras.is_some_and(|extras| extras.moved_to.is_some());
        Ok(has_moved || context.engine().follow(sought.id).await? != sought.id)
    };
    let has_moved = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, looking).await;
    if has_moved.map_err(naming(sought.missing.clone()))? {
        return Err(Problem::invalid(
            "`after` must be left out with `follow`, because the item was moved: the item that it goes on as numbers its events \
             anew. `Last-Event-ID` counts as `after`",
        ));
    }
    Ok(sought)
}

/// What a reader asks for.
struct Asked {
    name: ItemName,
    after: Option<u64>,
    /// The stream of the latest item that the named one goes on as.
    follow: bool,
}

/// Which item, and after which event. A browser that comes again sends the address it began with and, in the header, how far
/// it got.
fn asked(query: &str, headers: &HeaderMap) -> Result<Asked, Problem> {
    let (mut id, mut queue, mut address, mut after, mut follow) = (None, None, None, None, false);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (query::decoded(name)?, query::decoded(value)?);
        match name.as_str() {
            "id" => id = Some(value),
            "queue" => queue = Some(value),
            "address" => address = Some(value),
            "after" => after = Some(number("after", &value)?),
            "follow" => follow = yes_or_no("follow", &value)?,
            other => return Err(unknown_parameter(other)),
        }
    }
    let last_seen = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty());
    if let Some(value) = last_seen {
        after = Some(number("Last-Event-ID", value.to_str().unwrap_or_default())?);
    }
    Ok(Asked { name: check::item_name(id, queue, address)?, after, follow })
}

fn yes_or_no(field: &str, text: &str) -> Result<bool, Problem> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Problem::invalid(format!("`{field}` must be `true` or `false`"))),
    }
}

fn unknown_parameter(name: &str) -> Problem {
    let name: String = name.chars().take(64).collect();
    Problem::invalid(format!(
        "no parameter `{name}`: there are `id`, `queue`, `address`, `after` and `follow`"
    ))
}

fn number(field: &str, text: &str) -> Result<u64, Problem> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| Problem::invalid(format!("`{field}` must be the number of an event, or 0")))
}

fn streamed(feed: Feed) -> Response<Reply> {
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
    client: ClientSide,
    /// Of the last piece, if it was large, and of what was read ahead: until the next is asked for.
    shares: [Option<ReplyShare>; 2],
}

/// What a piece begins with.
enum Next {
    /// `None`: the stream is over.
    Frame(Option<Frame>),
    /// Nothing has come for a while.
    Comment,
    /// The client has closed its side, and knows all there is.
    Closed,
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
        self.shares = [None, None];
        let mut text = String::new();
        let mut over = match self.next().await {
            Next::Frame(frame) => self.put(frame, &mut text),
            Next::Comment => {
                text.push_str(":\n\n");
                false
            }
            Next::Closed => true,
        };
        while !over && text.len() < PIECE_BYTES {
            let Some(frame) = self.subscription.at_hand() else { break };
            over = self.put(Some(frame), &mut text);
        }
        let piece = self.traffic.reserve_piece(text.len()).await;
        self.shares = [piece, self.keep_ahead()];
        if self.shares[0].is_none() {
            // Streams and replies that keep up take all the room. The reader can come again by number.
            text.clear();
            self.end("lagged", self.subscription.phase(), None, &mut text);
            over = true;
        }
        ((!text.is_empty()).then(|| text.into()), (!over).then_some(self))
    }

    async fn next(&mut self) -> Next {
        tokio::select! {
            biased;
            frame = self.subscription.next() => return Next::Frame(frame),
            () = sleep(KEEP_ALIVE) => return Next::Comment,
            () = self.client.closed() => {}
        }
        // A client that has closed its side is told what there is, and nothing waits for more.
        if self.subscription.would_wait() {
            return Next::Closed;
        }
        let reading = timeout(KEEP_ALIVE, self.subscription.next()).await;
        reading.map_or(Next::Closed, Next::Frame)
    }

    /// What was read ahead is kept until its client has taken the piece before it, unless memory runs short: it can be read
    /// again.
    fn keep_ahead(&mut self) -> Option<ReplyShare> {
        let kept = self.traffic.reserve_read_ahead(self.subscription.read_ahead_bytes());
        if kept.is_none() {
            self.subscription.let_go();
        }
        kept
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
            Some(Frame::End { reason, phase, moved_to }) => {
                let reason = match reason {
                    EndReason::Final => "final",
                    EndReason::Closed => "closed",
                };
                self.end(reason, phase, moved_to.as_deref(), text);
                return true;
            }
        }
        false
    }

    fn end(&self, reason: &str, phase: Phase, moved_to: Option<&MovedTo>, text: &mut String) {
        let (reason, state) = (reason.to_owned(), show::state(phase).to_owned());
        let moved_to = moved_to.map(show::moved_to);
        put_frame(text, None, "end", &EndFrame { reason, state, moved_to });
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

#[cfg(test)]
mod tests {
    use windlass_api::payload::Payload;
    use windlass_core::event::NewEvent;
    use windlass_core::id::ItemId;
    use windlass_core::row::QueueName;
    use windlass_core::settings::Settings;
    use windlass_core::time::Span;
    use windlass_core::verbs::{CreateQueue, Filter, Held, LeaseItems, NewItem};
    use windlass_engine::Engine;
    use windlass_engine::env::TokioEnv;
    use windlass_engine::store::memory::MemoryStore;

    use tokio::task::JoinSet;
    use tokio::time::advance;

    use super::*;

    async fn engine() -> (Engine, QueueName) {
        let engine =
            Engine::open(Arc::new(TokioEnv::default()), Arc::<MemoryStore>::default()).await.unwrap();
        let name = QueueName { namespace: "default".into(), name: "q".into() };
        let create = CreateQueue::new(name.clone(), Settings::default(), 1);
        engine.create_queue(create).await.unwrap();
        (engine, name)
    }

    async fn item(engine: &Engine, queue: &QueueName) -> ItemId {
        let item = NewItem::plain("default", Bytes::new());
        let made = engine.produce(queue, vec![item]).await.unwrap();
        made.results[0].clone().unwrap().id
    }

    async fn leased(engine: &Engine, queue: &QueueName) -> Held {
        item(engine, queue).await;
        let lease = LeaseItems {
            client_id: "worker".into(),
            batch_size: 1,
            lease_timeout: None,
            filter: Filter::ANY,
        };
        let items = engine.lease(queue, lease, Span::ZERO).await.unwrap().accept();
        items[0].held()
    }

    fn event(bytes: usize) -> NewEvent {
        stored(Payload { utf8: Some("x".repeat(bytes)), ..Payload::default() })
    }

    fn stored(payload: Payload) -> NewEvent {
        let bytes = payload.as_bytes().len() as u64;
        NewEvent { content: EventRecord::of("note", payload).to_stored(), bytes }
    }

    async fn feed(engine: &Engine, id: ItemId, traffic: &Arc<Traffic>) -> Box<Feed> {
        let subscription = engine.subscribe(id, Some(0)).await.unwrap();
        let client = ClientSide::default();
        Box::new(Feed { subscription, traffic: Arc::clone(traffic), client, shares: [None, None] })
    }

    fn text(piece: Option<Bytes>) -> String {
        String::from_utf8(piece.unwrap().to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_comment_goes_out_when_there_is_nothing_to_tell() {
        let (engine, queue) = engine().await;
        let id = item(&engine, &queue).await;
        let feed = feed(&engine, id, &Arc::default()).await;
        let (first, feed) = feed.piece().await;
        let (second, feed) = feed.unwrap().piece().await;
        assert_eq!((text(first).as_str(), text(second).as_str()), (":\n\n", ":\n\n"));
        assert!(feed.is_some());
    }

    /// Without any room only one large piece can be out.
    #[tokio::test]
    async fn who_has_no_room_for_a_large_piece_is_sent_away_and_may_come_again() {
        let (engine, queue) = engine().await;
        let held = leased(&engine, &queue).await;
        engine.emit(held, None, vec![event(100 << 10)]).await.unwrap();
        let traffic = Arc::default();
        let (piece, first) = feed(&engine, held.id, &traffic).await.piece().await;
        assert!(text(piece).starts_with("id: 1\nevent: note\n"));
        let (piece, second) = feed(&engine, held.id, &traffic).await.piece().await;
        assert_eq!(text(piece), "event: end\ndata: {\"reason\":\"lagged\",\"state\":\"leased\"}\n\n");
        assert!(first.is_some() && second.is_none());
        drop(first);
        let (piece, _) = feed(&engine, held.id, &traffic).await.piece().await;
        assert!(text(piece).starts_with("id: 1\nevent: note\n"));
    }

    /// The reader takes each piece before it asks for the next; the replies are never taken.
    #[tokio::test(start_paused = true)]
    async fn a_stream_with_a_reader_goes_on_while_nobody_takes_large_replies() {
        const EVENT_BYTES: usize = 100 << 10;
        const SLOW_AFTER: Duration = Duration::from_secs(1);
        const REPLIES: usize = 4;
        let (engine, queue) = engine().await;
        let held = leased(&engine, &queue).await;
        let traffic = Arc::new(Traffic::new(REPLIES * EVENT_BYTES, SLOW_AFTER));
        let mut unread = JoinSet::new();
        for _ in 0..REPLIES {
            let reply = traffic.reserve_reply(EVENT_BYTES).await.unwrap().shared();
            // As its connection would, the reply gives its room back when it is evicted.
            unread.spawn(async move { reply.eviction().wait().await });
        }
        advance(2 * SLOW_AFTER).await;
        let mut feed = feed(&engine, held.id, &traffic).await;
        for number in 1..=5 {
            engine.emit(held, None, vec![event(EVENT_BYTES)]).await.unwrap();
            let (piece, next) = feed.piece().await;
            assert!(text(piece).starts_with(&format!("id: {number}\nevent: note\n")));
            feed = next.expect("the stream goes on");
        }
        // A piece is a little larger than its event.
        unread.join_next().await.unwrap().unwrap();
        unread.join_next().await.unwrap().unwrap();
        assert!(unread.try_join_next().is_none(), "no more replies are evicted than the stream needs");
    }

    #[tokio::test]
    async fn who_has_no_room_for_what_was_read_ahead_reads_it_again() {
        const EVENTS: usize = 20;
        let (engine, queue) = engine().await;
        let held = leased(&engine, &queue).await;
        engine.emit(held, None, vec![event(4 << 10); EVENTS]).await.unwrap();
        let traffic = Arc::default();
        let mut feed = feed(&engine, held.id, &traffic).await;
        let mut seen = Vec::new();
        while seen.len() < EVENTS {
            let (piece, next) = feed.piece().await;
            feed = next.unwrap();
            assert_eq!((feed.subscription.read_ahead_bytes(), traffic.reply_bytes_in_flight()), (0, 0));
            seen.extend(
                text(piece).lines().filter_map(|line| line.strip_prefix("id: ")?.parse::<usize>().ok()),
            );
        }
        assert_eq!(seen, (1..=EVENTS).collect::<Vec<_>>());
    }
}
