//! Which partitions of a directory no queue and no drop record names: known only where the registry is.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::id::PartitionId;
use windlass_core::limits::RegistryLimits;
use windlass_core::machine::Machine;
use windlass_core::partition::Partition;
use windlass_core::registry::Registry;
use windlass_core::row::{QueueName, Stored};
use windlass_core::time::Timestamp;

use crate::store::StoreError;
use crate::store::log::read::view::PartitionView;
use crate::store::log::tables::Tables;

/// The partitions of one directory, compared with what its registry names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Unclaimed {
    /// The directory holds no registry, or one that cannot be read.
    #[default]
    NotKnown,
    Known(BTreeMap<PartitionId, UnclaimedReport>),
}

/// The content of an unclaimed partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnclaimedReport {
    /// The queue that the partition was of when it was last served.
    pub queue: Option<QueueName>,
    /// Items that have not ended. Unset if the partition cannot be read.
    pub items: Option<u64>,
}

/// The registry names partitions of other directories too: those are not looked for.
pub(super) async fn find(tables: &Tables) -> Unclaimed {
    let registry = PartitionId::REGISTRY;
    if !tables.partitions.contains_key(&registry.0) {
        return Unclaimed::NotKnown;
    }
    let empty = Registry::new(RegistryLimits::default());
    let Ok(registry) = load(tables, registry, empty).await else { return Unclaimed::NotKnown };
    let claimed = registry.claimed();
    let held = tables.partitions.iter().filter(|(_, table)| table.sequence > 0);
    let held = held.map(|(partition, _)| PartitionId(*partition));
    let mut found = BTreeMap::new();
    for partition in held.filter(|id| !claimed.contains(&Stored { partition: *id, store: None })) {
        let empty = Partition::new(partition, Timestamp(0));
        let report = load(tables, partition, empty).await.map(|partition| UnclaimedReport {
            queue: partition.intake().queue.clone(),
            items: Some(partition.counts().live()),
        });
        found.insert(partition, report.unwrap_or_default());
    }
    Unclaimed::Known(found)
}

async fn load<M: Machine>(tables: &Tables, id: PartitionId, mut machine: M) -> Result<M, StoreError> {
    let mut rows = PartitionView::of(tables, id.0, &Arc::new(Notify::new())).rows;
    while let Some(changes) = rows.next().await? {
        changes.into_iter().for_each(|change| machine.restore(change));
    }
    Ok(machine)
}
