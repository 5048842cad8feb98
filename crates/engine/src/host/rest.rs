//! How far partitions have come that the registry waits for: empty, settled, or without keys that are at home elsewhere.

use windlass_core::id::PartitionId;
use windlass_core::partition::Partition;
use windlass_core::route::SlotSet;

use super::{Host, Whereabouts};
use crate::error::EngineError;
use crate::lock::lock;
use crate::machine::mailbox::PartitionState;
use crate::partition::handle::Handle;
use crate::partition::published::Rest;
use crate::queue::QueueHandle;
use crate::store::Term;

impl Host {
    /// Whether the partition takes nothing new and has nothing more to do.
    pub(crate) async fn is_drained(&self, handle: &Handle) -> bool {
        has_come_to(handle, Rest::Drained, Partition::is_drained).await
    }

    /// Whether the partition keeps nothing any more, and nobody needs to ask it anything.
    pub(crate) async fn is_settled(&self, handle: &Handle) -> bool {
        has_come_to(handle, Rest::Bare, Partition::is_bare).await && self.has_been_heard(handle).await
    }

    /// Every partition that sent it something has heard, durably, that it was taken: else that would be sent to another
    /// partition again.
    async fn has_been_heard(&self, handle: &Handle) -> bool {
        let Ok(sources) = handle.query(|partition, _| partition.taken_from()).await else { return false };
        for source in sources {
            let heard = Term::now(&*self.store, source);
            if self.sends_to(source, handle.id).await || self.store.sync(heard).await.is_err() {
                return false;
            }
        }
        true
    }

    async fn sends_to(&self, source: PartitionId, target: PartitionId) -> bool {
        let whereabouts = lock(&self.running).whereabouts(source);
        let home = match whereabouts {
            Whereabouts::Served(home) => home,
            // Once it is served, it would send to somebody else what was taken here.
            Whereabouts::NotServed => return true,
            Whereabouts::Gone => return false,
        };
        let sends = move |partition: &Partition, _| !partition.departures(target, 1).is_empty();
        home.partition.query(sends).await.unwrap_or(true)
    }

    /// The slots of `former` that the partition knows no key of, once that is durable: no power loss brings a key back.
    pub(crate) async fn slots_without_keys(
        &self,
        queue: &QueueHandle,
        partition: PartitionId,
        former: SlotSet,
    ) -> Result<Option<SlotSet>, EngineError> {
        let Ok(handle) = queue.find(partition) else { return Ok(None) };
        let route_version = queue.queue.route_version;
        // A partition that cannot serve tells anew when it can.
        let serves = handle.state() == PartitionState::Available;
        if !serves || !may_have_slots_without_keys(handle, former, route_version) {
            return Ok(None);
        }
        let term = Term::now(&*self.store, partition);
        let question = move |partition: &Partition, _| {
            // By earlier routes it may still take a key, and by later ones other slots are at home elsewhere.
            (partition.intake().version == route_version).then(|| partition.lingering_slots())
        };
        let Some(lingering) = handle.query(question).await? else { return Ok(None) };
        let slots: SlotSet = former.iter().filter(|slot| !lingering.contains(*slot)).collect();
        if slots.is_empty() {
            return Ok(None);
        }
        self.store.sync(term).await.map_err(|error| EngineError::not_applied(error.to_string()))?;
        Ok(Some(slots))
    }
}

/// What is published is a hint; once it is so, it stays so.
async fn has_come_to(handle: &Handle, rest: Rest, question: fn(&Partition) -> bool) -> bool {
    let told = handle.published.summary().rest >= rest;
    told && handle.query(move |partition, _| question(partition)).await.unwrap_or(false)
}

/// Goes by the published summary, which is a hint.
fn may_have_slots_without_keys(handle: &Handle, former: SlotSet, route_version: u64) -> bool {
    let lingering = handle.published.summary().lingering;
    lingering.is_some_and(|known| known.route_version == route_version && known.slots < former.len())
}
