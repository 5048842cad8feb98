//! Calls on queues: create, update, info, list, delete, stats, clear, redrive, rebalance.

use std::cmp::Reverse;
use std::sync::Arc;

use windlass_api::Span as WireSpan;
use windlass_api::queues::{
    ClearQueueReply, ClearQueueRequest, CreateQueueRequest, DeleteQueueReply, DeleteQueueRequest,
    ListQueuesReply, ListQueuesRequest, Queue, QueueInfoRequest, QueueReply, QueueStatsReply,
    QueueStatsRequest, RebalanceQueueRequest, RedriveQueueReply, RedriveQueueRequest, RetryPolicyChange,
    UpdateQueueRequest,
};
use windlass_core::limits;
use windlass_core::refusal::Refusal;
use windlass_core::row::{self, QueueName};
use windlass_core::settings::{
    Keep, Requeue, RetainPayload, RetryChange, RetryStrategy, Settings, SettingsChange,
};
use windlass_core::time::Timestamp;
use windlass_core::verbs::{Clear, CreateQueue, GivenQueue, UpdateQueue};
use windlass_engine::{Outcome, QueueOverview, QueueStats, Redrive, Redriven};

use super::context::{Answer, Context};
use super::error::Problem;
use super::{check, show};

/// A page of a list takes no further queue once the `meta` of its queues have come to so many bytes.
const META_PAGE_BYTES_MAX: usize = 8 << 20;

pub(super) async fn create(
    context: Context,
    mut request: CreateQueueRequest,
) -> Result<Answer<QueueReply>, Problem> {
    let name = check::queue_name(&request.queue)?;
    let (partitions, exists_ok) = (request.partitions, request.exists_ok);
    limits::check_partitions(partitions.unwrap_or(1))?;
    let meta = request.meta.take().map(|meta| check::meta(meta, context.payload_rule())).transpose()?;
    let given = GivenQueue { partitions, settings: change(request.into())?, meta };
    let settings = Settings::default().changed(given.settings.clone());
    let create = CreateQueue {
        meta: given.meta.clone().flatten(),
        exists_ok: exists_ok.then(|| Box::new(given)),
        ..CreateQueue::new(name, settings, partitions.unwrap_or(1))
    };
    let creating = context.engine().create_queue(create);
    let created = context.within(check::COMMIT_TIMEOUT, creating).await?;
    Ok(Answer::changed(QueueReply { queue: with_warnings(&context, &created.value) }, created.commits))
}

pub(super) async fn update(
    context: Context,
    mut request: UpdateQueueRequest,
) -> Result<Answer<QueueReply>, Problem> {
    let name = check::queue_name(&request.queue)?;
    let meta = request.meta.take().map(|meta| check::meta(meta, context.payload_rule())).transpose()?;
    let updating = context.engine().update_queue(UpdateQueue { name, change: change(request)?, meta });
    let updated = context.within(check::COMMIT_TIMEOUT, updating).await?;
    Ok(Answer::changed(QueueReply { queue: with_warnings(&context, &updated.value) }, updated.commits))
}

/// The queue with its warnings.
fn with_warnings(context: &Context, queue: &row::Queue) -> Queue {
    Queue { warnings: warnings(context, queue), ..show::queue(queue) }
}

fn warnings(context: &Context, queue: &row::Queue) -> Vec<String> {
    let dead_queue = queue.settings.dead_queue.as_ref();
    let name = dead_queue.map(|name| QueueName { name: Arc::clone(name), ..queue.name.clone() });
    let missing = name.filter(|name| context.engine().queue_info(name).is_none());
    let warning = missing.map(|name| {
        format!(
            "`dead_queue` is `{0}`, and there is no such queue: what fails or expires waits here until it is made with \
             queues.create, as far as `retention_max_bytes` allows",
            name.name
        )
    });
    warning.into_iter().collect()
}

/// The settings of a request: `CreateQueueRequest` becomes an update that gives the same.
fn change(request: UpdateQueueRequest) -> Result<SettingsChange, Problem> {
    if let Some(reference) = &request.reference {
        check::reference("", reference)?;
    }
    Ok(SettingsChange {
        lease_timeout: request.lease_timeout.map(check::span),
        max_attempts: request.max_attempts,
        dead_timeout: request.dead_timeout.map(check::span),
        dead_queue: request.dead_queue.map(unless_empty),
        retry: request.retry.map(retry).transpose()?.unwrap_or_default(),
        requeue: request.requeue.as_deref().map(requeue).transpose()?,
        retention: request.retention.map(check::span),
        retention_max_items: request.retention_max_items,
        retention_max_bytes: request.retention_max_bytes,
        retain_payload: request.retain_payload.as_deref().map(retain_payload).transpose()?,
        keep: request.keep.as_deref().map(keep).transpose()?,
        indexed_headers: request.indexed_headers.map(|list| list.names.into_iter().map(Into::into).collect()),
        max_items: request.max_items,
        reference: request.reference.map(unless_empty),
    })
}

