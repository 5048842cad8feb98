//! Whether a million waiting items make the next one slower.

use std::time::Duration;

use windlass_engine::store::log::LogOptions;

use crate::load::{Bed, cycle, median};

const RUNS: usize = 5;
const RUN_TIME: Duration = Duration::from_millis(500);

pub(crate) fn run(items: u64) {
    println!("full cycles/s with {items} items waiting against none, medians of {RUNS} interleaved runs\n");
    println!("{:>7} {:>6} {:>12} {:>12} {:>7}", "callers", "batch", "none", "backlog", "ratio");
    let (empty, full) = (Bed::new(LogOptions::default()), Bed::new(LogOptions::default()));
    full.fill(items);
    for (callers, batch) in [(1, 1), (16, 1), (16, 10), (16, 100), (16, 1000)] {
        let (mut none, mut backlog, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let a = empty.cycles_per_second(callers, batch, RUN_TIME);
            let b = full.cycles_per_second(callers, batch, RUN_TIME);
            none.push(a);
            backlog.push(b);
            ratios.push(b / a);
        }
        println!(
            "{callers:>7} {batch:>6} {:>12.0} {:>12.0} {:>7.2}",
            median(none),
            median(backlog),
            median(ratios)
        );
    }
    empty.close();
    full.close();
}

/// A fixed number of cycles after a fixed backlog. Two counts that differ only in `cycles` tell what one costs. No
/// snapshots: one more or less between the two would count for all the cycles together.
pub(crate) fn fixed_work(backlog: u64, cycles: u64) {
    let bed = Bed::new(LogOptions { snapshot_min_bytes: u64::MAX, ..LogOptions::default() });
    bed.fill(backlog);
    bed.runtime.block_on(async {
        for _ in 0..cycles {
            cycle(&bed.engine, &bed.queue, 10).await;
        }
    });
    bed.close();
}
