//! Items after they were produced: found, looked at, changed, and rerun.

use std::time::Duration;

use windlass_api::Span;
use windlass_api::items::{
    ChangeItemsRequest, ErrorCount, FindItemsReply, FindItemsRequest, GetItemRequest, Item,
    ItemErrorsRequest, ProducedItem, RerunItemRequest, UpdateItemRequest, WaitItemRequest,
};

use crate::client::Client;
use crate::error::ClientError;
use crate::pages::Pages;
use crate::queue::QueueClient;

impl Client {
    /// The latest item of the chain that begins with this one and goes along `moved_to`: what became of it after it died, was
    /// redriven or was rerun. Dead letters are passed over, and where a dead letter is the last, the item that died is the
    /// answer.
    pub async fn latest_item(&self, id: impl Into<String>) -> Result<Item, ClientError> {
        let request = GetItemRequest { follow: true, ..GetItemRequest::of(id) };
        Ok(self.call(&request).await?.item)
    }

    /// The latest item of the chain, as [`Client::latest_item`] finds it, once it has ended, or as it is after `wait`: 30 s if
    /// none, at most 15 min.
    pub async fn wait_for_latest(
        &self,
        id: impl Into<String>,
        wait: Option<Duration>,
    ) -> Result<Item, ClientError> {
        let request_timeout = wait.map(Span::from);
        let request = WaitItemRequest { request_timeout, follow: true, ..WaitItemRequest::of(id) };
        Ok(self.call(&request).await?.item)
    }

    /// Changes what the request gives of an item that is not leased and has not ended, or nothing:
    /// `UpdateItemRequest { priority: Some(0), ..UpdateItemRequest::of(id) }`. Answers with the item.
    pub async fn update_item(&self, request: UpdateItemRequest) -> Result<Item, ClientError> {
        Ok(self.call(&request).await?.item)
    }

    /// Reruns an item that has ended, if its payload is kept: the new item is due at once, or after `delay`.
    pub async fn rerun(
        &self,
        id: impl Into<String>,
        delay: Option<Duration>,
    ) -> Result<ProducedItem, ClientError> {
        let request = RerunItemRequest { delay: delay.map(Span::from), ..RerunItemRequest::of(id) };
        Ok(self.call(&request).await?.item)
    }

    /// Items of all queues that are `suspended`, `failed` or `expired`, as the request says, the newest first: one page, of at
    /// most 1000 items.
    pub async fn find_in_all_queues(&self, request: FindItemsRequest) -> Result<FindItemsReply, ClientError> {
        self.call(&FindItemsRequest { queue: None, ..request }).await
    }
}

impl QueueClient {
    /// Finds items by state, kind, header, error or time, also those that have ended: page by page, the newest first unless the
    /// request says otherwise. Nothing is sent before the first page is asked for.
    ///
    /// ```no_run
    /// # async fn example(client: windlass_client::Client) -> Result<(), windlass_client::ClientError> {
    /// use windlass_client::api::items::{FindItemsRequest, States};
    ///
    /// let states = Some(States { states: vec!["failed".into()] });
    /// let mut failed = client.queue("emails").find(FindItemsRequest { states, ..Default::default() });
    /// while let Some(page) = failed.next().await {
    ///     for item in page?.items {
    ///         println!("{} {:?}", item.id, item.error);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn find(&self, request: FindItemsRequest) -> Pages<FindItemsRequest> {
        let request = FindItemsRequest { queue: Some(self.queue.clone()), ..request };
        Pages::new(self.client.clone(), request)
    }

    /// Changes all items that a filter finds, page by page, the oldest first. Nothing is sent before the first page is asked
    /// for. Items on pages that are not asked for are not changed.
    ///
    /// A page that failed may have changed some of its items ([`ClientError::outcome`]). Asked for again, it judges each item
    /// as it is by then.
    pub fn change(&self, request: ChangeItemsRequest) -> Pages<ChangeItemsRequest> {
        let request = ChangeItemsRequest { queue: self.queue.clone(), ..request };
        Pages::new(self.client.clone(), request)
    }

    /// Counts the kept items of the queue by error code, the most frequent first.
    pub async fn errors(&self) -> Result<Vec<ErrorCount>, ClientError> {
        Ok(self.client.call(&ItemErrorsRequest { queue: self.queue.clone() }).await?.errors)
    }

    /// The latest item of the chain that begins at this address, as [`Client::latest_item`] finds it.
    pub async fn latest_at(&self, address: impl Into<String>) -> Result<Item, ClientError> {
        let request = GetItemRequest { follow: true, ..GetItemRequest::at(&self.queue, address) };
        Ok(self.client.call(&request).await?.item)
    }

    /// The latest item of the chain that begins at this address, once it has ended, or as it is after `wait`: 30 s if none, at
    /// most 15 min.
    pub async fn wait_for_latest_at(
        &self,
        address: impl Into<String>,
        wait: Option<Duration>,
    ) -> Result<Item, ClientError> {
        let request_timeout = wait.map(Span::from);
        let request =
            WaitItemRequest { request_timeout, follow: true, ..WaitItemRequest::at(&self.queue, address) };
        Ok(self.client.call(&request).await?.item)
    }

    /// Reruns the latest item that had this address, if it has ended and its payload is kept: the new item is due at once, or
    /// after `delay`.
    pub async fn rerun_at(
        &self,
        address: impl Into<String>,
        delay: Option<Duration>,
    ) -> Result<ProducedItem, ClientError> {
        let delay = delay.map(Span::from);
        let request = RerunItemRequest { delay, ..RerunItemRequest::at(&self.queue, address) };
        Ok(self.client.call(&request).await?.item)
    }
}
