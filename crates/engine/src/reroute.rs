//! Items on their way while the partitions of their queue change: what was sent to where it does not belong any more
//! is sent again to where it belongs now.

use std::sync::Arc;

use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::verbs::NewItem;

use crate::Engine;
use crate::error::{EngineError, Outcome};
use crate::queue::{Arriving, QueueHandle};
use crate::types::{Judged, ProducedItem};

/// Each is for a change that came while the call was under way. There are no more unless the registry is of a copy
/// from before such a change, and knows less than its partitions.
const REROUTES_MAX: usize = 32;

impl Engine {
    pub(crate) async fn take_in<T: Arriving>(
        &self,
        queue: &QueueName,
        items: Vec<T>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        if items.iter().all(|item| item.key().is_none()) {
            return self.take_in_anywhere(queue, items).await;
        }
        let mut judged = Judged { results: vec![moved(); items.len()], commits: Vec::new() };
        for _ in 0..REROUTES_MAX {
            let (indexes, left): (Vec<usize>, Vec<T>) = left_over(&judged, &items).unzip();
            if left.is_empty() {
                break;
            }
            let handle = self.queue(queue)?;
            match handle.take_in_by_key(left).await {
                Ok(next) => {
                    judged.commits.extend(next.commits);
                    indexes
                        .into_iter()
                        .zip(next.results)
                        .for_each(|(index, result)| judged.results[index] = result);
                }
                Err(EngineError::Refused(Refusal::Moved)) => {}
                Err(error) if judged.commits.is_empty() => return Err(error),
                Err(error) => {
                    indexes.into_iter().for_each(|index| judged.results[index] = Err(error.clone()));
                }
            }
        }
        judged
            .results
            .iter_mut()
            .filter(|result| was_moved(result))
            .for_each(|result| *result = Err(unsettled()));
        Ok(judged)
    }

    async fn take_in_anywhere<T: Arriving>(
        &self,
        queue: &QueueName,
        items: Vec<T>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        let handle = self.queue(queue)?;
        if handle.partitions.len() == 1 {
            // The first partition never goes: no need to keep a copy.
            let taken_in = handle.take_in_together(items).await;
            // Unless the partition was loaded while the queue was about to be deleted, and is closed.
            return if was_moved(&taken_in) { Err(unsettled()) } else { taken_in };
        }
        self.by_routes(queue, |handle| {
            let items = items.clone();
            async move { handle.take_in_together(items).await }
        })
        .await
    }

    /// As a whole: what was made is known by the call's key.
    pub(crate) async fn take_in_once(
        &self,
        queue: &QueueName,
        key: Arc<str>,
        items: Vec<NewItem>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        self.by_routes(queue, |handle| {
            let (key, items) = (Arc::clone(&key), items.clone());
            async move {
                let judged = handle.produce_once(key, items).await?;
                if judged.results.iter().any(was_moved) { moved() } else { Ok(judged) }
            }
        })
        .await
    }

    pub(crate) async fn find_item_at(&self, queue: &QueueName, address: &str) -> Result<ItemId, EngineError> {
        self.by_routes(queue, |handle| {
            let address = Arc::from(address);
            async move { handle.item_at(address).await }
        })
        .await
    }

    /// Again with the routes that count by then, if others count meanwhile and it has come to nothing.
    pub(crate) async fn by_routes<T, F: Future<Output = Result<T, EngineError>>>(
        &self,
        queue: &QueueName,
        call: impl Fn(Arc<QueueHandle>) -> F,
    ) -> Result<T, EngineError> {
        for _ in 0..REROUTES_MAX {
            let handle = self.queue(queue)?;
            match call(Arc::clone(&handle)).await {
                // Somebody could not be asked who is not to be asked any more.
                Err(EngineError::Unavailable { outcome: Outcome::NotApplied, .. }) if !handle.is_latest() => {
                }
                Err(EngineError::Refused(Refusal::Moved)) => {}
                done => return done,
            }
        }
        Err(unsettled())
    }
}

fn left_over<T: Clone>(judged: &Judged<ProducedItem>, items: &[T]) -> impl Iterator<Item = (usize, T)> {
    let results = judged.results.iter().enumerate();
    results.filter(|(_, result)| was_moved(result)).map(|(index, _)| (index, items[index].clone()))
}

fn moved<T>() -> Result<T, EngineError> {
    Err(EngineError::Refused(Refusal::Moved))
}

pub(crate) fn was_moved<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::Refused(Refusal::Moved)))
}

fn unsettled() -> EngineError {
    EngineError::not_applied("the partitions of the queue are changing")
}
