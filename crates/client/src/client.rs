//! The client: one server, a pool of connections to it, and every call.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use windlass_api::items::{CancelItemRequest, GetItemRequest, Item, WaitItemRequest};
use windlass_api::queues::{ListQueuesRequest, Queue, QueueHistory, QueueNames, QueuesHistoryRequest};
use windlass_api::service::{BackupReply, BackupRequest};
use windlass_api::{Call, Span};

use crate::encoding::Encoding;
use crate::error::ClientError;
use crate::exchange::Exchange;
use crate::patience::{patience, repeatable};
use crate::queue::QueueClient;
use crate::reply::Answered;
use crate::retries::Retries;
use crate::stream::Subscription;
use crate::url::Base;

/// The most that one page of a list can hold.
pub(crate) const PAGE: u32 = 1000;
/// How long a page about the server itself may take.
pub(crate) const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// A server, and a pool of connections to it. Cheap to clone: the clones share the pool.
///
/// Its calls are made on a tokio runtime with I/O and time enabled.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    exchange: Exchange,
    retries: Retries,
}

/// Settings of a client; made by [`Client::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    url: String,
    encoding: Encoding,
    retries: Retries,
    connect_timeout: Duration,
}

impl Builder {
    /// In what form requests travel: protobuf if unset.
    pub fn encoding(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// How often and how long to try again by itself.
    pub fn retries(self, retries: Retries) -> Self {
        Self { retries, ..self }
    }

    /// How long a new connection may take: 5 s if unset.
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// Fails only for the address; nothing is sent yet.
    pub fn build(self) -> Result<Client, ClientError> {
        let base = Base::parse(&self.url)?;
        let exchange = Exchange::new(base, self.encoding, self.connect_timeout);
        Ok(Client { shared: Arc::new(Shared { exchange, retries: self.retries }) })
    }
}

/// Order of a list of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// Most waiting items first.
    Waiting,
    /// Most failed items that are kept first.
    Failed,
    /// The oldest waiting item first.
    Oldest,
}

/// What `/ready` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    pub ready: bool,
    /// The page itself: the reasons, if it is not ready.
    pub page: String,
}

