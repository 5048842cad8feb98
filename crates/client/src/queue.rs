//! One queue, and what can be done with it.

use std::time::Duration;

use windlass_api::Span;
use windlass_api::items::{
    CancelItemRequest, CompleteReply, CompleteRequest, Completion, ExtendReply, ExtendRequest,
    GetItemRequest, Held, Item, Kinds, LeaseRequest, LeasedItem, NewItem, NextLease, NextReply, NextRequest,
    ProduceRequest, ProducedItem, ReleaseReply, ReleaseRequest, Retry, RetryReply, RetryRequest,
    WaitItemRequest,
};
use windlass_api::permits::{ListPermitsRequest, Permit, RevokeReply, RevokeRequest};
use windlass_api::queues::{
    ClearQueueRequest, CreateQueueRequest, DeleteQueueRequest, HistoryBucket, Queue, QueueInfoRequest,
    QueueNames, QueueStatsReply, QueueStatsRequest, RebalanceQueueRequest, RedriveQueueReply,
    RedriveQueueRequest, UpdateQueueRequest,
};

use crate::client::Client;
use crate::error::ClientError;

/// A queue by its name, made by [`Client::queue`]. Whether there is such a queue shows with the first call.
///
/// Where a method takes a whole request, the name in it is set here.
#[derive(Clone, Debug)]
pub struct QueueClient {
    pub(crate) client: Client,
    pub(crate) queue: String,
}

/// What a worker asks for: `Lease { batch_size: 10, ..Lease::new("worker-1") }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// Who is asking: shown to operators. 1 to 128 characters.
    pub client_id: String,
    /// The most items to get: 1 to 1000.
    pub batch_size: u32,
    /// How long to wait for the first item: 30 s if none, at most 15 min; zero answers at once.
    pub wait: Option<Duration>,
    /// How long the items are the worker's: the queue's setting if none.
    pub lease_timeout: Option<Duration>,
    /// Only these kinds; every kind if none, and no work at all if empty.
    pub kinds: Option<Vec<String>>,
    /// Only priorities up to this one, inclusive.
    pub max_priority: Option<u8>,
}

impl Lease {
    /// One item of any kind, waited for as long as the server does by itself.
    pub fn new(client_id: impl Into<String>) -> Self {
        Self {
            client_id: client_id.into(),
            batch_size: 1,
            wait: None,
            lease_timeout: None,
            kinds: None,
            max_priority: None,
        }
    }

    fn request(&self, queue: &str) -> LeaseRequest {
        LeaseRequest {
            queue: queue.to_owned(),
            client_id: self.client_id.clone(),
            batch_size: self.batch_size,
            request_timeout: self.wait.map(Span::from),
            lease_timeout: self.lease_timeout.map(Span::from),
            kinds: self.kinds.clone().map(|kinds| Kinds { kinds }),
            max_priority: self.max_priority.map(u32::from),
        }
    }
}

impl QueueClient {
    pub(crate) fn new(client: Client, queue: String) -> Self {
        Self { client, queue }
    }

    pub fn name(&self) -> &str {
        &self.queue
    }

    /// Makes it, with the settings a queue has by default.
    pub async fn create(&self) -> Result<Queue, ClientError> {
        self.create_with(CreateQueueRequest::default()).await
    }

    /// Makes it.
    pub async fn create_with(&self, request: CreateQueueRequest) -> Result<Queue, ClientError> {
        let request = CreateQueueRequest { queue: self.queue.clone(), ..request };
        Ok(self.client.call(&request).await?.queue)
    }

    /// It and its settings.
    pub async fn info(&self) -> Result<Queue, ClientError> {
        Ok(self.client.call(&QueueInfoRequest { queue: self.queue.clone() }).await?.queue)
    }

    /// Changes the settings that are given.
    pub async fn update(&self, request: UpdateQueueRequest) -> Result<Queue, ClientError> {
        let request = UpdateQueueRequest { queue: self.queue.clone(), ..request };
        Ok(self.client.call(&request).await?.queue)
    }

