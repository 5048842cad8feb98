//! Who holds what, over all partitions of a queue.

use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::item::{Item, Lease, State};

use super::QueueHandle;
use crate::error::EngineError;

/// An item in the hands of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub id: ItemId,
    pub kind: Arc<str>,
    /// Attempts, this lease included.
    pub attempts: u32,
    /// The lease, with the deadline that is in force.
    pub lease: Lease,
}

impl QueueHandle {
    /// Leased items by id, beginning after one that need not be there.
    pub(crate) async fn permits(
        &self,
        after: Option<ItemId>,
        limit: usize,
    ) -> Result<Vec<Holding>, EngineError> {
        // All are asked before the first is waited for.
        let ask = |partition: PartitionId| {
            let from = first_after(after, partition);
            move |state: &windlass_core::partition::Partition, _| state.leased_from(from, limit)
        };
        let asked: Vec<_> = self.partitions.iter().map(|handle| handle.ask(ask(handle.id))).collect();
        let mut holdings = Vec::new();
        for (partition, items) in self.of_those_that_serve(asked).await? {
            holdings.extend(items.into_iter().map(|item| holding(partition, item)));
        }
        holdings.sort_unstable_by_key(|holding| holding.id);
        holdings.truncate(limit);
        Ok(holdings)
    }

    /// What was asked of each partition. One that cannot serve now is passed over, as in the queue's numbers: the others
    /// are not to be had less for it. An error only if none can.
    pub(super) async fn of_those_that_serve<T>(
        &self,
        asked: Vec<Result<oneshot::Receiver<T>, EngineError>>,
    ) -> Result<Vec<(PartitionId, T)>, EngineError> {
        let (mut answers, mut unavailable) = (Vec::new(), None);
        for (handle, asked) in self.all().zip(asked) {
            let answer = match asked {
                Ok(answer) => answer.await.map_err(|_dropped| handle.no_answer()),
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => answers.push((handle.id, answer)),
                Err(error @ EngineError::Unavailable { .. }) => unavailable = Some(error),
                Err(error) => return Err(error),
            }
        }
        match unavailable {
            Some(error) if answers.is_empty() => Err(error),
            Some(_) | None => Ok(answers),
        }
    }
}

/// Ids sort by number before partition.
fn first_after(after: Option<ItemId>, partition: PartitionId) -> ItemNumber {
    match after {
        None => ItemNumber(0),
        Some(id) if id.partition < partition => id.number,
        Some(id) => ItemNumber(id.number.0 + 1),
    }
}

fn holding(partition: PartitionId, item: Item) -> Holding {
    let id = ItemId { number: item.number, partition };
    match item.state {
        State::Leased(lease) => Holding { id, kind: item.kind, attempts: item.attempts, lease: *lease },
        State::Scheduled { .. } | State::Waiting { .. } | State::Suspended(_) | State::Final(_) => {
            unreachable!("only leased items were asked for")
        }
    }
}
