//! The engine's values become wire values.

use windlass_api::groups::{Group, Members};
use windlass_api::items::{self, Item, LeasedItem};
use windlass_api::permits::Permit;
use windlass_api::queues::{self, Activity, Counts, Queue, RetryPolicy};
use windlass_api::{Span as WireSpan, Time};
use windlass_core::attempt::Attempt;
use windlass_core::group::GroupView;
use windlass_core::item::{Extras, ItemError, MovedTo, Origin, Phase, State};
use windlass_core::row;
use windlass_core::settings::{Keep, Requeue, RetainPayload, RetryStrategy};
use windlass_core::time::{Span, Timestamp};
use windlass_engine::store::Room;
use windlass_engine::{Granted, Holding, ItemView, PartitionState, PartitionStats, QueueOverview, Remaining};

use super::record::Record;

pub fn time(timestamp: Timestamp) -> Time {
    Time::from_micros(i64::try_from(timestamp.0).unwrap_or(i64::MAX))
}

pub(super) fn span(span: Span) -> WireSpan {
    WireSpan::from_micros(span.as_micros())
}

pub(super) fn state(phase: Phase) -> &'static str {
    match phase {
        Phase::Held => "held",
        Phase::Scheduled => "scheduled",
        Phase::Waiting => "waiting",
        Phase::Leased => "leased",
        Phase::Suspended => "suspended",
        Phase::Completed => "completed",
        Phase::Failed => "failed",
        Phase::Cancelled => "cancelled",
        Phase::Expired => "expired",
    }
}

pub(super) fn leased(granted: &Granted) -> LeasedItem {
    let Granted { leased, input, body } = granted;
    let record = Record::from_stored(body.clone());
    LeasedItem {
        json: record.json,
        utf8: record.utf8,
        bytes: record.bytes,
        id: leased.id.to_string(),
        permit: leased.permit.0,
        partition: leased.id.partition.0,
        kind: leased.kind.to_string(),
        priority: u32::from(leased.priority),
        attempts: leased.attempts,
        lease_deadline: time(leased.deadline),
        created_at: time(leased.created_at),
        address: leased.address.as_deref().map(str::to_owned),
        group: leased.group.as_deref().map(str::to_owned),
        input: input.clone().map(|stored| Record::from_stored(stored).into_payload()),
        event_count: Some(leased.event_count).filter(|count| *count > 0),
        reference: record.reference,
        headers: record.headers,
        max_attempts: Some(leased.max_attempts),
        error: leased.error.as_ref().map(error),
        origin: leased.origin.as_deref().map(origin),
        cron: leased.cron.as_ref().map(|run| run.name.to_string()),
        scheduled_at: leased.cron.as_ref().map(|run| time(run.scheduled_at)),
    }
}

pub(super) fn permit(holding: &Holding) -> Permit {
    let Holding { id, kind, attempts, lease } = holding;
    Permit {
        id: id.to_string(),
        permit: lease.permit.0,
        client_id: lease.client_id.to_string(),
        kind: kind.to_string(),
        attempts: *attempts,
        leased_at: time(lease.leased_at),
        lease_deadline: time(lease.deadline),
    }
}

pub fn item(view: ItemView) -> Item {
    let phase = view.phase();
    let ItemView { queue, id, item, member, max_attempts, payload, result, facts } = view;
    // The payload's record has the facts in it; once it is gone they stand for themselves.
    let record = payload.or(facts).map(Record::from_stored).unwrap_or_default();
    let changed_at = time(item.changed_at());
    let started = item.started().map(|(at, client_id)| (time(at), client_id.to_string()));
    let (started_at, client_id) = started.unzip();
    let extras = item.extras.map_or_else(Extras::default, |extras| *extras);
    let shown = Item {
        json: record.json,
        utf8: record.utf8,
        bytes: record.bytes,
        id: id.to_string(),
        queue: queue.name.to_string(),
        partition: id.partition.0,
        state: state(phase).to_owned(),
        kind: item.kind.to_string(),
        priority: u32::from(item.priority),
        attempts: item.attempts,
        max_attempts: Some(max_attempts),
        created_at: time(item.created_at),
        changed_at,
        started_at,
        client_id,
        cron: extras.cron.as_ref().map(|run| run.name.to_string()),
        scheduled_at: extras.cron.as_ref().map(|run| time(run.scheduled_at)),
        moved_to: extras.moved_to.as_deref().map(moved_to),
        event_count: extras.event_count,
        address: extras.address.as_deref().map(str::to_owned),
        group: member.map(|member| member.group.to_string()),
        reference: record.reference,
        headers: record.headers,
        dead_timeout: extras.dead_timeout.map(span),
        origin: extras.origin.as_deref().map(origin),
        error: extras.error.as_ref().map(error),
        result: result.map(|stored| Record::from_stored(stored).into_payload()),
        ..Item::default()
    };
    with_state(shown, &item.state)
}

fn with_state(shown: Item, state: &State) -> Item {
    match state {
        State::Waiting { .. } => shown,
        State::Scheduled { due_at } => Item { enqueue_at: Some(time(*due_at)), ..shown },
        State::Leased(lease) => Item {
            permit: Some(lease.permit.0),
            leased_at: Some(time(lease.leased_at)),
            lease_deadline: Some(time(lease.deadline)),
            cancel_requested: Some(lease.cancel_requested),
            ..shown
        },
        State::Suspended(suspension) => {
            Item { reason: suspension.reason.as_deref().map(str::to_owned), ..shown }
        }
        State::Final(outcome) => Item { finished_at: Some(time(outcome.finished_at)), ..shown },
    }
}

pub(super) fn moved_to(moved_to: &MovedTo) -> items::MovedTo {
    items::MovedTo { queue: moved_to.queue.to_string(), id: moved_to.id.to_string() }
}

