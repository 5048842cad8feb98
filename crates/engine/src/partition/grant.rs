//! Leases on their way to a worker.

use std::sync::Arc;

use windlass_core::verbs::{Held, Leased};

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

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    pub(crate) fn held(&self) -> Vec<Held> {
        self.items.iter().map(held).collect()
    }

    /// Takes the leases out that are chosen.
    pub(crate) fn split(&mut self, chosen: impl Fn(&Leased) -> bool) -> Self {
        let items = self.items.extract_if(.., |item| chosen(item)).collect();
        Self { handle: Arc::clone(&self.handle), items, sequence: self.sequence }
    }

    /// Keeps the first `kept`, and gives the others back.
    pub(crate) fn give_back_after(&mut self, kept: usize) {
        if kept < self.items.len() {
            let rest = self.items.split_off(kept);
            self.handle.give_back(rest.iter().map(held));
        }
    }

    /// The answer is delivered: nothing is to be given back any more.
    pub(crate) fn accept(&mut self) {
        self.items.clear();
    }
}

impl Drop for GrantPart {
    fn drop(&mut self) {
        if !self.items.is_empty() {
            self.handle.give_back(self.items.iter().map(held));
        }
    }
}

pub(super) fn held(item: &Leased) -> Held {
    Held { number: item.number, permit: item.permit }
}
