//! A final item produced anew: in its own partition and one commit, or, where that takes nothing new or is not the home of the
//! item's address any more, in another partition of the queue.

use std::sync::Arc;

use windlass_core::id::{ItemId, ItemNumber};
use windlass_core::item::{MoveReason, Outgoing, Phase, State};
use windlass_core::partition::Partition;
use windlass_core::refusal::Refusal;
use windlass_core::time::Span;
use windlass_core::verbs::{Produced, Rerun, RerunElsewhere};

use super::QueueHandle;
use super::keyed::refused;
use super::produce::ProducedItem;
use crate::commit::{Commit, Committed};
use crate::error::EngineError;
use crate::machine::call::{Answer, received};
use crate::partition::handle::Handle;

/// How far an item has come that is on its way to another partition of its queue.
enum Came {
    /// The item goes on as this one.
    To(ItemId),
    UnderWay,
    /// The item was kept here, and may be rerun again.
    Nowhere,
}

impl QueueHandle {
    /// Exactly one of several reruns makes an item; the others are refused with the id of that item.
    pub(crate) async fn rerun(
        &self,
        id: ItemId,
        delay: Option<Span>,
    ) -> Result<Committed<ProducedItem>, EngineError> {
        let handle = self.find(id.partition)?;
        let rerun = Rerun { number: id.number, queue: Arc::clone(&self.queue.name.name), delay };
        // Whatever refuses the item comes before a queue that has no room.
        let address = handle.query(move |partition, _| partition.address_to_rerun(id.number)).await?;
        let address = match address {
            Ok(address) => address,
            Err(Refusal::Leaving) => return Err(self.moved_on(handle, id.number).await),
            Err(refusal) => return Err(refused(id.partition, refusal)),
        };
        if let Some(address) = &address
            && let Some(id) = self.holder_of(address).await?
        {
            return Err(EngineError::DuplicateAddress { id });
        }
        let mut reserved = self.places.reserve(1, self.queue.settings.max_items)?;
        let place = Some(reserved.split(1));
        let asked = self.routes.pass(|_| handle.submit_with(rerun.clone(), place)).await??;
        match received(asked.await) {
            Ok(Answer { reply: Produced { number, phase }, sequence }) => {
                let value = ProducedItem { id: ItemId { partition: handle.id, number }, phase };
                Ok(Committed { value, commits: vec![Commit { partition: handle.id, sequence }] })
            }
            Err(EngineError::Refused(Refusal::Moved)) => self.rerun_elsewhere(handle, rerun).await,
            Err(EngineError::Refused(Refusal::Leaving)) => Err(self.moved_on(handle, id.number).await),
            Err(EngineError::Refused(refusal)) => Err(refused(id.partition, refusal)),
            Err(error) => Err(error),
        }
    }

    /// The outbox of the partition carries the item to a partition that takes it.
    async fn rerun_elsewhere(
        &self,
        handle: &Handle,
        rerun: Rerun,
    ) -> Result<Committed<ProducedItem>, EngineError> {
        let number = rerun.number;
        let place = self.places.reserve(1, self.queue.settings.max_items)?;
        let asked = self.routes.pass(|_| handle.submit(RerunElsewhere(rerun))).await??;
        let sequence = match received(asked.await) {
            Ok(Answer { reply: (), sequence }) => sequence,
            Err(EngineError::Refused(Refusal::Leaving)) => return Err(self.moved_on(handle, number).await),
            Err(error) => return Err(error),
        };
        let id = match self.arrival(handle, number).await.map_err(under_way)? {
            Came::To(id) => id,
            Came::UnderWay | Came::Nowhere => return Err(under_way("the queue is being deleted")),
        };
        drop(place);
        let phase = self.phase_of(id).await.map_err(under_way)?;
        let commits = vec![Commit { partition: handle.id, sequence }];
        Ok(Committed { value: ProducedItem { id, phase }, commits })
    }

    /// Why an item that is on its way cannot be rerun: once it has arrived, because it goes on as another.
    async fn moved_on(&self, handle: &Handle, number: ItemNumber) -> EngineError {
        match self.arrival(handle, number).await {
            Ok(Came::To(id)) => Refusal::MovedOn { id }.into(),
            Ok(Came::UnderWay | Came::Nowhere) => Refusal::Leaving.into(),
            Err(error) => error,
        }
    }

    /// Waits for an item that is rerun in another partition; not for one on its way to another queue, which may not exist.
    async fn arrival(&self, handle: &Handle, number: ItemNumber) -> Result<Came, EngineError> {
        let (mut carried, mut stopping) = (self.carried(), handle.stopping());
        loop {
            carried.mark_unchanged();
            let (came, is_rerun) = handle.query(move |partition, _| came(partition, number)).await?;
            match came {
                Came::UnderWay if is_rerun => {}
                Came::To(_) | Came::UnderWay | Came::Nowhere => return Ok(came),
            }
            tokio::select! {
                biased;
                _stop = stopping.wait_for(|stop| *stop) => return Ok(Came::UnderWay),
                _carried = carried.changed() => {}
            }
        }
    }

    /// The state of an item that was just made: it may be gone again.
    async fn phase_of(&self, id: ItemId) -> Result<Phase, EngineError> {
        let phase = move |partition: &Partition, _| partition.get(id.number).map(|item| item.state.phase());
        Ok(self.find(id.partition)?.query(phase).await?.unwrap_or(Phase::Waiting))
    }
}

fn came(partition: &Partition, number: ItemNumber) -> (Came, bool) {
    let Some(item) = partition.get(number) else { return (Came::Nowhere, false) };
    let moved_to = item.extras.and_then(|extras| extras.moved_to);
    match (moved_to, item.state) {
        (Some(moved_to), _) => (Came::To(moved_to.id), false),
        (None, State::Final(outcome)) => match outcome.outgoing.as_deref() {
            Some(Outgoing { reason, .. }) => (Came::UnderWay, *reason == MoveReason::Rerun),
            None => (Came::Nowhere, false),
        },
        (None, State::Waiting { .. } | State::Scheduled { .. } | State::Leased(_) | State::Suspended(_)) => {
            (Came::Nowhere, false)
        }
    }
}

fn under_way(error: impl std::fmt::Display) -> EngineError {
    EngineError::unknown(format!("the item is on its way to another partition: {error}"))
}
