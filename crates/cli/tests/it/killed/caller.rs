//! Makes calls over HTTP, each one once, and has each one recorded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use windlass_api::items::{
    CancelItemRequest, CompleteRequest, Completion, ExtendRequest, GetItemRequest, Held, Kinds, LeaseRequest,
    ProduceRequest, ReleaseRequest, Retry, RetryRequest,
};
use windlass_api::queues::{CreateQueueRequest, QueueStatsReply, QueueStatsRequest, RetryPolicyChange};
use windlass_api::{Call, Span as WireSpan};
use windlass_client::{Client, ClientError, Encoding};
use windlass_core::id::{ItemId, Permit};
use windlass_core::settings::{RetryStrategy, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::Filter;
use windlass_sim::history::{Given, Made, Op, Outcome, QueueIndex, RetryOp, Why};
use windlass_sim::plan::queue_name;
use windlass_sim::recorder::Recorder;

use super::life::Life;
use super::told;
use super::worker::DEAD;
use crate::server_process::client;

/// The knowledge of all callers, over all lives.
#[derive(Debug)]
pub(super) struct World {
    pub(super) recorder: Recorder,
    pub(super) serials: AtomicU64,
    /// Every item that anybody was told of, and its queue.
    pub(super) known: Mutex<BTreeMap<ItemId, QueueIndex>>,
    /// How many items workers have in their hands.
    pub(super) held: AtomicUsize,
}

/// One caller of one life.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) world: Arc<World>,
    pub(super) life: Arc<Life>,
    http: Client,
    number: usize,
    cut_off: AtomicBool,
}

/// The request of a lease.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) queue: QueueIndex,
    pub(super) batch_size: usize,
    pub(super) timeout: Span,
    pub(super) filter: Filter,
    pub(super) wait: Span,
}

impl World {
    pub(super) fn serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed)
    }

    fn learn(&self, queue: QueueIndex, ids: impl Iterator<Item = ItemId>) {
        let mut known = self.known.lock().expect("nothing panics while it holds this lock");
        known.extend(ids.map(|id| (id, queue)));
    }

    pub(super) fn known(&self) -> Vec<(ItemId, QueueIndex)> {
        let known = self.known.lock().expect("nothing panics while it holds this lock");
        known.iter().map(|(id, queue)| (*id, *queue)).collect()
    }
}

impl Caller {
    /// Every second one speaks JSON, and in the next life the others do.
    pub(super) fn new(world: &Arc<World>, life: &Arc<Life>, number: usize) -> Self {
        let even = (number + life.process).is_multiple_of(2);
        let http = client(&life.url, if even { Encoding::Json } else { Encoding::Protobuf });
        let (world, life) = (Arc::clone(world), Arc::clone(life));
        Self { world, life, http, number, cut_off: AtomicBool::new(false) }
    }

    /// Whether the server was found to be gone.
    pub(super) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    pub(super) async fn create(&self, queue: QueueIndex, settings: Settings, partitions: u32) {
        let strategy = match settings.retry.strategy {
            RetryStrategy::Fixed => "fixed",
            RetryStrategy::Exponential => "exponential",
        };
        let retry = RetryPolicyChange {
            strategy: Some(strategy.to_owned()),
            initial: Some(span(settings.retry.initial)),
            ..RetryPolicyChange::default()
        };
        let request = CreateQueueRequest {
            queue: name(queue),
            partitions: Some(partitions),
            max_attempts: Some(settings.max_attempts),
            dead_queue: settings.dead_queue.as_deref().map(str::to_owned),
            retry: Some(retry),
            ..CreateQueueRequest::default()
        };
        let op = Op::Create { queue, settings, partitions };
        self.call(op, &request, |_| Outcome::Queue(Box::default())).await;
    }

    pub(super) async fn produce(&self, queue: QueueIndex, items: Vec<Made>) {
        let request = ProduceRequest {
            queue: name(queue),
            items: items.iter().map(told::new_item).collect(),
            ..ProduceRequest::default()
        };
        let sent = items.len();
        let op = Op::Produce { queue, items };
        self.call(op, &request, |reply| {
            let outcome = told::produced(reply, sent);
            self.world.learn(queue, outcome.produced().iter().map(|(id, _)| *id));
            outcome
        })
        .await;
    }

    pub(super) async fn lease(&self, wish: Wish) -> Vec<Given> {
        let Wish { queue, batch_size, timeout, filter, wait } = wish;
        let kinds = filter.kinds.iter().map(|kinds| kinds.iter().map(|kind| kind.to_string()).collect());
        let request = LeaseRequest {
            queue: name(queue),
            client_id: format!("c{}", self.number),
            batch_size: u32::try_from(batch_size).expect("a small number"),
            request_timeout: Some(span(wait)),
            lease_timeout: Some(span(timeout)),
            kinds: kinds.map(|kinds| Kinds { kinds }).next(),
            max_priority: Some(u32::from(filter.max_priority)),
        };
        let op = Op::Lease { queue, batch_size, timeout: Some(timeout), filter, wait };
        let open = self.world.recorder.begin_at(self.life.process, self.number, op);
        let mut items = match self.http.call(&request).await {
            Ok(reply) => told::granted(&reply),
            Err(error) => {
                open.answered(self.failed(&error));
                return Vec::new();
            }
        };
        // Only an item that is shown tells its origin. Without it, the lease is recorded like one whose answer did not arrive.
        if queue == DEAD && !self.learn_origins(&mut items).await {
            open.answered(Outcome::Unknown(Why::Crashed));
            return Vec::new();
        }
        self.world.learn(queue, items.iter().map(|item| item.id));
        open.answered(Outcome::Granted { items: items.clone(), accepted: true });
        self.life.answered(self.world.held.load(Ordering::Relaxed), false);
        items
    }

