//! One request out and one answer in, over pooled connections. No retries here.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::client::legacy::{self, Client as Pool};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use windlass_api::{Call, EVENT_STREAM};

use crate::client::Readiness;
use crate::connection::{Connector, hang_up};
use crate::encoding::Encoding;
use crate::error::{ClientError, Outcome};
use crate::patience::unanswered;
use crate::reply::{Answer, Answered};
use crate::stream::Subscription;
use crate::url::Base;

/// Shorter than servers and proxies keep an idle connection: the client lets go first, and so does not send on one
/// that is being closed, which would leave it not knowing whether the request arrived.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// A dead peer shows also while a lease waits for minutes.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// How long the server may take to see that nobody asks any more.
const FAREWELL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Exchange {
    pool: Pool<Connector, Full<Bytes>>,
    base: Base,
    encoding: Encoding,
}

impl Exchange {
    pub(crate) fn new(base: Base, encoding: Encoding, connect_timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_keepalive(Some(TCP_KEEPALIVE));
        connector.set_connect_timeout(Some(connect_timeout));
        // A request that was never written, because its pooled connection had been closed, is sent on another.
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .retry_canceled_requests(true)
            .build(Connector(connector));
        Self { pool, base, encoding }
    }

    pub(crate) fn url(&self) -> String {
        self.base.url()
    }

    pub(crate) fn encode<C: Call>(&self, request: &C) -> Result<Bytes, ClientError> {
        Ok(self.encoding.encode(request)?)
    }

    pub(crate) async fn call<C: Call>(
        &self,
        body: Bytes,
        patience: Duration,
    ) -> Result<Answered<C::Reply>, ClientError> {
        self.answer(self.request::<C>(body), patience, unanswered::<C>()).await?.reply()
    }

    /// Asks no longer than until then; none if there was no answer by that time.
    ///
    /// The asking side of the connection is closed, and the other read to its end: so an answer that was on its way
    /// arrives, and after that the server knows that nobody asks. To drop the request would lose it.
    pub(crate) async fn call_until<C: Call>(
        &self,
        body: Bytes,
        patience: Duration,
        until: impl Future<Output = ()>,
    ) -> Result<Option<Answered<C::Reply>>, ClientError> {
        let mut request = self.request::<C>(body);
        let captured = capture_connection(&mut request);
        let mut answering = pin!(self.answer(request, patience, unanswered::<C>()));
        tokio::select! {
            biased;
            answer = &mut answering => return answer?.reply().map(Some),
            () = until => {}
        }
        if !hang_up(&captured) {
            // There is no connection yet: nobody was asked.
            return Ok(None);
        }
        match tokio::time::timeout(FAREWELL, answering).await {
            Ok(Ok(answer)) => answer.reply().map(Some),
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }

    fn request<C: Call>(&self, body: Bytes) -> Request<Full<Bytes>> {
        Request::builder()
            .method(Method::POST)
            .uri(self.base.join(&format!("/v1/{}", C::NAME)))
            .header(CONTENT_TYPE, self.encoding.media())
            .header(ACCEPT, self.encoding.media())
            .body(Full::new(body))
            .expect("a fixed method, a parsed address and fixed headers")
    }

    /// The body of an item's stream, which goes on.
    pub(crate) async fn subscribe(
        &self,
        Subscription { id, after, follow }: &Subscription,
        patience: Duration,
    ) -> Result<Incoming, ClientError> {
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        let follow = if *follow { "&follow=true" } else { "" };
        let uri = self.base.join(&format!("/v1/item.events?id={}{after}{follow}", escaped(id)));
        let request = Request::builder().uri(uri).header(ACCEPT, EVENT_STREAM).body(Full::default());
        let sending = self.pool.request(request.expect("a parsed address and a fixed header"));
        let outcome = Outcome::NotApplied;
        let late = |_| ClientError::Timeout { url: self.url(), waited: patience, outcome };
        let sent = tokio::time::timeout(patience, sending).await.map_err(late)?;
        let (head, body) = sent.map_err(|error| self.lost(&error, outcome))?.into_parts();
        let media = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        if head.status == StatusCode::OK
            && media.is_some_and(|media| media.starts_with(EVENT_STREAM.as_bytes()))
        {
            return Ok(body);
        }
        let reading = tokio::time::timeout(patience, body.collect()).await.map_err(late)?;
        let body = reading.map_err(|error| self.interrupted(&error, outcome))?.to_bytes();
        Err(Answer { status: head.status, headers: head.headers, body }.refusal())
    }

    /// A plain page of the server.
    pub(crate) async fn page(&self, path: &str, patience: Duration) -> Result<String, ClientError> {
        self.get(path, patience).await?.page()
    }

    /// 503 is an answer here, and no failure.
    pub(crate) async fn ready(&self, patience: Duration) -> Result<Readiness, ClientError> {
        let answer = self.get("/ready", patience).await?;
        if answer.status == StatusCode::SERVICE_UNAVAILABLE {
            return Ok(Readiness { ready: false, page: answer.text() });
        }
        Ok(Readiness { ready: true, page: answer.page()? })
    }

    async fn get(&self, path: &str, patience: Duration) -> Result<Answer, ClientError> {
        let request = Request::builder().uri(self.base.join(path)).body(Full::default());
        self.answer(request.expect("a parsed address"), patience, Outcome::NotApplied).await
    }

    /// `outcome` is what is known of it if none comes.
    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
        patience: Duration,
        outcome: Outcome,
    ) -> Result<Answer, ClientError> {
        match tokio::time::timeout(patience, self.send(request, outcome)).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::Timeout { url: self.url(), waited: patience, outcome }),
        }
    }

    async fn send(&self, request: Request<Full<Bytes>>, outcome: Outcome) -> Result<Answer, ClientError> {
        let sent = self.pool.request(request).await.map_err(|error| self.lost(&error, outcome))?;
        let (head, body) = sent.into_parts();
        let body = body.collect().await.map_err(|error| self.interrupted(&error, outcome))?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    fn lost(&self, error: &legacy::Error, outcome: Outcome) -> ClientError {
        if error.is_connect() || never_written(error) {
            return ClientError::Unreachable { url: self.url(), reason: root_cause(error) };
        }
        self.interrupted(error, outcome)
    }

    fn interrupted(&self, error: &dyn Error, outcome: Outcome) -> ClientError {
        ClientError::Interrupted { url: self.url(), reason: root_cause(error), outcome }
    }
}

/// As it may stand in an address, whatever somebody took for an id.
fn escaped(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    id.bytes()
        .map(|byte| if plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") })
        .collect()
}

/// The connection ended before it took the request up.
fn never_written(error: &legacy::Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
    cause.is_some_and(hyper::Error::is_canceled)
}

/// What the operating system said, without the layers that passed it on.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