/// Empty means: none.
fn unless_empty(text: String) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

fn retry(policy: RetryPolicyChange) -> Result<RetryChange, Problem> {
    Ok(RetryChange {
        strategy: policy.strategy.as_deref().map(strategy).transpose()?,
        initial: policy.initial.map(check::span),
        factor: policy.factor,
        max: policy.max.map(check::span),
        jitter: policy.jitter,
    })
}

fn strategy(name: &str) -> Result<RetryStrategy, Problem> {
    match name {
        "exponential" => Ok(RetryStrategy::Exponential),
        "fixed" => Ok(RetryStrategy::Fixed),
        _ => Err(Problem::invalid("`retry.strategy` must be `exponential` or `fixed`")),
    }
}

fn retain_payload(name: &str) -> Result<RetainPayload, Problem> {
    match name {
        "failed" => Ok(RetainPayload::Failed),
        "all" => Ok(RetainPayload::All),
        "none" => Ok(RetainPayload::None),
        _ => Err(Problem::invalid("`retain_payload` must be `failed`, `all` or `none`")),
    }
}

fn keep(name: &str) -> Result<Keep, Problem> {
    match name {
        "shown" => Ok(Keep::Shown),
        "all" => Ok(Keep::All),
        _ => Err(Problem::invalid("`keep` must be `shown` or `all`")),
    }
}

fn requeue(name: &str) -> Result<Requeue, Problem> {
    match name {
        "keep" => Ok(Requeue::Keep),
        "tail" => Ok(Requeue::Tail),
        _ => Err(Problem::invalid("`requeue` must be `keep` or `tail`")),
    }
}

pub(super) async fn info(context: Context, request: QueueInfoRequest) -> Result<Answer<QueueReply>, Problem> {
    let name = check::queue_name(&request.queue)?;
    let queue = context.engine().queue_info(&name).ok_or_else(|| Refusal::no_such_queue(&name))?;
    Ok(Answer::read(QueueReply { queue: with_warnings(&context, &queue) }))
}

