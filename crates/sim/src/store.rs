//! Opens the store under test on the simulated disk.

use std::sync::Arc;

use windlass_core::time::Span;
use windlass_engine::env::Env;
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::{Store, StoreError};

use crate::disk::SimDisk;
use crate::plan::{Plan, Sync};

pub async fn open(env: Arc<dyn Env>, disk: SimDisk, plan: &Plan) -> Result<Arc<dyn Store>, StoreError> {
    let durability = match plan.durability {
        Sync::Always => Durability::Always,
        Sync::Interval { millis } => Durability::Interval(Span::from_millis(millis)),
        Sync::Never => Durability::None,
    };
    let options = LogOptions {
        durability,
        segment_bytes: plan.store.segment_bytes,
        body_cache_bytes: plan.store.cache_bytes,
        snapshot_min_bytes: plan.store.snapshot_bytes,
        ..LogOptions::default()
    };
    Ok(Arc::new(LogStore::open(env, Arc::new(disk), options).await?))
}
