//! One reply for each request: decode, call one thing, encode.
//!
//! [`App::answer`] is the whole router.

mod check;
mod error;
mod items;
mod later;
mod queues;
mod record;
mod service;
mod show;
mod storage;
mod wire;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HOST, ORIGIN, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};
use windlass_api::{COMMIT, Call, Code, REQUEST_ID};
use windlass_core::time::Span;
use windlass_engine::{Commit, Engine, EngineError, Grant, Outcome};

use self::check::PayloadRule;
use self::error::Problem;
use self::wire::Encoding;
use crate::listener::{BodyError, Handler, Reply, RequestBody, Traffic};
use crate::metrics::{OTHER, Requests};
use crate::stores::Logs;

#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Requests that wait at once: leases without work.
    pub waiting_max: usize,
    /// Of one payload or result.
    pub payload_bytes_max: usize,
}

/// What requests are answered from.
#[derive(Debug)]
pub struct App {
    limits: HttpLimits,
    opened: OnceLock<Arc<Opened>>,
    stopping: AtomicBool,
    waiting: Arc<Semaphore>,
    request_number: AtomicU64,
    requests: Requests,
    traffic: Arc<Traffic>,
    began: Instant,
}

/// What there is once the data is loaded.
#[derive(Clone, Debug)]
pub struct Opened {
    pub engine: Engine,
    /// None if the stores are not directories.
    pub logs: Option<Arc<Logs>>,
    pub backup_dir: PathBuf,
}

impl App {
    /// Not ready: every call is `unavailable` until [`App::open`].
    pub fn new(limits: HttpLimits, traffic: Arc<Traffic>) -> Arc<Self> {
        // Ids of requests differ from those of an earlier run, so that one can look for them in old logs.
        let first = jiff::Timestamp::now().as_microsecond().unsigned_abs() << 8;
        Arc::new(Self {
            waiting: Arc::new(Semaphore::new(limits.waiting_max)),
            limits,
            opened: OnceLock::new(),
            stopping: AtomicBool::new(false),
            request_number: AtomicU64::new(first),
            requests: Requests::default(),
            traffic,
            began: Instant::now(),
        })
    }

    pub fn open(&self, opened: Opened) {
        self.opened.set(Arc::new(opened)).expect("the data is opened once");
    }

