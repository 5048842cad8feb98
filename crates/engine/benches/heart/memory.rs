//! What a waiting item costs in memory, and what it costs at the next start.

use std::time::Instant;

use windlass_engine::store::log::LogOptions;

use crate::load::{Bed, open, runtime};

pub(crate) fn run(items: u64) {
    // Without a body cache: it has a bound of its own and would hide what an item costs.
    let options = || LogOptions { body_cache_bytes: 0, ..LogOptions::default() };
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

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("resident pages");
    pages * 4096
}
