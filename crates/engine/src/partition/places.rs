//! The places of a queue, of which `max_items` says how many there are: each item that is not final has one, and each
//! that is on its way into the queue. A place is taken before a produce is sent and goes with it through mailbox and
//! commit, so that however it ends the place is filled or free again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::EngineError;

#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: AtomicU64,
}

impl Places {
    /// Takes places for all of the items or none. `max` 0: there is no end of them.
    pub(crate) fn reserve(self: &Arc<Self>, items: usize, max: u64) -> Result<Reserved, EngineError> {
        let items = items as u64;
        // Nothing at all always fits, also where the limit was lowered below what is there.
        let fits = |sum: u64| max == 0 || items == 0 || sum <= max;
        let with_them = |taken: u64| taken.checked_add(items).filter(|sum| fits(*sum));
        let reserved = self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, with_them);
        reserved.map_err(|_taken| full(max))?;
        Ok(Reserved { places: Arc::clone(self), items })
    }

    /// As many as are free now, to be counted down without being taken.
    pub(crate) fn left(&self, max: u64) -> Room {
        let taken = self.taken.load(Ordering::SeqCst);
        Room { max, left: if max == 0 { u64::MAX } else { max.saturating_sub(taken) } }
    }
}

fn full(max: u64) -> EngineError {
    EngineError::Overloaded {
        what: "items that are not final in the queue, by its `max_items`",
        max: usize::try_from(max).unwrap_or(usize::MAX),
    }
}

/// How many items more a queue would take.
#[derive(Debug)]
pub(crate) struct Room {
    max: u64,
    left: u64,
}

impl Room {
    /// Counts one item, as [`Places::reserve`] would.
    pub(crate) fn take(&mut self) -> Result<(), EngineError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| full(self.max))?;
        Ok(())
    }
}

/// Places for items on their way. Dropped, they are free again.
#[derive(Debug)]
pub(crate) struct Reserved {
    places: Arc<Places>,
    items: u64,
}

impl Reserved {
    /// Takes some of them for items that go another way.
    pub(crate) fn split(&mut self, items: usize) -> Self {
        let items = (items as u64).min(self.items);
        self.items -= items;
        Self { places: Arc::clone(&self.places), items }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.places.taken.fetch_sub(self.items, Ordering::SeqCst);
    }
}

/// The places that one partition's items fill. While it is faulty, as far as was known.
#[derive(Debug)]
pub(crate) struct Filled {
    places: Arc<Places>,
    items: AtomicU64,
}

impl Filled {
    pub(crate) fn new(places: Arc<Places>) -> Self {
        Self { places, items: AtomicU64::new(0) }
    }

    /// The items have arrived.
    pub(crate) fn fill(&self, mut reserved: Reserved) {
        self.items.fetch_add(std::mem::take(&mut reserved.items), Ordering::SeqCst);
    }

    /// Says how many there are by now.
    pub(crate) fn set(&self, items: u64) {
        let before = self.items.swap(items, Ordering::SeqCst);
        if items >= before {
            self.places.taken.fetch_add(items - before, Ordering::SeqCst);
        } else {
            self.places.taken.fetch_sub(before - items, Ordering::SeqCst);
        }
    }
}
