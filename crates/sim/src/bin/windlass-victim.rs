//! A busy process made to be killed: it works a queue on a real log and says on standard output, line by line, what
//! was acknowledged. `tests/it/killed.rs` kills it and holds the log to its word.
//!
//! Lines: `produced P N BODY`, `leased P N PERMIT`, `ending P N PERMIT` (before a completion or release is sent),
//! `completed P N PERMIT`, `released P N PERMIT`; P is the partition, N the item's number. `acknowledged` follows the
//! lines of each call that was answered.

#![expect(clippy::disallowed_methods, reason = "it runs in the real world, on the runtime's own tasks")]

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use windlass_core::command::{CreateQueue, Filter, LeaseItems, NewItem};
use windlass_core::id::ItemId;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::{Engine, Granted};

const CALLERS: u64 = 8;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let directory = std::env::args().nth(1).expect("usage: windlass-victim DIRECTORY");
    let engine = open(Path::new(&directory)).await;
    let queue = QueueName { namespace: "default".into(), name: "q".into() };
    if engine.queues().is_empty() {
        let settings =
            Settings { lease_timeout: Span::from_secs(3600), max_attempts: 0, ..Settings::default() };
        let create = CreateQueue { name: queue.clone(), settings, partitions: 2 };
        engine.create_queue(create).await.expect("the queue is made");
    }
    let bodies = Arc::new(AtomicU64::new(u64::from(std::process::id()) << 32));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let caller = Caller {
                engine: engine.clone(),
                queue: queue.clone(),
                bodies: Arc::clone(&bodies),
                held: Vec::new(),
            };
            tokio::spawn(caller.work())
        })
        .collect();
    for caller in callers {
        caller.await.expect("callers go on until the process is killed");
    }
}

async fn open(directory: &Path) -> Engine {
    let env = Arc::new(TokioEnv::new());
    let disk = Arc::new(RealDisk::new(directory).expect("the directory"));
    // Small segments, so that they are reused, compacted and covered by snapshots while we watch.
    let options =
        LogOptions { segment_bytes: 256 << 10, snapshot_min_bytes: 256 << 10, ..LogOptions::default() };
    let store = LogStore::open(env.clone(), disk, options).await.expect("the log opens");
    Engine::open(env, Arc::new(store)).await.expect("the engine opens")
}

struct Caller {
    engine: Engine,
    queue: QueueName,
    bodies: Arc<AtomicU64>,
    held: Vec<Granted>,
}

impl Caller {
    async fn work(mut self) {
        for round in 0.. {
            self.produce(1 + round % 7).await;
            self.lease(4).await;
            // Some leases are always open when the end comes.
            while self.held.len() > 6 {
                let item = self.held.remove(0);
                if round % 5 == 0 { self.release(item).await } else { self.complete(item).await }
            }
        }
    }

    async fn produce(&self, count: u64) {
        let items: Vec<NewItem> = (0..count).map(|_| self.item()).collect();
        let bodies: Vec<Bytes> = items.iter().map(|item| item.body.clone()).collect();
        let produced = self.engine.produce(&self.queue, items).await.expect("produced");
        for (made, body) in produced.results.iter().zip(bodies) {
            let made = made.as_ref().expect("nothing stands against a single item");
            say("produced", made.id, std::str::from_utf8(&body).expect("our own text"));
        }
        say_line("acknowledged\n");
    }

    fn item(&self) -> NewItem {
        let number = self.bodies.fetch_add(1, Ordering::Relaxed);
        let body = format!("{number:020}{}", "x".repeat((number % 300) as usize));
        NewItem::plain("default", body.into())
    }

    async fn lease(&mut self, batch_size: usize) {
        let lease =
            LeaseItems { client_id: "victim".into(), batch_size, lease_timeout: None, filter: Filter::ANY };
        let grant =
            self.engine.lease(&self.queue, lease, Span::from_secs(60)).await.expect("leased").accept();
        for item in grant {
            say("leased", item.id, &item.permit.0.to_string());
            self.held.push(item);
        }
        say_line("acknowledged\n");
    }

    async fn complete(&self, item: Granted) {
        say("ending", item.id, &item.permit.0.to_string());
        let judged =
            self.engine.complete(&self.queue, vec![(item.id, item.permit, None)]).await.expect("judged");
        assert!(judged.results[0].is_ok(), "the holder completes");
        say("completed", item.id, &item.permit.0.to_string());
        say_line("acknowledged\n");
    }

    async fn release(&self, item: Granted) {
        say("ending", item.id, &item.permit.0.to_string());
        let judged = self.engine.release(&self.queue, vec![(item.id, item.permit)]).await.expect("judged");
        assert!(judged.results[0].is_ok(), "the holder releases");
        say("released", item.id, &item.permit.0.to_string());
        say_line("acknowledged\n");
    }
}

fn say(what: &str, id: ItemId, more: &str) {
    say_line(&format!("{what} {} {} {more}\n", id.partition.0, id.number.0));
}

/// One whole line at once: what stands on the pipe was acknowledged, whatever comes after.
fn say_line(line: &str) {
    std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent listens");
}
