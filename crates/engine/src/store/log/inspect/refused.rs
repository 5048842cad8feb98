//! Which partitions a server would refuse although it opens the log.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::store::StoreError;
use crate::store::log::read::view::PartitionView;
use crate::store::log::tables::{PartitionTable, Tables};

/// Each partition that its next owner cannot have, and why. Rows are read only if `is_damaged`: a log without damage has
/// none that cannot be read.
pub(super) async fn find(tables: &Tables, is_damaged: bool) -> Vec<(u32, StoreError)> {
    let mut refused = Vec::new();
    for (partition, table) in &tables.partitions {
        let why = if is_damaged { read_rows(tables, *partition).await } else { known_damage(table) };
        refused.extend(why.map(|error| (*partition, error)));
    }
    refused
}

fn known_damage(table: &PartitionTable) -> Option<StoreError> {
    table.damage.as_ref().map(|damage| damage.error.clone())
}

/// Reads the rows as the partition's next owner would, and tells what stops the reading.
async fn read_rows(tables: &Tables, partition: u32) -> Option<StoreError> {
    let mut rows = PartitionView::of(tables, partition, &Arc::new(Notify::new())).rows;
    loop {
        match rows.next().await {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => return Some(error),
        }
    }
}
