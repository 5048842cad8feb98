//! A bound on the memory of the process: what makes it grow is refused before the kernel ends the server.
//!
//! The figure is the memory that the process takes up as the system counts it, because that is what the system ends
//! a process for. A sum of what the engine keeps would leave out buffers, connections and what the allocator holds on to.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::env::Env;
use crate::error::EngineError;
use crate::lock::lock;

/// The reading is taken when something is produced, and no more often than this: no produce waits for the system.
const READ_EVERY: Duration = Duration::from_secs(1);

/// How much memory the process may take up, and how much it does: `None` where the system does not tell.
#[derive(Clone)]
pub struct MemoryLimit {
    pub bytes_max: u64,
    pub bytes_now: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
}

impl fmt::Debug for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLimit").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

/// For metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStats {
    pub bytes_max: u64,
    /// Calls that were refused since the engine was opened.
    pub refused: u64,
}

#[derive(Debug)]
pub(crate) struct Memory {
    env: Arc<dyn Env>,
    limit: Option<MemoryLimit>,
    last: Mutex<Option<Reading>>,
    refused: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    /// On the boot clock.
    at: Duration,
    bytes: Option<u64>,
}

impl Memory {
    pub(crate) fn new(env: Arc<dyn Env>, limit: Option<MemoryLimit>) -> Self {
        Self { env, limit, last: Mutex::default(), refused: AtomicU64::new(0) }
    }

    pub(crate) fn stats(&self) -> Option<MemoryStats> {
        let bytes_max = self.limit.as_ref()?.bytes_max;
        Some(MemoryStats { bytes_max, refused: self.refused.load(Ordering::Relaxed) })
    }

    /// To be asked before anything is taken in that makes the process grow.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let Some(limit) = &self.limit else { return Ok(()) };
        match self.bytes(limit) {
            Some(bytes) if bytes > limit.bytes_max => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(EngineError::OutOfMemory { bytes, max: limit.bytes_max })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn bytes(&self, limit: &MemoryLimit) -> Option<u64> {
        let now = self.env.boot();
        let mut last = lock(&self.last);
        match *last {
            Some(reading) if now < reading.at + READ_EVERY => reading.bytes,
            Some(_) | None => last.insert(Reading { at: now, bytes: (limit.bytes_now)() }).bytes,
        }
    }
}
