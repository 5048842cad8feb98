//! Leases on their way to a worker.

use std::sync::Arc;

use windlass_core::command::{Held, Leased};

use crate::partition::handle::Handle;
use crate::types::Commit;

/// Leases granted by one partition. Whoever drops it without accepting gives the items back, uncharged: an answer
/// that cannot be delivered any more must not keep items from others.
#[derive(Debug)]
pub(crate) struct GrantPart {
    handle: Arc<Handle>,
    items: Vec<Leased>,
    sequence: u64,
}

impl GrantPart {
    pub(crate) fn new(handle: Arc<Handle>, items: Vec<Leased>, sequence: u64) -> Self {
        Self { handle, items, sequence }
    }

    pub(crate) fn commit(&self) -> Commit {
        Commit { partition: self.handle.id, sequence: self.sequence }
    }

    pub(crate) fn items(&self) -> &[Leased] {
        &self.items
    }

    /// The answer is delivered: nothing is to be given back any more.
    pub(crate) fn accept(&mut self) {
        self.items.clear();
    }
}

impl Drop for GrantPart {
    fn drop(&mut self) {
        if !self.items.is_empty() {
            let held = self.items.iter().map(|item| Held { number: item.number, permit: item.permit });
            self.handle.give_back(held);
        }
    }
}
