//! What operators do with unclaimed partitions: what a store holds and no queue names.

use windlass_api::queues::Queue;
use windlass_api::unclaimed::{
    AdoptPartitionRequest, DropPartitionRequest, ListUnclaimedRequest, UnclaimedPartition,
};

use crate::client::Client;
use crate::error::ClientError;

impl Client {
    /// A page of the unclaimed partitions by number, beginning after one. An empty page is the end.
    pub async fn unclaimed(&self, after: Option<u32>) -> Result<Vec<UnclaimedPartition>, ClientError> {
        Ok(self.call(&ListUnclaimedRequest { pivot: after, limit: None }).await?.partitions)
    }

    /// Makes an unclaimed partition one of a queue's, with everything in it.
    pub async fn adopt_partition(&self, request: AdoptPartitionRequest) -> Result<Queue, ClientError> {
        Ok(self.call(&request).await?.queue)
    }

    /// Drops an unclaimed partition and everything in it.
    pub async fn drop_partition(&self, request: DropPartitionRequest) -> Result<(), ClientError> {
        self.call(&request).await.map(drop)
    }
}
