//! Makes calls to the engine, and has each one recorded.

mod afterwards;
mod crons;
mod finds;
mod groups;
mod streams;
mod suspends;
mod told;
mod turns;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemId, Permit};
use windlass_core::item::{ItemError, Phase};
use windlass_core::refusal::Refusal;
use windlass_core::rule::Stop;
use windlass_core::settings::{RetryChange, Settings, SettingsChange};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{
    Clear, Completion, CreateQueue, Filter, Held, LeaseItems, LiftRule, NewItem, Retried, RetryItem, SetRule,
    UpdateQueue,
};
use windlass_engine::{Engine, EngineError, Judged, Outcome as Effect, ProducedItem, Redrive};

pub use self::finds::OpenWalk;
use crate::executor::{Handle, Sleep};
use crate::history::{
    Given, LoggedAttempt, Made, Op, Outcome, QueueCounts, QueueIndex, RetryOp, ShownItem, ShownQueue,
    Verdict, Why,
};
use crate::plan::queue_name;
use crate::recorder::Recorder;

#[derive(Clone, Debug)]
pub struct Caller {
    pub engine: Engine,
    pub recorder: Recorder,
    pub handle: Handle,
    pub client: usize,
    /// How long the next calls wait for their answers, in microseconds. Unset: as long as it takes.
    pub patience: Option<u64>,
}

/// The request of a lease.
#[derive(Clone, Debug)]
pub struct Wish {
    pub queue: QueueIndex,
    pub batch_size: usize,
    pub timeout: Option<Span>,
    pub filter: Filter,
    pub wait: Span,
}

impl Caller {
    pub async fn produce(&self, queue: QueueIndex, items: Vec<Made>) -> Option<Vec<ItemId>> {
        let new = items.iter().map(new_item).collect();
        let name = queue_name(queue);
        let call = async { alone(self.engine.produce(&name, new).await?) };
        let answer = self.call(Op::Produce { queue, items }, call, |made| Outcome::Produced(produced(made)));
        Some(produced(&answer.await?).into_iter().map(|(id, _)| id).collect())
    }

    /// Sent again with the same items, it is the same call.
    pub async fn produce_once(&self, queue: QueueIndex, items: Vec<Made>) -> Option<Vec<ItemId>> {
        let new = items.iter().map(new_item).collect();
        let (name, key) = (queue_name(queue), format!("call {}", items[0].serial).into());
        let call = async { alone(self.engine.produce_once(&name, key, new).await?) };
        let op = Op::ProduceOnce { queue, items };
        let answer = self.call(op, call, |made| Outcome::Produced(produced(made)));
        Some(produced(&answer.await?).into_iter().map(|(id, _)| id).collect())
    }

    /// With `accept` false the grant is dropped on arrival.
    pub async fn lease(&self, wish: Wish, accept: bool) -> Option<Vec<Given>> {
        let lease = self.lease_items(&wish);
        let Wish { queue, batch_size, timeout, filter, wait } = wish;
        let name = queue_name(queue);
        let call = async {
            let grant = self.engine.lease(&name, lease, wait).await?;
            let items = grant.items().iter().map(Given::from).collect();
            if accept {
                drop(grant.accept());
            }
            Ok(items)
        };
        let granted = |items: &Vec<Given>| Outcome::Granted { items: items.clone(), accepted: accept };
        self.call(Op::Lease { queue, batch_size, timeout, filter, wait }, call, granted).await
    }

    fn lease_items(&self, wish: &Wish) -> LeaseItems {
        LeaseItems {
            client_id: format!("c{}", self.client).into(),
            batch_size: wish.batch_size,
            lease_timeout: wish.timeout,
            filter: wish.filter.clone(),
        }
    }

    pub async fn complete(&self, queue: QueueIndex, items: Vec<(ItemId, Permit, Option<Bytes>)>) {
        let name = queue_name(queue);
        let call = self.engine.complete(&name, items.iter().map(completion).collect());
        self.call(Op::Complete { queue, items }, call, |judged| judge(judged, |()| Verdict::Done)).await;
    }

    pub async fn retry(&self, queue: QueueIndex, items: Vec<RetryOp>) {
        let name = queue_name(queue);
        let call = self.engine.retry(&name, items.iter().map(retry_item).collect());
        let retried = |judged: &Judged<Retried>| judge(judged, Verdict::Retried);
        self.call(Op::Retry { queue, items }, call, retried).await;
    }

    pub async fn extend(&self, queue: QueueIndex, timeout: Option<Span>, items: Vec<(ItemId, Permit)>) {
        let name = queue_name(queue);
        let call = self.engine.extend(&name, timeout, held(&items));
        self.call(Op::Extend { queue, timeout, items }, call, |judged| {
            judge(judged, |extended| Verdict::Extended(extended.into()))
        })
        .await;
    }

