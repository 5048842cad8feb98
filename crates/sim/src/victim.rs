//! The engine of the process that is made to be killed (`windlass-victim`), opened as that process opens it: the tests
//! that kill the process open the same directories to see what is left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::row::QueueName;
use windlass_engine::Engine;
use windlass_engine::env::{Env, TokioEnv};
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Spread};
use windlass_engine::store::{DEFAULT_STORE, Store};

/// The queue that is worked.
pub const WORKED: &str = "q";
/// Where items of [`WORKED`] go that a worker gave up: a dead queue.
pub const DEAD: &str = "dead";

pub fn queue(name: &str) -> QueueName {
    QueueName { namespace: "default".into(), name: name.into() }
}

/// Opens one log for each directory. The first one holds the registry.
pub async fn open(directories: &[PathBuf]) -> Engine {
    let env: Arc<dyn Env> = Arc::new(TokioEnv::new());
    let (first, others) = directories.split_first().expect("at least one directory");
    let first = open_log(&env, first, DEFAULT_STORE).await;
    let store: Arc<dyn Store> = if others.is_empty() {
        first
    } else {
        let mut members = Vec::new();
        for (index, directory) in others.iter().enumerate() {
            let name = format!("store{index}");
            members.push(Member::opened(name.as_str(), open_log(&env, directory, &name).await));
        }
        Arc::new(Spread::open(first, members).await)
    };
    Engine::open(env, store).await.expect("the engine opens")
}

/// Small segments, so that they are reused, compacted and covered by snapshots within a few lives.
async fn open_log(env: &Arc<dyn Env>, directory: &Path, store: &str) -> Arc<dyn Store> {
    let disk = Arc::new(RealDisk::new(directory).expect("the directory"));
    let options = LogOptions {
        store: store.into(),
        segment_bytes: 256 << 10,
        snapshot_min_bytes: 256 << 10,
        ..LogOptions::default()
    };
    Arc::new(LogStore::open(Arc::clone(env), disk, options).await.expect("the log opens"))
}
