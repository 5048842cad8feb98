//! Items that are to have an address where they go: each goes to the home of its address, for there alone is known whether the
//! address is free.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::verbs::{Arriving, Assign, Move};

use super::{Carrier, Progress, progress};
use crate::error::EngineError;
use crate::queue::QueueHandle;

impl Carrier {
    /// Has the next items go to the homes of their addresses.
    pub(super) async fn assign_to_homes(
        &self,
        to: &Arc<str>,
        queue: &QueueHandle,
    ) -> Result<Progress, EngineError> {
        let (name, limit) = (Arc::clone(to), self.batch_max());
        let addressed = self.source.query(move |partition, _| partition.addressed_departures(&name, limit));
        let mut by_home: BTreeMap<PartitionId, Vec<ItemNumber>> = BTreeMap::new();
        for (number, address) in addressed.await? {
            by_home.entry(queue.home(&address)?.id).or_default().push(number);
        }
        let mut assigned = Progress::None;
        for (partition, addressed) in by_home {
            let (queue, to) = (Arc::clone(to), Arc::clone(to));
            let assign = Assign { queue, to, partition, instead_of: None, limit, addressed };
            if self.source.apply(assign).await.map(progress)? == Progress::Some {
                assigned = Progress::Some;
            }
        }
        Ok(assigned)
    }

    /// Sets `address_taken` of each move whose address a live item holds in its former home partition: the new home does not
    /// see that item.
    pub(super) async fn mark_taken_addresses(
        &self,
        queue: &QueueHandle,
        moves: &mut [Move],
    ) -> Result<(), EngineError> {
        for moved in moves {
            let Arriving::Item(item) = &mut moved.what else { continue };
            let Some(address) = &item.address else { continue };
            item.address_taken = queue.former_home_holding(address).await?.is_some();
        }
        Ok(())
    }
}
