//! Moves between stores.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::id::PartitionId;

use super::Coverage;
use crate::check::Facts;
use crate::history::{History, Outcome};

impl Coverage {
    pub(super) fn add_stores(&mut self, facts: &Facts<'_>) {
        let stores = stores_of_partitions(facts.history);
        for item in &facts.items {
            let from = item.origin.and_then(|origin| origin.id);
            if let (Some(from), Some(to)) = (from, item.id)
                && stores.get(&from.partition) != stores.get(&to.partition)
            {
                self.change("moved to another store");
            }
        }
    }
}

/// The store of each partition, as the answers that showed its queue name it. A run with one store names none.
fn stores_of_partitions(history: &History) -> BTreeMap<PartitionId, Arc<str>> {
    let mut stores = BTreeMap::new();
    for call in &history.calls {
        let Outcome::Queue(queue) = &call.outcome else { continue };
        let named = queue.homes.iter().filter_map(|(partition, store)| Some((*partition, store.clone()?)));
        stores.extend(named);
    }
    stores
}
