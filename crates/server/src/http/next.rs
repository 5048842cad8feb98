//! queue.next: a worker's turn.

use std::collections::BTreeSet;
use std::fmt;

use windlass_api::items::{ExtendedLease, Extension, NextReply, NextRequest};
use windlass_core::limits;
use windlass_core::row::QueueName;
use windlass_core::verbs::{ExtendItem, LeaseItems, Retried, Settle, Settled};
use windlass_engine::{Grant, Turn};

use super::context::{Answer, Context};
use super::error::Problem;
use super::events::suspend_item;
use super::items::{Leasing, Named, Sorted, completion, granted, leasing, retry_item, sort_beside};
use super::{LEASE_BYTES_MAX, check, show, unreadable};
use crate::listener::BodyError;

pub(super) async fn next(context: Context, request: NextRequest) -> Result<Answer<NextReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    limits::check_client_id(&request.client_id)?;
    let lease = request.lease.as_ref().map(|lease| leasing("lease.", &request.client_id, lease));
    let lease = lease.transpose()?;
    let Listed { named, items, .. } = listed(request, &context)?;
    match (items.is_empty(), lease) {
        (true, None) => Err(Problem::invalid(
            "a call without items and without `lease` does nothing: name items in `complete`, `retry`, `release`, \
             `suspend` or `extend`, or set `lease` to take some",
        )),
        (true, Some(leasing)) => only_lease(&context, &queue, leasing).await,
        (false, lease) => turn(&context, &queue, named, items, lease.map(|leasing| leasing.lease)).await,
    }
}

/// A turn that names no item is a lease, and may wait like one.
async fn only_lease(
    context: &Context,
    queue: &QueueName,
    Leasing { lease, wait }: Leasing,
) -> Result<Answer<NextReply>, Problem> {
    if context.body.as_ref().is_some_and(|body| body.counted() > LEASE_BYTES_MAX) {
        return Err(unreadable(BodyError::TooLarge { max: LEASE_BYTES_MAX }));
    }
    let grant = granted(context, queue, lease, wait).await?;
    let reply = NextReply { items: grant.items().iter().map(show::leased).collect(), ..NextReply::default() };
    Ok(Answer::granted(reply, grant))
}

async fn turn(
    context: &Context,
    queue: &QueueName,
    named: Vec<Named>,
    items: Vec<Settle>,
    lease: Option<LeaseItems>,
) -> Result<Answer<NextReply>, Problem> {
    let leases = lease.is_some();
    let turn = context.within(check::COMMIT_TIMEOUT, context.engine().next(queue, items, lease)).await?;
    let commits = turn.commits();
    let Turn { settled, leased } = turn;
    // What other partitions gave is not lost because none of the items could be judged.
    let Sorted { done, failed, .. } = sort_beside(leases && leased.is_ok(), settled, named)?;
    let mut reply = NextReply { failed, ..NextReply::default() };
    done.into_iter().for_each(|(named, settled)| count(&mut reply, named, settled));
    let grant = leased.unwrap_or_default();
    let without_grant = Some(reply.clone());
    reply.items = grant.items().iter().map(show::leased).collect();
    let grant = (!reply.items.is_empty()).then(|| Grant::into_delivery(grant));
    Ok(Answer { reply, commits, grant, without_grant })
}

fn count(reply: &mut NextReply, named: Named, settled: Settled) {
    match settled {
        Settled::Completed => reply.completed += 1,
        Settled::Retried(Retried::Again { .. }) => reply.retried += 1,
        Settled::Retried(Retried::Ended(_)) => reply.dead += 1,
        Settled::Released => reply.released += 1,
        Settled::Suspended => reply.suspended += 1,
        Settled::Extended(extended) => reply.extended.push(ExtendedLease {
            id: named.id,
            lease_deadline: show::time(extended.deadline),
            cancel_requested: extended.cancel_requested,
            inputs: 0,
        }),
    }
}

/// The items of a request's lists, in the order in which they are settled.
#[derive(Default)]
struct Listed {
    named: Vec<Named>,
    items: Vec<Settle>,
    ids: BTreeSet<String>,
}

fn listed(request: NextRequest, context: &Context) -> Result<Listed, Problem> {
    let NextRequest { complete, retry, release, suspend, extend, .. } = request;
    let count = complete.len() + retry.len() + release.len() + suspend.len() + extend.len();
    if count > limits::BATCH_MAX {
        return Err(Problem::invalid(format!(
            "`complete`, `retry`, `release`, `suspend` and `extend` must be at most {} items together, and are {count}",
            limits::BATCH_MAX
        )));
    }
    let mut listed = Listed::default();
    listed.add(
        "complete",
        complete,
        |item| (&item.id, item.permit),
        |within, item| completion(within, item, context).map(Settle::Complete),
    )?;
    listed.add(
        "retry",
        retry,
        |item| (&item.id, item.permit),
        |within, item| retry_item(within, item).map(Settle::Retry),
    )?;
    listed.add(
        "release",
        release,
        |item| (&item.id, item.permit),
        |within, item| check::held(within, &item.id, item.permit).map(Settle::Release),
    )?;
    listed.add(
        "suspend",
        suspend,
        |item| (&item.id, item.permit),
        |within, item| suspend_item(within, item).map(Settle::Suspend),
    )?;
    listed.add(
        "extend",
        extend,
        |item| (&item.id, item.permit),
        |within, item| extend_item(within, &item).map(Settle::Extend),
    )?;
    Ok(listed)
}

fn extend_item(within: fmt::Arguments<'_>, item: &Extension) -> Result<ExtendItem, Problem> {
    let lease_timeout = item.lease_timeout.map(check::span);
    let checked = lease_timeout.map_or(Ok(()), limits::check_lease_timeout);
    checked.map_err(|invalid| Problem::invalid_in(within, invalid))?;
    Ok(ExtendItem { held: check::held(within, &item.id, item.permit)?, lease_timeout })
}

impl Listed {
    /// Adds the items of one list, none of which was named before.
    fn add<T>(
        &mut self,
        verb: &'static str,
        items: Vec<T>,
        name: impl Fn(&T) -> (&String, u64),
        settle: impl Fn(fmt::Arguments<'_>, T) -> Result<Settle, Problem>,
    ) -> Result<(), Problem> {
        for (index, item) in items.into_iter().enumerate() {
            let (id, permit) = name(&item);
            let named = Named { id: id.clone(), permit, verb: Some(verb) };
            self.items.push(settle(format_args!("{verb}[{index}]."), item)?);
            // A UUID says the same in capitals.
            if !self.ids.insert(named.id.to_ascii_lowercase()) {
                let id = &named.id;
                let message = format!("`{verb}[{index}].id` names the item {id} again: name each item once");
                return Err(Problem::invalid(message));
            }
            self.named.push(named);
        }
        Ok(())
    }
}
