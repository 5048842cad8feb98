//! Full cycles per second against the bare loop.

use std::time::Duration;

use windlass_engine::store::log::LogOptions;

use crate::bare::BareLoop;
use crate::load::{Bed, median};

/// Short runs, taken in turns: a disk in a cloud has a budget, and both must meet the same mood of it.
const RUNS: usize = 5;

/// Without callers: the whole table.
pub(crate) fn run(milliseconds: u64, callers: usize, batch: usize) {
    let time = Duration::from_millis(milliseconds);
    println!(
        "full cycles/s (produce, lease, complete), medians of {RUNS} interleaved runs of {milliseconds} ms each\n"
    );
    println!(
        "{:>7} {:>6} {:>12} {:>12} {:>7}   bytes/cycle",
        "callers", "batch", "bare loop", "engine", "ratio"
    );
    if callers > 0 {
        return line(callers, batch, time);
    }
    for callers in [1, 16] {
        for batch in [1, 10, 100, 1000] {
            line(callers, batch, time);
        }
    }
}

fn line(callers: usize, batch: usize, time: Duration) {
    let bed = Bed::new(LogOptions::default());
    let mut bare = BareLoop::new(batch);
    let (mut bare_runs, mut engine_runs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let bare = bare.cycles_per_second(time);
        let engine = bed.cycles_per_second(callers, batch, time);
        bare_runs.push(bare);
        engine_runs.push(engine);
        ratios.push(engine / bare);
    }
    println!(
        "{callers:>7} {batch:>6} {:>12.0} {:>12.0} {:>7.2}   {:.0}",
        median(bare_runs),
        median(engine_runs),
        median(ratios),
        bare.bytes_per_cycle()
    );
    bed.close();
}
