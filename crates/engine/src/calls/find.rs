//! Calls that look for items by what they are: in a queue, in all queues, and by what they failed of.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::Phase;
use windlass_core::row::QueueName;
use windlass_core::time::{Span, Timestamp};

use crate::Engine;
use crate::error::EngineError;
use crate::queue::{ErrorShare, QueueHandle, QueueOverview, Search, SearchPage, Walk};

/// Queues that a search in all queues asks: those with most items that may match.
const QUEUES_ASKED_MAX: usize = 1000;
/// By how much the number of an item may be ahead of the clock: items that are produced at once are numbered one after the
/// other, and no partition makes a million in a second.
const NUMBERS_AHEAD_MAX: Span = Span::from_secs(1);

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
        let began = self.host.now();
        let scans = self.queue(queue)?.scans(walk);
        let mut page = search.page(scans, |partition| self.is_gone(partition)).await?;
        if walk.is_none() {
            end_at(began, page.walk.as_mut());
        }
        // The partitions of a queue that was deleted meanwhile were passed over.
        self.queue(queue).map(|_still_there| page)
    }

    /// The first items of those in all queues that match, which must be asked for by their states: `suspended`, or final ones.
    pub async fn find_in_all_queues(&self, search: &Search) -> Result<SearchPage, EngineError> {
        let _call = self.host.enter()?;
        let asked = search.find.phases.clone().unwrap_or_default();
        let with_count = |handle: Arc<QueueHandle>| (may_match(&handle, &asked), handle);
        let mut queues: Vec<_> = self.host.handles().into_iter().map(with_count).collect();
        queues.retain(|(may_match, _)| *may_match > 0);
        queues.sort_by_key(|(may_match, _)| Reverse(*may_match));
        queues.truncate(QUEUES_ASKED_MAX);
        let scans = queues.iter().flat_map(|(_, handle)| handle.scans(None)).collect();
        search.only_page(scans, |partition| self.is_gone(partition)).await
    }

    /// The most frequent error codes of kept items; those that are equally frequent by name.
    pub async fn errors(&self, queue: &QueueName, limit: usize) -> Result<Vec<ErrorShare>, EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?.errors(limit, |partition| self.is_gone(partition)).await
    }

    /// Whether a partition was dropped: with what it held there is nothing left to be found.
    pub(super) fn is_gone(&self, partition: PartitionId) -> bool {
        self.host.home_of(partition).is_none()
    }
}

/// Ends a walk that began now in the partitions too that did not serve: the number of an item is the time of its production in
/// microseconds, or just after it.
fn end_at(began: Timestamp, walk: Option<&mut Walk>) {
    for place in walk.into_iter().flat_map(|walk| &mut walk.places) {
        place.until.get_or_insert(ItemNumber((began + NUMBERS_AHEAD_MAX).0));
    }
}

/// How many items of the queue are in one of these states, as its partitions last told. A partition that does not serve tells
/// nothing: its queue comes first, so that the search fails or names the partition.
fn may_match(queue: &QueueHandle, asked: &BTreeSet<Phase>) -> u64 {
    // `is_served` is checked before and after reading the counts, because a partition that stops serving withdraws its counts.
    let served_before = queue.is_served();
    let overview = queue.overview();
    if asked.is_empty() {
        0
    } else if served_before && queue.is_served() {
        asked.iter().map(|phase| in_phase(&overview, *phase)).sum()
    } else {
        u64::MAX
    }
}

fn in_phase(queue: &QueueOverview, phase: Phase) -> u64 {
    match phase {
        Phase::Held => queue.counts.held,
        Phase::Scheduled => queue.counts.scheduled,
        Phase::Waiting => queue.counts.waiting,
        Phase::Leased => queue.counts.leased,
        Phase::Suspended => queue.counts.suspended,
        Phase::Failed => queue.failed,
        Phase::Expired => queue.expired,
        // Upper bound: completed and cancelled items have no counters of their own.
        Phase::Completed | Phase::Cancelled => queue.retained,
    }
}
