//! Whether a million waiting items make the next one slower.

use std::time::Duration;

use windlass_core::verbs::{Filter, NewItem};
use windlass_engine::store::log::LogOptions;

use crate::load::{Bed, cycle, lease_of, median, new_items, release};

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

/// No snapshots: one more or less between two counts would count for all the cycles together.
fn countable_bed() -> Bed {
    Bed::new(LogOptions { snapshot_min_bytes: u64::MAX, ..LogOptions::default() })
}

/// A fixed number of cycles after a fixed backlog. Two counts that differ only in `cycles` tell what one costs.
pub(crate) fn fixed_work(backlog: u64, cycles: u64) {
    let bed = countable_bed();
    bed.fill(backlog);
    bed.runtime.block_on(async {
        for _ in 0..cycles {
            cycle(&bed.engine, &bed.queue, 10).await;
        }
    });
    bed.close();
}

/// A fixed number of leases of one kind in a fixed backlog, in whose middle one item is rare.
pub(crate) fn fixed_leases(kind: &str, backlog: u64, leases: u64) {
    let bed = countable_bed();
    let filter = Filter::new(Some(vec![kind.into()]), u8::MAX);
    bed.fill(backlog / 2);
    bed.runtime.block_on(async {
        let rare = new_items(1, 0).into_iter().map(|item| NewItem { kind: "rare".into(), ..item });
        bed.engine.produce(&bed.queue, rare.collect()).await.expect("produced");
    });
    bed.fill(backlog / 2);
    bed.runtime.block_on(async {
        for _ in 0..leases {
            let leased = lease_of(&bed.engine, &bed.queue, 1, filter.clone()).await;
            release(&bed.engine, &bed.queue, &leased).await;
        }
    });
    bed.close();
}

/// A fixed number of produces, each of which serves a lease that waits for its kind, beside leases of so many other kinds.
pub(crate) fn fixed_waiting(kinds: u64, produces: u64) {
    let bed = countable_bed();
    let _guard = bed.runtime.enter();
    let others: Vec<_> = (0..kinds).map(|kind| bed.waiting_lease(format!("other-{kind}"))).collect();
    let filter = Filter::new(Some(vec!["default".into()]), u8::MAX);
    bed.runtime.block_on(async {
        bed.wait_for_leases(kinds as usize).await;
        for _ in 0..produces {
            // The lease is polled first, and finds nothing: it waits by the time something is produced.
            let lease = lease_of(&bed.engine, &bed.queue, 1, filter.clone());
            let (leased, _) = tokio::join!(lease, bed.engine.produce(&bed.queue, new_items(1, 0)));
            assert_eq!(leased.len(), 1, "the lease is served");
        }
    });
    others.iter().for_each(tokio::task::JoinHandle::abort);
    bed.close();
}
