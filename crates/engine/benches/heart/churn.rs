//! How large the data directory grows while items come and go, without a restart.

use std::path::Path;

use windlass_engine::store::log::LogOptions;

use crate::load::{Bed, cycle, new_items};

const BATCH: u64 = 1000;

pub(crate) fn run(items: u64, kept: u64) {
    let bed = Bed::new(LogOptions::default());
    let (mut largest, mut live) = (0, 0);
    for round in 0..items / BATCH {
        bed.runtime.block_on(async {
            if let Some(stay) = BATCH.checked_div(kept) {
                // They go to the end of the line for good: a priority nobody gets to.
                bed.engine.produce(&bed.queue, new_items(stay as usize, 255)).await.expect("produced");
                live += stay;
            }
            cycle(&bed.engine, &bed.queue, BATCH as usize).await;
        });
        if round % 50 == 0 {
            largest = largest.max(directory_bytes(bed.directory.path()));
        }
        if round % 1000 == 0 {
            eprint!("\r{:>3} %  {:>5} MiB", round * BATCH * 100 / items, largest >> 20);
        }
    }
    largest = largest.max(directory_bytes(bed.directory.path()));
    eprintln!();
    let stats = bed.engine.store_stats();
    println!("{items} items came and went, {live} stayed: {stats:?}");
    println!("largest data directory seen: {} MiB", largest >> 20);
    println!("live bytes: {} MiB", stats.bytes_live >> 20);
    bed.close();
}

/// What the files take up on the disk.
fn directory_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(directory).expect("the directory");
    entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.blocks() * 512)).sum()
}
