//! What queues that stand idle cost: to make another one beside them, and to open them all.

use std::time::Instant;

use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::verbs::CreateQueue;
use windlass_engine::Engine;
use windlass_engine::store::log::LogOptions;

use crate::load::{open, runtime};

/// Queues that are made for one figure.
const SAMPLE: u64 = 100;

pub(crate) fn run(queues: u64) {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let runtime = runtime();
    let engine = runtime.block_on(open(directory.path(), LogOptions::default()));
    let first = runtime.block_on(create(&engine, 0, SAMPLE));
    runtime.block_on(create(&engine, SAMPLE, queues));
    let last = runtime.block_on(create(&engine, queues, queues + SAMPLE));
    println!("a create beside none: {first:.2} ms, beside {queues}: {last:.2} ms ({:.2})", last / first);
    runtime.block_on(engine.close());
    drop(runtime);
    let runtime = crate::load::runtime();
    let started = Instant::now();
    let engine = runtime.block_on(open(directory.path(), LogOptions::default()));
    println!("open {} queues: {:.2} s", queues + SAMPLE, started.elapsed().as_secs_f64());
    assert_eq!(engine.queues().len() as u64, queues + SAMPLE, "every queue is there again");
    runtime.block_on(engine.close());
}

/// Milliseconds for each queue.
async fn create(engine: &Engine, from: u64, to: u64) -> f64 {
    let started = Instant::now();
    for index in from..to {
        let name = QueueName { namespace: "default".into(), name: format!("queue-{index}").into() };
        let create = CreateQueue::new(name, Settings::default(), 1);
        engine.create_queue(create).await.expect("the queue is made");
    }
    started.elapsed().as_secs_f64() * 1000.0 / (to - from) as f64
}
