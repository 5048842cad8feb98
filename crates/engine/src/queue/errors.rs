//! Error codes of the kept items of a queue: how many items have each, over all partitions.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::partition::{ErrorCode, Partition};
use windlass_core::time::Timestamp;

use super::QueueHandle;
use crate::error::EngineError;

/// How many kept items have an error of one code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorShare {
    /// Empty for errors without a code, which no worker can give; `other` for those that a partition does not tell apart, and for
    /// those of that code.
    pub code: Arc<str>,
    pub count: u64,
    /// The item that ended last of those that have it.
    pub latest: ItemId,
    pub latest_at: Timestamp,
    /// The error of the latest item.
    pub message: Arc<str>,
}

impl QueueHandle {
    /// A partition that `is_gone` is passed over.
    pub(crate) async fn errors(
        &self,
        limit: usize,
        is_gone: impl Fn(PartitionId) -> bool,
    ) -> Result<Vec<ErrorShare>, EngineError> {
        // All are asked before the first is waited for.
        let asked: Vec<_> =
            self.all().map(|handle| (handle, handle.ask(|partition, _| shares(partition)))).collect();
        let mut by_code: BTreeMap<Arc<str>, ErrorShare> = BTreeMap::new();
        for (handle, answer) in asked {
            let told = match answer {
                Ok(answer) => answer.await.map_err(|_dropped| handle.no_answer()),
                Err(error) => Err(error),
            };
            match told {
                Ok(told) => told.into_iter().for_each(|share| add(&mut by_code, share)),
                Err(EngineError::Unavailable { .. }) if is_gone(handle.id) => {}
                Err(error) => return Err(error),
            }
        }
        let mut shares: Vec<ErrorShare> = by_code.into_values().collect();
        shares.sort_by_key(|share| (Reverse(share.count), Arc::clone(&share.code)));
        shares.truncate(limit);
        Ok(shares)
    }
}

fn shares(partition: &Partition) -> Vec<ErrorShare> {
    let with_message = |ErrorCode { code, count, latest, latest_at }| {
        let extras = partition.get(latest).and_then(|item| item.extras);
        let message = extras.and_then(|extras| extras.error).map(|error| error.message);
        let latest = ItemId { partition: partition.id(), number: latest };
        ErrorShare { code, count, latest, latest_at, message: message.unwrap_or_default() }
    };
    partition.errors(usize::MAX).into_iter().map(with_message).collect()
}

fn add(by_code: &mut BTreeMap<Arc<str>, ErrorShare>, share: ErrorShare) {
    match by_code.entry(Arc::clone(&share.code)) {
        Entry::Vacant(vacant) => {
            vacant.insert(share);
        }
        Entry::Occupied(mut occupied) => {
            let before = occupied.get_mut();
            let count = before.count + share.count;
            if (before.latest_at, before.latest) < (share.latest_at, share.latest) {
                *before = share;
            }
            before.count = count;
        }
    }
}
