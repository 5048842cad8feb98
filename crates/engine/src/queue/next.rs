//! A worker's turn: each partition gets its share of the items, and a share of the lease with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::limits::{self, Invalid};
use windlass_core::refusal::Refusal;
use windlass_core::verbs::{LeaseItems, Next, Settle, SettleVerb, Settled};

use super::QueueHandle;
use super::bodies::Filled;
use super::grant::Grant;
use super::lease::{LeftOut, work_of};
use super::shares::{Asked, Share, judged, shares};
use crate::commit::{Commit, Judged};
use crate::error::EngineError;
use crate::partition::grant::{GrantPart, NextPart};
use crate::partition::handle::Handle;
use crate::store::Room;

/// How long a turn that has settled its items asks further partitions for work: a worker waits for both answers.
const FURTHER_LEASES_MAX: Duration = Duration::from_secs(5);

/// What a worker's turn came to.
#[derive(Debug)]
pub struct Turn {
    /// What became of the items.
    pub settled: Judged<Settled>,
    /// What was leased: empty if the call asked for nothing. An error if no partition could lease.
    pub leased: Result<Grant, EngineError>,
}

impl Turn {
    /// Every commit that the turn was part of, once.
    pub fn commits(&self) -> Vec<Commit> {
        let mut commits = self.settled.commits.clone();
        for commit in self.leased.iter().flat_map(Grant::commits) {
            if !commits.contains(&commit) {
                commits.push(commit);
            }
        }
        commits
    }
}

/// The items of one partition, and where they are sent.
struct Part<'a> {
    handle: &'a Arc<Handle>,
    share: Share<Settle>,
    /// How many items are asked for with them.
    batch_size: usize,
    /// The store has room only for what ends items: each verb is sent by itself and nothing is leased, so that completions
    /// are not refused together with the rest.
    by_verb: bool,
}

impl QueueHandle {
    pub(crate) async fn next(
        &self,
        items: Vec<Settle>,
        lease: Option<LeaseItems>,
    ) -> Result<Turn, EngineError> {
        check(&items, lease.as_ref()).map_err(Refusal::Invalid)?;
        let lease = lease.filter(|lease| lease.filter.kinds.as_ref().is_none_or(|kinds| !kinds.is_empty()));
        let ids: Vec<ItemId> = items.iter().map(|item| item.held().id).collect();
        let parts = self.parts(items)?;
        let batch_size = lease.as_ref().map_or(0, |lease| lease.batch_size);
        let parts = self.share_lease(parts, batch_size);
        let (settled, grants, mut left_out) = settle(parts, lease.as_ref(), ids.len()).await;
        left_out.note_settled(&ids, &settled);
        let leased = match &lease {
            Some(lease) => self.add_further(lease, grants, &left_out).await,
            None => Ok(Grant::default()),
        };
        Ok(Turn { settled, leased })
    }

    /// The items by partition, without those whose partition the queue does not have. Refused if an item is named twice.
    fn parts(&self, items: Vec<Settle>) -> Result<Vec<Part<'_>>, EngineError> {
        let by_partition = shares(items.into_iter().enumerate(), |item| item.held().id.partition);
        let mut parts = Vec::with_capacity(by_partition.len());
        for (partition, share) in by_partition {
            let Ok(handle) = self.find(partition) else { continue };
            limits::check_named_once(share.items.iter().map(|item| item.held().id))
                .map_err(Refusal::Invalid)?;
            let by_verb = self.store.room(partition) == Room::Last;
            parts.push(Part { handle, share, batch_size: 0, by_verb });
        }
        Ok(parts)
    }

    /// Shares a lease out among the partitions, by what waits in them and from the one with the best head on. What is more
    /// than they are known to have is asked of the first.
    fn share_lease<'a>(&self, mut parts: Vec<Part<'a>>, batch_size: usize) -> Vec<Part<'a>> {
        let now = self.env.wall();
        parts.sort_by_key(|part| {
            let work = work_of(part.handle, now);
            (work.is_none(), work)
        });
        let mut missing = batch_size;
        for part in parts.iter_mut().filter(|part| !part.by_verb) {
            part.batch_size = missing.min(known_to_wait(part.handle));
            missing -= part.batch_size;
        }
        if let Some(first) = parts.iter_mut().find(|part| !part.by_verb) {
            first.batch_size += missing;
        }
        parts
    }

    /// Adds the bodies to what was leased with the items, and leases from further partitions until the batch is full.
    async fn add_further(
        &self,
        lease: &LeaseItems,
        grants: Vec<GrantPart>,
        left_out: &LeftOut,
    ) -> Result<Grant, EngineError> {
        let mut filled = Filled::default();
        let _missed_some = self.add_bodies(grants, &mut filled).await;
        let mut refused = Ok(());
        if filled.has_room(lease.batch_size) {
            let deadline = self.env.boot() + FURTHER_LEASES_MAX;
            refused = self.fill_up(lease, left_out, Some(deadline), &mut filled).await;
        }
        if filled.is_empty() {
            self.check_serving().and(refused).and(self.check_any_left(left_out))?;
        }
        filled.into_grant()
    }

    /// Refused if no partition could carry the call out.
    fn check_any_left(&self, left_out: &LeftOut) -> Result<(), EngineError> {
        let failed: Vec<&EngineError> =
            self.partitions.iter().filter_map(|handle| left_out.failed.get(&handle.id)).collect();
        let none_left = failed.len() == self.partitions.len();
        failed.first().filter(|_| none_left).map_or(Ok(()), |error| Err((*error).clone()))
    }
}