pub(super) fn attempt(attempt: &Attempt) -> items::Attempt {
    items::Attempt {
        attempt: attempt.attempt,
        client_id: attempt.client_id.to_string(),
        leased_at: time(attempt.leased_at),
        ended_at: time(attempt.ended_at),
        outcome: attempt.end.name().to_owned(),
        error: attempt.error.as_ref().map(error),
    }
}

fn origin(origin: &Origin) -> items::Origin {
    items::Origin {
        queue: origin.queue.to_string(),
        id: origin.id.map(|id| id.to_string()),
        group: origin.group.as_deref().map(str::to_owned),
        address: origin.address.as_deref().map(str::to_owned),
        attempts: origin.attempts,
        reason: origin.reason.name().to_owned(),
        error: origin.error.as_ref().map(error),
        moved_at: time(origin.moved_at),
    }
}

fn error(error: &ItemError) -> items::ItemError {
    items::ItemError { code: error.code.as_deref().map(str::to_owned), message: error.message.to_string() }
}

pub fn queue(queue: &row::Queue) -> Queue {
    let settings = &queue.settings;
    Queue {
        queue: queue.name.name.to_string(),
        partitions: u32::try_from(queue.width()).unwrap_or(u32::MAX),
        lease_timeout: span(settings.lease_timeout),
        max_attempts: settings.max_attempts,
        dead_timeout: span(settings.dead_timeout),
        dead_queue: settings.dead_queue.as_deref().map(str::to_owned),
        retry: RetryPolicy {
            strategy: strategy(settings.retry.strategy).to_owned(),
            initial: span(settings.retry.initial),
            factor: settings.retry.factor,
            max: span(settings.retry.max),
            jitter: settings.retry.jitter,
        },
        requeue: requeue(settings.requeue).to_owned(),
        retention: span(settings.retention),
        retention_max_items: settings.retention_max_items,
        retention_max_bytes: settings.retention_max_bytes,
        retain_payload: retain_payload(settings.retain_payload).to_owned(),
        keep: keep(settings.keep).to_owned(),
        indexed_headers: settings.indexed_headers.iter().map(|name| name.to_string()).collect(),
        max_items: settings.max_items,
        reference: settings.reference.as_deref().map(str::to_owned),
        meta: queue.meta.as_deref().map(str::to_owned),
        created_at: time(queue.created_at),
        updated_at: time(queue.updated_at),
        counts: None,
        activity: None,
        warnings: Vec::new(),
    }
}

fn strategy(strategy: RetryStrategy) -> &'static str {
    match strategy {
        RetryStrategy::Exponential => "exponential",
        RetryStrategy::Fixed => "fixed",
    }
}

fn retain_payload(retain: RetainPayload) -> &'static str {
    match retain {
        RetainPayload::Failed => "failed",
        RetainPayload::All => "all",
        RetainPayload::None => "none",
    }
}

fn keep(keep: Keep) -> &'static str {
    match keep {
        Keep::Shown => "shown",
        Keep::All => "all",
    }
}

fn requeue(requeue: Requeue) -> &'static str {
    match requeue {
        Requeue::Keep => "keep",
        Requeue::Tail => "tail",
    }
}

pub(super) fn activity(seen: &QueueOverview, now: Timestamp) -> Activity {
    Activity {
        stopped: seen.stopped,
        paused: seen.paused,
        blocked: seen.blocked,
        oldest_waiting_age: seen.oldest_waiting.map_or(WireSpan::ZERO, |oldest| age(oldest, now)),
        lease_waiters: seen.lease_waiters as u64,
        produced: seen.totals.produced,
        completed: seen.totals.completed,
        failed: seen.totals.failed,
    }
}

pub(super) fn counts(counts: windlass_core::partition::Counts) -> Counts {
    Counts {
        held: counts.held,
        scheduled: counts.scheduled,
        waiting: counts.waiting,
        leased: counts.leased,
        suspended: counts.suspended,
    }
}

pub fn group(queue: &row::QueueName, view: &GroupView) -> Group {
    let (live, ended) = (view.live, view.ended);
    Group {
        group: view.name.to_string(),
        queue: queue.name.to_string(),
        state: view.state.name().to_owned(),
        members: Members {
            held: live.held,
            scheduled: live.scheduled,
            waiting: live.waiting,
            leased: live.leased,
            suspended: live.suspended,
            completed: ended.completed,
            failed: ended.failed,
            cancelled: ended.cancelled,
            expired: ended.expired,
        },
        created_at: time(view.created_at),
        finished_at: view.state.over_since().map(time),
    }
}

pub(super) fn partition(stats: &PartitionStats) -> queues::PartitionStats {
    let (state, error) = match &stats.state {
        PartitionState::Available if stats.remaining.is_some() => ("draining", None),
        PartitionState::Available if stats.paused => ("paused", None),
        PartitionState::Available => ("available", None),
        PartitionState::Loading => ("loading", None),
        PartitionState::Faulty { error } => ("faulty", Some(error.to_string())),
        PartitionState::Closed => ("faulty", Some("shutting down".to_owned())),
    };
    queues::PartitionStats {
        partition: stats.partition.0,
        state: state.to_owned(),
        store: stats.store.to_string(),
        disk_full: stats.room != Room::Enough,
        counts: counts(stats.counts),
        error,
        remaining: stats.remaining.map(|Remaining { items, groups }| queues::Remaining { items, groups }),
    }
}

/// In whole milliseconds: what is finer would only be noise.
pub(super) fn age(since: Timestamp, now: Timestamp) -> WireSpan {
    WireSpan::from_millis((now - since).as_micros() / 1000)
}
