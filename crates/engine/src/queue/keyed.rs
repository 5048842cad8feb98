//! What has a key goes to its home and nowhere else: there alone it is known whether the key is taken.

use std::sync::Arc;

use windlass_core::command::{Produced, Refusal, Reply};
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::route::Slot;

use super::QueueHandle;
use super::produce::Arriving;
use super::shares::{Asked, Share, judged, shares};
use crate::error::EngineError;
use crate::partition::handle::Handle;
use crate::partition::places::Reserved;
use crate::types::{Judged, ProducedItem};

impl QueueHandle {
    /// The one place that knows who a key is at home with.
    pub(crate) fn home(&self, key: &str) -> Result<&Arc<Handle>, EngineError> {
        let home = self.queue.home(Slot::of(key)).and_then(|index| self.partitions.get(index));
        home.ok_or_else(|| EngineError::not_applied("the key has no home in this queue"))
    }

    /// All or none of each partition's share. Those without a key go to one partition together, which may be home to
    /// others too: so that all stand there in the order given.
    pub(super) async fn take_in_by_key<T: Arriving>(
        &self,
        items: Vec<T>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        // For the whole call, wherever its items go.
        let mut reserved = self.places.reserve(items.len(), self.queue.settings.max_items)?;
        let keyless = items.iter().filter(|item| item.key().is_none());
        let together = self.pick(keyless.clone().all(Arriving::is_scheduled)).map(|handle| handle.id);
        let home = |item: &T| match item.key() {
            Some(key) => self.home(key).ok().map(|handle| handle.id),
            None => together,
        };
        let results = vec![Err(self.unavailable()); items.len()];
        let shares = shares(items, home);
        // All are under way before the first is waited for.
        let asked = self.door.pass(|| {
            let ask = |(home, share)| self.ask(home, share, &mut reserved);
            shares.into_iter().filter_map(ask).collect::<Vec<_>>()
        });
        let judged = judged(asked.await?, results, produced).await;
        if judged.commits.is_empty() {
            let error = worst(judged);
            // That none serves may be because the queue is gone. What may have happened is not told away by that.
            if !error.is_unknown() {
                self.door.pass(|| ()).await?;
            }
            return Err(error);
        }
        Ok(judged)
    }

    fn ask<T: Arriving>(
        &self,
        home: Option<PartitionId>,
        Share { indexes, items }: Share<T>,
        reserved: &mut Reserved,
    ) -> Option<Asked> {
        let handle = self.partitions.iter().find(|handle| Some(handle.id) == home)?;
        let places = reserved.split(items.len());
        let answer = handle.submit_with(T::command(items), Some(places));
        Some(Asked { partition: handle.id, indexes, answer })
    }
}

pub(super) fn produced(partition: PartitionId, reply: Reply) -> Vec<Result<ProducedItem, EngineError>> {
    let Reply::Produced(items) = reply else { unreachable!("a produce is answered by what was produced") };
    produced_items(partition, items)
}

pub(super) fn produced_items(
    partition: PartitionId,
    items: Vec<Result<Produced, Refusal>>,
) -> Vec<Result<ProducedItem, EngineError>> {
    let id = |number| ItemId { partition, number };
    let result = |item: Result<Produced, Refusal>| match item {
        Ok(Produced { number, phase }) => Ok(ProducedItem { id: id(number), phase }),
        Err(Refusal::DuplicateAddress { number }) => Err(EngineError::DuplicateAddress { id: id(number) }),
        Err(refusal) => Err(refusal.into()),
    };
    items.into_iter().map(result).collect()
}

/// What a call is told of which nothing was judged. That some of it may have happened comes before all else.
pub(super) fn worst<T>(judged: Judged<T>) -> EngineError {
    let mut errors = judged.results.into_iter().filter_map(Result::err);
    let first = errors.next().expect("a call has items, and none of these was judged");
    if first.is_unknown() { first } else { errors.find(EngineError::is_unknown).unwrap_or(first) }
}
