//! One reply for each request: decode, call one thing, encode.
//!
//! [`App::let_in`] is the gate before it, and [`App::answer`] the whole router.

mod backup;
mod bounds;
mod change;
mod check;
mod context;
mod crons;
#[cfg(test)]
mod decode_memory;
mod error;
mod events;
mod explain;
mod filter;
mod find;
mod groups;
mod history;
mod info;
mod item;
mod items;
mod items_change;
mod json;
mod metrics_page;
mod missing;
mod next;
mod pages;
mod permits;
mod pivot;
mod query;
mod queues;
pub mod record;
mod reply;
mod rules;
mod scan;
pub mod show;
#[cfg(test)]
mod stalled;
mod storage;
mod stream;
mod strict;
mod trace;
mod unclaimed;
mod wire;

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;
use tracing::{debug, warn};
use windlass_api::events::{EmitRequest, SuspendRequest};
use windlass_api::items::{
    CompleteRequest, ExtendRequest, LeaseRequest, NextRequest, ReleaseRequest, RetryRequest,
};
use windlass_api::service::BackupRequest;
use windlass_api::{Call, Code, REQUEST_ID, Time};
use windlass_engine::env::Deadlines;
use windlass_engine::{Engine, Outcome};

use self::context::{Answer, Context};
use self::error::Problem;
use self::metrics_page::MetricsPage;
use self::reply::{Cause, answered, plain, preflight, refuse, wrong_method};
use self::trace::{RequestId, RequestPath};
use self::wire::{Decoded, Encoding};
use crate::config::Limits;
use crate::gate::{Asked, Gate, Sharing};
use crate::listener::{BodyError, Handler, NoRoom, Reply, RequestBody, Traffic};
use crate::metrics::Requests;
use crate::stores::Logs;

const SMALL_BODY_BYTES: usize = 16 << 10;
/// Above it a body is read where it holds up nobody.
const LARGE_BODY_BYTES: usize = 256 << 10;
/// More than a thousand kinds of the longest names.
const LEASE_BYTES_MAX: usize = 1 << 20;
/// Calls that keep alive or end work. Whether queue.next names any shows only once its body is read.
const SETTLING: [&str; 7] = [
    CompleteRequest::NAME,
    RetryRequest::NAME,
    ExtendRequest::NAME,
    ReleaseRequest::NAME,
    SuspendRequest::NAME,
    EmitRequest::NAME,
    NextRequest::NAME,
];

static REQUEST_ID_HEADER: HeaderName = HeaderName::from_static(REQUEST_ID);

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

static OPENAPI: LazyLock<Bytes> = LazyLock::new(|| windlass_api::openapi::document().to_string().into());

#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Requests that wait at once: leases for work, others for items to end.
    pub waiting_max: usize,
    /// Of one payload or result.
    pub payload_bytes_max: usize,
}

/// What requests are answered from.
#[derive(Debug)]
pub struct App {
    limits: HttpLimits,
    gate: Gate,
    opened: OnceLock<Arc<Opened>>,
    stopping: AtomicBool,
    waiting: Arc<Semaphore>,
    /// Large bodies that are decoded at once.
    decoding: Semaphore,
    request_number: AtomicU64,
    requests: Requests,
    traffic: Arc<Traffic>,
    /// Timeouts of calls.
    deadlines: Deadlines,
    metrics_page: MetricsPage,
    /// One backup at a time.
    backing_up: Arc<Mutex<()>>,
    began: Instant,
    started_at: Time,
}

/// What there is once the data is loaded.
#[derive(Clone, Debug)]
pub struct Opened {
    pub engine: Engine,
    /// None if the stores are not directories.
    pub logs: Option<Arc<Logs>>,
    pub backup_dir: PathBuf,
    /// For those who ask: each is kept where it counts.
    pub limits: Limits,
}

