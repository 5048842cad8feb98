//! Former homes that know no key of a slot any more are not asked about that slot any longer. The writer of a former home tells
//! when its keys may be gone.

use windlass_core::id::PartitionId;
use windlass_core::partition::Partition;
use windlass_core::route::SlotSet;
use windlass_core::verbs::ForgetFormerHome;

use super::Registry;
use crate::error::EngineError;
use crate::partition::handle::{Handle, PartitionState};
use crate::queue::QueueHandle;
use crate::store::Term;

impl Registry {
    /// Tells whether the registry was told of any.
    pub(super) async fn forget_former_homes(&self, queue: &QueueHandle) -> Result<bool, EngineError> {
        let mut any = false;
        let route_version = queue.queue.route_version;
        for (&partition, former) in &queue.queue.former {
            let Some(slots) = self.slots_without_keys(queue, partition, *former).await? else { continue };
            let queue = queue.queue.name.clone();
            let forget = ForgetFormerHome { queue, partition, slots, route_version };
            self.home.apply(forget).await?;
            any = true;
        }
        Ok(any)
    }

    /// The slots of `former` that the partition knows no key of, once that is durable: no power loss brings a key back.
    async fn slots_without_keys(
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

/// Goes by the published summary, which is a hint.
fn may_have_slots_without_keys(handle: &Handle, former: SlotSet, route_version: u64) -> bool {
    let lingering = handle.published.summary().lingering;
    lingering.is_some_and(|known| known.route_version == route_version && known.slots < former.len())
}
