//! items.change: all items that a filter finds, changed as the call for one item would.

use std::sync::Arc;

use windlass_api::items::{ChangeItemsReply, ChangeItemsRequest};
use windlass_core::id::ItemId;
use windlass_core::partition::FindOrder;
use windlass_engine::{Action, ChangePage, EngineError, Outcome, Search};

use super::check;
use super::context::{Answer, Context};
use super::error::Problem;
use super::filter::{Filters, canonical, filters};
use super::items::{Named, failed};
use super::pivot::Scope;
use super::storage::without_permit;

/// Items that were refused and are told; the others only count.
const FAILED_SHOWN_MAX: usize = 100;

pub(super) async fn change(
    context: Context,
    request: ChangeItemsRequest,
) -> Result<Answer<ChangeItemsReply>, Problem> {
    let ChangeItemsRequest { queue, filter, action: word, priority, dry_run, limit, pivot } = request;
    let queue = check::queue_name(&queue)?;
    let action = action(&word, priority)?;
    let filter = filter.ok_or_else(|| Problem::invalid("`filter` must be set: `{}` is all items"))?;
    let limit = check::list_limit(limit)?;
    let Filters { find, verify } = filters("filter.", filter.clone())?;
    let scope = Scope::new(&["change", &queue.name, &word], &canonical(filter));
    let walk = pivot.map(|pivot| scope.walk(&pivot)).transpose()?;
    let order = FindOrder::Oldest;
    let search = Search { find: Arc::new(find), order, verify, limit, payloads: false, partial: false };
    let changing = context.engine().change_items(&queue, &search, walk.as_ref(), action, dry_run);
    let outcome = if dry_run { Outcome::NotApplied } else { Outcome::Unknown };
    let page = context.within_or(check::COMMIT_TIMEOUT, outcome, changing).await?;
    let pivot = page.walk.as_ref().map(|walk| scope.pivot(walk));
    shown(page, pivot)
}

fn action(word: &str, priority: Option<u32>) -> Result<Action, Problem> {
    let action = match (word, priority) {
        ("set_priority", Some(priority)) => Action::SetPriority(check::priority("priority", priority)?),
        ("set_priority", None) => {
            return Err(Problem::invalid("`priority` must be set where `action` is `set_priority`"));
        }
        ("cancel", _) => Action::Cancel,
        ("rerun", _) => Action::Rerun,
        ("run_now", _) => Action::RunNow,
        ("delete", _) => Action::Delete,
        (_, _) => {
            let rule = "`action` must be `cancel`, `rerun`, `run_now`, `delete` or `set_priority`";
            return Err(Problem::invalid(rule));
        }
    };
    let is_needless = priority.is_some() && !matches!(action, Action::SetPriority(_));
    let needless = || Problem::invalid("`priority` must be unset unless `action` is `set_priority`");
    if is_needless { Err(needless()) } else { Ok(action) }
}

/// A call of which no item could even be judged fails as a whole.
fn shown(page: ChangePage, pivot: Option<String>) -> Result<Answer<ChangeItemsReply>, Problem> {
    let ChangePage { results, commits, .. } = page;
    let matched = results.len() as u64;
    let refused = results.into_iter().filter_map(|(id, result)| Some((id, result.err()?)));
    let refused: Vec<(ItemId, EngineError)> = refused.collect();
    let changed = matched - refused.len() as u64;
    let is_unavailable = |error: &EngineError| matches!(error, EngineError::Unavailable { .. });
    if changed == 0 && !refused.is_empty() && refused.iter().all(|(_, error)| is_unavailable(error)) {
        let mut problems: Vec<Problem> = refused.into_iter().map(|(_, error)| error.into()).collect();
        // Prefer a problem with outcome `unknown`: the caller must learn that items may have changed.
        let unknown = problems.iter().position(|problem| problem.outcome == Some(Outcome::Unknown));
        return Err(problems.swap_remove(unknown.unwrap_or(0)));
    }
    let told = refused.into_iter().take(FAILED_SHOWN_MAX).map(|(id, error)| {
        let named = Named { id: id.to_string(), permit: 0, verb: None };
        without_permit(failed(named, error.into()))
    });
    let reply = ChangeItemsReply { matched, changed, failed: told.collect(), pivot };
    Ok(Answer::changed(reply, commits))
}