impl App {
    /// Not ready: every call is `unavailable` until [`App::open`].
    pub fn new(limits: HttpLimits, gate: Gate, traffic: Arc<Traffic>) -> Arc<Self> {
        // Ids of requests differ from those of an earlier run, so that one can look for them in old logs.
        let first = jiff::Timestamp::now().as_microsecond().unsigned_abs() << 8;
        Arc::new(Self {
            waiting: Arc::new(Semaphore::new(limits.waiting_max)),
            decoding: Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)),
            limits,
            gate,
            opened: OnceLock::new(),
            stopping: AtomicBool::new(false),
            request_number: AtomicU64::new(first),
            requests: Requests::default(),
            traffic,
            deadlines: Deadlines::default(),
            metrics_page: MetricsPage::default(),
            backing_up: Arc::default(),
            began: Instant::now(),
            started_at: Time::from(SystemTime::now()),
        })
    }

    pub fn open(&self, opened: Opened) {
        self.opened.set(Arc::new(opened)).expect("the data is opened once");
    }

    /// Not ready any more: `/ready` says so, and new work is refused.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Waits for the backup that may be under way: the data must not be closed beneath it.
    pub async fn finish_backups(&self) {
        let _no_more = self.backing_up.lock().await;
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn opened(&self) -> Option<&Arc<Opened>> {
        self.opened.get()
    }

    /// Nothing of a request but its head is looked at before the gate has let it in.
    async fn let_in(self: Arc<Self>, request: Request<RequestBody>, sharing: &Sharing) -> Response<Reply> {
        let (method, target, headers) = (request.method(), request.uri(), request.headers());
        let asked = Asked { method, target, headers, peer: request.body().peer() };
        match self.gate.check(asked) {
            Err(refused) => refuse(&refused.into(), reply_encoding(headers)),
            Ok(()) if sharing.is_preflight(asked) => preflight(),
            Ok(()) => self.answer(request).await,
        }
    }

    /// The whole router. Each future is boxed by itself: as branches of one future, every request would take the room of the
    /// largest.
    fn answer(self: Arc<Self>, request: Request<RequestBody>) -> BoxFuture<Response<Reply>> {
        let Some(call) = request.uri().path().strip_prefix("/v1/") else {
            return Box::pin(async move { self.page(&request).await });
        };
        let app = self;
        match call {
            "queues.create" => Box::pin(app.call(request, queues::create)),
            "queues.update" => Box::pin(app.call(request, queues::update)),
            "queues.info" => Box::pin(app.call(request, queues::info)),
            "queues.list" => Box::pin(app.call(request, queues::list)),
            "queues.delete" => Box::pin(app.call(request, queues::delete)),
            "queues.history" => Box::pin(app.call(request, history::show)),
            "queue.stats" => Box::pin(app.call(request, queues::stats)),
            "queue.clear" => Box::pin(app.call(request, queues::clear)),
            "queue.redrive" => Box::pin(app.call(request, queues::redrive)),
            "queue.rebalance" => Box::pin(app.call(request, queues::rebalance)),
            "queue.produce" => Box::pin(app.call(request, items::produce)),
            "queue.next" => Box::pin(app.call(request, next::next)),
            "queue.lease" => Box::pin(app.call(request, items::lease)),
            "queue.complete" => Box::pin(app.call(request, items::complete)),
            "queue.retry" => Box::pin(app.call(request, items::retry)),
            "queue.extend" => Box::pin(app.call(request, items::extend)),
            "queue.release" => Box::pin(app.call(request, items::release)),
            "queue.suspend" => Box::pin(app.call(request, events::suspend)),
            "queue.permits" => Box::pin(app.call(request, permits::list)),
            "queue.revoke" => Box::pin(app.call(request, permits::revoke)),
            "item.get" => Box::pin(app.call(request, item::get)),
            "item.wait" => Box::pin(app.call(request, item::wait)),
            "item.cancel" => Box::pin(app.call(request, item::cancel)),
            "item.update" => Box::pin(app.call(request, change::update)),
            "item.rerun" => Box::pin(app.call(request, change::rerun)),
            "items.find" => Box::pin(app.call(request, find::find)),
            "items.change" => Box::pin(app.call(request, items_change::change)),
            "items.errors" => Box::pin(app.call(request, find::errors)),
            "item.emit" => Box::pin(app.call(request, events::emit)),
            "item.resume" => Box::pin(app.call(request, events::resume)),
            "item.close_streams" => Box::pin(app.call(request, events::close_streams)),
            "item.events" => Box::pin(stream::events(app, request)),
            "group.create" => Box::pin(app.call(request, groups::create)),
            "group.set_end" => Box::pin(app.call(request, groups::set_end)),
            "group.start" => Box::pin(app.call(request, groups::start)),
            "group.cancel" => Box::pin(app.call(request, groups::cancel)),
            "group.info" => Box::pin(app.call(request, groups::info)),
            "group.delete" => Box::pin(app.call(request, groups::delete)),
            "groups.list" => Box::pin(app.call(request, groups::list)),
            "crons.create" => Box::pin(app.call(request, crons::create)),
            "crons.update" => Box::pin(app.call(request, crons::update)),
            "crons.info" => Box::pin(app.call(request, crons::info)),
            "crons.list" => Box::pin(app.call(request, crons::list)),
            "crons.delete" => Box::pin(app.call(request, crons::delete)),
            "crons.pause" => Box::pin(app.call(request, crons::pause)),
            "crons.resume" => Box::pin(app.call(request, crons::resume)),
            "crons.trigger" => Box::pin(app.call(request, crons::trigger)),
            "queue.reload" => Box::pin(app.call(request, storage::reload)),
            "storage/items.list" => Box::pin(app.call(request, storage::list)),
            "storage/scheduled.list" => Box::pin(app.call(request, storage::list_scheduled)),
            "storage/items.import" => Box::pin(app.call(request, storage::import)),
            "storage/items.delete" => Box::pin(app.call(request, storage::delete)),
            "storage/unclaimed.list" => Box::pin(app.call(request, unclaimed::list)),
            "storage/unclaimed.adopt" => Box::pin(app.call(request, unclaimed::adopt)),
            "storage/unclaimed.drop" => Box::pin(app.call(request, unclaimed::drop_partition)),
            "queue.pause" => Box::pin(app.call(request, rules::pause)),
            "queue.resume" => Box::pin(app.call(request, rules::resume)),
            "queue.block" => Box::pin(app.call(request, rules::block)),
            "queue.unblock" => Box::pin(app.call(request, rules::unblock)),
            "rules.list" => Box::pin(app.call(request, rules::list)),
            "item.explain" => Box::pin(app.call(request, explain::explain)),
            "server.info" => Box::pin(app.call(request, info::show)),
            "server.backup" => Box::pin(app.call(request, backup::make)),
            other => {
                let (refused, encoding) = (unknown_call(other), reply_encoding(request.headers()));
                Box::pin(async move {
                    // Read to its end, so that a client that asks for too much keeps its connection.
                    let _unwanted = request.into_body().read().await;
                    refuse(&refused, encoding)
                })
            }
        }
    }

    async fn page(self: &Arc<Self>, request: &Request<RequestBody>) -> Response<Reply> {
        let path = request.uri().path();
        let known = matches!(path, "/" | "/health" | "/ready" | "/metrics" | "/openapi.json");
        let encoding = reply_encoding(request.headers());
        if !known {
            return refuse(
                &Problem::new(Code::NotFound, "no such path: calls are POST /v1/<noun>.<verb>"),
                encoding,
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return wrong_method("GET", encoding);
        }
        match path {
            "/" => pages::page(),
            "/health" => plain(200, "text/plain", "alive\n"),
            "/ready" => pages::ready(self),
            "/metrics" => metrics_page::show(self, encoding).await,
            _ => plain(200, windlass_api::JSON, OPENAPI.clone()),
        }
    }

    async fn call<C, F, A>(self: Arc<Self>, request: Request<RequestBody>, handler: F) -> Response<Reply>
    where
        C: Call,
        F: FnOnce(Context, C) -> A,
        A: Future<Output = Result<Answer<C::Reply>, Problem>>,
    {
        let encoding = reply_encoding(request.headers());
        if request.method() != Method::POST {
            return wrong_method("POST", encoding);
        }
        let traffic = Arc::clone(&self.traffic);
        match self.carry_out(request, handler).await {
            Ok(answer) => answered(answer, encoding, &traffic).await,
            // A backup changes no item, yet one may be there now.
            Err(problem) if C::CHANGES || C::NAME == BackupRequest::NAME => refuse(&problem, encoding),
            Err(problem) => refuse(&problem.of_reading(), encoding),
        }
    }

    async fn carry_out<C, F, A>(
        self: Arc<Self>,
        request: Request<RequestBody>,
        handler: F,
    ) -> Result<Answer<C::Reply>, Problem>
    where
        C: Call,
        F: FnOnce(Context, C) -> A,
        A: Future<Output = Result<Answer<C::Reply>, Problem>>,
    {
        let (head, body) = request.into_parts();
        let client = body.client();
        let encoding = Encoding::of_request(&head.headers).map_err(Problem::closing)?;
        // `head` shares its buffer with the body, and would keep both as long as the request waits.
        drop(head);
        let opened = self.opened_for_work().map_err(Problem::closing)?;
        let body = if SETTLING.contains(&C::NAME) { body.settling() } else { body };
        let mut body = body.read().await.map_err(unreadable)?;
        if C::NAME == LeaseRequest::NAME && body.bytes.len() > LEASE_BYTES_MAX {
            return Err(unreadable(BodyError::TooLarge { max: LEASE_BYTES_MAX }));
        }
        let Decoded { request, weight } = self.decode::<C>(encoding, &body.bytes).await?;
        body.decoded(weight).await.map_err(no_room)?;
        // A large request counts among the bytes in flight until the call is done. A small one is let go: it may wait long.
        let body = (body.counted() > SMALL_BODY_BYTES).then_some(body);
        handler(Context { app: self, opened, encoding, client, body }, request).await
    }

    /// Few large bodies at a time: what a request takes once it is decoded is counted only then.
    async fn decode<C: Call>(&self, encoding: Encoding, bytes: &Bytes) -> Result<Decoded<C>, Problem> {
        let large = bytes.len() > LARGE_BODY_BYTES;
        let turn = async { self.decoding.acquire().await.expect("the semaphore is never closed") };
        let _turn = if large { Some(turn.await) } else { None };
        if !large {
            return encoding.decode::<C>(bytes);
        }
        let bytes = bytes.clone();
        aside(move || encoding.decode::<C>(&bytes)).await
    }

    fn opened_for_work(&self) -> Result<Arc<Opened>, Problem> {
        if self.is_stopping() {
            return Err(Problem::not_now("the server is shutting down: nothing was changed"));
        }
        let loading = || Problem::not_now("the server is still loading its data: nothing was changed");
        self.opened().map(Arc::clone).ok_or_else(loading)
    }

    fn request_id(&self) -> RequestId {
        RequestId::of(self.request_number.fetch_add(1, Ordering::Relaxed))
    }
}

impl Handler for App {
    fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
    ) -> Pin<Box<dyn Future<Output = Response<Reply>> + Send>> {
        Box::pin(async move {
            let id = self.request_id();
            let path = RequestPath::of(request.uri().path(), &self.requests);
            let method = request.method().clone();
            let began = Instant::now();
            let app = Arc::clone(&self);
            let sharing = self.gate.sharing(request.headers());
            let mut response = self.let_in(request, &sharing).await;
            let (elapsed, status) = (began.elapsed(), response.status().as_u16());
            app.requests.record(path.counted, status, elapsed);
            if let Some(Cause { code, text }) = response.extensions().get() {
                warn!(id = id.as_str(), path = &*path.text(), %code, cause = text, "request failed");
            }
            debug!(id = id.as_str(), %method, path = &*path.text(), status, elapsed_us = elapsed.as_micros(), "answered");
            let id = HeaderValue::from_str(id.as_str()).expect("hexadecimal digits are a header value");
            response.headers_mut().insert(&REQUEST_ID_HEADER, id);
            sharing.mark(response.headers_mut());
            response
        })
    }

    fn refused(&self, status: StatusCode) -> String {
        self.requests.count_refused(status.as_u16());
        let id = self.request_id();
        debug!(id = id.as_str(), status = status.as_u16(), "refused");
        id.as_str().to_owned()
    }
}

