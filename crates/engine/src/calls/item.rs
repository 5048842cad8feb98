//! Calls about one item: finding it, showing it, cancelling it.

use std::sync::Arc;

use windlass_core::id::ItemId;
use windlass_core::row::QueueName;

use crate::Engine;
use crate::commit::Committed;
use crate::error::EngineError;
use crate::view::{self, ItemView};

impl Engine {
    /// The item that an address speaks of: the one that holds it now, else the latest that did and is still kept.
    pub async fn item_at(&self, queue: &QueueName, address: &str) -> Result<ItemId, EngineError> {
        let _call = self.host.enter()?;
        self.by_routes(queue, |handle| {
            let address = Arc::from(address);
            async move { handle.item_at(address).await }
        })
        .await
    }

    pub async fn get(&self, id: ItemId) -> Result<ItemView, EngineError> {
        let _call = self.host.enter()?;
        view::get(&self.home_of(id)?, &*self.store, id).await
    }

    /// Tells the item as the cancel left it: cancelled, or still leased with the request noted, or as it ended before.
    pub async fn cancel(&self, id: ItemId) -> Result<Committed<ItemView>, EngineError> {
        let _call = self.host.enter()?;
        view::cancel(&self.home_of(id)?, &*self.store, id).await
    }
}
