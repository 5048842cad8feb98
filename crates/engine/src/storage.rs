//! The engine's calls for operators: what stands in a partition, what is brought in, and what is taken out.

use windlass_core::command::{ImportItem, Refusal};
use windlass_core::id::ItemId;
use windlass_core::limits;
use windlass_core::row::QueueName;

use crate::Engine;
use crate::error::EngineError;
use crate::types::{ItemView, Judged, Page, ProducedItem};

impl Engine {
    /// A page of a list. It may be shorter than its limit, because it is bounded in bytes too; it is empty only at the
    /// end of the list.
    pub async fn list(&self, queue: &QueueName, page: Page) -> Result<Vec<ItemView>, EngineError> {
        let _call = self.registry.enter()?;
        self.queue(queue)?.list(page).await
    }

    /// Routed as [`Engine::produce`] does, in the order given behind what is there.
    pub async fn import(
        &self,
        queue: &QueueName,
        items: Vec<ImportItem>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        let _call = self.registry.enter()?;
        limits::check_batch("items", items.len()).map_err(Refusal::Invalid)?;
        self.take_in(queue, items).await
    }

    /// Takes items out that have not ended, leased ones too. Nothing of them is kept.
    pub async fn delete_items(&self, queue: &QueueName, ids: Vec<ItemId>) -> Result<Judged<()>, EngineError> {
        let _call = self.registry.enter()?;
        Ok(self.queue(queue)?.delete(ids).await)
    }

    /// Has every partition acquired anew, a faulty one at once. Requests meanwhile wait. An error tells which could not
    /// be had; they are tried again in the background.
    pub async fn reload(&self, queue: &QueueName) -> Result<(), EngineError> {
        let _call = self.registry.enter()?;
        self.queue(queue)?.reload().await
    }
}
