//! Memory per waiting item and per retained outcome, before and after a restart.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use bytes::Bytes;
use windlass_core::item::ItemError;
use windlass_core::settings::{RetainPayload, Settings};
use windlass_core::verbs::{Completion, RetryItem};
use windlass_engine::store::log::LogOptions;
use windlass_engine::{EngineOptions, Granted};

use crate::load::{Bed, lease, new_items, open, runtime};

const BATCH: usize = 1000;
/// Items that leave nothing, before the first figure is taken.
const WARM_UP: u64 = 2_000_000;

/// Without a body cache: it has a bound of its own and would hide what an item costs.
fn options() -> LogOptions {
    LogOptions { body_cache_bytes: 0, ..LogOptions::default() }
}

pub(crate) fn run(items: u64) {
    let bed = Bed::new(options());
    bed.fill(1000);
    let before = resident_bytes();
    bed.fill(items);
    let grown = resident_bytes().saturating_sub(before);
    println!("memory per waiting item: {:.0} bytes ({items} items)", grown as f64 / items as f64);
    let Bed { runtime: old, engine, queue, directory } = bed;
    old.block_on(engine.close());
    let runtime = runtime();
    let started = Instant::now();
    let engine = runtime.block_on(open(directory.path(), options()));
    println!("start with {} live items: {:.2} s", items + 1000, started.elapsed().as_secs_f64());
    let waiting = runtime.block_on(engine.stats(&queue)).expect("stats").counts.waiting;
    assert_eq!(waiting, items + 1000, "every item is there again");
    runtime.block_on(engine.close());
}

/// Has a stream of items completed of which one in `one_in` leaves an outcome, and compares the memory that the outcomes
/// take with what they take in a process that has only read them from the log.
pub(crate) fn outcomes(outcomes: u64, one_in: u64) {
    let bed = Bed::new(options());
    // What the process takes for the stream itself is not the outcomes' cost.
    complete_some(&bed, WARM_UP, u64::MAX);
    let before = resident_bytes();
    complete_some(&bed, outcomes * one_in, one_in);
    let grown = resident_bytes().saturating_sub(before);
    let Bed { runtime: old, engine, queue, directory } = bed;
    let retained = old.block_on(engine.stats(&queue)).expect("stats").retained;
    old.block_on(engine.close());
    println!("{retained} outcomes retained, one of {one_in} items");
    println!("memory per outcome: {:.0} bytes", grown as f64 / outcomes as f64);
    let read = read_by_another_process(directory.path());
    println!("memory per outcome after a start: {:.0} bytes", read as f64 / outcomes as f64);
    println!("ratio: {:.2}", grown as f64 / read as f64);
}

fn complete_some(bed: &Bed, items: u64, one_in: u64) {
    let mut count = 0;
    bed.runtime.block_on(async {
        while count < items {
            bed.engine.produce(&bed.queue, new_items(BATCH, 0)).await.expect("produced");
            let leased = lease(&bed.engine, &bed.queue, BATCH).await;
            let mut outcome = || {
                count += 1;
                count.is_multiple_of(one_in).then(|| Bytes::from_static(b"done"))
            };
            let items =
                leased.iter().map(|item| Completion { held: item.held(), result: outcome() }).collect();
            let judged = bed.engine.complete(&bed.queue, items).await.expect("judged");
            assert!(judged.results.iter().all(Result::is_ok), "a completion was refused");
        }
    });
}

/// What an item takes that failed, with and without its payload, and how much of that is left in a process that has only read
/// it from the log.
pub(crate) fn failed(items: u64) {
    for retain_payload in [RetainPayload::Failed, RetainPayload::None] {
        let settings = Settings { retain_payload, ..Settings::default() };
        let bed = Bed::with(options(), EngineOptions::default(), settings);
        complete_some(&bed, WARM_UP, u64::MAX);
        let before = resident_bytes();
        fail(&bed, items);
        let grown = resident_bytes().saturating_sub(before);
        let Bed { runtime: old, engine, queue, directory } = bed;
        let retained = old.block_on(engine.stats(&queue)).expect("stats").retained;
        assert_eq!(retained, items, "every item is kept");
        old.block_on(engine.close());
        let read = read_by_another_process(directory.path());
        let each = |bytes: u64| bytes as f64 / items as f64;
        let (kept, now, later) = (retain_payload, each(grown), each(read));
        println!(
            "memory per failed item, retain_payload {kept:?}: {now:.0} bytes, after a start {later:.0} bytes"
        );
    }
}

/// Produces items and has them fail, each with an error.
pub(crate) fn fail(bed: &Bed, items: u64) {
    for first in (0..items).step_by(BATCH) {
        let batch = BATCH.min((items - first) as usize);
        bed.runtime.block_on(async {
            bed.engine.produce(&bed.queue, new_items(batch, 0)).await.expect("produced");
            let leased = lease(&bed.engine, &bed.queue, batch).await;
            let error = ItemError { code: Some("timeout".into()), message: "no answer".into() };
            let dead = |item: &Granted| RetryItem {
                held: item.held(),
                retry_at: None,
                delay: None,
                dead: true,
                error: Some(error.clone()),
            };
            let judged = bed.engine.retry(&bed.queue, leased.iter().map(dead).collect()).await;
            assert!(judged.expect("judged").results.iter().all(Result::is_ok), "a retry was refused");
        });
    }
}

/// What the memory of a new process grows by as it opens the directory.
fn read_by_another_process(directory: &Path) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).arg("opened").arg(directory).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of bytes")
}

/// Opens a directory and prints what the memory of this process grew by.
pub(crate) fn opened(directory: &str) {
    let runtime = runtime();
    let before = resident_bytes();
    let engine = runtime.block_on(open(Path::new(directory), options()));
    println!("{}", resident_bytes().saturating_sub(before));
    runtime.block_on(engine.close());
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("resident pages");
    pages * 4096
}