pub(super) async fn list(
    context: Context,
    request: ListQueuesRequest,
) -> Result<Answer<ListQueuesReply>, Problem> {
    let limit = check::list_limit(request.limit)?;
    let order = order(request.order.as_deref())?;
    if order != Order::Name && request.pivot.is_some() {
        return Err(Problem::invalid("`pivot` goes with `order` `name` alone: the others answer one page"));
    }
    let pivot = check::name_pivot(request.pivot.clone())?.unwrap_or_default();
    let request = ListQueuesRequest { counts: request.counts || order != Order::Name, ..request };
    let mut overview = context.engine().overview();
    sort(&mut overview, order);
    let after = overview.iter().filter(|seen| seen.queue.name.name > pivot);
    let now = context.engine().now();
    let meta_bytes = |seen: &QueueOverview| seen.queue.meta.as_ref().map_or(0, |meta| meta.len());
    let fits = bounded(META_PAGE_BYTES_MAX, |seen| if request.meta { meta_bytes(seen) } else { 0 });
    let queues =
        after.take(limit).take_while(fits).map(|seen| listed(&context, seen, &request, now)).collect();
    Ok(Answer::read(ListQueuesReply { queues }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Name,
    Waiting,
    Failed,
    Oldest,
}

fn order(name: Option<&str>) -> Result<Order, Problem> {
    match name {
        None | Some("name") => Ok(Order::Name),
        Some("waiting") => Ok(Order::Waiting),
        Some("failed") => Ok(Order::Failed),
        Some("oldest") => Ok(Order::Oldest),
        Some(_) => Err(Problem::invalid("`order` must be `name`, `waiting`, `failed` or `oldest`")),
    }
}

/// Stable sort: queues with equal keys stay in the order of their names.
fn sort(queues: &mut [QueueOverview], order: Order) {
    match order {
        Order::Name => {}
        Order::Waiting => queues.sort_by_key(|seen| Reverse(seen.counts.waiting)),
        Order::Failed => queues.sort_by_key(|seen| Reverse(seen.failed)),
        Order::Oldest => queues.sort_by_key(|seen| (seen.oldest_waiting.is_none(), seen.oldest_waiting)),
    }
}

/// Holds for the first one, and for those after it until together they have more than so many bytes.
fn bounded<T>(bytes_max: usize, bytes_of: impl Fn(&T) -> usize) -> impl FnMut(&&T) -> bool {
    let (mut bytes, mut is_first) = (0, true);
    move |one| {
        bytes += bytes_of(one);
        std::mem::take(&mut is_first) || bytes <= bytes_max
    }
}

fn listed(context: &Context, seen: &QueueOverview, request: &ListQueuesRequest, now: Timestamp) -> Queue {
    let counts = request.counts.then(|| show::counts(seen.counts));
    let activity = request.counts.then(|| show::activity(seen, now));
    let queue = with_warnings(context, &seen.queue);
    let meta = queue.meta.filter(|_| request.meta);
    Queue { counts, activity, meta, ..queue }
}

pub(super) async fn delete(
    context: Context,
    request: DeleteQueueRequest,
) -> Result<Answer<DeleteQueueReply>, Problem> {
    let name = check::queue_name(&request.queue)?;
    let deleting = context.engine().delete_queue(&name, request.force);
    let deleted = context.within(check::COMMIT_TIMEOUT, deleting).await?;
    Ok(Answer::changed(DeleteQueueReply {}, deleted.commits))
}

pub(super) async fn clear(
    context: Context,
    request: ClearQueueRequest,
) -> Result<Answer<ClearQueueReply>, Problem> {
    let name = check::queue_name(&request.queue)?;
    let none_given = [request.waiting, request.scheduled, request.leased, request.suspended] == [None; 4];
    let clear = Clear {
        waiting: request.waiting.unwrap_or(none_given),
        scheduled: request.scheduled.unwrap_or(none_given),
        leased: request.leased.unwrap_or(false),
        suspended: request.suspended.unwrap_or(false),
    };
    let cleared = context.within(check::COMMIT_TIMEOUT, context.engine().clear(&name, clear)).await?;
    Ok(Answer::changed(ClearQueueReply { cleared: cleared.value }, cleared.commits))
}

pub(super) async fn redrive(
    context: Context,
    request: RedriveQueueRequest,
) -> Result<Answer<RedriveQueueReply>, Problem> {
    let name = check::queue_name(&request.queue)?;
    let to = request.to.as_deref().map(|to| check::queue_name_in("to", to)).transpose()?;
    request.kind.as_deref().map_or(Ok(()), limits::check_kind)?;
    if request.limit == Some(0) {
        return Err(Problem::invalid("`limit` must be at least 1"));
    }
    let redrive = Redrive { to, kind: request.kind.map(Into::into), limit: request.limit };
    let redriving = context.engine().redrive(&name, redrive);
    let redriven = context.within(check::WHOLE_QUEUE_TIMEOUT, redriving).await?;
    let Redriven { moved, skipped } = redriven.value;
    let reply = RedriveQueueReply { moved, skipped };
    Ok(Answer::changed(reply, redriven.commits))
}

pub(super) async fn rebalance(
    context: Context,
    request: RebalanceQueueRequest,
) -> Result<Answer<QueueReply>, Problem> {
    let name = check::queue_name(&request.queue)?;
    let rebalancing = context.engine().rebalance(&name, request.partitions);
    let rebalanced = context.within(check::COMMIT_TIMEOUT, rebalancing).await?;
    Ok(Answer::changed(QueueReply { queue: with_warnings(&context, &rebalanced.value) }, rebalanced.commits))
}

pub(super) async fn stats(
    context: Context,
    request: QueueStatsRequest,
) -> Result<Answer<QueueStatsReply>, Problem> {
    let name = check::queue_name(&request.queue)?;
    let counting = context.engine().stats(&name);
    let stats = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, counting).await?;
    let reply = shown(request.queue, stats, context.engine().now());
    let queue = context.engine().queue_info(&name);
    let warnings = queue.map_or_else(Vec::new, |queue| warnings(&context, &queue));
    Ok(Answer::read(QueueStatsReply { warnings, ..reply }))
}

fn shown(queue: String, stats: QueueStats, now: Timestamp) -> QueueStatsReply {
    let age = stats.oldest_waiting.map_or(WireSpan::ZERO, |oldest| show::age(oldest, now));
    QueueStatsReply {
        queue,
        counts: show::counts(stats.counts),
        kinds: stats
            .kinds
            .into_iter()
            .map(|(kind, counts)| (kind.to_string(), show::counts(counts)))
            .collect(),
        priorities: stats.priorities.into_iter().map(|(priority, n)| (u32::from(priority), n)).collect(),
        oldest_waiting_age: age,
        lease_waiters: stats.lease_waiters as u64,
        moving: stats.moving,
        retained: stats.retained,
        paused: stats.paused,
        blocked: stats.blocked,
        stopped: stats.stopped,
        partitions: stats.partitions.iter().map(show::partition).collect(),
        warnings: Vec::new(),
    }
}
