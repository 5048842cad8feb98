//! [`Grant`]: leased items with their bodies, on their way to a worker.

use bytes::Bytes;
use windlass_core::verbs::{Held, Leased};

use crate::commit::Commit;
use crate::partition::grant::GrantPart;

/// A leased item with its bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub leased: Leased,
    /// The answer that the item was resumed with.
    pub input: Option<Bytes>,
    pub body: Bytes,
}

impl Granted {
    pub fn held(&self) -> Held {
        self.leased.held()
    }
}

/// Leased items on their way to a worker. A `Grant` that is dropped without [`Grant::accept`] gives its items back
/// uncharged: the caller accepts once the answer is written.
#[derive(Debug, Default)]
pub struct Grant {
    pub(super) items: Vec<Granted>,
    pub(super) parts: Vec<GrantPart>,
}

impl Grant {
    pub fn items(&self) -> &[Granted] {
        &self.items
    }

    pub fn commits(&self) -> Vec<Commit> {
        self.parts.iter().map(GrantPart::commit).collect()
    }

    pub fn accept(self) -> Vec<Granted> {
        Delivery { parts: self.parts }.accept();
        self.items
    }

    /// Drops the items and keeps their leases, for a caller whose answer is made but not written yet.
    pub fn into_delivery(self) -> Delivery {
        Delivery { parts: self.parts }
    }
}

/// The leases of a [`Grant`] without the items' bodies. A `Delivery` that is dropped without [`Delivery::accept`] gives them
/// back uncharged.
#[derive(Debug, Default)]
pub struct Delivery {
    parts: Vec<GrantPart>,
}

impl Delivery {
    pub fn accept(mut self) {
        self.parts.iter_mut().for_each(GrantPart::accept);
    }
}
