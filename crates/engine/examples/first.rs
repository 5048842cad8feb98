//! A durable queue in one process: produce, lease, complete, and find the rest again after a restart.
//!
//! `cargo run -p windlass-engine --example first [DIRECTORY]`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Completion, CreateQueue, Filter, LeaseItems, NewItem};
use windlass_engine::Engine;
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory =
        std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("windlass-first"), PathBuf::from);
    let queue = QueueName { namespace: "default".into(), name: "greetings".into() };

    let engine = open(&directory).await?;
    if engine.queues().is_empty() {
        let create = CreateQueue::new(queue.clone(), Settings::default(), 1);
        engine.create_queue(create).await?;
    }
    let items = ["hello", "good evening", "goodbye"].map(|text| NewItem::plain("default", text.into()));
    let produced = engine.produce(&queue, items.to_vec()).await?;
    println!("produced {} items, durable as commit {}", produced.results.len(), produced.commits[0].sequence);

    let lease =
        LeaseItems { client_id: "me".into(), batch_size: 2, lease_timeout: None, filter: Filter::ANY };
    for item in engine.lease(&queue, lease, Span::from_secs(1)).await?.accept() {
        println!("working on {} ({})", item.leased.id, String::from_utf8_lossy(&item.body));
        let judged = engine.complete(&queue, vec![Completion { held: item.held(), result: None }]).await?;
        judged.results.into_iter().collect::<Result<Vec<()>, _>>()?;
    }
    engine.close().await;

    let engine = open(&directory).await?;
    println!("after a restart {} still wait", engine.stats(&queue).await?.counts.waiting);
    engine.close().await;
    Ok(())
}

async fn open(directory: &Path) -> Result<Engine, Box<dyn Error>> {
    let env = Arc::new(TokioEnv::new());
    let disk = Arc::new(RealDisk::new(directory)?);
    let store = LogStore::open(env.clone(), disk, LogOptions::default()).await?;
    Ok(Engine::open(env, Arc::new(store)).await?)
}
