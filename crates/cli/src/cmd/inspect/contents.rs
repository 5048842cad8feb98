//! Rows and bodies of a log as the API shows them.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use windlass_api::items::{self, Item};
use windlass_api::payload::Payload;
use windlass_api::queues::{Queue, RetryPolicy};
use windlass_api::{Span, Time};
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::{self, Phase, State};
use windlass_core::row::{self, Part};
use windlass_core::settings::{Requeue, RetryStrategy};
use windlass_core::time::{self, Timestamp};

pub(super) fn time(timestamp: Timestamp) -> Time {
    Time::from_micros(i64::try_from(timestamp.0).unwrap_or(i64::MAX))
}

fn span(span: time::Span) -> Span {
    Span::from_micros(span.as_micros())
}

pub(super) fn queue(row: &row::Queue) -> Queue {
    let settings = &row.settings;
    Queue {
        queue: row.name.name.to_string(),
        partitions: u32::try_from(row.partitions.len()).unwrap_or(u32::MAX),
        lease_timeout: span(settings.lease_timeout),
        max_attempts: settings.max_attempts,
        retry: RetryPolicy {
            strategy: match settings.retry.strategy {
                RetryStrategy::Exponential => "exponential".into(),
                RetryStrategy::Fixed => "fixed".into(),
            },
            initial: span(settings.retry.initial),
            factor: settings.retry.factor,
            max: span(settings.retry.max),
            jitter: settings.retry.jitter,
        },
        requeue: match settings.requeue {
            Requeue::Keep => "keep".into(),
            Requeue::Tail => "tail".into(),
        },
        retention: span(settings.retention),
        retention_max_items: settings.retention_max_items,
        retention_max_bytes: settings.retention_max_bytes,
        max_items: settings.max_items,
        reference: settings.reference.as_deref().map(str::to_owned),
        counts: None,
    }
}

/// Without its bodies.
pub(super) fn item(partition: PartitionId, queue: Option<&Queue>, row: &item::Item) -> Item {
    let own_limit = row.extras.as_ref().and_then(|extras| extras.max_attempts);
    let shown = Item {
        id: ItemId { number: row.number, partition }.to_string(),
        queue: queue.map(|queue| queue.queue.clone()).unwrap_or_default(),
        partition: partition.0,
        state: state(row.state.phase()).to_owned(),
        kind: row.kind.to_string(),
        priority: row.priority.into(),
        attempts: row.attempts,
        max_attempts: own_limit.or(queue.map(|queue| queue.max_attempts)).unwrap_or_default(),
        created_at: time(row.created_at),
        error: row.extras.as_ref().and_then(|extras| extras.error.as_ref()).map(error),
        ..Item::default()
    };
    match &row.state {
        State::Waiting => shown,
        State::Scheduled { due_at } => Item { enqueue_at: Some(time(*due_at)), ..shown },
        State::Leased(lease) => Item {
            permit: Some(lease.permit.0),
            client_id: Some(lease.client_id.to_string()),
            leased_at: Some(time(lease.leased_at)),
            lease_deadline: Some(time(lease.deadline)),
            cancel_requested: Some(lease.cancel_requested),
            ..shown
        },
        State::Final(outcome) => Item { finished_at: Some(time(outcome.finished_at)), ..shown },
    }
}

fn state(phase: Phase) -> &'static str {
    match phase {
        Phase::Scheduled => "scheduled",
        Phase::Waiting => "waiting",
        Phase::Leased => "leased",
        Phase::Completed => "completed",
        Phase::Failed => "failed",
        Phase::Cancelled => "cancelled",
        Phase::Expired => "expired",
    }
}

fn error(error: &item::ItemError) -> items::ItemError {
    items::ItemError { code: error.code.as_deref().map(str::to_owned), message: error.message.to_string() }
}

/// A body as the server writes it.
#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(string, optional, tag = "1")]
    json: Option<String>,
    #[prost(string, optional, tag = "2")]
    utf8: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    bytes: Option<Bytes>,
    #[prost(string, optional, tag = "4")]
    reference: Option<String>,
    #[prost(btree_map = "string, string", tag = "5")]
    headers: BTreeMap<String, String>,
}

pub(super) fn with_body(item: Item, part: Part, body: Bytes) -> Item {
    // What somebody else wrote is shown as the bytes it is.
    let record = Record::decode(body.clone());
    let Record { json, utf8, bytes, reference, headers } =
        record.unwrap_or_else(|_| Record { bytes: Some(body), ..Record::default() });
    match part {
        Part::Payload => Item { json, utf8, bytes, reference, headers, ..item },
        Part::Result => Item { result: Some(Payload { json, utf8, bytes }), ..item },
    }
}