/// The rules that do not depend on where an item is.
fn check(items: &[Settle], lease: Option<&LeaseItems>) -> Result<(), Invalid> {
    limits::check_batch("items", items.len())?;
    items.iter().try_for_each(Settle::check)?;
    lease.map_or(Ok(()), limits::check_lease)
}

/// How many items a lease would find in a partition, as far as is known.
fn known_to_wait(handle: &Handle) -> usize {
    let summary = handle.published.summary();
    usize::try_from(summary.counts.waiting.saturating_sub(summary.stopped)).unwrap_or(usize::MAX)
}

/// Sends every partition its part before the first answer is waited for.
async fn settle(
    parts: Vec<Part<'_>>,
    lease: Option<&LeaseItems>,
    count: usize,
) -> (Judged<Settled>, Vec<GrantPart>, LeftOut) {
    let not_found = || Err(EngineError::Refused(Refusal::NotFound));
    let results = (0..count).map(|_| not_found()).collect();
    let wanted: BTreeMap<PartitionId, usize> =
        parts.iter().map(|part| (part.handle.id, part.batch_size)).collect();
    let asked = parts.into_iter().flat_map(|part| part.ask(lease)).collect();
    let (mut grants, mut left_out) = (Vec::new(), LeftOut::default());
    let unpack = |partition, NextPart { settled, granted }: NextPart| {
        if granted.items().len() < wanted[&partition] {
            left_out.emptied.insert(partition);
        }
        grants.extend((!granted.items().is_empty()).then_some(granted));
        settled.into_iter().map(|result| result.map_err(EngineError::from)).collect()
    };
    let settled = judged(asked, results, unpack).await;
    (settled, grants, left_out)
}

impl Part<'_> {
    fn ask(self, lease: Option<&LeaseItems>) -> Vec<Asked<NextPart>> {
        let Self { handle, share, batch_size, by_verb } = self;
        let lease = lease.filter(|_| batch_size > 0).map(|lease| LeaseItems { batch_size, ..lease.clone() });
        let shares = if by_verb { verbs_of(share) } else { vec![share] };
        let ask = |Share { indexes, items }| {
            let answer = handle.next(Next { items, lease: lease.clone() });
            Asked { partition: handle.id, indexes, answer }
        };
        shares.into_iter().map(ask).collect()
    }
}

fn verbs_of(share: Share<Settle>) -> Vec<Share<Settle>> {
    let items = share.indexes.into_iter().zip(share.items);
    let by_verb: BTreeMap<SettleVerb, Share<Settle>> = shares(items, Settle::verb);
    by_verb.into_values().collect()
}

impl LeftOut {
    fn note_settled(&mut self, ids: &[ItemId], settled: &Judged<Settled>) {
        for (id, result) in ids.iter().zip(&settled.results) {
            match result {
                Ok(settled) if settled.is_given_back() => {
                    self.given_back.entry(id.partition).or_default().push(id.number);
                }
                Ok(_) | Err(EngineError::Refused(_)) => {}
                // What the partition gave back, if anything, is not known.
                Err(error) => {
                    self.failed.insert(id.partition, error.clone());
                }
            }
        }
    }
}
