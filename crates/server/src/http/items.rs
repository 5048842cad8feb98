//! Calls on items of a queue: produce, lease, complete, retry, extend, release.

use std::fmt;
use std::sync::Arc;

use windlass_api::error::Failed;
use windlass_api::items::{
    CompleteReply, CompleteRequest, Completion, ExtendReply, ExtendRequest, ExtendedItem, Held, LeaseReply,
    LeaseRequest, NewItem, NextLease, ProduceError, ProduceReply, ProduceRequest, ProducedItem, ReleaseReply,
    ReleaseRequest, Retry, RetryReply, RetryRequest,
};
use windlass_api::payload::Payload;
use windlass_core::headers::Hashes;
use windlass_core::item::ItemError;
use windlass_core::limits::{self, Invalid};
use windlass_core::row::QueueName;
use windlass_core::time::Span;
use windlass_core::verbs;
use windlass_core::verbs::{Extended, Filter, LeaseItems, Retried, RetryItem};
use windlass_engine::{self as engine, Commit, EngineError, Grant, Judged, LeaseBegun, Outcome};

use super::context::{Answer, Context};
use super::error::Problem;
use super::missing::{Missing, naming};
use super::record::Record;
use super::{check, show};

pub(super) const KIND_DEFAULT: &str = "default";

pub(super) async fn produce(
    context: Context,
    request: ProduceRequest,
) -> Result<Answer<ProduceReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let timeout = check::request_timeout(request.request_timeout, false)?;
    limits::check_batch("items", request.items.len())?;
    let key = request.idempotency_key.map(check::idempotency_key).transpose()?;
    let items = new_items(request.items, &context)?;
    let groups: Vec<Option<Arc<str>>> = items.iter().map(|item| item.group.clone()).collect();
    let engine = context.engine();
    let producing = async {
        match key {
            Some(key) => engine.produce_once(&queue, key, items).await,
            None => engine.produce(&queue, items).await,
        }
    };
    let made = context.within(timeout, producing).await?;
    let judged = made.results.into_iter().zip(groups);
    let reply = ProduceReply { items: judged.map(|(result, group)| judged_item(result, group)).collect() };
    Ok(Answer::changed(reply, made.commits))
}

fn judged_item(result: Result<engine::ProducedItem, EngineError>, group: Option<Arc<str>>) -> ProducedItem {
    match result {
        Ok(made) => produced(made),
        Err(error) => ProducedItem { error: Some(produce_error(error, group)), ..ProducedItem::default() },
    }
}

pub(super) fn produced(made: engine::ProducedItem) -> ProducedItem {
    let (id, state) = (made.id.to_string(), show::state(made.phase).to_owned());
    ProducedItem { id: Some(id), state: Some(state), error: None }
}

/// Why an item was not made. Of what it names, only its group can be missing.
pub(super) fn produce_error(error: EngineError, group: Option<Arc<str>>) -> ProduceError {
    let problem = Problem::from(error);
    let problem = match group {
        Some(group) => naming(Missing::Group(group))(problem),
        None => problem,
    };
    ProduceError {
        code: problem.code.as_str().to_owned(),
        details: problem.details(),
        id: problem.id.map(|id| id.to_string()),
        message: problem.message,
    }
}

pub(super) fn new_items(items: Vec<NewItem>, context: &Context) -> Result<Vec<verbs::NewItem>, Problem> {
    let mut kinds = Kinds::default();
    let mut checked = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        checked.push(new_item(format_args!("items[{index}]."), item, &mut kinds, context)?);
    }
    Ok(checked)
}

/// The kind of the item before: a batch is mostly of one, and one is enough to keep.
#[derive(Default)]
pub(super) struct Kinds {
    last: Option<Arc<str>>,
}

impl Kinds {
    pub(super) fn get(&mut self, kind: &str) -> Arc<str> {
        match &self.last {
            Some(last) if **last == *kind => Arc::clone(last),
            Some(_) | None => Arc::clone(self.last.insert(kind.into())),
        }
    }
}

