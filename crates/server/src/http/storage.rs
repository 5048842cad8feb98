//! Calls for operators: lists, imports and deletions of what is stored, and reloads.

use std::fmt;
use std::sync::Arc;

use windlass_api::error::Failed;
use windlass_api::items::{self, ProduceError};
use windlass_api::payload::Payload;
use windlass_api::storage::{
    DeleteItemsReply, DeleteItemsRequest, FailedItem, ImportItem, ImportItemsReply, ImportItemsRequest,
    ImportedItem, ListItemsReply, ListItemsRequest, ListScheduledRequest, ReloadQueueReply,
    ReloadQueueRequest,
};
use windlass_api::{Code, Time};
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::{CronRun, ItemError, MoveReason, Origin, Suspension};
use windlass_core::limits;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::time::Timestamp;
use windlass_core::verbs;
use windlass_core::verbs::List;
use windlass_engine::{Outcome, Page};

use super::error::Problem;
use super::items::{KIND_DEFAULT, Kinds, Sorted, names, produce_error, sort};
use super::missing::{Missing, naming};
use super::record::Record;
use super::{Answer, Context, check, show};

pub(super) async fn list(
    context: Context,
    request: ListItemsRequest,
) -> Result<Answer<ListItemsReply>, Problem> {
    let ListItemsRequest { queue, partition, pivot, limit } = request;
    page(&context, List::Queue, &queue, partition, pivot.as_deref(), limit).await
}

pub(super) async fn list_scheduled(
    context: Context,
    request: ListScheduledRequest,
) -> Result<Answer<ListItemsReply>, Problem> {
    let ListScheduledRequest { queue, partition, pivot, limit } = request;
    page(&context, List::Scheduled, &queue, partition, pivot.as_deref(), limit).await
}

async fn page(
    context: &Context,
    list: List,
    queue: &str,
    partition: u32,
    pivot: Option<&str>,
    limit: Option<u32>,
) -> Result<Answer<ListItemsReply>, Problem> {
    let queue = check::queue_name(queue)?;
    if partition == 0 {
        return Err(Problem::invalid("`partition` must be one of the queue's: queue.stats tells them"));
    }
    let page = Page {
        partition: PartitionId(partition),
        list,
        after: pivot.map(|pivot| check::item_id("pivot", pivot)).transpose()?,
        limit: check::list_limit(limit)?,
    };
    let listing = context.engine().list(&queue, page);
    let views = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, listing).await;
    let views = match pivot {
        Some(pivot) => views.map_err(naming(Missing::Pivot(pivot.to_owned())))?,
        None => views?,
    };
    Ok(Answer::read(ListItemsReply { items: views.into_iter().map(show::item).collect() }))
}

pub(super) async fn import(
    context: Context,
    request: ImportItemsRequest,
) -> Result<Answer<ImportItemsReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    limits::check_batch("items", request.items.len())?;
    let mut kinds = Kinds::default();
    let mut taken = Vec::with_capacity(request.items.len());
    let mut replies = Vec::with_capacity(request.items.len());
    for (index, item) in request.items.into_iter().enumerate() {
        let reply = match import_item(index, item, &mut kinds, &context)? {
            Ok(item) => {
                taken.push(item);
                ImportedItem::default()
            }
            Err(error) => ImportedItem { id: None, error: Some(error) },
        };
        replies.push(reply);
    }
    if taken.is_empty() {
        context.engine().queue_info(&queue).ok_or_else(|| Refusal::no_such_queue(&queue))?;
        return Ok(Answer::read(ImportItemsReply { items: replies }));
    }
    bring_in(&context, &queue, taken, replies).await
}

/// Gives every item that is not refused already the id it gets.
async fn bring_in(
    context: &Context,
    queue: &QueueName,
    items: Vec<verbs::ImportItem>,
    mut replies: Vec<ImportedItem>,
) -> Result<Answer<ImportItemsReply>, Problem> {
    let groups: Vec<Option<Arc<str>>> = items.iter().map(|item| item.group.clone()).collect();
    let imported = context.within(check::COMMIT_TIMEOUT, context.engine().import(queue, items)).await?;
    let good = replies.iter_mut().filter(|reply| reply.error.is_none());
    for ((reply, result), group) in good.zip(imported.results).zip(groups) {
        match result {
            Ok(made) => reply.id = Some(made.id.to_string()),
            Err(error) => reply.error = Some(produce_error(error, group)),
        }
    }
    Ok(Answer::changed(ImportItemsReply { items: replies }, imported.commits))
}

