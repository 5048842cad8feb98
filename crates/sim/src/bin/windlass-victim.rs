//! `windlass-victim DIRECTORY…`: a busy process made to be killed. It works a queue on real logs, one for each directory,
//! and says on standard output, line by line, what was acknowledged. `tests/it/killed/` kills it, or cuts the power of
//! its disks, and holds the logs to its word.
//!
//! Lines: `produced P N BODY`, `leased P N PERMIT`, `ending P N PERMIT` (before a completion, release or giving up is
//! sent), `completed P N PERMIT`, `released P N PERMIT`, `gave-up P N PERMIT`; P is the partition, N the item's number.
//! `acknowledged` follows the lines of each call that was answered, `refused` stands for a call that was not done or
//! whose outcome is unknown.

#![expect(clippy::disallowed_methods, reason = "it runs in the real world, on the runtime's own tasks")]

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use windlass_core::id::ItemId;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, Filter, LeaseItems, NewItem};
use windlass_engine::{Engine, EngineError, Granted, Judged, RetryItem};
use windlass_sim::victim::{DEAD, WORKED, open, queue};

const CALLERS: u64 = 8;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let directories: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    assert!(!directories.is_empty(), "usage: windlass-victim DIRECTORY…");
    let engine = open(&directories).await;
    create_missing_queues(&engine, 2 * directories.len() as u32).await;
    // Process ids come again: the time of the start does not.
    let started = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let bodies = Arc::new(AtomicU64::new(started.as_nanos() as u64));
    let caller = |_| {
        let caller = Caller {
            engine: engine.clone(),
            queue: queue(WORKED),
            bodies: Arc::clone(&bodies),
            held: Vec::new(),
        };
        tokio::spawn(caller.work())
    };
    let callers: Vec<_> = (0..CALLERS).map(caller).collect();
    for caller in callers {
        caller.await.expect("callers go on until the process is killed");
    }
}

/// A process that was killed early may have made only one of them.
async fn create_missing_queues(engine: &Engine, partitions: u32) {
    let settings = Settings { lease_timeout: Span::from_secs(3600), max_attempts: 0, ..Settings::default() };
    let worked = Settings { dead_queue: Some(DEAD.into()), ..settings.clone() };
    for (name, settings) in [(WORKED, worked), (DEAD, settings)] {
        let name = queue(name);
        if engine.queue_info(&name).is_none() {
            let create = CreateQueue::new(name, settings, partitions);
            engine.create_queue(create).await.expect("the queue is made");
        }
    }
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
            while self.held.len() > 3 {
                let item = self.held.remove(0);
                match item.id.number.0 % 5 {
                    0 => self.release(item).await,
                    1 => self.give_up(item).await,
                    _ => self.complete(item).await,
                }
            }
        }
    }

    async fn produce(&self, count: u64) {
        let items: Vec<NewItem> = (0..count).map(|_| self.item()).collect();
        let bodies: Vec<Bytes> = items.iter().map(|item| item.body.clone()).collect();
        let Some(produced) = answered(self.engine.produce(&self.queue, items).await) else { return };
        for (made, body) in produced.results.into_iter().zip(bodies) {
            let Some(made) = answered(made) else { continue };
            say("produced", made.id, std::str::from_utf8(&body).expect("our own text"));
        }
        say_line("acknowledged\n");
    }

    fn item(&self) -> NewItem {
        let number = self.bodies.fetch_add(1, Ordering::Relaxed);
        // A few large ones, so that a segment is full after some hundred calls.
        let length = if number.is_multiple_of(16) { 8_000 } else { number % 300 };
        let body = format!("{number:020}{}", "x".repeat(length as usize));
        NewItem::plain("default", body.into())
    }

    async fn lease(&mut self, batch_size: usize) {
        let lease =
            LeaseItems { client_id: "victim".into(), batch_size, lease_timeout: None, filter: Filter::ANY };
        let leased = self.engine.lease(&self.queue, lease, Span::from_secs(60)).await;
        let Some(grant) = answered(leased) else { return };
        for item in grant.accept() {
            say("leased", item.id, &item.permit.0.to_string());
            self.held.push(item);
        }
        say_line("acknowledged\n");
    }

    async fn complete(&self, item: Granted) {
        say("ending", item.id, &item.permit.0.to_string());
        let judged = self.engine.complete(&self.queue, vec![(item.id, item.permit, None)]).await;
        said("completed", &item, judged);
    }

    async fn release(&self, item: Granted) {
        say("ending", item.id, &item.permit.0.to_string());
        let judged = self.engine.release(&self.queue, vec![(item.id, item.permit)]).await;
        said("released", &item, judged);
    }

    /// The item goes to the dead queue.
    async fn give_up(&self, item: Granted) {
        say("ending", item.id, &item.permit.0.to_string());
        let retry = RetryItem {
            id: item.id,
            permit: item.permit,
            retry_at: None,
            delay: None,
            dead: true,
            error: None,
        };
        let judged = self.engine.retry(&self.queue, vec![retry]).await;
        said("gave-up", &item, judged);
    }
}

fn said<T>(what: &str, item: &Granted, judged: Result<Judged<T>, EngineError>) {
    let Some(mut judged) = answered(judged) else { return };
    if answered(judged.results.remove(0)).is_some() {
        say(what, item.id, &item.permit.0.to_string());
        say_line("acknowledged\n");
    }
}

/// On a full or failing disk a call may be refused: the caller goes on with another.
fn answered<T>(answer: Result<T, EngineError>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(EngineError::Unavailable { .. } | EngineError::Overloaded { .. }) => {
            say_line("refused\n");
            None
        }
        Err(error) => panic!("a call that cannot be wrong was answered {error}"),
    }
}

fn say(what: &str, id: ItemId, more: &str) {
    say_line(&format!("{what} {} {} {more}\n", id.partition.0, id.number.0));
}

/// One whole line at once: what stands on the pipe was acknowledged, whatever comes after.
fn say_line(line: &str) {
    std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent listens");
}
