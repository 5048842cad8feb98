//! Calls about queues: what there is, its settings and partitions, its numbers, and what is done to all items of one.

use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::row::{Queue, QueueName};
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, CreateQueue, UpdateQueue};

use crate::Engine;
use crate::commit::Committed;
use crate::error::EngineError;
use crate::history::QueueHistory;
use crate::queue::{QueueOverview, QueueStats, Redrive, Redriven};

/// Maximum queues in a history reply: by default those with the most waiting items.
pub const HISTORY_QUEUES_MAX: usize = 100;

impl Engine {
    pub async fn create_queue(&self, create: CreateQueue) -> Result<Committed<Queue>, EngineError> {
        let _call = self.host.enter()?;
        Ok(Committed::by(PartitionId::REGISTRY, self.registry.create(create).await?))
    }

    /// Changes the settings that are named and no others. They count in every partition that serves once this is answered.
    pub async fn update_queue(&self, update: UpdateQueue) -> Result<Committed<Queue>, EngineError> {
        let _call = self.host.enter()?;
        Ok(Committed::by(PartitionId::REGISTRY, self.registry.update(update).await?))
    }

    /// More partitions at once, or fewer: a partition that goes takes nothing new, and is gone once it was leased empty and
    /// keeps nothing any more. Refused while an earlier change still drains some.
    pub async fn rebalance(
        &self,
        name: &QueueName,
        partitions: u32,
    ) -> Result<Committed<Queue>, EngineError> {
        let _call = self.host.enter()?;
        Ok(Committed::by(PartitionId::REGISTRY, self.registry.rebalance(name.clone(), partitions).await?))
    }

    /// Deletes the queue with everything in it; a queue made again under the name is a new one. Without `force` the deletion is
    /// refused while an item is not final, or on its way to another queue.
    pub async fn delete_queue(&self, name: &QueueName, force: bool) -> Result<Committed<()>, EngineError> {
        let _call = self.host.enter()?;
        let deleted = self.registry.delete(name.clone(), force).await?;
        Ok(Committed::by(PartitionId::REGISTRY, deleted.map(drop)))
    }

    /// All queues, by name.
    pub fn queues(&self) -> Vec<Queue> {
        self.host.queues()
    }

    pub fn queue_info(&self, name: &QueueName) -> Option<Queue> {
        self.host.queue(name).map(|running| running.queue.clone())
    }

    /// Every queue by name, as its writers last told of it: exact as of the last answer they gave, and asks nobody.
    pub fn overview(&self) -> Vec<QueueOverview> {
        self.host.overview()
    }

    /// What went on in these queues lately, in the order of their names given; by default in those with the most waiting items,
    /// at most [`HISTORY_QUEUES_MAX`], these first. A `span` longer than [`HISTORY_SPAN_MAX`](crate::HISTORY_SPAN_MAX) is cut
    /// to it.
    pub fn history(
        &self,
        queues: Option<&[QueueName]>,
        span: Span,
    ) -> Result<Vec<QueueHistory>, EngineError> {
        let handles = match queues {
            Some(names) => names.iter().map(|name| self.queue(name)).collect::<Result<Vec<_>, _>>()?,
            None => self.host.fullest(HISTORY_QUEUES_MAX),
        };
        Ok(self.host.history(&handles, span))
    }

    pub async fn stats(&self, queue: &QueueName) -> Result<QueueStats, EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?.stats().await
    }

    /// Tells how many items were taken away.
    pub async fn clear(&self, queue: &QueueName, clear: Clear) -> Result<Committed<u64>, EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?.clear(clear).await
    }

    /// Sends waiting items of a dead queue back to where they came from, or to the queue named, in the order in which
    /// they wait, and tells how many. The items have left when this is answered, and arrive on their own. An item gets the address
    /// back that it had, and stays if that is taken.
    pub async fn redrive(
        &self,
        queue: &QueueName,
        redrive: Redrive,
    ) -> Result<Committed<Redriven>, EngineError> {
        let _call = self.host.enter()?;
        if let Some(to) = &redrive.to {
            self.queue(to)?;
        }
        let queues = self.host.names_beside(queue);
        let find = |name: &Arc<str>| {
            let namespace = Arc::clone(&queue.namespace);
            self.host.queue(&QueueName { namespace, name: Arc::clone(name) })
        };
        self.queue(queue)?.redrive(redrive, queues, find).await
    }
}
