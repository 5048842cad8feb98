//! Calls that look for items by what they are: in a queue, in all queues, and by what they failed of.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::item::Phase;
use windlass_core::row::QueueName;

use crate::Engine;
use crate::error::EngineError;
use crate::queue::{ErrorShare, QueueHandle, QueueOverview, Search, SearchPage, Walk};

/// Queues that a search in all queues asks: those with most items that may match.
const QUEUES_ASKED_MAX: usize = 1000;

impl Engine {
    /// A page of the items of a queue that match. What was there when the walk began and matches is on exactly one of its pages,
    /// and what was produced later on none.
    pub async fn find(
        &self,
        queue: &QueueName,
        search: &Search,
        walk: Option<&Walk>,
    ) -> Result<SearchPage, EngineError> {
        let _call = self.host.enter()?;
        let scans = self.queue(queue)?.scans(walk);
        let page = search.page(scans, |partition| self.is_gone(partition)).await?;
        // The partitions of a queue that was deleted meanwhile were passed over.
        self.queue(queue).map(|_still_there| page)
    }

    /// The first items of those in all queues that match, which must be asked for by their states: `suspended`, or final ones.
    pub async fn find_in_all_queues(&self, search: &Search) -> Result<SearchPage, EngineError> {
        let _call = self.host.enter()?;
        let mut queues: Vec<(u64, Arc<QueueHandle>)> = Vec::new();
        let asked = search.find.phases.clone().unwrap_or_default();
        for handle in self.host.handles() {
            let may_match = may_match(&handle.overview(), &asked);
            if may_match > 0 {
                queues.push((may_match, handle));
            }
        }
        queues.sort_by_key(|(may_match, _)| Reverse(*may_match));
        queues.truncate(QUEUES_ASKED_MAX);
        let scans = queues.iter().flat_map(|(_, handle)| handle.scans(None)).collect();
        search.only_page(scans, |partition| self.is_gone(partition)).await
    }

    /// The most frequent error codes of kept items; those that are equally frequent by name.
    pub async fn errors(&self, queue: &QueueName, limit: usize) -> Result<Vec<ErrorShare>, EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?.errors(limit).await
    }

    /// Whether a partition was dropped: with what it held there is nothing left to be found.
    pub(super) fn is_gone(&self, partition: PartitionId) -> bool {
        self.host.home_of(partition).is_none()
    }
}

/// How many items of the queue may be in one of these states.
fn may_match(queue: &QueueOverview, asked: &BTreeSet<Phase>) -> u64 {
    let counts = queue.counts;
    let final_ones = queue.retained + queue.moving;
    let count = |phase: &Phase| match phase {
        Phase::Held => counts.held,
        Phase::Scheduled => counts.scheduled,
        Phase::Waiting => counts.waiting,
        Phase::Leased => counts.leased,
        Phase::Suspended => counts.suspended,
        Phase::Completed | Phase::Failed | Phase::Cancelled | Phase::Expired => 0,
    };
    let is_final = asked.iter().any(|phase| phase.is_final());
    asked.iter().map(count).sum::<u64>() + if is_final { final_ones } else { 0 }
}
