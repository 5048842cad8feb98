//! The bare loop: the very bytes that the engine writes for a produce, a lease and a complete of one batch, each
//! written and synced, over blocks written beforehand. Nothing that keeps the same promise on the same disk with one
//! caller at a time can be faster.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use windlass_engine::store::log::LogOptions;

use crate::load::{Bed, complete, lease, new_items};

const FILE_BYTES: u64 = 32 << 20;

pub(crate) struct BareLoop {
    file: File,
    offset: u64,
    /// What one cycle of a batch writes.
    writes: [Vec<u8>; 3],
    batch: usize,
}

impl BareLoop {
    pub(crate) fn new(batch: usize) -> Self {
        let mut file = tempfile::tempfile().expect("a temporary file");
        for _ in 0..FILE_BYTES >> 20 {
            file.write_all(&vec![0; 1 << 20]).expect("written beforehand");
        }
        file.sync_all().expect("synced beforehand");
        Self { file, offset: 0, writes: record_cycle(batch), batch }
    }

    pub(crate) fn cycles_per_second(&mut self, time: Duration) -> f64 {
        let started = Instant::now();
        let mut cycles = 0;
        while started.elapsed() < time {
            for bytes in &self.writes {
                if self.offset + bytes.len() as u64 > FILE_BYTES {
                    self.offset = 0;
                }
                self.file.write_all_at(bytes, self.offset).expect("written");
                self.file.sync_data().expect("synced");
                self.offset += bytes.len() as u64;
            }
            cycles += self.batch;
        }
        cycles as f64 / started.elapsed().as_secs_f64()
    }

    pub(crate) fn bytes_per_cycle(&self) -> f64 {
        self.writes.iter().map(Vec::len).sum::<usize>() as f64 / self.batch as f64
    }
}

/// Lets the engine do one cycle on a log of its own, and takes what each step wrote from the segment.
fn record_cycle(batch: usize) -> [Vec<u8>; 3] {
    let bed = Bed::new(LogOptions::default());
    let (engine, queue) = (&bed.engine, &bed.queue);
    let written = || engine.store_stats().bytes_written as usize;
    let started = written();
    let [produced, leased, completed] = bed.runtime.block_on(async {
        engine.produce(queue, new_items(batch, 0)).await.expect("produced");
        let produced = written();
        let items = lease(engine, queue, batch).await;
        let leased = written();
        complete(engine, queue, &items).await;
        [produced, leased, written()]
    });
    let segment = segment_bytes(bed.directory.path());
    bed.close();
    // The segment ends where the last step did, up to some zeros that the trimming took along.
    let mut tail = segment[segment.len().saturating_sub(completed - started)..].to_vec();
    tail.resize(completed - started, 0);
    let complete = tail.split_off(leased - started);
    let lease = tail.split_off(produced - started);
    [tail, lease, complete]
}

/// What has been written to the only segment in use, without the zeros behind it.
fn segment_bytes(directory: &Path) -> Vec<u8> {
    let segments = std::fs::read_dir(directory).expect("the directory").filter_map(|entry| {
        let path = entry.expect("an entry").path();
        (path.extension()? == "seg").then(|| std::fs::read(path).expect("a segment"))
    });
    let used = segments.map(|bytes| {
        let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes[..length].to_vec()
    });
    used.max_by_key(Vec::len).expect("a segment in use")
}