    pub async fn release(&self, queue: QueueIndex, items: Vec<(ItemId, Permit)>) {
        let name = queue_name(queue);
        let call = self.engine.release(&name, held(&items));
        self.call(Op::Release { queue, items }, call, |judged| judge(judged, |()| Verdict::Done)).await;
    }

    pub async fn revoke(&self, queue: QueueIndex, items: Vec<(ItemId, Permit)>) {
        let name = queue_name(queue);
        let call = self.engine.revoke(&name, held(&items));
        self.call(Op::Revoke { queue, items }, call, |judged| judge(judged, |()| Verdict::Done)).await;
    }

    pub async fn cancel(&self, id: ItemId) {
        self.call(Op::Cancel(id), self.engine.cancel(id), |cancelled| {
            Outcome::Cancelled(cancelled.value.item.state.phase())
        })
        .await;
    }

    pub async fn get(&self, id: ItemId) -> Option<ShownItem> {
        let call = async {
            let (view, attempts) = self.engine.get_with_attempts(id).await?;
            let attempt_log = Some(attempts.iter().map(LoggedAttempt::from).collect());
            Ok(ShownItem { attempt_log, ..ShownItem::from(&view) })
        };
        self.call(Op::Get(id), call, |view| Outcome::Shown(Box::new(view.clone()))).await
    }

    pub async fn wait(&self, id: ItemId, wait: Span) {
        let call = self.engine.wait(id, wait);
        self.call(Op::Wait { id, wait }, call, |view| Outcome::Shown(Box::new(view.into()))).await;
    }

    pub async fn clear(&self, queue: QueueIndex, clear: Clear) {
        let name = queue_name(queue);
        let call = self.engine.clear(&name, clear);
        self.call(Op::Clear { queue, clear }, call, |cleared| Outcome::Cleared(cleared.value)).await;
    }

    pub async fn redrive(
        &self,
        queue: QueueIndex,
        to: Option<QueueIndex>,
        kind: Option<Arc<str>>,
        limit: Option<u64>,
    ) {
        let name = queue_name(queue);
        let redrive = Redrive { to: to.map(queue_name), kind: kind.clone(), limit };
        let call = self.engine.redrive(&name, redrive);
        let op = Op::Redrive { queue, to, kind, limit };
        self.call(op, call, |redriven| Outcome::Redriven(redriven.value.moved)).await;
    }

    pub async fn stats(&self, queue: QueueIndex) -> Option<QueueCounts> {
        let name = queue_name(queue);
        let call = async { Ok(QueueCounts::from(&self.engine.stats(&name).await?)) };
        self.call(Op::Stats(queue), call, |stats| Outcome::Counted(Box::new(stats.clone()))).await
    }

    pub async fn create(&self, queue: QueueIndex, settings: Settings, partitions: u32) {
        let create = CreateQueue::new(queue_name(queue), settings.clone(), partitions);
        let call = self.engine.create_queue(create);
        let op = Op::Create { queue, settings, partitions };
        self.call(op, call, |made| Outcome::Queue(Box::new(ShownQueue::from(&made.value)))).await;
    }

    pub async fn update(&self, queue: QueueIndex, settings: Settings) {
        let update = UpdateQueue::new(queue_name(queue), all_of(&settings));
        let call = self.engine.update_queue(update);
        self.call(Op::Update { queue, settings }, call, |updated| {
            Outcome::Queue(Box::new(ShownQueue::from(&updated.value)))
        })
        .await;
    }

    pub async fn delete(&self, queue: QueueIndex, force: bool) {
        let name = queue_name(queue);
        let call = self.engine.delete_queue(&name, force);
        self.call(Op::Delete { queue, force }, call, |_gone| Outcome::Deleted).await;
    }

    pub async fn rebalance(&self, queue: QueueIndex, partitions: u32) {
        let name = queue_name(queue);
        let call = self.engine.rebalance(&name, partitions);
        let op = Op::Rebalance { queue, partitions };
        self.call(op, call, |made| Outcome::Queue(Box::new(ShownQueue::from(&made.value)))).await;
    }

    /// Pauses or blocks one kind, or the whole queue.
    pub async fn stop(
        &self,
        queue: QueueIndex,
        kind: Option<Arc<str>>,
        stop: Stop,
        until: Option<Timestamp>,
    ) {
        let set = SetRule { queue: queue_name(queue), kind: kind.clone(), stop, reason: None, until };
        let op = Op::Stop { queue, kind, stop, until };
        self.call(op, self.engine.set_rule(set), |_rule| Outcome::Ruled).await;
    }

    pub async fn go(&self, queue: QueueIndex, kind: Option<Arc<str>>, stop: Stop) {
        let lift = LiftRule { queue: queue_name(queue), kind: kind.clone(), stop };
        self.call(Op::Go { queue, kind, stop }, self.engine.lift_rule(lift), |_lifted| Outcome::Ruled).await;
    }

