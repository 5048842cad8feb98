//! Calls on groups.

use std::sync::Arc;

use windlass_api::groups::{
    CancelGroupRequest, CreateGroupReply, CreateGroupRequest, DeleteGroupRequest, EndItem, GroupInfoRequest,
    GroupReply, ListGroupsReply, ListGroupsRequest, SetGroupEndRequest, StartGroupRequest,
};
use windlass_api::items::NewItem;
use windlass_core::group::GroupView;
use windlass_core::limits;
use windlass_core::row::QueueName;
use windlass_core::verbs::{CreateGroup, NewEnd, SetGroupEnd};
use windlass_engine::{Committed, EngineError, Outcome};

use super::context::{Answer, Context};
use super::error::Problem;
use super::items::{Kinds, new_item, new_items, produced};
use super::missing::{Missing, naming};
use super::{check, show};

pub(super) async fn create(
    context: Context,
    request: CreateGroupRequest,
) -> Result<Answer<CreateGroupReply>, Problem> {
    let (queue, name) = named(&request.queue, &request.group)?;
    let of_another = |item: &NewItem| item.group.as_ref().is_some_and(|group| *group != request.group);
    if let Some(index) = request.items.iter().position(of_another) {
        return Err(Problem::invalid(format!(
            "`items[{index}].group` must be unset or the group's own name"
        )));
    }
    if !request.items.is_empty() {
        limits::check_batch("items", request.items.len())?;
    }
    let create = CreateGroup {
        name,
        end: end_item("end.", request.end, &context)?,
        abort: end_item("abort.", request.abort, &context)?,
        items: new_items(request.items, &context)?,
        start: request.start,
    };
    let creating = context.engine().create_group(&queue, create);
    let Committed { value, commits } = context.within(check::COMMIT_TIMEOUT, creating).await?;
    let reply = CreateGroupReply {
        group: show::group(&queue, &value.group),
        items: value.items.into_iter().map(produced).collect(),
    };
    Ok(Answer::changed(reply, commits))
}

/// An item of the group's end is held to what any new one is.
fn end_item(
    within: &'static str,
    item: Option<EndItem>,
    context: &Context,
) -> Result<Option<NewEnd>, Problem> {
    let Some(item) = item else { return Ok(None) };
    let within = format_args!("{within}");
    if let Some(queue) = &item.queue {
        limits::check_name("queue", queue).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    }
    let queue = item.queue.map(Arc::from);
    let new = NewItem {
        json: item.json,
        utf8: item.utf8,
        bytes: item.bytes,
        kind: item.kind,
        priority: item.priority,
        enqueue_at: item.enqueue_at,
        delay: item.delay,
        max_attempts: item.max_attempts,
        reference: item.reference,
        headers: item.headers,
        dead_timeout: item.dead_timeout,
        ..NewItem::default()
    };
    let item = new_item(within, new, &mut Kinds::default(), context)?;
    Ok(Some(NewEnd { queue, item }))
}

pub(super) async fn set_end(
    context: Context,
    request: SetGroupEndRequest,
) -> Result<Answer<GroupReply>, Problem> {
    let (queue, name) = named(&request.queue, &request.group)?;
    let end = end_item("end.", request.end, &context)?;
    let abort = end_item("abort.", request.abort, &context)?;
    let set = SetGroupEnd { name: Arc::clone(&name), end, abort };
    changed(&context, &queue, &name, context.engine().set_group_end(&queue, set)).await
}

pub(super) async fn start(
    context: Context,
    request: StartGroupRequest,
) -> Result<Answer<GroupReply>, Problem> {
    let (queue, name) = named(&request.queue, &request.group)?;
    changed(&context, &queue, &name, context.engine().start_group(&queue, &name)).await
}

pub(super) async fn cancel(
    context: Context,
    request: CancelGroupRequest,
) -> Result<Answer<GroupReply>, Problem> {
    let (queue, name) = named(&request.queue, &request.group)?;
    changed(&context, &queue, &name, context.engine().cancel_group(&queue, &name)).await
}

pub(super) async fn delete(
    context: Context,
    request: DeleteGroupRequest,
) -> Result<Answer<GroupReply>, Problem> {
    let (queue, name) = named(&request.queue, &request.group)?;
    changed(&context, &queue, &name, context.engine().delete_group(&queue, &name)).await
}

async fn changed(
    context: &Context,
    queue: &QueueName,
    name: &Arc<str>,
    change: impl Future<Output = Result<Committed<GroupView>, EngineError>>,
) -> Result<Answer<GroupReply>, Problem> {
    let changing = context.within(check::COMMIT_TIMEOUT, change);
    let Committed { value, commits } = changing.await.map_err(naming(Missing::Group(Arc::clone(name))))?;
    Ok(Answer::changed(GroupReply { group: show::group(queue, &value) }, commits))
}

pub(super) async fn info(context: Context, request: GroupInfoRequest) -> Result<Answer<GroupReply>, Problem> {
    let (queue, name) = named(&request.queue, &request.group)?;
    let asking = context.engine().group(&queue, &name);
    let group = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, asking).await;
    let group = group.map_err(naming(Missing::Group(name)))?;
    Ok(Answer::read(GroupReply { group: show::group(&queue, &group) }))
}

pub(super) async fn list(
    context: Context,
    request: ListGroupsRequest,
) -> Result<Answer<ListGroupsReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let (pivot, limit) = (check::name_pivot(request.pivot)?, check::list_limit(request.limit)?);
    let listing = context.engine().groups(&queue, pivot, limit);
    let groups = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, listing).await?;
    let groups = groups.iter().map(|group| show::group(&queue, group)).collect();
    Ok(Answer::read(ListGroupsReply { groups }))
}

fn named(queue: &str, group: &str) -> Result<(QueueName, Arc<str>), Problem> {
    limits::check_name("group", group)?;
    Ok((check::queue_name(queue)?, group.into()))
}
