//! A queue at its `max_items` still tells what it would refuse anyway: an item whose address is taken, or whose group
//! takes nobody, needs no place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::partition::Partition;

use super::QueueHandle;
use super::keyed::refused;
use super::produce::{Arriving, ProducedItem};
use super::shares::{Share, shares};
use crate::commit::Judged;
use crate::error::EngineError;
use crate::partition::places::Reserved;

/// How many of them can come in: of those with the same address, one.
pub(super) fn places_needed<'a, T: Arriving + 'a>(items: impl IntoIterator<Item = &'a T>) -> usize {
    let mut addresses = BTreeSet::new();
    items.into_iter().filter(|item| item.address().is_none_or(|address| addresses.insert(address))).count()
}

/// What an item is at home by, and where.
struct Key {
    home: Option<PartitionId>,
    group: Option<Arc<str>>,
    address: Option<Arc<str>>,
}

impl QueueHandle {
    /// There is no place for all of them. The rest is taken in if there is one for each of that.
    pub(super) async fn take_in_what_fits<T: Arriving>(
        &self,
        items: Vec<T>,
        overloaded: EngineError,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        let mut refusals = self.refusals(&items.iter().collect::<Vec<_>>()).await;
        if refusals.is_empty() {
            return Err(overloaded);
        }
        let left = items.into_iter().enumerate().filter(|(index, _)| !refusals.contains_key(index));
        let (indexes, left): (Vec<usize>, Vec<T>) = left.unzip();
        let mut taken_in = Judged { results: Vec::new(), commits: Vec::new() };
        if !left.is_empty() {
            taken_in = Box::pin(self.take_in_by_key(left)).await?;
        }
        let mut results: BTreeMap<usize, Result<ProducedItem, EngineError>> =
            indexes.into_iter().zip(taken_in.results).collect();
        results.extend(std::mem::take(&mut refusals).into_iter().map(|(index, error)| (index, Err(error))));
        Ok(Judged { results: results.into_values().collect(), commits: taken_in.commits })
    }

    /// Like it, for a call that is told of every item by its home. An address that is given up meanwhile leaves a place.
    pub(super) async fn reserve_what_fits<T: Arriving>(
        &self,
        items: &[&T],
        overloaded: EngineError,
    ) -> Result<Reserved, EngineError> {
        let refusals = self.refusals(items).await;
        if refusals.is_empty() {
            return Err(overloaded);
        }
        let left = items.iter().enumerate().filter(|(index, _)| !refusals.contains_key(index));
        self.places.reserve(places_needed(left.map(|(_, item)| *item)), self.queue.settings.max_items)
    }

    /// What their homes would tell those that they would refuse now. Who cannot be asked would not.
    async fn refusals<T: Arriving>(&self, items: &[&T]) -> BTreeMap<usize, EngineError> {
        let key = |item: &T| Key {
            home: item.key().and_then(|key| self.home(key).ok()).map(|handle| handle.id),
            group: item.group().cloned(),
            address: item.address().cloned(),
        };
        let shares = shares(items.iter().map(|item| key(item)).enumerate(), |key| key.home);
        // All are asked before the first is waited for.
        let asked: Vec<_> = shares
            .into_iter()
            .filter_map(|(home, Share { indexes, items: keys })| {
                let handle = self.partitions.iter().find(|handle| Some(handle.id) == home)?;
                let answer = handle.ask(move |partition: &Partition, _| {
                    let refusal = |key: Key| partition.refusal(key.group.as_deref(), key.address.as_ref());
                    keys.into_iter().map(refusal).collect::<Vec<_>>()
                });
                Some((handle.id, indexes, answer.ok()?))
            })
            .collect();
        let mut refusals = BTreeMap::new();
        for (partition, indexes, answer) in asked {
            let told = indexes.into_iter().zip(answer.await.unwrap_or_default());
            let told = told.filter_map(|(index, refusal)| Some((index, refused(partition, refusal?))));
            refusals.extend(told);
        }
        refusals
    }
}
