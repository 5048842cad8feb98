//! What operators do with a queue: look at what is stored, bring items in and take some out.

use windlass_api::items::Item;
use windlass_api::storage::{
    DeleteItemsReply, DeleteItemsRequest, ImportItem, ImportItemsRequest, ImportedItem, ListItemsRequest,
    ListScheduledRequest, ReloadQueueRequest,
};

use crate::error::ClientError;
use crate::queue::QueueClient;

/// Which part of a partition's list: `Page { after: Some(id), ..Page::of(partition) }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// One of the queue's, as [`QueueClient::stats`] tells them.
    pub partition: u32,
    /// Begins after this item, which must still be in the list.
    pub after: Option<String>,
    /// 1 to 1000, and 1000 if none.
    pub limit: Option<u32>,
}

impl Page {
    /// The first page of a partition.
    pub fn of(partition: u32) -> Self {
        Self { partition, after: None, limit: None }
    }
}

impl QueueClient {
    /// What waits or is leased in a partition, in the order of the queue. A page may be shorter than its limit: only an
    /// empty one is the end.
    pub async fn items(&self, page: &Page) -> Result<Vec<Item>, ClientError> {
        let Page { partition, after: pivot, limit } = page.clone();
        let request = ListItemsRequest { queue: self.queue.clone(), partition, pivot, limit };
        Ok(self.client.call(&request).await?.items)
    }

    /// What is due later in a partition, by time. It ends with an empty page, as [`QueueClient::items`] does.
    pub async fn scheduled(&self, page: &Page) -> Result<Vec<Item>, ClientError> {
        let Page { partition, after: pivot, limit } = page.clone();
        let request = ListScheduledRequest { queue: self.queue.clone(), partition, pivot, limit };
        Ok(self.client.call(&request).await?.items)
    }

    /// Brings items in as a list shows them: an [`Item`] is made into one with `into()`. In the order given.
    pub async fn import(
        &self,
        items: impl IntoIterator<Item = ImportItem>,
    ) -> Result<Vec<ImportedItem>, ClientError> {
        let request = ImportItemsRequest { queue: self.queue.clone(), items: items.into_iter().collect() };
        Ok(self.client.call(&request).await?.items)
    }

    /// Takes live items out, leased ones too; nothing of them is kept.
    pub async fn delete_items(
        &self,
        ids: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<DeleteItemsReply, ClientError> {
        let ids = ids.into_iter().map(Into::into).collect();
        self.client.call(&DeleteItemsRequest { queue: self.queue.clone(), ids }).await
    }

    /// Has its partitions acquired anew, and returns when all of them were.
    pub async fn reload(&self) -> Result<(), ClientError> {
        self.client.call(&ReloadQueueRequest { queue: self.queue.clone() }).await.map(drop)
    }
}
