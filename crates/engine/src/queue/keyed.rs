//! What has a key goes to its home and nowhere else: there alone it is known whether the key is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::refusal::{Each, Refusal};
use windlass_core::route::Slot;
use windlass_core::verbs::Produced;

use super::QueueHandle;
use super::former::Known;
use super::produce::{Arriving, ProducedItem};
use super::room::places_needed;
use super::shares::{Asked, Share, judged, shares};
use crate::commit::Judged;
use crate::error::{EngineError, was_moved};
use crate::partition::handle::Handle;
use crate::partition::places::Reserved;

impl QueueHandle {
    /// The one place that knows who a key is at home with.
    pub(crate) fn home(&self, key: &str) -> Result<&Arc<Handle>, EngineError> {
        let home = self.queue.home(Slot::of(key)).and_then(|index| self.partitions.get(index));
        home.ok_or_else(|| EngineError::not_applied("the key has no home in this queue"))
    }

    /// Where an item with a key belongs; a group may be in one that was home to it before.
    pub(super) fn home_of<T: Arriving>(
        &self,
        item: &T,
        groups: &BTreeMap<Arc<str>, PartitionId>,
    ) -> Option<PartitionId> {
        let before = item.group().and_then(|group| groups.get(group)).copied();
        before.or_else(|| self.home(item.key()?).ok().map(|handle| handle.id))
    }

    /// All or none of each partition's share. Those without a key go to one partition together, which may be home to
    /// others too: so that all stand there in the order given.
    pub(crate) async fn take_in_by_key<T: Arriving>(
        &self,
        items: Vec<T>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        self.check_homes(items.iter().map(|item| (item.group(), item.address())))?;
        // For the whole call, wherever its items go.
        let mut reserved = match self.places.reserve(places_needed(&items), self.queue.settings.max_items) {
            Ok(reserved) => reserved,
            Err(overloaded) => return self.take_in_what_fits(items, overloaded).await,
        };
        let keyless = items.iter().filter(|item| item.key().is_none());
        let together = self.pick(keyless.clone().all(Arriving::is_scheduled)).map(|handle| handle.id);
        let Known { held, unsure, groups, commits, .. } = self.ask_former_homes(None, &items).await?;
        let home = |item: &T| if item.key().is_some() { self.home_of(item, &groups) } else { together };
        let decided: BTreeSet<usize> = held.keys().chain(unsure.keys()).copied().collect();
        let mut results = vec![Err(self.unavailable()); items.len()];
        unsure.into_iter().for_each(|(index, error)| results[index] = Err(error));
        held.into_iter().for_each(|(index, id)| results[index] = Err(EngineError::DuplicateAddress { id }));
        let open = items.into_iter().enumerate().filter(|(index, _)| !decided.contains(index));
        let shares = shares(open, home);
        // All are under way before the first is waited for.
        let asked = self.pass_with_routes(|| {
            let ask = |(home, share)| self.ask(home, share, &mut reserved);
            shares.into_iter().filter_map(ask).collect::<Vec<_>>()
        });
        let mut judged = judged(asked.await?, results, produced_items).await;
        let is_judged = |result| was_judged(result) || was_moved(result);
        if judged.commits.is_empty() && !judged.results.iter().any(is_judged) {
            let error = worst(judged);
            // That none serves may be because the queue is gone. What may have happened is not told away by that.
            if !error.is_unknown() {
                self.routes.pass(|_| ()).await?;
            }
            return Err(error);
        }
        if judged.commits.is_empty() {
            judged.commits = commits;
        }
        Ok(judged)
    }

    /// Refused if other partitions may know keys by now: then those were not asked.
    pub(crate) async fn pass_with_routes<T>(&self, step: impl FnOnce() -> T) -> Result<T, EngineError> {
        let known = self.queue.route_version;
        let passed = self.routes.pass(|latest| (latest == known).then(step)).await?;
        passed.ok_or(EngineError::Refused(Refusal::Moved))
    }

    fn ask<T: Arriving>(
        &self,
        home: Option<PartitionId>,
        Share { indexes, items }: Share<T>,
        reserved: &mut Reserved,
    ) -> Option<Asked<Each<Produced>>> {
        let handle = self.find(home?).ok()?;
        let places = reserved.split(items.len());
        let answer = handle.submit_with(T::verb(items), Some(places));
        Some(Asked { partition: handle.id, indexes, answer })
    }
}

pub(super) fn produced_items(
    partition: PartitionId,
    items: Each<Produced>,
) -> Vec<Result<ProducedItem, EngineError>> {
    let id = |number| ItemId { partition, number };
    let result = |item: Result<Produced, Refusal>| match item {
        Ok(Produced { number, phase }) => Ok(ProducedItem { id: id(number), phase }),
        Err(refusal) => Err(refused(partition, refusal)),
    };
    items.into_iter().map(result).collect()
}

pub(super) fn refused(partition: PartitionId, refusal: Refusal) -> EngineError {
    if let Refusal::HeldElsewhere { id } = refusal {
        return EngineError::DuplicateAddress { id };
    }
    if let Refusal::DuplicateAddress { number } = refusal {
        return EngineError::DuplicateAddress { id: ItemId { partition, number } };
    }
    refusal.into()
}

/// Whether somebody has decided about the item.
pub(super) fn was_judged<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Ok(_) | Err(EngineError::DuplicateAddress { .. }))
}

/// What a call is told of which nothing was judged. That some of it may have happened comes before all else.
pub(super) fn worst<T>(judged: Judged<T>) -> EngineError {
    let mut errors = judged.results.into_iter().filter_map(Result::err);
    let first = errors.next().expect("a call has items, and none of these was judged");
    if first.is_unknown() { first } else { errors.find(EngineError::is_unknown).unwrap_or(first) }
}