impl Client {
    /// A client with default settings, for an address like `http://127.0.0.1:9463`.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        Self::builder(url).build()
    }

    pub fn builder(url: &str) -> Builder {
        Builder {
            url: url.to_owned(),
            encoding: Encoding::default(),
            retries: Retries::default(),
            connect_timeout: Duration::from_secs(5),
        }
    }

    /// The address of the server.
    pub fn url(&self) -> String {
        self.shared.exchange.url()
    }

    /// Makes a call, and tries again where that is safe.
    pub async fn call<C: Call>(&self, request: &C) -> Result<C::Reply, ClientError> {
        Ok(self.call_with_commit(request).await?.reply)
    }

    /// Like [`Client::call`], and tells what the server says about the call beside its reply.
    pub async fn call_with_commit<C: Call>(&self, request: &C) -> Result<Answered<C::Reply>, ClientError> {
        let body = self.shared.exchange.encode(request)?;
        let patience = patience(request);
        let call = || self.shared.exchange.call::<C>(body.clone(), patience);
        self.shared.retries.persist(repeatable(request), call).await
    }

    /// Makes a call once, for those who know better when to try again.
    pub(crate) async fn call_once<C: Call>(&self, request: &C) -> Result<C::Reply, ClientError> {
        let body = self.shared.exchange.encode(request)?;
        Ok(self.shared.exchange.call::<C>(body, patience(request)).await?.reply)
    }

    /// Makes a call once, and asks no longer than until then; none if there was no answer by that time.
    pub(crate) async fn call_until<C: Call>(
        &self,
        request: &C,
        until: impl Future<Output = ()>,
    ) -> Result<Option<C::Reply>, ClientError> {
        let body = self.shared.exchange.encode(request)?;
        let answered = self.shared.exchange.call_until::<C>(body, patience(request), until).await?;
        Ok(answered.map(|answered| answered.reply))
    }

    /// Subscribes to an item's stream, once.
    pub(crate) async fn subscribe(&self, subscription: &Subscription) -> Result<Incoming, ClientError> {
        self.shared.exchange.subscribe(subscription, PAGE_TIMEOUT).await
    }

    pub(crate) fn retries(&self) -> Retries {
        self.shared.retries
    }

    /// A queue by its name: nothing is sent yet.
    pub fn queue(&self, name: impl Into<String>) -> QueueClient {
        QueueClient::new(self.clone(), name.into())
    }

    /// All queues by name.
    pub async fn queues(&self) -> Result<Vec<Queue>, ClientError> {
        self.list_queues(ListQueuesRequest::default()).await
    }

    /// All queues by name, each with its counts.
    pub async fn queues_with_counts(&self) -> Result<Vec<Queue>, ClientError> {
        self.list_queues(ListQueuesRequest { counts: true, ..ListQueuesRequest::default() }).await
    }

    /// All queues by name, each with its `meta`.
    pub async fn queues_with_meta(&self) -> Result<Vec<Queue>, ClientError> {
        self.list_queues(ListQueuesRequest { meta: true, ..ListQueuesRequest::default() }).await
    }

    /// The first `limit` (1 to 1000) queues in `order`, with counts.
    pub async fn queues_first(&self, order: QueueOrder, limit: u32) -> Result<Vec<Queue>, ClientError> {
        let order = match order {
            QueueOrder::Waiting => "waiting",
            QueueOrder::Failed => "failed",
            QueueOrder::Oldest => "oldest",
        };
        let (order, limit) = (Some(order.to_owned()), Some(limit));
        Ok(self.call(&ListQueuesRequest { order, limit, ..ListQueuesRequest::default() }).await?.queues)
    }

    /// What went on lately in these queues, or in those with most waiting, `span` back: 1 h if none, at most 24 h.
    pub async fn history(
        &self,
        queues: Option<QueueNames>,
        span: Option<Duration>,
    ) -> Result<Vec<QueueHistory>, ClientError> {
        let request = QueuesHistoryRequest { queues, span: span.map(Span::from) };
        Ok(self.call(&request).await?.queues)
    }

    async fn list_queues(&self, with: ListQueuesRequest) -> Result<Vec<Queue>, ClientError> {
        let mut queues: Vec<Queue> = Vec::new();
        loop {
            let pivot = queues.last().map(|queue| queue.queue.clone());
            let request = ListQueuesRequest { pivot, limit: Some(PAGE), ..with.clone() };
            let page = self.call(&request).await?.queues;
            // A page with `meta` is bounded in bytes too, and may be short.
            let is_last = page.is_empty() || (!with.meta && page.len() < PAGE as usize);
            queues.extend(page);
            if is_last {
                return Ok(queues);
            }
        }
    }

    /// An item as it is now.
    pub async fn item(&self, id: impl Into<String>) -> Result<Item, ClientError> {
        Ok(self.call(&GetItemRequest::of(id)).await?.item)
    }

    /// An item once it has ended, or as it is after `wait`: 30 s if none, at most 15 min.
    pub async fn wait(&self, id: impl Into<String>, wait: Option<Duration>) -> Result<Item, ClientError> {
        let request = WaitItemRequest { request_timeout: wait.map(Span::from), ..WaitItemRequest::of(id) };
        Ok(self.call(&request).await?.item)
    }

    /// Cancels an item, or asks its worker to give it up; answers with the item.
    pub async fn cancel(&self, id: impl Into<String>) -> Result<Item, ClientError> {
        Ok(self.call(&CancelItemRequest::of(id)).await?.item)
    }

    /// Copies all data, consistently, while the server runs. Without a name the backup is named after the time.
    pub async fn backup(&self, name: Option<&str>) -> Result<BackupReply, ClientError> {
        self.call(&BackupRequest { backup: name.map(str::to_owned) }).await
    }

    /// Whether the server lives. Asked once: whoever asks wants to know how it is now.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.shared.exchange.page("/health", PAGE_TIMEOUT).await.map(drop)
    }

    /// Whether the server has loaded what it serves. Asked once, like [`Client::health`].
    pub async fn ready(&self) -> Result<Readiness, ClientError> {
        self.shared.exchange.ready(PAGE_TIMEOUT).await
    }

    /// The server's metrics, as Prometheus reads them.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        self.shared.retries.persist(true, || self.shared.exchange.page("/metrics", PAGE_TIMEOUT)).await
    }
}