pub(super) fn new_item(
    within: fmt::Arguments<'_>,
    item: NewItem,
    kinds: &mut Kinds,
    context: &Context,
) -> Result<verbs::NewItem, Problem> {
    let kind = item.kind.as_deref().unwrap_or(KIND_DEFAULT);
    limits::check_kind(kind).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    let kind = kinds.get(kind);
    let priority = check::priority(format_args!("{within}priority"), item.priority.unwrap_or(0))?;
    let payload = Payload { json: item.json, utf8: item.utf8, bytes: item.bytes };
    check::payload(within, &payload, context.payload_rule())?;
    let address = item.address.map(|address| check::address(within, address)).transpose()?;
    let group = item.group.map(|group| check::group(within, group)).transpose()?;
    if let Some(reference) = &item.reference {
        check::reference(within, reference)?;
    }
    check::headers(within, item.headers.iter())?;
    let (enqueue_at, delay) = (item.enqueue_at.map(check::moment), item.delay.map(check::span));
    limits::check_item_time(enqueue_at, delay).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    let record = Record { reference: item.reference, headers: item.headers, ..Record::of(payload) };
    Ok(verbs::NewItem {
        kind,
        priority,
        group,
        enqueue_at,
        delay,
        max_attempts: item.max_attempts,
        dead_timeout: item.dead_timeout.map(check::span),
        address,
        body: record.to_stored(),
        facts: record.facts().as_ref().map(Record::to_stored),
        hashes: Hashes::default(),
    })
}

pub(super) async fn lease(context: Context, request: LeaseRequest) -> Result<Answer<LeaseReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let LeaseRequest { client_id, batch_size, request_timeout, lease_timeout, kinds, max_priority, .. } =
        request;
    let lease = NextLease { batch_size, lease_timeout, kinds, max_priority, request_timeout };
    let Leasing { lease, wait } = leasing("", &client_id, &lease)?;
    let grant = granted(&context, &queue, lease, wait).await?;
    let reply = LeaseReply { items: grant.items().iter().map(show::leased).collect() };
    Ok(Answer::granted(reply, grant))
}

/// A lease of what there is, or of what comes in the time that the client waits. Empty if nothing came, or if the wait was
/// ended before.
pub(super) async fn granted(
    context: &Context,
    queue: &QueueName,
    lease: LeaseItems,
    wait: Span,
) -> Result<Grant, Problem> {
    let beginning = context.engine().begin_lease(queue, lease, wait);
    let line = match context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, beginning).await? {
        LeaseBegun::Done(grant) => return Ok(grant),
        LeaseBegun::Nothing(line) => line,
    };
    let _waiting = context.wait_in_line()?;
    // A wait that is dropped gives everything back.
    let waiting = context.within_or(after_wait(wait), Outcome::NotApplied, line.wait());
    context.unless_sent_home(waiting).await.unwrap_or_else(|| Ok(Grant::default()))
}

/// The wait is the engine's; what comes on top is a commit and a read.
pub(super) fn after_wait(wait: Span) -> Span {
    Span::from_micros(wait.as_micros() + check::COMMIT_TIMEOUT.as_micros())
}

/// What a client asks for, and how long it waits.
pub(super) struct Leasing {
    pub(super) lease: LeaseItems,
    pub(super) wait: Span,
}