    /// Not ready any more: `/ready` says so, and new work is refused.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn opened(&self) -> Option<&Arc<Opened>> {
        self.opened.get()
    }

    async fn answer(self: Arc<Self>, request: Request<RequestBody>) -> Response<Reply> {
        let path = request.uri().path().to_owned();
        let Some(call) = path.strip_prefix("/v1/") else { return self.page(&path, &request) };
        let app = self;
        match call {
            "queues.create" => app.call(request, queues::create).await,
            "queues.update" => app.call(request, queues::update).await,
            "queues.info" => app.call(request, queues::info).await,
            "queues.list" => app.call(request, queues::list).await,
            "queues.delete" => app.call(request, queues::delete).await,
            "queue.stats" => app.call(request, queues::stats).await,
            "queue.clear" => app.call(request, queues::clear).await,
            "queue.produce" => app.call(request, items::produce).await,
            "queue.lease" => app.call(request, items::lease).await,
            "queue.complete" => app.call(request, items::complete).await,
            "queue.retry" => app.call(request, items::retry).await,
            "queue.extend" => app.call(request, items::extend).await,
            "queue.release" => app.call(request, items::release).await,
            "item.get" => app.call(request, items::get).await,
            "item.cancel" => app.call(request, items::cancel).await,
            "queue.reload" => app.call(request, storage::reload).await,
            "storage/items.list" => app.call(request, storage::list).await,
            "storage/scheduled.list" => app.call(request, storage::list_scheduled).await,
            "storage/items.import" => app.call(request, storage::import).await,
            "storage/items.delete" => app.call(request, storage::delete).await,
            "server.backup" => app.call(request, service::backup).await,
            other => {
                let encoding = reply_encoding(request.headers());
                // Read to its end, so that a client that asks for too much keeps its connection.
                let _unwanted = request.into_body().read().await;
                refuse(&unknown_call(other), encoding)
            }
        }
    }

    fn page(&self, path: &str, request: &Request<RequestBody>) -> Response<Reply> {
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
            "/" => service::page(),
            "/health" => plain(200, "text/plain", "alive\n"),
            "/ready" => service::ready(self),
            "/metrics" => service::metrics(self),
            _ => plain(200, windlass_api::JSON, windlass_api::openapi::document().to_string()),
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
        match self.carry_out(request, handler).await {
            Ok(answer) => answered(answer, encoding),
            Err(problem) => refuse(&problem, encoding),
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
        check_origin(&head.headers).map_err(Problem::closing)?;
        let encoding = Encoding::of_request(&head.headers).map_err(Problem::closing)?;
        let opened = self.opened_for_work().map_err(Problem::closing)?;
        let request = {
            let body = body.read().await.map_err(unreadable)?;
            encoding.decode::<C>(&body.bytes)?
        };
        handler(Context { app: self, opened, encoding }, request).await
    }

    fn opened_for_work(&self) -> Result<Arc<Opened>, Problem> {
        if self.is_stopping() {
            return Err(Problem::not_now("the server is shutting down: nothing was changed"));
        }
        let loading = || Problem::not_now("the server is still loading its data: nothing was changed");
        self.opened().map(Arc::clone).ok_or_else(loading)
    }

    fn request_id(&self) -> HeaderValue {
        let number = self.request_number.fetch_add(1, Ordering::Relaxed);
        HeaderValue::try_from(format!("{number:016x}")).expect("hexadecimal digits are a header value")
    }
}

impl Handler for App {
    fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
    ) -> Pin<Box<dyn Future<Output = Response<Reply>> + Send>> {
        Box::pin(async move {
            let id = self.request_id();
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let began = Instant::now();
            let app = Arc::clone(&self);
            let mut response = self.answer(request).await;
            let (elapsed, status) = (began.elapsed(), response.status().as_u16());
            app.requests.record(path.strip_prefix("/v1/").unwrap_or(OTHER), status, elapsed);
            debug!(request = ?id, %method, path, status, elapsed_us = elapsed.as_micros(), "answered");
            response.headers_mut().insert(REQUEST_ID, id);
            response
        })
    }
}

/// What a call has to work with.
struct Context {
    app: Arc<App>,
    opened: Arc<Opened>,
    encoding: Encoding,
}

impl Context {
    fn engine(&self) -> &Engine {
        &self.opened.engine
    }

    fn payload_rule(&self) -> PayloadRule {
        PayloadRule { bytes_max: self.app.limits.payload_bytes_max, encoding: self.encoding }
    }

