//! Filling leases, from what there is or what comes.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::limits;
use windlass_core::partition::{Head, PASSED_MAX};
use windlass_core::refusal::Refusal;
use windlass_core::time::Timestamp;
use windlass_core::verbs::LeaseItems;

use super::bodies::Filled;
use super::grant::Grant;
use super::{QueueHandle, fault};
use crate::error::EngineError;
use crate::partition::grant::GrantPart;
use crate::partition::handle::Handle;
use crate::partition::waiters::Waited;

/// How often one lease asks again, because items that it was given could not be read.
const ROUNDS_MAX: usize = 1000;
/// How often one lease asks a partition again that gave nothing because too many in a row were overdue or without payload.
const PASSES_MAX: usize = 100;

/// What a lease leaves out, because of what its call did before.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Items that the call gave back.
    pub(super) given_back: BTreeMap<PartitionId, Vec<ItemNumber>>,
    /// Partitions that have given the call all they had for it.
    pub(super) emptied: BTreeSet<PartitionId>,
    /// Partitions that could not carry the call out, and why.
    pub(super) failed: BTreeMap<PartitionId, EngineError>,
}

impl LeftOut {
    fn is_asked(&self, partition: PartitionId) -> bool {
        !self.emptied.contains(&partition) && !self.failed.contains_key(&partition)
    }
}

/// The items that a lease could take at once.
pub(crate) enum Took {
    /// All there was, or an empty batch that no waiting would fill.
    Grant(Grant),
    /// Nothing: with an error, if a lease that does not wait is to be told why.
    Nothing(Result<(), EngineError>),
    /// Nothing, because the bodies of the items cannot be read now. The items are put off.
    Unreadable(EngineError),
}

impl QueueHandle {
    /// Leases what there is, up to the batch size.
    pub(crate) async fn take(&self, lease: &LeaseItems) -> Result<Took, EngineError> {
        limits::check_lease(lease).map_err(Refusal::Invalid)?;
        if lease.filter.kinds.as_ref().is_some_and(|kinds| kinds.is_empty()) {
            return Ok(Took::Grant(Grant::default()));
        }
        let mut filled = Filled::default();
        let refused = self.fill_up(lease, &LeftOut::default(), None, &mut filled).await;
        if !filled.may_wait() {
            return Ok(filled.into_grant().map_or_else(Took::Unreadable, Took::Grant));
        }
        match refused {
            Err(error) if error.is_store_full() => Err(error),
            refused => {
                let lost = filled.into_grant().map(drop);
                Ok(Took::Nothing(self.check_serving().and(refused).and(lost)))
            }
        }
    }

    /// Waits for the first item up to the deadline, and takes what there is by then.
    pub(crate) async fn lease_in_line(
        &self,
        lease: &LeaseItems,
        deadline: Duration,
    ) -> Result<Grant, EngineError> {
        let mut filled = Filled::default();
        for _ in 0..ROUNDS_MAX {
            let parts = self.wait_for_work(lease, deadline).await?;
            if parts.is_empty() {
                break;
            }
            if !self.add_bodies(parts, &mut filled).await || !filled.has_room(lease.batch_size) {
                break;
            }
            // Bodies of items that were granted are lost: other items take their places.
            let refused = self.fill_up(lease, &LeftOut::default(), None, &mut filled).await;
            if !filled.may_wait() {
                break;
            }
            if let Err(error) = refused
                && error.is_store_full()
            {
                return Err(error);
            }
        }
        filled.into_grant()
    }