/// What can never be right fails the whole request; what only cannot come in fails by itself.
fn import_item(
    index: usize,
    item: ImportItem,
    kinds: &mut Kinds,
    context: &Context,
) -> Result<Result<verbs::ImportItem, ProduceError>, Problem> {
    let within = format_args!("items[{index}].");
    let (due_at, is_suspended) = match arrival(item.state.as_deref(), item.enqueue_at) {
        Arrival::Waiting => (None, false),
        Arrival::Scheduled(due_at) => (Some(due_at), false),
        Arrival::Suspended => (None, true),
        Arrival::Refused(message) => return Ok(Err(refused(message))),
        Arrival::Wrong(problem) => return Err(Problem::invalid(format!("`{within}{problem}"))),
    };
    let ignored = [("id", &item.id), ("queue", &item.queue)];
    for (field, text) in ignored {
        text.as_deref().map_or(Ok(()), |text| check::no_nul(format_args!("{within}{field}"), text))?;
    }
    if let Some(moved_to) = &item.moved_to {
        check::no_nul(format_args!("{within}moved_to.queue"), &moved_to.queue)?;
        check::no_nul(format_args!("{within}moved_to.id"), &moved_to.id)?;
    }
    let kind = item.kind.as_deref().unwrap_or(KIND_DEFAULT);
    limits::check_kind(kind).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    let payload = Payload { json: item.json, utf8: item.utf8, bytes: item.bytes };
    if payload == Payload::default() {
        return Ok(Err(refused(
            "the item has no payload: it was lost before the item was listed".to_owned(),
        )));
    }
    check::payload(within, &payload, context.payload_rule())?;
    let address = item.address.map(|address| check::address(within, address)).transpose()?;
    let group = item.group.map(|group| check::group(within, group)).transpose()?;
    if let Some(reference) = &item.reference {
        check::reference(within, reference)?;
    }
    check::headers(within, item.headers.iter())?;
    let reason = item.reason.as_deref();
    reason.map_or(Ok(()), limits::check_reason).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    let error = item.error.map(|error| item_error(within, error)).transpose()?;
    let origin = item.origin.map(|from| origin(format_args!("{within}origin."), from)).transpose()?;
    let cron = item.cron.map(|cron| cron_run(within, &cron, item.scheduled_at)).transpose()?;
    let client_id = item.client_id.as_deref();
    client_id
        .map_or(Ok(()), limits::check_client_id)
        .map_err(|invalid| Problem::invalid_in(within, invalid))?;
    let started = item.started_at.map(check::moment).zip(client_id.map(Into::into));
    let record = Record { reference: item.reference, headers: item.headers, ..Record::of(payload) };
    Ok(Ok(verbs::ImportItem {
        kind: kinds.get(kind),
        priority: check::priority(format_args!("{within}priority"), item.priority.unwrap_or(0))?,
        group,
        created_at: item.created_at.map(check::moment),
        changed_at: item.changed_at.map(check::moment),
        started,
        attempts: item.attempts.unwrap_or(0),
        due_at,
        max_attempts: item.max_attempts,
        dead_timeout: item.dead_timeout.map(check::span),
        address,
        origin: origin.map(Box::new),
        cron,
        error,
        suspended: is_suspended.then(|| Box::new(Suspension { reason: item.reason.map(Into::into) })),
        body: record.to_stored(),
        facts: record.facts().as_ref().map(Record::to_stored),
        hashes: Hashes::default(),
    }))
}

/// The mark of an item that a cron made.
fn cron_run(
    within: fmt::Arguments<'_>,
    cron: &str,
    scheduled_at: Option<Time>,
) -> Result<Box<CronRun>, Problem> {
    limits::check_name("cron", cron).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    let Some(scheduled_at) = scheduled_at else {
        return Err(Problem::invalid(format!("`{within}scheduled_at` must be set where `cron` is")));
    };
    Ok(Box::new(CronRun { name: cron.into(), scheduled_at: check::moment(scheduled_at) }))
}

