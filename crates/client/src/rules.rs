//! Stopping queues and kinds, and why an item is not running.

use windlass_api::explain::{ExplainItemReply, ExplainItemRequest};
use windlass_api::rules::{
    BlockQueueRequest, ListRulesRequest, PauseQueueRequest, ResumeQueueRequest, Rule, UnblockQueueRequest,
};

use crate::client::Client;
use crate::error::ClientError;
use crate::queue::QueueClient;

impl QueueClient {
    /// Stops the queue, or the kind that the request names: for the very next lease, and what runs goes on.
    pub async fn pause(&self, request: PauseQueueRequest) -> Result<Rule, ClientError> {
        let request = PauseQueueRequest { queue: self.queue.clone(), ..request };
        Ok(self.client.call(&request).await?.rule)
    }

    /// Lifts the pause of the whole queue, or that of a kind.
    pub async fn resume(&self, kind: Option<&str>) -> Result<(), ClientError> {
        let kind = kind.map(str::to_owned);
        let request = ResumeQueueRequest { queue: self.queue.clone(), kind, ..Default::default() };
        self.client.call(&request).await.map(drop)
    }

    /// As [`QueueClient::pause`], by the administrator: a resume does not lift it.
    pub async fn block(&self, request: BlockQueueRequest) -> Result<Rule, ClientError> {
        let request = BlockQueueRequest { queue: self.queue.clone(), ..request };
        Ok(self.client.call(&request).await?.rule)
    }

    /// Lifts the block of the whole queue, or that of a kind.
    pub async fn unblock(&self, kind: Option<&str>) -> Result<(), ClientError> {
        let kind = kind.map(str::to_owned);
        let request = UnblockQueueRequest { queue: self.queue.clone(), kind, ..Default::default() };
        self.client.call(&request).await.map(drop)
    }

    /// What stands on the queue and its kinds.
    pub async fn rules(&self) -> Result<Vec<Rule>, ClientError> {
        let queue = Some(self.queue.clone());
        Ok(self.client.call(&ListRulesRequest { queue }).await?.rules)
    }
}

impl Client {
    /// What stands on all queues and their kinds.
    pub async fn rules(&self) -> Result<Vec<Rule>, ClientError> {
        Ok(self.call(&ListRulesRequest { queue: None }).await?.rules)
    }

    /// Why an item is not running: everything that stands in its way.
    pub async fn explain(&self, id: impl Into<String>) -> Result<ExplainItemReply, ClientError> {
        self.call(&ExplainItemRequest { id: Some(id.into()), ..Default::default() }).await
    }
}
