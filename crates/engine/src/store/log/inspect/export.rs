//! Hands out everything in a log, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::id::PartitionId;
use windlass_core::row::Change;

use super::Locked;
use super::check::{body_slice, read_bodies};
use crate::store::bodies::BodyKey;
use crate::store::log::disk::Disk;
use crate::store::log::opening;
use crate::store::log::read::view::PartitionView;
use crate::store::log::tables::Tables;
use crate::store::{StoreError, remove_row};

/// The partitions and bodies that an export could not tell.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    /// By partition, the first damage: to the rows, then nothing of the partition was told, or to a body.
    pub damage: BTreeMap<PartitionId, StoreError>,
    /// Wanted partitions that the log does not hold.
    pub missing: BTreeSet<PartitionId>,
}

/// Tells every row and body of a log that no server has open, as the changes that make it anew: partition by
/// partition, rows in the order of keys, then bodies. The rows of one partition at a time are in memory. A damaged body is
/// left out, and so is a partition whose rows are damaged: neither keeps the others back.
///
/// With `wanted`, other partitions are left out, except for the registry: its rows, without bodies, tell the queues.
pub async fn export(
    disk: Arc<dyn Disk>,
    wanted: Option<&BTreeSet<PartitionId>>,
    each: &mut (dyn FnMut(PartitionId, Change) + Send),
) -> Result<Exported, StoreError> {
    let locked = Locked::take(&*disk).await?;
    let tables = opening::recover(&*disk, &locked.format().await?).await?.tables;
    let is_wanted = |id: &PartitionId| wanted.is_none_or(|wanted| wanted.contains(id));
    let mut exported = Exported::default();
    for id in tables.partitions.keys().copied().map(PartitionId) {
        if !is_wanted(&id) && id != PartitionId::REGISTRY {
            continue;
        }
        let damage = match export_rows(&tables, id.0, each).await {
            Ok(()) if is_wanted(&id) => export_bodies(&tables, id.0, each).await,
            Ok(()) => None,
            Err(error) => Some(error),
        };
        exported.damage.extend(damage.map(|error| (id, error)));
    }
    let missing = wanted.into_iter().flatten().filter(|id| !tables.partitions.contains_key(&id.0));
    exported.missing.extend(missing);
    Ok(exported)
}

async fn export_rows(
    tables: &Tables,
    partition: u32,
    each: &mut (dyn FnMut(PartitionId, Change) + Send),
) -> Result<(), StoreError> {
    let mut source = PartitionView::of(tables, partition, &Arc::new(Notify::new())).rows;
    let mut rows = BTreeMap::new();
    while let Some(changes) = source.next().await? {
        for change in changes {
            match change {
                Change::Put(row) => drop(rows.insert(row.key(), row)),
                Change::Remove(key) => remove_row(&mut rows, &key),
                Change::PutBody { .. } | Change::RemoveBody { .. } => {}
            }
        }
    }
    rows.into_values().for_each(|row| each(PartitionId(partition), Change::Put(row)));
    Ok(())
}

/// Tells the first body that cannot be read.
async fn export_bodies(
    tables: &Tables,
    partition: u32,
    each: &mut (dyn FnMut(PartitionId, Change) + Send),
) -> Option<StoreError> {
    let mut damaged = None;
    let mut from = BodyKey::FIRST;
    loop {
        let slice = body_slice(tables, partition, from);
        let Some((last, _)) = slice.last() else { return damaged };
        from = last.next();
        for (key, body) in read_bodies(tables, slice).await {
            let (number, part) = (key.number(), key.part());
            match body {
                Ok(body) => each(PartitionId(partition), Change::PutBody { number, part, body }),
                Err(error) => damaged = damaged.or(Some(error)),
            }
        }
    }
}