    /// A place among the requests that wait, for those that will.
    fn wait_in_line(&self, wait: Span) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        if wait == Span::ZERO {
            return Ok(None);
        }
        let place = Arc::clone(&self.app.waiting).try_acquire_owned();
        let max = self.app.limits.waiting_max;
        let full = |_| {
            Problem::new(Code::Overloaded, format!("too many requests wait: at most {max}. Try again later"))
        };
        place.map(Some).map_err(full)
    }

    /// A change that is not answered in time may still be made.
    async fn within<T>(
        &self,
        timeout: Span,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, Problem> {
        self.within_or(timeout, Outcome::Unknown, work).await
    }

    async fn within_or<T>(
        &self,
        timeout: Span,
        outcome: Outcome,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, Problem> {
        match tokio::time::timeout(Duration::from(timeout), work).await {
            Ok(result) => result.map_err(Problem::from),
            Err(_elapsed) => {
                let message = format!("not done within {}", show::span(timeout));
                Err(Problem { outcome: Some(outcome), ..Problem::new(Code::Timeout, message) })
            }
        }
    }
}

/// A reply before it is encoded.
struct Answer<R> {
    reply: R,
    commits: Vec<Commit>,
    /// To be accepted once the reply is delivered; given back otherwise.
    grant: Option<Grant>,
}

impl<R> Answer<R> {
    fn read(reply: R) -> Self {
        Self { reply, commits: Vec::new(), grant: None }
    }

    fn changed(reply: R, commits: Vec<Commit>) -> Self {
        Self { reply, commits, grant: None }
    }
}

fn answered<R: windlass_api::call::Wire>(answer: Answer<R>, encoding: Encoding) -> Response<Reply> {
    let Answer { reply, commits, grant } = answer;
    let bytes = match encoding.encode(&reply) {
        Ok(bytes) => bytes,
        Err(error) => return refuse(&Problem::internal(error, Outcome::Unknown), encoding),
    };
    let mut body = Reply::new(bytes);
    if let Some(grant) = grant {
        body = body.on_delivery(move || {
            let _delivered = grant.accept();
        });
    }
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(encoding.media_type()));
    if let Some(value) = commit_header(&commits) {
        response.headers_mut().insert(COMMIT, value);
    }
    response
}

fn commit_header(commits: &[Commit]) -> Option<HeaderValue> {
    let list: Vec<String> =
        commits.iter().map(|commit| format!("{}:{}", commit.partition, commit.sequence)).collect();
    let value = HeaderValue::try_from(list.join(",")).expect("digits and colons are a header value");
    (!list.is_empty()).then_some(value)
}

fn refuse(problem: &Problem, encoding: Encoding) -> Response<Reply> {
    if let Some(cause) = &problem.cause {
        warn!(code = %problem.code, cause, "request failed");
    }
    let bytes = encoding.encode(&problem.to_reply()).expect("an error is made of texts");
    let mut response = plain(problem.code.status(), encoding.media_type(), bytes);
    if let Some(seconds) = problem.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if problem.close {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn plain(status: u16, media_type: &'static str, body: impl Into<Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::new(body));
    *response.status_mut() = http::StatusCode::from_u16(status).expect("statuses are chosen from a list");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn wrong_method(allowed: &'static str, encoding: Encoding) -> Response<Reply> {
    let problem = Problem::new(Code::MethodNotAllowed, format!("the method here is {allowed}"));
    let mut response = refuse(&problem, encoding);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn unknown_call(name: &str) -> Problem {
    let message = if later::is_call(name) {
        format!("`{name}` is part of the API, but not of this version of the server yet")
    } else {
        format!("no call `{name}`: /openapi.json lists all there are")
    };
    Problem::new(Code::NotFound, message)
}

/// What an error is told in: whatever can be made out.
fn reply_encoding(headers: &HeaderMap) -> Encoding {
    Encoding::of_reply(headers, Encoding::of_request(headers).unwrap_or(Encoding::Json))
}

/// Somebody else's web page in the operator's browser must not reach the server: there is no other lock on it yet.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()) else { return Ok(()) };
    let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let message = "a web page of another origin may not call this server";
    if authority == host { Ok(()) } else { Err(Problem::new(Code::PermissionDenied, message)) }
}

fn unreadable(error: BodyError) -> Problem {
    match error {
        BodyError::TooLarge { max } => Problem::new(
            Code::TooLarge,
            format!("the body is too large: at most {max} bytes. Send fewer items at once"),
        )
        .closing(),
        BodyError::Overloaded { max } => {
            let message = format!("too many bytes in flight: at most {max}. Try again a little later");
            Problem::new(Code::Overloaded, message).closing()
        }
        BodyError::Stalled => {
            let outcome = Some(Outcome::NotApplied);
            Problem { outcome, ..Problem::new(Code::Timeout, "the body came too slowly") }.closing()
        }
        BodyError::Cut => Problem::invalid("the body ended too early").closing(),
    }
}
