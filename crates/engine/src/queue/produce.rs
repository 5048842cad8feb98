//! Routing what is produced: through the door, into a place, to the partition with the least to do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_core::command::{Command, NewItem, Produce, Produced, Refusal, Reply};
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::route::{self, Load};

use super::{QueueHandle, fault};
use crate::error::{EngineError, Outcome};
use crate::partition::handle::{Handle, PartitionState};
use crate::partition::message::{Answer, Done, received};
use crate::types::{Commit, Judged, ProducedItem};

impl QueueHandle {
    /// To one partition, all or none. One that cannot take it is gone around.
    pub(crate) async fn produce(&self, items: Vec<NewItem>) -> Result<Judged<ProducedItem>, EngineError> {
        let scheduled = items.iter().all(|item| item.enqueue_at.is_some());
        self.take_in(items, scheduled, |items| Command::Produce(Produce { items })).await
    }

    pub(super) async fn take_in<T: Clone>(
        &self,
        mut items: Vec<T>,
        scheduled: bool,
        command: impl Fn(Vec<T>) -> Command,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        let start = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut loads: Vec<Load> = self.partitions.iter().map(|handle| load(handle)).collect();
        let mut last_error = None;
        while let Some(index) = route::pick(&loads, scheduled, start) {
            loads[index].healthy = false;
            let reserved = self.places.reserve(items.len(), self.queue.settings.max_items)?;
            // Copied only if there is another one to turn to.
            let elsewhere = loads.iter().any(|load| load.healthy);
            let spare = if elsewhere { items.clone() } else { Vec::new() };
            let command = command(std::mem::replace(&mut items, spare));
            let handle = &self.partitions[index];
            let answer = match self.door.pass(|| handle.submit_with(command, Some(reserved))).await? {
                Ok(answer) => received(answer.await),
                Err(error) => Err(error),
            };
            match answer {
                Err(
                    error @ (EngineError::Unavailable { outcome: Outcome::NotApplied, .. }
                    | EngineError::Overloaded { .. }),
                ) => last_error = Some(error),
                Ok(answer) => return Ok(produced(handle, answer)),
                Err(error) => return Err(error),
            }
        }
        // That none serves may be because the queue is gone.
        self.door.pass(|| ()).await?;
        Err(last_error.unwrap_or_else(|| self.unavailable()))
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
        let loads: Vec<Load> = self.partitions.iter().map(serving).collect();
        route::pick(&loads, false, start).map(|index| &self.partitions[index])
    }
}

fn load(handle: &Handle) -> Load {
    let counts = handle.published.summary().counts;
    Load { healthy: fault(handle).is_none(), waiting: counts.waiting, scheduled: counts.scheduled }
}

fn produced(handle: &Handle, answer: Answer) -> Judged<ProducedItem> {
    let Done::Reply(Reply::Produced(items)) = answer.reply else {
        unreachable!("a produce is answered by what was produced")
    };
    let id = |number| ItemId { partition: handle.id, number };
    let result = |item: Result<Produced, Refusal>| match item {
        Ok(Produced { number, phase }) => Ok(ProducedItem { id: id(number), phase }),
        Err(refusal) => Err(refusal.into()),
    };
    Judged {
        results: items.into_iter().map(result).collect(),
        commits: vec![Commit { partition: handle.id, sequence: answer.sequence }],
    }
}