/// `within`: the fields of `lease` are named after it.
pub(super) fn leasing(within: &str, client_id: &str, lease: &NextLease) -> Result<Leasing, Problem> {
    limits::check_client_id(client_id)?;
    let in_field = |invalid| Problem::invalid_in(within, invalid);
    let wait = check::request_timeout_in(within, lease.request_timeout, true)?;
    let kinds = lease.kinds.as_ref().map(|list| list.kinds.iter().map(|kind| kind.as_str().into()).collect());
    let max_priority = lease.max_priority.unwrap_or(u32::from(u8::MAX));
    let max_priority = check::priority(format_args!("{within}max_priority"), max_priority)?;
    let lease = LeaseItems {
        client_id: client_id.into(),
        batch_size: lease.batch_size as usize,
        lease_timeout: lease.lease_timeout.map(check::span),
        filter: Filter::new(kinds, max_priority),
    };
    limits::check_batch("batch_size", lease.batch_size)
        .map_err(|Invalid { field, .. }| in_field(Invalid { field, rule: "1 to 1000" }))?;
    limits::check_lease(&lease).map_err(|invalid| match invalid.field {
        "kind" => Problem::invalid(format!("each of `{within}kinds` must be {}", invalid.rule)),
        _ => in_field(invalid),
    })?;
    Ok(Leasing { lease, wait })
}

// Calls on leased items: each is judged by itself.

pub(super) async fn complete(
    context: Context,
    request: CompleteRequest,
) -> Result<Answer<CompleteReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let timeout = check::request_timeout(request.request_timeout, false)?;
    limits::check_batch("items", request.items.len())?;
    let named = names(request.items.iter().map(|item| (&item.id, item.permit)));
    let item = |(index, item)| completion(format_args!("items[{index}]."), item, &context);
    let items = request.items.into_iter().enumerate().map(item).collect::<Result<Vec<_>, Problem>>()?;
    let judged = context.within(timeout, context.engine().complete(&queue, items)).await?;
    let Sorted { done, failed, commits } = sort(judged, named)?;
    Ok(Answer::changed(CompleteReply { completed: done.len() as u64, failed }, commits))
}

pub(super) fn completion(
    within: fmt::Arguments<'_>,
    item: Completion,
    context: &Context,
) -> Result<verbs::Completion, Problem> {
    let held = check::held(within, &item.id, item.permit)?;
    if let Some(result) = &item.result {
        check::payload(format_args!("{within}result."), result, context.payload_rule())?;
    }
    Ok(verbs::Completion { held, result: item.result.map(|payload| Record::of(payload).to_stored()) })
}

pub(super) async fn retry(context: Context, request: RetryRequest) -> Result<Answer<RetryReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    limits::check_batch("items", request.items.len())?;
    let named = names(request.items.iter().map(|item| (&item.id, item.permit)));
    let item = |(index, item)| retry_item(format_args!("items[{index}]."), item);
    let items = request.items.into_iter().enumerate().map(item).collect::<Result<Vec<_>, _>>()?;
    let judged = context.within(check::COMMIT_TIMEOUT, context.engine().retry(&queue, items)).await?;
    let Sorted { done, failed, commits } = sort(judged, named)?;
    let again = done.iter().filter(|(_, retried)| matches!(retried, Retried::Again { .. })).count() as u64;
    let reply = RetryReply { retried: again, dead: done.len() as u64 - again, failed };
    Ok(Answer::changed(reply, commits))
}

pub(super) fn retry_item(within: fmt::Arguments<'_>, item: Retry) -> Result<RetryItem, Problem> {
    let error = item.error.map(|error| ItemError {
        code: error.code.as_deref().map(Into::into),
        message: error.message.as_str().into(),
    });
    if let Some(error) = &error {
        limits::check_error(error).map_err(|invalid| Problem::invalid_in(within, invalid))?;
        if error.message.is_empty() {
            return Err(Problem::invalid(format!("`{within}error.message` must say something")));
        }
    }
    let (retry_at, delay) = (item.retry_at.map(check::moment), item.delay.map(check::span));
    limits::check_retry_time(retry_at, delay).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    Ok(RetryItem {
        held: check::held(within, &item.id, item.permit)?,
        retry_at,
        delay,
        dead: item.dead,
        error,
    })
}

