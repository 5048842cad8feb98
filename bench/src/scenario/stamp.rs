//! Moments as the numbers of payloads, so that a worker can tell how old an item is.

use std::sync::LazyLock;
use std::time::Instant;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since this process first asked.
pub(crate) fn now() -> u64 {
    ORIGIN.elapsed().as_nanos() as u64
}

/// Milliseconds since a stamp.
pub(crate) fn millis_since(stamp: u64) -> f64 {
    now().saturating_sub(stamp) as f64 / 1e6
}