fn item_error(within: fmt::Arguments<'_>, error: items::ItemError) -> Result<ItemError, Problem> {
    let error =
        ItemError { code: error.code.as_deref().map(Into::into), message: error.message.as_str().into() };
    limits::check_error(&error).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    if error.message.is_empty() {
        return Err(Problem::invalid(format!("`{within}error.message` must say something")));
    }
    Ok(error)
}

fn origin(within: fmt::Arguments<'_>, from: items::Origin) -> Result<Origin, Problem> {
    limits::check_name("queue", &from.queue).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    let reason = match from.reason.as_str() {
        "attempts" => MoveReason::Attempts,
        "dead" => MoveReason::Dead,
        "expired" => MoveReason::Expired,
        "redrive" => MoveReason::Redrive,
        "rerun" => MoveReason::Rerun,
        "group_end" => MoveReason::GroupEnd,
        "group_abort" => MoveReason::GroupAbort,
        _ => {
            return Err(Problem::invalid(format!("`{within}reason` must be one that a list shows")));
        }
    };
    let id = |id: &str| check::item_id(format_args!("{within}id"), id);
    Ok(Origin {
        queue: from.queue.into(),
        id: from.id.as_deref().map(id).transpose()?,
        group: from.group.map(|group| check::group(within, group)).transpose()?,
        address: from.address.map(|address| check::address(within, address)).transpose()?,
        attempts: from.attempts,
        reason,
        error: from.error.map(|error| item_error(within, error)).transpose()?,
        moved_at: check::moment(from.moved_at),
        unknown: Vec::new(),
    })
}

fn refused(message: String) -> ProduceError {
    ProduceError { code: Code::InvalidArgument.as_str().to_owned(), message, ..ProduceError::default() }
}

/// How an item comes in.
enum Arrival {
    Waiting,
    Scheduled(Timestamp),
    Suspended,
    /// Why this item alone is not taken.
    Refused(String),
    /// The field and what is wrong with it.
    Wrong(&'static str),
}

fn arrival(state: Option<&str>, enqueue_at: Option<Time>) -> Arrival {
    match (state, enqueue_at.map(check::moment)) {
        (None | Some("scheduled"), Some(due_at)) => Arrival::Scheduled(due_at),
        (None, None) | (Some("waiting" | "held" | "leased"), _) => Arrival::Waiting,
        (Some("scheduled"), None) => Arrival::Wrong("enqueue_at` must be set for a scheduled item"),
        (Some(ended @ ("completed" | "failed" | "cancelled" | "expired")), _) => {
            Arrival::Refused(format!("`state` is `{ended}`: only items that have not ended can be imported"))
        }
        (Some("suspended"), _) => Arrival::Suspended,
        (Some(_), _) => Arrival::Wrong("state` must be the state of an item, as a list shows it"),
    }
}

pub(super) async fn delete(
    context: Context,
    request: DeleteItemsRequest,
) -> Result<Answer<DeleteItemsReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    limits::check_batch("ids", request.ids.len())?;
    let id = |(index, id): (usize, &String)| check::item_id(format_args!("ids[{index}]"), id);
    let ids = request.ids.iter().enumerate().map(id).collect::<Result<Vec<ItemId>, Problem>>()?;
    let judged = context.within(check::COMMIT_TIMEOUT, context.engine().delete_items(&queue, ids)).await?;
    let named = names(request.ids.iter().map(|id| (id, 0)));
    let Sorted { done, failed, commits } = sort(judged, named)?;
    let failed = failed.into_iter().map(without_permit).collect();
    Ok(Answer::changed(DeleteItemsReply { deleted: done.len() as u64, failed }, commits))
}

pub(super) fn without_permit(failed: Failed) -> FailedItem {
    let Failed { id, code, message, details, .. } = failed;
    FailedItem { id, code, message, details }
}

pub(super) async fn reload(
    context: Context,
    request: ReloadQueueRequest,
) -> Result<Answer<ReloadQueueReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let reloading = context.engine().reload(&queue);
    context.within_or(check::WHOLE_QUEUE_TIMEOUT, Outcome::NotApplied, reloading).await?;
    Ok(Answer::read(ReloadQueueReply {}))
}
