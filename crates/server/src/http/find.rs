//! Calls that look for items: find, errors.

use std::sync::Arc;

use windlass_api::items::{
    ErrorCount, FindItemsReply, FindItemsRequest, ItemErrorsReply, ItemErrorsRequest, ItemFilter,
};
use windlass_core::id::PartitionId;
use windlass_core::item::Phase;
use windlass_core::partition::FindOrder;
use windlass_engine::{ErrorShare, Outcome, Search, SearchPage};

use super::context::{Answer, Context};
use super::error::Problem;
use super::filter::{Filters, canonical, filters};
use super::pivot::Scope;
use super::{check, show};

const LIMIT_DEFAULT: u32 = 100;
/// Error codes that items.errors tells.
const ERRORS_SHOWN_MAX: usize = 50;

pub(super) async fn find(
    context: Context,
    request: FindItemsRequest,
) -> Result<Answer<FindItemsReply>, Problem> {
    let FindItemsRequest { queue, order, payloads, pivot, limit, partial, .. } = request.clone();
    let queue = queue.as_deref().map(check::queue_name).transpose()?;
    let limit = check::list_limit(limit.or(Some(LIMIT_DEFAULT)))?;
    let filter = ItemFilter::from(request);
    let Filters { find, verify } = filters("", filter.clone())?;
    let order_name = order.as_deref().unwrap_or(NEWEST);
    let order = find_order(order_name)?;
    let search = Search { find: Arc::new(find), order, verify, limit, payloads, partial };
    let Some(queue) = queue else {
        check_all_queues(&search, pivot.as_deref())?;
        let finding = context.engine().find_in_all_queues(&search);
        let page = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, finding).await?;
        return Ok(Answer::read(shown(page, None)));
    };
    let scope = Scope::new(&["find", &queue.name, order_name], &canonical(filter));
    let walk = pivot.map(|pivot| scope.walk(&pivot)).transpose()?;
    let finding = context.engine().find(&queue, &search, walk.as_ref());
    let page = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, finding).await?;
    let pivot = page.walk.as_ref().map(|walk| scope.pivot(walk));
    Ok(Answer::read(shown(page, pivot)))
}

const NEWEST: &str = "newest";

fn find_order(name: &str) -> Result<FindOrder, Problem> {
    match name {
        NEWEST => Ok(FindOrder::Newest),
        "oldest" => Ok(FindOrder::Oldest),
        _ => Err(Problem::invalid("`order` must be `newest` or `oldest`")),
    }
}

/// Over all queues there are only the newest items of some states.
fn check_all_queues(search: &Search, pivot: Option<&str>) -> Result<(), Problem> {
    let can_be_asked = |phase: &Phase| match phase {
        Phase::Suspended | Phase::Failed | Phase::Expired => true,
        Phase::Held
        | Phase::Scheduled
        | Phase::Waiting
        | Phase::Leased
        | Phase::Completed
        | Phase::Cancelled => false,
    };
    if !search.find.phases.as_ref().is_some_and(|phases| phases.iter().all(can_be_asked)) {
        let rule =
            "without `queue`, `states` must be set and have nothing but `suspended`, `failed` and `expired`";
        return Err(Problem::invalid(rule));
    }
    if pivot.is_some() {
        return Err(Problem::invalid("`pivot` must be unset without `queue`: there is one page"));
    }
    match search.order {
        FindOrder::Newest => Ok(()),
        FindOrder::Oldest => Err(Problem::invalid("`order` must be `newest` without `queue`")),
    }
}

fn shown(page: SearchPage, pivot: Option<String>) -> FindItemsReply {
    let SearchPage { items, scanned, missing, .. } = page;
    FindItemsReply {
        items: items.into_iter().map(show::item).collect(),
        pivot,
        scanned: scanned as u64,
        missing: missing.into_iter().map(|PartitionId(partition)| partition).collect(),
    }
}

pub(super) async fn errors(
    context: Context,
    request: ItemErrorsRequest,
) -> Result<Answer<ItemErrorsReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let counting = context.engine().errors(&queue, ERRORS_SHOWN_MAX);
    let shares = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, counting).await?;
    let count = |share: ErrorShare| ErrorCount {
        code: share.code.to_string(),
        message: share.message.to_string(),
        count: share.count,
        latest_at: show::time(share.latest_at),
        id: share.latest.to_string(),
    };
    Ok(Answer::read(ItemErrorsReply { errors: shares.into_iter().map(count).collect() }))
}
