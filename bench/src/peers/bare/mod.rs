//! The bare loop: threads that only append bytes to one file and sync it. The floor, and not a peer.

mod file;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::Result;

pub(crate) use self::file::SyncedFile;

/// Bytes that a lease or a complete appends for an item, and a produce at least.
const STEP_BYTES: usize = 200;
const FILE: &str = "appended";
/// Twice what 64 clients write at once in batches of 1000 and payloads of 4 KiB.
const FILE_MIB: usize = 512;

/// The threads of the bare loop. Dropping `Loops` ends them.
#[derive(Debug)]
pub(crate) struct Loops {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The file of the bare loop, made anew.
pub(crate) fn file(directory: &Path) -> Result<Arc<SyncedFile>> {
    Ok(Arc::new(SyncedFile::create(&directory.join(FILE), FILE_MIB)?))
}

/// Starts as many threads as clients; each counts the items of its steps, three steps to a cycle.
pub(crate) fn start(
    file: &Arc<SyncedFile>,
    clients: usize,
    batch: usize,
    payload: usize,
    steps: &Arc<AtomicU64>,
) -> Loops {
    let stop = Arc::new(AtomicBool::new(false));
    let thread = |_| {
        let (file, steps, stop) = (file.clone(), steps.clone(), stop.clone());
        std::thread::spawn(move || turn(&file, batch, payload, &steps, &stop))
    };
    Loops { threads: (0..clients).map(thread).collect(), stop }
}

/// A write that fails ends the thread, and shows as a loop that does nothing.
fn turn(file: &SyncedFile, batch: usize, payload: usize, steps: &AtomicU64, stop: &AtomicBool) {
    let produced = vec![b'x'; batch * payload.max(STEP_BYTES)];
    let moved = vec![b'x'; batch * STEP_BYTES];
    while !stop.load(Ordering::Relaxed) {
        for bytes in [&produced, &moved, &moved] {
            if file.append(bytes).is_err() {
                return;
            }
            steps.fetch_add(batch as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}
