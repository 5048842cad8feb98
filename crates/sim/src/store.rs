//! Opens the store under test on the simulated disks: one log, or several as one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use windlass_core::time::Span;
use windlass_engine::env::Env;
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Spread};
use windlass_engine::store::{Store, StoreError};

use crate::disk::SimDisk;
use crate::plan::{Plan, Sync};

/// A store that is open, and the logs it consists of: by their place, as far as they are open.
#[derive(Clone, Debug)]
pub struct Opened {
    pub store: Arc<dyn Store>,
    logs: Logs,
}

type Logs = Arc<Mutex<BTreeMap<usize, Arc<LogStore>>>>;

impl Opened {
    pub fn logs(&self) -> Vec<Arc<LogStore>> {
        self.logs.lock().expect("nothing panics while it holds this lock").values().cloned().collect()
    }
}

/// `disks` in the order of the stores, the one with the registry first. Only that one has to open now: the others are
/// tried again whenever somebody wants one of their partitions.
pub async fn open(env: Arc<dyn Env>, disks: Vec<SimDisk>, plan: &Plan) -> Result<Opened, StoreError> {
    let opened = Logs::default();
    let mut logs = disks.into_iter().enumerate().map(|(index, disk)| Log {
        index,
        env: env.clone(),
        disk,
        options: options(plan),
        opened: opened.clone(),
    });
    let first = logs.next().expect("a machine has a disk").open().await?;
    let others: Vec<Member> = logs.map(Log::member).collect();
    let store = if others.is_empty() { first } else { Arc::new(Spread::open(first, others).await) };
    Ok(Opened { store, logs: opened })
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
        snapshot_block_bytes: plan.store.snapshot_bytes as usize / 8,
        ..LogOptions::default()
    }
}

/// One log to be opened.
#[derive(Clone)]
struct Log {
    index: usize,
    env: Arc<dyn Env>,
    disk: SimDisk,
    options: LogOptions,
    opened: Logs,
}

impl Log {
    async fn open(self) -> Result<Arc<dyn Store>, StoreError> {
        let log = Arc::new(LogStore::open(self.env, Arc::new(self.disk), self.options).await?);
        let mut opened = self.opened.lock().expect("nothing panics while it holds this lock");
        opened.insert(self.index, Arc::clone(&log));
        Ok(log)
    }

    fn member(mut self) -> Member {
        let name = store_name(self.index);
        self.options.store = name.clone().into();
        Member::new(name, "log", Box::new(move || Box::pin(self.clone().open())))
    }
}

pub fn store_name(index: usize) -> String {
    format!("store{index}")
}
