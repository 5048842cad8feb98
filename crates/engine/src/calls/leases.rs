//! Calls of workers: taking a lease, and all that a permit is the right to. Each leased item is judged by itself.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::ItemId;
use windlass_core::row::QueueName;
use windlass_core::time::Span;
use windlass_core::verbs::{Completion, Extended, Held, LeaseItems, Retried, RetryItem, SuspendItem};

use crate::Engine;
use crate::commit::Judged;
use crate::error::EngineError;
use crate::host::Call;
use crate::queue::{Grant, Holding, QueueHandle, Took};

/// The first step of a lease.
#[derive(Debug)]
pub enum LeaseBegun<'a> {
    Done(Grant),
    /// There is nothing to take now: the caller may wait.
    Nothing(LeaseLine<'a>),
}

/// A lease that found nothing to take, and has not begun to wait. [`Engine::close`] waits until the line is dropped.
#[derive(Debug)]
pub struct LeaseLine<'a> {
    queue: Arc<QueueHandle>,
    lease: LeaseItems,
    deadline: Duration,
    /// Set if there were items, and their bodies cannot be read now.
    unreadable: Option<EngineError>,
    _call: Call<'a>,
}

impl LeaseLine<'_> {
    /// Waits in line for the first item, until the time that [`Engine::begin_lease`] was given is over.
    pub async fn wait(self) -> Result<Grant, EngineError> {
        self.queue.lease_in_line(&self.lease, self.deadline).await
    }
}

impl Engine {
    /// Leases up to a batch of what there is, waiting up to `wait` for the first item; `Span::ZERO` answers at once.
    pub async fn lease(
        &self,
        queue: &QueueName,
        lease: LeaseItems,
        wait: Span,
    ) -> Result<Grant, EngineError> {
        match self.begin_lease(queue, lease, wait).await? {
            LeaseBegun::Done(grant) => Ok(grant),
            LeaseBegun::Nothing(LeaseLine { unreadable: Some(error), .. }) => Err(error),
            LeaseBegun::Nothing(line) => line.wait().await,
        }
    }

    /// [`Engine::lease`] in two steps, for a caller that bounds how many leases wait: the line is joined only by
    /// [`LeaseLine::wait`]. With a `wait` of `Span::ZERO` there is no second step.
    pub async fn begin_lease(
        &self,
        queue: &QueueName,
        lease: LeaseItems,
        wait: Span,
    ) -> Result<LeaseBegun<'_>, EngineError> {
        let call = self.host.enter()?;
        let queue = self.queue(queue)?;
        let unreadable = match queue.take(&lease).await? {
            Took::Grant(grant) => return Ok(LeaseBegun::Done(grant)),
            // A partition that cannot serve now may be back before the wait is over. An overloaded one is told of at once.
            Took::Nothing(Ok(()) | Err(EngineError::Unavailable { .. })) if wait > Span::ZERO => None,
            Took::Nothing(nothing) => return nothing.map(|()| LeaseBegun::Done(Grant::default())),
            Took::Unreadable(error) if wait > Span::ZERO => Some(error),
            Took::Unreadable(error) => return Err(error),
        };
        let deadline = self.host.boot() + Duration::from(wait);
        Ok(LeaseBegun::Nothing(LeaseLine { queue, lease, deadline, unreadable, _call: call }))
    }

    pub async fn complete(
        &self,
        queue: &QueueName,
        items: Vec<Completion>,
    ) -> Result<Judged<()>, EngineError> {
        let _call = self.host.enter()?;
        Ok(self.queue(queue)?.complete(items).await)
    }

    pub async fn retry(
        &self,
        queue: &QueueName,
        items: Vec<RetryItem>,
    ) -> Result<Judged<Retried>, EngineError> {
        let _call = self.host.enter()?;
        Ok(self.queue(queue)?.retry(items).await)
    }

    /// The heartbeat. Without `lease_timeout` each lease is extended by the timeout it has, counted from now.
    pub async fn extend(
        &self,
        queue: &QueueName,
        lease_timeout: Option<Span>,
        items: Vec<Held>,
    ) -> Result<Judged<Extended>, EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?.extend(lease_timeout, items).await
    }

    pub async fn release(&self, queue: &QueueName, items: Vec<Held>) -> Result<Judged<()>, EngineError> {
        let _call = self.host.enter()?;
        Ok(self.queue(queue)?.release(items).await)
    }

    /// Workers give items up until they are resumed; their attempts are not counted.
    pub async fn suspend(
        &self,
        queue: &QueueName,
        items: Vec<SuspendItem>,
    ) -> Result<Judged<()>, EngineError> {
        let _call = self.host.enter()?;
        Ok(self.queue(queue)?.suspend(items).await)
    }

    /// Takes leased items away from their workers: back to their own places, their attempts counted.
    pub async fn revoke(&self, queue: &QueueName, items: Vec<Held>) -> Result<Judged<()>, EngineError> {
        let _call = self.host.enter()?;
        Ok(self.queue(queue)?.revoke(items).await)
    }

    /// Leased items by id, beginning after one that need not be there any more.
    pub async fn permits(
        &self,
        queue: &QueueName,
        after: Option<ItemId>,
        limit: usize,
    ) -> Result<Vec<Holding>, EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?.permits(after, limit).await
    }
}
