//! Filling leases, from what there is or what comes.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::limits;
use windlass_core::partition::{Head, PASSED_MAX};
use windlass_core::refusal::Refusal;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::LeaseItems;

use super::bodies::Filled;
use super::{QueueHandle, fault};
use crate::error::EngineError;
use crate::partition::grant::GrantPart;
use crate::partition::handle::Handle;
use crate::partition::waiters::Waited;
use crate::types::Grant;

/// How often one lease asks again, because items that it was given could not be read.
const ROUNDS_MAX: usize = 1000;
/// How often it asks a partition again that gave nothing because too many in a row were overdue or without payload.
const PASSES_MAX: usize = 100;

impl QueueHandle {
    /// What there is, up to the batch size; waits up to `wait` for the first item.
    pub(crate) async fn lease(&self, lease: LeaseItems, wait: Span) -> Result<Grant, EngineError> {
        limits::check_lease(&lease).map_err(Refusal::Invalid)?;
        if lease.filter.kinds.as_ref().is_some_and(|kinds| kinds.is_empty()) {
            return Ok(Grant::default());
        }
        let deadline = self.env.boot() + Duration::from(wait);
        let mut filled = Filled::default();
        for _ in 0..ROUNDS_MAX {
            let missing = LeaseItems { batch_size: lease.batch_size - filled.count(), ..lease.clone() };
            let mut parts = Vec::new();
            let refused = self.fill(&missing, &mut parts).await;
            if let Err(error) = &refused
                && parts.is_empty()
                && filled.may_wait()
                && error.is_store_full()
            {
                return Err(error.clone());
            }
            if parts.is_empty() && filled.may_wait() && wait > Span::ZERO {
                self.wait_for_work(&missing, deadline, &mut parts).await?;
            }
            if parts.is_empty() && filled.may_wait() && wait == Span::ZERO {
                self.check_serving()?;
                refused?;
            }
            if !self.add_bodies(parts, &mut filled).await || !filled.has_room(lease.batch_size) {
                break;
            }
        }
        filled.into_grant()
    }

    fn check_serving(&self) -> Result<(), EngineError> {
        let serving = self.partitions.iter().any(|handle| fault(handle).is_none());
        if serving { Ok(()) } else { Err(self.unavailable()) }
    }

    async fn wait_for_work(
        &self,
        lease: &LeaseItems,
        deadline: Duration,
        grant: &mut Vec<GrantPart>,
    ) -> Result<(), EngineError> {
        let waiting = self.waiters.join(lease.clone())?;
        match waiting.outcome(self.env.sleep_until(deadline)).await {
            Waited::Granted(part) => {
                grant.push(part);
                // More may be had elsewhere, but what is in hand is not held back for it beyond the time asked for.
                tokio::select! {
                    biased;
                    _refused = self.fill(lease, grant) => {}
                    () = self.env.sleep_until(deadline) => {}
                }
                Ok(())
            }
            Waited::TimedOut | Waited::Closed => Ok(()),
            Waited::Refused(error) => Err(error),
        }
    }

    /// Takes what can be had at once, from the partition with the best head first. One that cannot give anything just
    /// now does not keep the others from it; the last such refusal is told.
    async fn fill(&self, lease: &LeaseItems, grant: &mut Vec<GrantPart>) -> Result<(), EngineError> {
        let now = self.env.wall();
        let mut with_work: Vec<_> =
            self.partitions.iter().filter_map(|handle| Some((work_of(handle, now)?, handle))).collect();
        with_work.sort_by_key(|(work, _)| *work);
        let mut refused = Ok(());
        for (_, handle) in with_work {
            let missing = lease.batch_size.saturating_sub(granted_count(grant));
            if missing == 0 {
                break;
            }
            match take_from(handle, &LeaseItems { batch_size: missing, ..lease.clone() }).await {
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
async fn take_from(handle: &Arc<Handle>, lease: &LeaseItems) -> Result<GrantPart, EngineError> {
    let mut passes = 0;
    loop {
        let before = handle.published.summary().counts.waiting;
        let part = handle.lease(lease.clone()).await?;
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
enum Work {
    Waiting(Head),
    /// Something may be waiting by the time it is asked: it sees to what is due before it answers.
    Due,
}

fn work_of(handle: &Handle, now: Timestamp) -> Option<Work> {
    let summary = handle.published.summary();
    let due = summary.next_due.is_some_and(|due| due <= now).then_some(Work::Due);
    summary.head.map(Work::Waiting).or(due)
}

fn granted_count(grant: &[GrantPart]) -> usize {
    grant.iter().map(|part| part.items().len()).sum()
}
