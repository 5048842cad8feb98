//! Calls that bring items in. Items that were sent to a partition they do not belong to any more, because the partitions of
//! their queue changed meanwhile, are sent again.

use std::sync::Arc;

use windlass_core::limits;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::verbs::{ImportItem, NewItem};

use super::{REROUTES_MAX, unsettled};
use crate::Engine;
use crate::commit::Judged;
use crate::error::{EngineError, moved, was_moved};
use crate::queue::{Arriving, ProducedItem};

impl Engine {
    /// Items without a key go to one partition, in the order given: all or none. Items with a key go to the home of that
    /// key, all or none of each partition's; items that a partition could not take fail by themselves, and the call only if
    /// all of them did.
    pub async fn produce(
        &self,
        queue: &QueueName,
        mut items: Vec<NewItem>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        let _call = self.host.enter()?;
        self.memory.check()?;
        self.host.index(queue, items.iter_mut().map(|item| (&item.facts, &mut item.hashes)));
        self.take_in(queue, items).await
    }

    /// [`Engine::produce`] with a key: the same items under the same key within 24 hours are told what they were told the
    /// first time, and are not produced again; items that did not reach their partition then are produced now. Other items
    /// under that key are refused.
    pub async fn produce_once(
        &self,
        queue: &QueueName,
        key: Arc<str>,
        mut items: Vec<NewItem>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        let _call = self.host.enter()?;
        limits::check_batch("items", items.len()).map_err(Refusal::Invalid)?;
        self.memory.check()?;
        self.host.index(queue, items.iter_mut().map(|item| (&item.facts, &mut item.hashes)));
        // Rerouted as a whole: items that were made are known by the key.
        self.by_routes(queue, |handle| {
            let (key, items) = (Arc::clone(&key), items.clone());
            async move {
                let judged = handle.produce_once(key, items).await?;
                if judged.results.iter().any(was_moved) { moved() } else { Ok(judged) }
            }
        })
        .await
    }

    /// Routed as [`Engine::produce`] does, in the order given behind the items that are there.
    pub async fn import(
        &self,
        queue: &QueueName,
        mut items: Vec<ImportItem>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        let _call = self.host.enter()?;
        limits::check_batch("items", items.len()).map_err(Refusal::Invalid)?;
        self.memory.check()?;
        self.host.index(queue, items.iter_mut().map(|item| (&item.facts, &mut item.hashes)));
        self.take_in(queue, items).await
    }

    async fn take_in<T: Arriving>(
        &self,
        queue: &QueueName,
        items: Vec<T>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        if items.iter().all(|item| item.key().is_none()) {
            self.take_in_anywhere(queue, items).await
        } else {
            self.take_in_by_key(queue, items).await
        }
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

    /// Each round sends the items that have no partition yet.
    async fn take_in_by_key<T: Arriving>(
        &self,
        queue: &QueueName,
        items: Vec<T>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
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
}

fn left_over<T: Clone>(judged: &Judged<ProducedItem>, items: &[T]) -> impl Iterator<Item = (usize, T)> {
    let results = judged.results.iter().enumerate();
    results.filter(|(_, result)| was_moved(result)).map(|(index, _)| (index, items[index].clone()))
}