    /// Deletes it: with `force` also if it still holds items.
    pub async fn delete(&self, force: bool) -> Result<(), ClientError> {
        self.client.call(&DeleteQueueRequest { queue: self.queue.clone(), force }).await.map(drop)
    }

    /// Counts what is in it.
    pub async fn stats(&self) -> Result<QueueStatsReply, ClientError> {
        self.client.call(&QueueStatsRequest { queue: self.queue.clone() }).await
    }

    /// What went on in it lately, `span` back: 1 h if none, at most 24 h. Nothing is known from before the server's start, and
    /// nothing at all if many other queues are busier.
    pub async fn history(&self, span: Option<Duration>) -> Result<Vec<HistoryBucket>, ClientError> {
        let queues = Some(QueueNames { names: vec![self.queue.clone()] });
        let histories = self.client.history(queues, span).await?;
        Ok(histories.into_iter().next().map(|history| history.buckets).unwrap_or_default())
    }

    /// Cancels what is in it, and tells how many items that were. The default is what waits and what is scheduled.
    pub async fn clear(&self, request: ClearQueueRequest) -> Result<u64, ClientError> {
        let request = ClearQueueRequest { queue: self.queue.clone(), ..request };
        Ok(self.client.call(&request).await?.cleared)
    }

    /// Moves waiting items back to their queues of origin, or to `to`; the reply counts `moved` and `skipped` (address taken).
    pub async fn redrive(&self, request: RedriveQueueRequest) -> Result<RedriveQueueReply, ClientError> {
        let request = RedriveQueueRequest { queue: self.queue.clone(), ..request };
        self.client.call(&request).await
    }

    /// Gives it so many partitions: more at once, fewer by leasing empty those that go.
    pub async fn rebalance(&self, partitions: u32) -> Result<Queue, ClientError> {
        let request = RebalanceQueueRequest { queue: self.queue.clone(), partitions };
        Ok(self.client.call(&request).await?.queue)
    }

    /// Puts items into it: once this returns they are durable. In the order given.
    pub async fn produce(
        &self,
        items: impl IntoIterator<Item = NewItem>,
    ) -> Result<Vec<ProducedItem>, ClientError> {
        let items = items.into_iter().collect();
        let request = ProduceRequest { queue: self.queue.clone(), items, ..ProduceRequest::default() };
        Ok(self.client.call(&request).await?.items)
    }

    /// Like [`QueueClient::produce`], under a name for the call: sent again within 24 hours, it is not carried out again,
    /// and its first answer is given. So it is also tried again where nobody knows whether it was done.
    pub async fn produce_once(
        &self,
        idempotency_key: impl Into<String>,
        items: impl IntoIterator<Item = NewItem>,
    ) -> Result<Vec<ProducedItem>, ClientError> {
        let (queue, items) = (self.queue.clone(), items.into_iter().collect());
        let idempotency_key = Some(idempotency_key.into());
        let request = ProduceRequest { queue, idempotency_key, items, ..ProduceRequest::default() };
        Ok(self.client.call(&request).await?.items)
    }

    /// The item that has this address; if all that had it are final, the latest that is kept.
    pub async fn item_at(&self, address: impl Into<String>) -> Result<Item, ClientError> {
        Ok(self.client.call(&GetItemRequest::at(&self.queue, address)).await?.item)
    }

    /// The item that has this address, or the latest that had it, once it has ended, or as it is after `wait`: 30 s if
    /// none, at most 15 min.
    pub async fn wait_at(
        &self,
        address: impl Into<String>,
        wait: Option<Duration>,
    ) -> Result<Item, ClientError> {
        let request_timeout = wait.map(Span::from);
        let request = WaitItemRequest { request_timeout, ..WaitItemRequest::at(&self.queue, address) };
        Ok(self.client.call(&request).await?.item)
    }

    /// Cancels the item of that address, or asks its worker to give it up; answers with the item.
    pub async fn cancel_at(&self, address: impl Into<String>) -> Result<Item, ClientError> {
        Ok(self.client.call(&CancelItemRequest::at(&self.queue, address)).await?.item)
    }

