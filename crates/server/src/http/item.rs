//! Calls on one item, by its id or its address: get, wait, cancel.

use std::time::Duration;

use tokio::time::Instant;
use windlass_api::items::{AttemptLog, CancelItemRequest, GetItemRequest, Item, ItemReply, WaitItemRequest};
use windlass_core::id::ItemId;
use windlass_core::time::Span;
use windlass_engine::Outcome;

use super::check::ItemName;
use super::context::{Answer, Context};
use super::error::Problem;
use super::items::after_wait;
use super::missing::{Missing, naming};
use super::{check, show};

/// The item that a request names, and what to say if it is gone by the time it is asked for.
pub(super) struct Sought {
    pub(super) id: ItemId,
    pub(super) missing: Missing,
}

pub(super) async fn sought(context: &Context, name: ItemName, timeout: Span) -> Result<Sought, Problem> {
    let (queue, address) = match name {
        ItemName::Id(id, text) => return Ok(Sought { id, missing: Missing::Item(text) }),
        ItemName::Address(queue, address) => (queue, address),
    };
    let missing = Missing::address(&queue, &address);
    let finding = context.engine().item_at(&queue, &address);
    let found = context.within_or(timeout, Outcome::NotApplied, finding).await;
    Ok(Sought { id: found.map_err(naming(missing.clone()))?, missing })
}

pub(super) async fn get(context: Context, request: GetItemRequest) -> Result<Answer<ItemReply>, Problem> {
    let GetItemRequest { id, queue, address, follow } = request;
    let name = check::item_name(id, queue, address)?;
    let Sought { id, missing } = sought(&context, name, check::COMMIT_TIMEOUT).await?;
    let looking = async {
        match follow {
            true => context.engine().get_latest_with_attempts(id).await,
            false => context.engine().get_with_attempts(id).await,
        }
    };
    let looking = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, looking).await;
    let (view, attempts) = looking.map_err(naming(missing))?;
    let attempt_log = Some(AttemptLog { attempts: attempts.iter().map(show::attempt).collect() });
    Ok(Answer::read(ItemReply { item: Item { attempt_log, ..show::item(view) } }))
}

async fn as_it_is(context: &Context, name: ItemName, follow: bool) -> Result<Item, Problem> {
    let Sought { id, missing } = sought(context, name, check::COMMIT_TIMEOUT).await?;
    let looking = async {
        match follow {
            true => context.engine().get_latest(id).await,
            false => context.engine().get(id).await,
        }
    };
    let view = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, looking).await;
    view.map(show::item).map_err(naming(missing))
}

pub(super) async fn wait(
    mut context: Context,
    request: WaitItemRequest,
) -> Result<Answer<ItemReply>, Problem> {
    let WaitItemRequest { id, queue, address, request_timeout, follow } = request;
    let name = check::item_name(id, queue, address)?;
    let wait = check::request_timeout(request_timeout, true)?;
    let _waiting = (wait > Span::ZERO).then(|| context.wait_in_line()).transpose()?;
    let item = match context.unless_sent_home(as_it_ended(&context, name.clone(), wait, follow)).await {
        Some(ended) => ended?,
        None => {
            // Bodies that need the room of this one must not wait for the partition.
            context.body = None;
            as_it_is(&context, name, follow).await?
        }
    };
    Ok(Answer::read(ItemReply { item }))
}

/// The item once it has ended, or as it is when the wait is over. To find the item is part of the wait.
async fn as_it_ended(context: &Context, name: ItemName, wait: Span, follow: bool) -> Result<Item, Problem> {
    let begun = Instant::now();
    let patience = if wait > Span::ZERO { wait } else { check::COMMIT_TIMEOUT };
    let Sought { id, missing } = sought(context, name, patience).await?;
    let left = Span::from(Duration::from(wait).saturating_sub(begun.elapsed()));
    let waiting = async {
        match follow {
            true => context.engine().wait_for_latest(id, left).await,
            false => context.engine().wait(id, left).await,
        }
    };
    let view = context.within_or(after_wait(left), Outcome::NotApplied, waiting).await;
    view.map(show::item).map_err(naming(missing))
}

pub(super) async fn cancel(
    context: Context,
    request: CancelItemRequest,
) -> Result<Answer<ItemReply>, Problem> {
    let CancelItemRequest { id, queue, address } = request;
    let name = check::item_name(id, queue, address)?;
    let Sought { id, missing } = sought(&context, name, check::COMMIT_TIMEOUT).await?;
    let cancelling = context.within(check::COMMIT_TIMEOUT, context.engine().cancel(id));
    let cancelled = cancelling.await.map_err(naming(missing))?;
    Ok(Answer::changed(ItemReply { item: show::item(cancelled.value) }, cancelled.commits))
}