pub(super) async fn extend(context: Context, request: ExtendRequest) -> Result<Answer<ExtendReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let lease_timeout = request.lease_timeout.map(check::span);
    lease_timeout.map_or(Ok(()), limits::check_lease_timeout)?;
    let Batch { named, items } = held(request.items)?;
    let extending = context.engine().extend(&queue, lease_timeout, items);
    let judged = context.within(check::COMMIT_TIMEOUT, extending).await?;
    let Sorted { done, failed, commits } = sort(judged, named)?;
    let shown = |(named, extended): (Named, Extended)| ExtendedItem {
        id: named.id,
        lease_deadline: show::time(extended.deadline),
        cancel_requested: extended.cancel_requested,
    };
    Ok(Answer::changed(ExtendReply { items: done.into_iter().map(shown).collect(), failed }, commits))
}

pub(super) async fn release(
    context: Context,
    request: ReleaseRequest,
) -> Result<Answer<ReleaseReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let Batch { named, items } = held(request.items)?;
    let judged = context.within(check::COMMIT_TIMEOUT, context.engine().release(&queue, items)).await?;
    let Sorted { done, failed, commits } = sort(judged, named)?;
    Ok(Answer::changed(ReleaseReply { released: done.len() as u64, failed }, commits))
}

/// An item as the request named it.
pub(super) struct Named {
    pub(super) id: String,
    pub(super) permit: u64,
    /// The list that named it, where a request has several.
    pub(super) verb: Option<&'static str>,
}

pub(super) fn names<'a>(items: impl Iterator<Item = (&'a String, u64)>) -> Vec<Named> {
    items.map(|(id, permit)| Named { id: id.clone(), permit, verb: None }).collect()
}

/// Items of a request, as it named them and as the engine knows them.
pub(super) struct Batch {
    pub(super) named: Vec<Named>,
    pub(super) items: Vec<verbs::Held>,
}

pub(super) fn held(items: Vec<Held>) -> Result<Batch, Problem> {
    limits::check_batch("items", items.len())?;
    let checked = items
        .iter()
        .enumerate()
        .map(|(index, item)| check::held(format_args!("items[{index}]."), &item.id, item.permit));
    let checked = checked.collect::<Result<Vec<_>, Problem>>()?;
    Ok(Batch { named: names(items.iter().map(|item| (&item.id, item.permit))), items: checked })
}

/// Judged items, apart by how it went.
pub(super) struct Sorted<T> {
    pub(super) done: Vec<(Named, T)>,
    pub(super) failed: Vec<Failed>,
    pub(super) commits: Vec<Commit>,
}

/// A call of which no item could even be judged fails as a whole.
pub(super) fn sort<T>(judged: Judged<T>, named: Vec<Named>) -> Result<Sorted<T>, Problem> {
    sort_beside(false, judged, named)
}

/// As [`sort`], for a call that has `done_more` than to judge these items.
pub(super) fn sort_beside<T>(
    done_more: bool,
    judged: Judged<T>,
    named: Vec<Named>,
) -> Result<Sorted<T>, Problem> {
    let was_judged = |result: &Result<T, EngineError>| matches!(result, Ok(_) | Err(EngineError::Refused(_)));
    let any_judged = done_more || judged.results.iter().any(was_judged);
    let mut sorted = Sorted { done: Vec::new(), failed: Vec::new(), commits: judged.commits };
    let mut worst: Option<Problem> = None;
    for (named, result) in named.into_iter().zip(judged.results) {
        match result {
            Ok(value) => sorted.done.push((named, value)),
            Err(error) if any_judged => sorted.failed.push(failed(named, error.into())),
            Err(error) => {
                let problem = Problem::from(error);
                let unknown = problem.outcome == Some(Outcome::Unknown);
                worst = if unknown { Some(problem) } else { worst.or(Some(problem)) };
            }
        }
    }
    worst.map_or(Ok(sorted), Err)
}

pub(super) fn failed(named: Named, problem: Problem) -> Failed {
    let problem = naming(Missing::Item(named.id.clone()))(problem);
    let details = problem.details_with_id();
    let code = problem.code.as_str().to_owned();
    let verb = named.verb.map(str::to_owned);
    Failed { id: named.id, permit: named.permit, code, message: problem.message, details, verb }
}
