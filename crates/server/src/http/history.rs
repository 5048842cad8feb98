//! What went on in queues lately.

use std::collections::BTreeSet;

use windlass_api::Span as WireSpan;
use windlass_api::queues::{
    HistoryBucket as WireBucket, QueueHistory as WireHistory, QueuesHistoryReply, QueuesHistoryRequest,
};
use windlass_core::row::QueueName;
use windlass_core::time::Span;
use windlass_engine::{HISTORY_QUEUES_MAX, HISTORY_SPAN_MAX, HistoryBucket, QueueHistory};

use super::context::{Answer, Context};
use super::error::Problem;
use super::{check, show as shown};

const SPAN_DEFAULT: Span = Span::from_secs(3600);

pub(super) async fn show(
    context: Context,
    request: QueuesHistoryRequest,
) -> Result<Answer<QueuesHistoryReply>, Problem> {
    let names = request.queues.map(|queues| queues.names);
    if names.as_ref().is_some_and(|names| !(1..=HISTORY_QUEUES_MAX).contains(&names.len())) {
        return Err(Problem::invalid("`queues` must hold 1 to 100 names"));
    }
    let names = names.map(|names| names.iter().map(|name| check::queue_name_in("queues", name)).collect());
    let mut names: Option<Vec<_>> = names.transpose()?;
    let mut told = BTreeSet::new();
    names.iter_mut().for_each(|names| names.retain(|name: &QueueName| told.insert(name.clone())));
    let history = context.engine().history(names.as_deref(), span(request.span)?)?;
    Ok(Answer::read(QueuesHistoryReply { queues: history.into_iter().map(queue).collect() }))
}

fn span(span: Option<WireSpan>) -> Result<Span, Problem> {
    let span = span.map_or(SPAN_DEFAULT, check::span);
    let fits = span > Span::ZERO && span <= HISTORY_SPAN_MAX;
    if fits { Ok(span) } else { Err(Problem::invalid("`span` must be more than 0s and at most 24h")) }
}

fn queue(history: QueueHistory) -> WireHistory {
    WireHistory {
        queue: history.queue.name.to_string(),
        buckets: history.buckets.into_iter().map(bucket).collect(),
    }
}

fn bucket(bucket: HistoryBucket) -> WireBucket {
    WireBucket {
        at: shown::time(bucket.at),
        produced: bucket.produced,
        completed: bucket.completed,
        failed: bucket.failed,
        retried: bucket.retried,
        waited_p50: bucket.waited.map(|waited| shown::span(waited.p50)),
        waited_p99: bucket.waited.map(|waited| shown::span(waited.p99)),
    }
}
