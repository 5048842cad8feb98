//! The engine's calls for operators: what stands in a partition, what is brought in, and what is taken out.

use std::sync::Arc;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::row::{Queue, QueueName, Stored};

use crate::Engine;
use crate::commit::{Committed, Judged};
use crate::error::EngineError;
use crate::queue::Page;
use crate::registry::Unclaimed;
use crate::view::ItemView;

impl Engine {
    /// A page of a list. It may be shorter than its limit, because it is bounded in bytes too; it is empty only at the
    /// end of the list.
    pub async fn list(&self, queue: &QueueName, page: Page) -> Result<Vec<ItemView>, EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?.list(page).await
    }

    /// Takes items out that have not ended, leased ones too. Nothing of them is kept.
    pub async fn delete_items(&self, queue: &QueueName, ids: Vec<ItemId>) -> Result<Judged<()>, EngineError> {
        let _call = self.host.enter()?;
        Ok(self.queue(queue)?.delete(ids).await)
    }

    /// Partitions that stores hold and no queue names, by number.
    pub fn unclaimed(&self) -> Vec<Stored> {
        self.host.unclaimed()
    }

    /// Reads unclaimed partitions from the first one after a number on, and tells what is in them.
    pub async fn describe_unclaimed(
        &self,
        after: Option<PartitionId>,
        limit: usize,
    ) -> Result<Vec<Unclaimed>, EngineError> {
        let _call = self.host.enter()?;
        Ok(self.registry.describe_unclaimed(after, limit).await)
    }

    /// Makes an unclaimed partition one of a queue's, with everything in it. The store need be named only if several hold
    /// an unclaimed partition of that number.
    pub async fn adopt(
        &self,
        queue: &QueueName,
        partition: PartitionId,
        store: Option<Arc<str>>,
    ) -> Result<Committed<Queue>, EngineError> {
        let _call = self.host.enter()?;
        let adopted = self.registry.adopt(queue.clone(), partition, store).await?;
        Ok(Committed::by(PartitionId::REGISTRY, adopted))
    }

    /// Drops an unclaimed partition and everything in it. Without `force` the drop is refused while an item in it is not
    /// final, or on its way to another queue, or if the partition cannot be read.
    pub async fn drop_unclaimed(
        &self,
        partition: PartitionId,
        store: Option<Arc<str>>,
        force: bool,
    ) -> Result<Committed<()>, EngineError> {
        let _call = self.host.enter()?;
        let dropped = self.registry.drop_unclaimed(partition, store, force).await?;
        Ok(Committed::by(PartitionId::REGISTRY, dropped.map(drop)))
    }

    /// Has every partition acquired anew, a faulty one at once. Requests meanwhile wait. An error tells which could not
    /// be had; they are tried again in the background.
    pub async fn reload(&self, queue: &QueueName) -> Result<(), EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?.reload().await?;
        // A queue that was deleted meanwhile has nothing that could be read back.
        self.queue(queue).map(|_still_there| ())
    }
}