    /// Takes items to work on, waiting for the first; empty if there was none in the time given.
    pub async fn lease(&self, lease: &Lease) -> Result<Vec<LeasedItem>, ClientError> {
        Ok(self.client.call(&lease.request(&self.queue)).await?.items)
    }

    /// Like [`QueueClient::lease`], and ends the wait when `until` is ready. Nothing is lost by that: what was granted
    /// just before still comes back here, and after that the server grants nothing more. (A proxy in between may lose
    /// it; then it comes back when its lease ends.)
    ///
    /// It is tried once: who ends waits by themselves know best what to ask for next.
    pub async fn lease_until(
        &self,
        lease: &Lease,
        until: impl Future<Output = ()>,
    ) -> Result<Vec<LeasedItem>, ClientError> {
        let reply = self.client.call_until(&lease.request(&self.queue), until).await?;
        Ok(reply.map(|reply| reply.items).unwrap_or_default())
    }

    /// A worker's turn: settles leased items and takes others, in one call and, in each partition, in one commit. It waits for
    /// work only if it names no item.
    pub async fn next(&self, request: NextRequest) -> Result<NextReply, ClientError> {
        let request = NextRequest { queue: self.queue.clone(), ..request };
        self.client.call(&request).await
    }

    /// Like [`QueueClient::next`] with this lease, and tried once: who has more to tell by then asks anew.
    pub(crate) async fn turn(&self, settles: NextRequest, lease: &Lease) -> Result<NextReply, ClientError> {
        let LeaseRequest {
            queue,
            client_id,
            batch_size,
            request_timeout,
            lease_timeout,
            kinds,
            max_priority,
        } = lease.request(&self.queue);
        let lease = NextLease { batch_size, lease_timeout, kinds, max_priority, request_timeout };
        let request = NextRequest { queue, client_id, lease: Some(lease), ..settles };
        self.client.call_once(&request).await
    }

    /// Ends leased items as done.
    pub async fn complete(
        &self,
        items: impl IntoIterator<Item = Completion>,
    ) -> Result<CompleteReply, ClientError> {
        let items = items.into_iter().collect();
        let request = CompleteRequest { queue: self.queue.clone(), request_timeout: None, items };
        self.client.call(&request).await
    }

    /// Gives leased items back after a failed attempt.
    pub async fn retry(&self, items: impl IntoIterator<Item = Retry>) -> Result<RetryReply, ClientError> {
        let items = items.into_iter().collect();
        self.client.call(&RetryRequest { queue: self.queue.clone(), items }).await
    }

    /// Keeps leased items for longer, counted from now: the heartbeat. None is the time each lease has.
    pub async fn extend(
        &self,
        items: impl IntoIterator<Item = Held>,
        lease_timeout: Option<Duration>,
    ) -> Result<ExtendReply, ClientError> {
        let items = items.into_iter().collect();
        let lease_timeout = lease_timeout.map(Span::from);
        self.client.call(&ExtendRequest { queue: self.queue.clone(), lease_timeout, items }).await
    }

    /// Gives leased items back, their attempts not counted: for a worker that stops.
    pub async fn release(&self, items: impl IntoIterator<Item = Held>) -> Result<ReleaseReply, ClientError> {
        let items = items.into_iter().collect();
        self.client.call(&ReleaseRequest { queue: self.queue.clone(), items }).await
    }

    /// Who holds what, by the ids of the items: a page of at most a thousand that begins after an item, also if that is
    /// gone by now. An empty one is the end.
    pub async fn permits(&self, after: Option<&str>) -> Result<Vec<Permit>, ClientError> {
        let request =
            ListPermitsRequest { queue: self.queue.clone(), pivot: after.map(str::to_owned), limit: None };
        Ok(self.client.call(&request).await?.permits)
    }

    /// Takes leased items away from their workers: back to their places, their attempts counted.
    pub async fn revoke(&self, items: impl IntoIterator<Item = Held>) -> Result<RevokeReply, ClientError> {
        let items = items.into_iter().collect();
        self.client.call(&RevokeRequest { queue: self.queue.clone(), items }).await
    }
}
