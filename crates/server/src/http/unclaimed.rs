//! Unclaimed partitions: listed, adopted, dropped.

use windlass_api::queues::QueueReply;
use windlass_api::unclaimed::{
    AdoptPartitionRequest, DropPartitionReply, DropPartitionRequest, ListUnclaimedReply,
    ListUnclaimedRequest, UnclaimedPartition,
};
use windlass_core::id::PartitionId;
use windlass_engine::{Outcome, Unclaimed};

use super::error::Problem;
use super::missing::{Missing, naming};
use super::{Answer, Context, check, show};

/// Each partition of a page is read as a whole.
const LIMIT_DEFAULT: u32 = 100;

pub(super) async fn list(
    context: Context,
    request: ListUnclaimedRequest,
) -> Result<Answer<ListUnclaimedReply>, Problem> {
    let limit = check::list_limit(request.limit.or(Some(LIMIT_DEFAULT)))?;
    let listing = context.engine().describe_unclaimed(request.pivot.map(PartitionId), limit);
    let found = context.within_or(check::WHOLE_QUEUE_TIMEOUT, Outcome::NotApplied, listing).await?;
    Ok(Answer::read(ListUnclaimedReply { partitions: found.into_iter().map(shown).collect() }))
}

fn shown(unclaimed: Unclaimed) -> UnclaimedPartition {
    UnclaimedPartition {
        partition: unclaimed.stored.partition.0,
        store: unclaimed.stored.store_name().to_owned(),
        queue: unclaimed.queue.map(|queue| queue.name.to_string()),
        items: unclaimed.items,
        retained: unclaimed.retained,
        crons: unclaimed.crons,
    }
}

pub(super) async fn adopt(
    context: Context,
    request: AdoptPartitionRequest,
) -> Result<Answer<QueueReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    let (partition, store) = (PartitionId(request.partition), check::store_name(request.store)?);
    let adopting = context.engine().adopt(&queue, partition, store);
    let adopting = context.within(check::WHOLE_QUEUE_TIMEOUT, adopting);
    let adopted = adopting.await.map_err(naming(Missing::Unclaimed(request.partition)))?;
    Ok(Answer::changed(QueueReply { queue: show::queue(&adopted.value) }, adopted.commits))
}

pub(super) async fn drop_partition(
    context: Context,
    request: DropPartitionRequest,
) -> Result<Answer<DropPartitionReply>, Problem> {
    let (partition, store) = (PartitionId(request.partition), check::store_name(request.store)?);
    let dropping = context.engine().drop_unclaimed(partition, store, request.force);
    let dropping = context.within(check::WHOLE_QUEUE_TIMEOUT, dropping);
    let dropped = dropping.await.map_err(naming(Missing::Unclaimed(request.partition)))?;
    Ok(Answer::changed(DropPartitionReply {}, dropped.commits))
}
