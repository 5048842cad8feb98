//! What callers of the engine give and get, where the core has no word for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::id::{ItemId, PartitionId, Permit};
use windlass_core::item::{Item, ItemError, Phase};
use windlass_core::partition::Counts;
use windlass_core::time::Timestamp;

use crate::error::EngineError;
use crate::partition::handle::{GrantPart, PartitionState};

/// The place of a change in the order in which its partition committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    pub partition: PartitionId,
    pub sequence: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducedItems {
    /// In the order given.
    pub items: Vec<(ItemId, Phase)>,
    pub commit: Commit,
}

/// What became of a call that judges each item by itself.
#[derive(Clone, Debug)]
pub struct Judged<T> {
    /// In the order given.
    pub results: Vec<Result<T, EngineError>>,
    pub commits: Vec<Commit>,
}

#[derive(Clone, Debug)]
pub struct RetryItem {
    pub id: ItemId,
    pub permit: Permit,
    pub retry_at: Option<Timestamp>,
    pub dead: bool,
    pub error: Option<ItemError>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub id: ItemId,
    pub permit: Permit,
    pub kind: Arc<str>,
    pub priority: u8,
    /// This one included.
    pub attempts: u32,
    pub deadline: Timestamp,
    pub created_at: Timestamp,
    pub body: Bytes,
}

/// Leased items on their way to a worker. Dropped without [`Grant::accept`], they are given back uncharged: whoever
/// writes the answer accepts once it is written.
#[derive(Debug, Default)]
pub struct Grant {
    pub(crate) items: Vec<Granted>,
    pub(crate) parts: Vec<GrantPart>,
}

impl Grant {
    pub fn items(&self) -> &[Granted] {
        &self.items
    }

    pub fn commits(&self) -> Vec<Commit> {
        self.parts.iter().map(GrantPart::commit).collect()
    }

    pub fn accept(mut self) -> Vec<Granted> {
        self.parts.iter_mut().for_each(GrantPart::accept);
        self.items
    }
}

#[derive(Clone, Debug)]
pub struct ItemView {
    pub item: Item,
    pub payload: Option<Bytes>,
    pub result: Option<Bytes>,
}

#[derive(Clone, Debug, Default)]
pub struct QueueStats {
    pub counts: Counts,
    pub kinds: BTreeMap<Arc<str>, Counts>,
    /// How many wait, by priority.
    pub priorities: BTreeMap<u8, u64>,
    pub retained: u64,
    pub oldest_waiting: Option<Timestamp>,
    pub lease_waiters: usize,
    pub partitions: Vec<PartitionStats>,
}

#[derive(Clone, Debug)]
pub struct PartitionStats {
    pub partition: PartitionId,
    pub state: PartitionState,
    pub counts: Counts,
}