    /// Whether the origin of each item was shown. An item is not found if its lease has ended and another worker completed it.
    async fn learn_origins(&self, items: &mut [Given]) -> bool {
        for item in items {
            match self.http.call(&GetItemRequest::of(item.id.to_string())).await {
                Ok(reply) => item.origin = reply.item.origin.as_ref().map(told::origin),
                Err(error) => {
                    self.failed(&error);
                    return false;
                }
            }
        }
        true
    }

    pub(super) async fn complete(&self, queue: QueueIndex, items: Vec<(ItemId, Permit, Option<Bytes>)>) {
        let completion = |(id, permit, result): &(ItemId, Permit, Option<Bytes>)| Completion {
            id: id.to_string(),
            permit: permit.0,
            result: result.as_ref().map(told::payload),
        };
        let request = CompleteRequest {
            queue: name(queue),
            request_timeout: None,
            items: items.iter().map(completion).collect(),
        };
        let sent: Vec<_> = items.iter().map(|(id, permit, _)| (*id, *permit)).collect();
        let op = Op::Complete { queue, items };
        self.call(op, &request, |reply| told::completed(reply, &sent)).await;
    }

    pub(super) async fn retry(&self, queue: QueueIndex, item: RetryOp) {
        let retry = Retry {
            id: item.id.to_string(),
            permit: item.permit.0,
            retry_at: item.retry_at.map(told::time),
            delay: None,
            dead: item.dead,
            error: None,
        };
        let request = RetryRequest { queue: name(queue), items: vec![retry] };
        let op = Op::Retry { queue, items: vec![item] };
        self.call(op, &request, |reply| told::retried(reply, &item)).await;
    }

    pub(super) async fn extend(&self, queue: QueueIndex, timeout: Span, items: Vec<(ItemId, Permit)>) {
        let lease_timeout = Some(span(timeout));
        let request = ExtendRequest { queue: name(queue), lease_timeout, items: held(&items) };
        let op = Op::Extend { queue, timeout: Some(timeout), items: items.clone() };
        self.call(op, &request, |reply| told::extended(reply, &items)).await;
    }

    pub(super) async fn release(&self, queue: QueueIndex, items: Vec<(ItemId, Permit)>) {
        let request = ReleaseRequest { queue: name(queue), items: held(&items) };
        let op = Op::Release { queue, items: items.clone() };
        self.call(op, &request, |reply| told::released(reply, &items)).await;
    }

    pub(super) async fn cancel(&self, id: ItemId) {
        let request = CancelItemRequest::of(id.to_string());
        self.call(Op::Cancel(id), &request, |reply| Outcome::Cancelled(told::phase(&reply.item.state))).await;
    }

    pub(super) async fn get(&self, id: ItemId, queue: QueueIndex) {
        let request = GetItemRequest::of(id.to_string());
        self.call(Op::Get(id), &request, |reply| told::shown(&reply.item, queue)).await;
    }

    pub(super) async fn stats(&self, queue: QueueIndex) -> Option<QueueStatsReply> {
        let request = QueueStatsRequest { queue: name(queue) };
        self.call(Op::Stats(queue), &request, told::counted).await
    }

    async fn call<C: Call>(
        &self,
        op: Op,
        request: &C,
        outcome: impl FnOnce(&C::Reply) -> Outcome,
    ) -> Option<C::Reply> {
        let open = self.world.recorder.begin_at(self.life.process, self.number, op);
        match self.http.call(request).await {
            Ok(reply) => {
                open.answered(outcome(&reply));
                self.life.answered(self.world.held.load(Ordering::Relaxed), false);
                Some(reply)
            }
            Err(error) => {
                open.answered(self.failed(&error));
                None
            }
        }
    }

    /// The outcome of a call that was not answered as it should be. The server may turn out to be gone.
    fn failed(&self, error: &ClientError) -> Outcome {
        let gone = matches!(error, ClientError::Interrupted { .. } | ClientError::Unreachable { .. });
        self.cut_off.fetch_or(gone, Ordering::Relaxed);
        let outcome = told::failed(error, self.life.is_doomed());
        if matches!(outcome, Outcome::NotApplied(_)) && !gone {
            self.life.answered(self.world.held.load(Ordering::Relaxed), true);
        }
        outcome
    }
}

fn name(queue: QueueIndex) -> String {
    queue_name(queue).name.to_string()
}

fn span(span: Span) -> WireSpan {
    WireSpan::from(Duration::from(span))
}

fn held(items: &[(ItemId, Permit)]) -> Vec<Held> {
    items.iter().map(|(id, permit)| Held { id: id.to_string(), permit: permit.0 }).collect()
}