    async fn call<T>(
        &self,
        op: Op,
        call: impl Future<Output = Result<T, EngineError>>,
        outcome: impl FnOnce(&T) -> Outcome,
    ) -> Option<T> {
        let open = self.recorder.begin(self.client, op);
        let sleep = self.patience.map(|micros| self.handle.sleep_micros(micros));
        match race(call, sleep).await {
            Some(Ok(answer)) => {
                open.answered(outcome(&answer));
                Some(answer)
            }
            Some(Err(error)) => {
                open.answered(failed(error));
                None
            }
            None => {
                open.abandoned();
                None
            }
        }
    }
}

/// An item with an address or a group goes alone, so that what it is told is what the call is told.
fn alone(judged: Judged<ProducedItem>) -> Result<Judged<ProducedItem>, EngineError> {
    match &judged.results[..] {
        [Err(error)] => Err(error.clone()),
        _ => Ok(judged),
    }
}

fn held(items: &[(ItemId, Permit)]) -> Vec<Held> {
    items.iter().map(|&(id, permit)| Held { id, permit }).collect()
}

fn completion((id, permit, result): &(ItemId, Permit, Option<Bytes>)) -> Completion {
    Completion { held: Held { id: *id, permit: *permit }, result: result.clone() }
}

fn retry_item(item: &RetryOp) -> RetryItem {
    RetryItem {
        held: Held { id: item.id, permit: item.permit },
        retry_at: item.retry_at,
        delay: None,
        dead: item.dead,
        error: Some(ItemError { code: None, message: "did not work out".into() }),
    }
}

fn new_item(made: &Made) -> NewItem {
    NewItem {
        kind: made.kind.clone(),
        priority: made.priority,
        group: made.group.clone(),
        enqueue_at: made.enqueue_at,
        delay: None,
        max_attempts: made.max_attempts,
        dead_timeout: made.dead_timeout,
        address: made.address.clone(),
        body: made.body(),
        facts: None,
        hashes: Hashes::default(),
    }
}

/// A change that leaves nothing as it was.
fn all_of(settings: &Settings) -> SettingsChange {
    let retry = settings.retry;
    SettingsChange {
        lease_timeout: Some(settings.lease_timeout),
        max_attempts: Some(settings.max_attempts),
        dead_timeout: Some(settings.dead_timeout),
        dead_queue: Some(settings.dead_queue.clone()),
        retry: RetryChange {
            strategy: Some(retry.strategy),
            initial: Some(retry.initial),
            factor: Some(retry.factor),
            max: Some(retry.max),
            jitter: Some(retry.jitter),
        },
        requeue: Some(settings.requeue),
        retention: Some(settings.retention),
        retention_max_items: Some(settings.retention_max_items),
        retention_max_bytes: Some(settings.retention_max_bytes),
        retain_payload: Some(settings.retain_payload),
        keep: Some(settings.keep),
        indexed_headers: Some(settings.indexed_headers.clone()),
        max_items: Some(settings.max_items),
        reference: Some(settings.reference.clone()),
    }
}

fn judge<T: Copy>(judged: &Judged<T>, ok: impl Fn(T) -> Verdict) -> Outcome {
    let verdict = |result: &Result<T, EngineError>| match result {
        Ok(value) => ok(*value),
        Err(error) => verdict_of(error.clone()),
    };
    Outcome::Judged(judged.results.iter().map(verdict).collect())
}

fn verdict_of(error: EngineError) -> Verdict {
    failed(error).verdict(0)
}

fn failed(error: EngineError) -> Outcome {
    match error {
        EngineError::Refused(refusal) => Outcome::Refused(refusal),
        EngineError::DuplicateAddress { id } => {
            Outcome::Refused(Refusal::DuplicateAddress { number: id.number })
        }
        EngineError::Unavailable { outcome: Effect::Unknown, .. } => Outcome::Unknown(Why::Told),
        EngineError::TooLarge(_) => Outcome::TooLarge,
        EngineError::Unavailable { outcome: Effect::NotApplied, .. }
        | EngineError::Overloaded { .. }
        | EngineError::OutOfMemory { .. } => Outcome::NotApplied(error.to_string()),
    }
}

/// The future's value, or nothing once the sleep is over: then the future is dropped where it stands.
async fn race<T>(future: impl Future<Output = T>, sleep: Option<Sleep>) -> Option<T> {
    let mut future = pin!(future);
    let mut sleep = pin!(sleep);
    poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        match sleep.as_mut().as_pin_mut() {
            Some(sleep) => sleep.poll(context).map(|()| None),
            None => Poll::Pending,
        }
    })
    .await
}

fn produced(made: &Judged<ProducedItem>) -> Vec<(ItemId, Phase)> {
    let item = |item: &Result<ProducedItem, EngineError>| match item {
        Ok(ProducedItem { id, phase }) => (*id, *phase),
        Err(error) => panic!("nothing stands against a single item: {error}"),
    };
    made.results.iter().map(item).collect()
}
