//! Routing what is produced: into a place, to the partition with the least to do or to the home of
//! its key.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::Phase;
use windlass_core::limits;
use windlass_core::refusal::{Each, Refusal};
use windlass_core::route::{self, Load};
use windlass_core::verb::Verb;
use windlass_core::verbs::{Import, ImportItem, NewItem, Produce, Produced};

use super::keyed::produced_items;
use super::{QueueHandle, fault};
use crate::commit::{Commit, Judged};
use crate::error::{EngineError, Outcome};
use crate::machine::call::{Answer, received};
use crate::partition::handle::{Handle, PartitionState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducedItem {
    pub id: ItemId,
    pub phase: Phase,
}

/// What can come into a queue from outside.
pub(crate) trait Arriving: Clone {
    /// What it is at home by, if anything.
    fn key(&self) -> Option<&str>;

    fn group(&self) -> Option<&Arc<str>>;

    fn address(&self) -> Option<&Arc<str>>;

    /// Whether it is due later, as far as can be told without the time.
    fn is_scheduled(&self) -> bool;

    /// The verb that brings items of this type in.
    type Verb: Verb<Reply = Each<Produced>>;

    fn verb(items: Vec<Self>) -> Self::Verb;
}

impl Arriving for NewItem {
    fn key(&self) -> Option<&str> {
        self.key()
    }

    fn group(&self) -> Option<&Arc<str>> {
        self.group.as_ref()
    }

    fn address(&self) -> Option<&Arc<str>> {
        self.address.as_ref()
    }

    fn is_scheduled(&self) -> bool {
        self.enqueue_at.is_some() || self.delay.is_some()
    }

    type Verb = Produce;

    fn verb(items: Vec<Self>) -> Produce {
        Produce { items }
    }
}

impl Arriving for ImportItem {
    fn key(&self) -> Option<&str> {
        self.key()
    }

    fn group(&self) -> Option<&Arc<str>> {
        self.group.as_ref()
    }

    fn address(&self) -> Option<&Arc<str>> {
        self.address.as_ref()
    }

    fn is_scheduled(&self) -> bool {
        self.due_at.is_some()
    }

    type Verb = Import;

    fn verb(items: Vec<Self>) -> Import {
        Import { items }
    }
}

impl QueueHandle {
    /// Of the groups and addresses of new items.
    pub(crate) fn check_homes<'a>(
        &self,
        mut keys: impl Iterator<Item = (Option<&'a Arc<str>>, Option<&'a Arc<str>>)>,
    ) -> Result<(), EngineError> {
        // Those that drain count: one may hold the group, and not know who has the address.
        let partitions = self.partitions.len();
        let check = |(group, address): (Option<&Arc<str>>, Option<&Arc<str>>)| {
            limits::check_one_home(group.is_some(), address.is_some(), partitions)
        };
        Ok(keys.try_for_each(check).map_err(Refusal::Invalid)?)
    }

    /// To one partition, all or none. One that cannot take it, or takes nothing new by now, is gone around.
    pub(crate) async fn take_in_together<T: Arriving>(
        &self,
        mut items: Vec<T>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        let scheduled = items.iter().all(Arriving::is_scheduled);
        let start = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut loads: Vec<Load> = self.takers().iter().map(|handle| load(handle)).collect();
        let mut last_error = None;
        while let Some(index) = route::pick(&loads, scheduled, start) {
            loads[index].healthy = false;
            let reserved = self.places.reserve(items.len(), self.queue.settings.max_items)?;
            // Copied only if there is another one to turn to.
            let elsewhere = loads.iter().any(|load| load.healthy);
            let spare = if elsewhere { items.clone() } else { Vec::new() };
            let verb = T::verb(std::mem::replace(&mut items, spare));
            let handle = &self.partitions[index];
            let answer = match self.routes.pass(|_| handle.submit_with(verb, Some(reserved))).await? {
                Ok(answer) => received(answer.await),
                Err(error) => Err(error),
            };
            match answer {
                Err(
                    error @ (EngineError::Unavailable { outcome: Outcome::NotApplied, .. }
                    | EngineError::Overloaded { .. }
                    | EngineError::Refused(Refusal::Moved)),
                ) => last_error = Some(error),
                Ok(answer) => return Ok(taken_in(handle, answer)),
                Err(error) => return Err(error),
            }
        }
        // That none serves may be because the queue is gone.
        self.routes.pass(|_| ()).await?;
        Err(last_error.unwrap_or_else(|| self.unavailable()))
    }

    /// The partition with the least to do, if any serves.
    pub(super) fn pick(&self, scheduled: bool) -> Option<&Arc<Handle>> {
        let start = self.turn.fetch_add(1, Ordering::Relaxed);
        let loads: Vec<Load> = self.takers().iter().map(|handle| load(handle)).collect();
        route::pick(&loads, scheduled, start).map(|index| &self.partitions[index])
    }
}

impl QueueHandle {
    /// Who is to take what is moved here, if anybody serves now but for one: as the router has it.
    pub(crate) fn next_taker(&self, but: Option<PartitionId>) -> Option<&Arc<Handle>> {
        let start = self.turn.fetch_add(1, Ordering::Relaxed);
        let serving = |handle: &Arc<Handle>| Load {
            healthy: handle.state() == PartitionState::Available && Some(handle.id) != but,
            ..load(handle)
        };
        let loads: Vec<Load> = self.takers().iter().map(serving).collect();
        route::pick(&loads, false, start).map(|index| &self.partitions[index])
    }
}

fn load(handle: &Handle) -> Load {
    let counts = handle.published.summary().counts;
    Load { healthy: fault(handle).is_none(), waiting: counts.waiting, scheduled: counts.scheduled }
}

fn taken_in(handle: &Handle, answer: Answer<Each<Produced>>) -> Judged<ProducedItem> {
    let commits = vec![Commit { partition: handle.id, sequence: answer.sequence }];
    Judged { results: produced_items(handle.id, answer.reply), commits }
}
