//! [`SyncedFile`]: appended to by many threads, synced by one of them for all.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use anyhow::{Context, Result};

/// Zeros are written in pieces of so many bytes.
const PIECE_BYTES: usize = 1024 * 1024;

/// A file that is written over from its start when it is full: its blocks are there, so a sync is of data alone.
#[derive(Debug)]
pub(crate) struct SyncedFile {
    file: File,
    bytes: u64,
    end: AtomicU64,
    syncs: Mutex<Syncs>,
    synced: Condvar,
}

#[derive(Debug, Default)]
struct Syncs {
    /// Writes done so far.
    written: u64,
    /// Writes that the last sync covered.
    covered: u64,
    under_way: bool,
    failed: bool,
}

impl SyncedFile {
    /// Makes a file of `pieces` MiB of zeros.
    pub(crate) fn create(path: &Path, pieces: usize) -> Result<Self> {
        let mut file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        let zeros = vec![0; PIECE_BYTES];
        for _ in 0..pieces {
            file.write_all(&zeros).context("there is no room for the file of the bare loop")?;
        }
        file.sync_all()?;
        let bytes = (pieces * PIECE_BYTES) as u64;
        Ok(Self { file, bytes, end: AtomicU64::new(0), syncs: Mutex::default(), synced: Condvar::new() })
    }

    /// Appends `bytes`, and returns once a sync that began after the write is done.
    pub(crate) fn append(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all_at(bytes, self.room(bytes.len() as u64))?;
        let mut syncs = self.lock();
        syncs.written += 1;
        let mine = syncs.written;
        while syncs.covered < mine && !syncs.failed {
            syncs = if syncs.under_way {
                self.synced.wait(syncs).expect("no thread panics while it holds the lock")
            } else {
                self.sync(syncs)
            };
        }
        if syncs.failed { Err(std::io::Error::other("a sync failed")) } else { Ok(()) }
    }

    /// Syncs for everybody whose write is done, without the lock.
    fn sync<'a>(&'a self, mut syncs: MutexGuard<'a, Syncs>) -> MutexGuard<'a, Syncs> {
        let covers = syncs.written;
        syncs.under_way = true;
        drop(syncs);
        let done = self.file.sync_data();
        let mut syncs = self.lock();
        syncs.under_way = false;
        syncs.failed |= done.is_err();
        syncs.covered = covers;
        self.synced.notify_all();
        syncs
    }

    /// Where the next `length` bytes go.
    fn room(&self, length: u64) -> u64 {
        let at = self.end.fetch_add(length, Ordering::Relaxed) % self.bytes;
        at.min(self.bytes - length)
    }

    fn lock(&self) -> MutexGuard<'_, Syncs> {
        self.syncs.lock().expect("no thread panics while it holds the lock")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn every_append_of_many_threads_is_covered_by_a_sync() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = Arc::new(SyncedFile::create(&path, 1).unwrap());
        let threads: Vec<_> = (0..8_u8)
            .map(|thread| {
                let file = file.clone();
                std::thread::spawn(move || (0..20).for_each(|_| file.append(&[b'a' + thread; 10]).unwrap()))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let syncs = file.lock();
        assert_eq!((syncs.written, syncs.covered, syncs.under_way), (160, 160, false));
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), PIECE_BYTES);
        for thread in b'a'..b'a' + 8 {
            assert_eq!(bytes[..1600].iter().filter(|byte| **byte == thread).count(), 200);
        }
    }
}
