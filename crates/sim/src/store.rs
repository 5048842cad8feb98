//! Opens the store under test on the simulated disks: one log, or several as one.

use std::sync::Arc;

use windlass_core::time::Span;
use windlass_engine::env::Env;
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Spread};
use windlass_engine::store::{Store, StoreError};

use crate::disk::SimDisk;
use crate::plan::{Plan, Sync};

/// `disks` in the order of the stores, the one with the registry first. Only that one has to open now: the others are
/// tried again whenever somebody wants one of their partitions.
pub async fn open(
    env: Arc<dyn Env>,
    disks: Vec<SimDisk>,
    plan: &Plan,
) -> Result<Arc<dyn Store>, StoreError> {
    let options = options(plan);
    let mut logs = disks.into_iter().map(|disk| Log { env: env.clone(), disk, options: options.clone() });
    let first = logs.next().expect("a machine has a disk").open().await?;
    let others: Vec<Member> = logs.enumerate().map(|(index, log)| log.member(index + 1)).collect();
    Ok(if others.is_empty() { first } else { Arc::new(Spread::open(first, others).await) })
}

pub fn options(plan: &Plan) -> LogOptions {
    let durability = match plan.durability {
        Sync::Always => Durability::Always,
        Sync::Interval { millis } => Durability::Interval(Span::from_millis(millis)),
        Sync::Never => Durability::None,
    };
    LogOptions {
        durability,
        segment_bytes: plan.store.segment_bytes,
        body_cache_bytes: plan.store.cache_bytes,
        snapshot_min_bytes: plan.store.snapshot_bytes,
        ..LogOptions::default()
    }
}

/// One log to be opened.
#[derive(Clone)]
struct Log {
    env: Arc<dyn Env>,
    disk: SimDisk,
    options: LogOptions,
}

impl Log {
    async fn open(self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(LogStore::open(self.env, Arc::new(self.disk), self.options).await?))
    }

    fn member(mut self, index: usize) -> Member {
        self.options.store = store_name(index).into();
        Member::new(store_name(index), Box::new(move || Box::pin(self.clone().open())))
    }
}

fn store_name(index: usize) -> String {
    format!("store{index}")
}