    /// Adds items until the batch is full, nothing is left to take at once, or it is too late. An error if the last partition
    /// asked refused.
    pub(super) async fn fill_up(
        &self,
        lease: &LeaseItems,
        left_out: &LeftOut,
        deadline: Option<Duration>,
        filled: &mut Filled,
    ) -> Result<(), EngineError> {
        for _ in 0..ROUNDS_MAX {
            let missing = LeaseItems { batch_size: lease.batch_size - filled.count(), ..lease.clone() };
            let mut parts = Vec::new();
            let refused = self.fill_until(deadline, &missing, left_out, &mut parts).await;
            if parts.is_empty() {
                return refused;
            }
            if !self.add_bodies(parts, filled).await || !filled.has_room(lease.batch_size) {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn check_serving(&self) -> Result<(), EngineError> {
        let serving = self.partitions.iter().any(|handle| fault(handle).is_none());
        if serving { Ok(()) } else { Err(self.unavailable()) }
    }

    /// Leases of one partition that served the lease in line, and of others that have more. Empty if none did in time.
    async fn wait_for_work(
        &self,
        lease: &LeaseItems,
        deadline: Duration,
    ) -> Result<Vec<GrantPart>, EngineError> {
        let waiting = self.waiters.join(lease.clone())?;
        match waiting.outcome(self.env.sleep_until(deadline)).await {
            Waited::Granted(part) => {
                let mut parts = vec![part];
                // More may be had elsewhere, but what is in hand is not held back for it beyond the time asked for.
                let nothing = LeftOut::default();
                let _refused = self.fill_until(Some(deadline), lease, &nothing, &mut parts).await;
                Ok(parts)
            }
            Waited::TimedOut | Waited::Closed => Ok(Vec::new()),
            Waited::Refused(error) => Err(error),
        }
    }

    /// As [`QueueHandle::fill`], with what was taken until the deadline.
    async fn fill_until(
        &self,
        deadline: Option<Duration>,
        lease: &LeaseItems,
        left_out: &LeftOut,
        grant: &mut Vec<GrantPart>,
    ) -> Result<(), EngineError> {
        let too_late = async {
            match deadline {
                Some(deadline) => self.env.sleep_until(deadline).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            filled = self.fill(lease, left_out, grant) => filled,
            () = too_late => Ok(()),
        }
    }

    /// Takes what can be had at once, from the partition with the best head first. One that cannot give anything just
    /// now does not keep the others from it; the last such refusal is told.
    async fn fill(
        &self,
        lease: &LeaseItems,
        left_out: &LeftOut,
        grant: &mut Vec<GrantPart>,
    ) -> Result<(), EngineError> {
        let now = self.env.wall();
        let asked = self.partitions.iter().filter(|handle| left_out.is_asked(handle.id));
        let mut with_work: Vec<_> =
            asked.filter_map(|handle| Some((work_of(handle, now)?, handle))).collect();
        with_work.sort_by_key(|(work, _)| *work);
        let mut refused = Ok(());
        for (_, handle) in with_work {
            let missing = lease.batch_size.saturating_sub(granted_count(grant));
            if missing == 0 {
                break;
            }
            let given_back = left_out.given_back.get(&handle.id).map(Vec::as_slice).unwrap_or_default();
            let lease = LeaseItems { batch_size: missing, ..lease.clone() };
            match take_from(handle, &lease, given_back).await {
                Ok(part) if part.items().is_empty() => {}
                Ok(part) => grant.push(part),
                Err(error) => refused = Err(error),
            }
        }
        refused
    }
}

/// Leases from one partition. The partition is asked again while it granted nothing and ended `PASSED_MAX` items that have
/// no payload: sound items may stand behind those.
async fn take_from(
    handle: &Arc<Handle>,
    lease: &LeaseItems,
    given_back: &[ItemNumber],
) -> Result<GrantPart, EngineError> {
    let mut passes = 0;
    loop {
        let before = handle.published.summary().counts.waiting;
        let part = handle.lease(lease.clone(), given_back).await?;
        let after = handle.published.summary().counts.waiting;
        let passed_many = before.saturating_sub(after) >= PASSED_MAX as u64;
        passes += 1;
        if !part.items().is_empty() || !passed_many || passes == PASSES_MAX {
            return Ok(part);
        }
    }
}

/// What a partition may have to give: the smaller is asked first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Waiting(Head),
    /// Something may be waiting by the time it is asked: it sees to what is due before it answers.
    Due,
}

pub(super) fn work_of(handle: &Handle, now: Timestamp) -> Option<Work> {
    let summary = handle.published.summary();
    let due = summary.next_due.is_some_and(|due| due <= now).then_some(Work::Due);
    summary.head.map(Work::Waiting).or(due)
}

fn granted_count(grant: &[GrantPart]) -> usize {
    grant.iter().map(|part| part.items().len()).sum()
}
