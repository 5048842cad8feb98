//! Who holds what, and taking it away.

use windlass_api::permits::{ListPermitsReply, ListPermitsRequest, RevokeReply, RevokeRequest};
use windlass_engine::Outcome;

use super::context::{Answer, Context};
use super::error::Problem;
use super::items::{Batch, Sorted, held, sort};
use super::{check, show};

pub(super) async fn list(
    context: Context,
    request: ListPermitsRequest,
) -> Result<Answer<ListPermitsReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let after = request.pivot.as_deref().map(check::item_pivot).transpose()?.flatten();
    let limit = check::list_limit(request.limit)?;
    let listing = context.engine().permits(&queue, after, limit);
    let holdings = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, listing).await?;
    Ok(Answer::read(ListPermitsReply { permits: holdings.iter().map(show::permit).collect() }))
}

pub(super) async fn revoke(context: Context, request: RevokeRequest) -> Result<Answer<RevokeReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let Batch { named, items } = held(request.items)?;
    let judged = context.within(check::COMMIT_TIMEOUT, context.engine().revoke(&queue, items)).await?;
    let Sorted { done, failed, commits } = sort(judged, named)?;
    Ok(Answer::changed(RevokeReply { revoked: done.len() as u64, failed }, commits))
}
