//! Hands out everything in a log, in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::id::PartitionId;
use windlass_core::row::Change;

use super::Locked;
use super::check::{body_slice, read_bodies};
use crate::store::log::body_key::BodyKey;
use crate::store::log::disk::Disk;
use crate::store::log::opening;
use crate::store::log::tables::Tables;
use crate::store::log::view::PartitionView;
use crate::store::{StoreError, remove_row};

/// Tells every row and body of a log that no server has open, as the changes that make it anew: partition by
/// partition, rows in the order of keys, then bodies. The rows of one partition at a time are in memory. Bodies that are
/// damaged are left out, and the first of them is the error at the end: one payload does not keep the others back.
pub async fn export(
    disk: Arc<dyn Disk>,
    each: &mut (dyn FnMut(PartitionId, Change) + Send),
) -> Result<(), StoreError> {
    let locked = Locked::take(&*disk).await?;
    let tables = opening::recover(&*disk, &locked.format().await?).await?.tables;
    let mut damaged = None;
    for partition in tables.partitions.keys() {
        export_rows(&tables, *partition, each).await?;
        damaged = damaged.or(export_bodies(&tables, *partition, each).await);
    }
    damaged.map_or(Ok(()), Err)
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