/// Carries out what takes a while on a thread that answers no requests.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(work).await.unwrap_or_else(|failed| resume_unwind(failed.into_panic()))
}

fn unknown_call(name: &str) -> Problem {
    Problem::new(Code::NotFound, format!("no call `{name}`: /openapi.json lists all there are"))
}

/// What an error is told in: whatever can be made out.
fn reply_encoding(headers: &HeaderMap) -> Encoding {
    Encoding::of_reply(headers, Encoding::of_request(headers).unwrap_or(Encoding::Json))
}

fn no_room(NoRoom { max }: NoRoom) -> Problem {
    let message = format!("too many bytes in flight: at most {max}. Try again a little later");
    Problem::new(Code::Overloaded, message)
}

fn unreadable(error: BodyError) -> Problem {
    match error {
        BodyError::TooLarge { max } => Problem::new(
            Code::TooLarge,
            format!("the body is too large: at most {max} bytes. Send fewer items at once"),
        )
        .closing(),
        BodyError::Overloaded { max } => no_room(NoRoom { max }).closing(),
        BodyError::Evicted { max } => {
            let message = format!(
                "too many bytes in flight, at most {max}, and this body came slower than others: send it again a little later"
            );
            Problem::new(Code::Overloaded, message).closing()
        }
        BodyError::Stalled => {
            let outcome = Some(Outcome::NotApplied);
            Problem { outcome, ..Problem::new(Code::Timeout, "the body came too slowly") }.closing()
        }
        BodyError::Stopping => Problem::not_now("the server is shutting down: nothing was changed").closing(),
        BodyError::Cut => Problem::invalid("the body ended too early").closing(),
    }
}
