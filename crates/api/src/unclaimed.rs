//! Requests and replies about unclaimed partitions: what a store holds and no queue names.

use windlass_api_derive::{reply, request};

#[request]
pub struct ListUnclaimedRequest {
    /// Begin after this partition number.
    #[field(1)]
    pub pivot: Option<u32>,
    /// The most partitions to show: 1 to 1000, and 100 if unset. Each of them is read as a whole.
    #[field(2)]
    #[schemars(range(min = 1, max = 1000), extend("default" = 100))]
    pub limit: Option<u32>,
}

/// A page of a list.
#[reply]
pub struct ListUnclaimedReply {
    /// By number, then by store. A page may hold more than `limit` where several stores hold the same number; an empty page
    /// is the end.
    #[field(1)]
    pub partitions: Vec<UnclaimedPartition>,
}

/// A partition that a store holds and no queue names. The partition is kept, and nobody serves it.
#[reply]
pub struct UnclaimedPartition {
    /// The number of the partition.
    #[field(1)]
    pub partition: u32,
    /// The name of the store that holds the partition.
    #[field(2)]
    pub store: String,
    /// The queue that the partition was of when it was last served.
    #[field(3)]
    pub queue: Option<String>,
    /// Items that have not ended, or not yet arrived where they go; unset if the partition cannot be read.
    #[field(4)]
    pub items: Option<u64>,
    /// Items that have ended and are kept; unset if the partition cannot be read.
    #[field(5)]
    pub retained: Option<u64>,
    /// Crons that the partition runs once it is served; unset if the partition cannot be read.
    #[field(6)]
    pub crons: Option<u64>,
}

#[request]
pub struct AdoptPartitionRequest {
    /// The number of the partition, as `storage/unclaimed.list` shows it.
    #[field(1)]
    pub partition: u32,
    /// The name of the queue that gets the partition.
    #[field(2)]
    pub queue: String,
    /// The store that holds the partition; may be left out unless several hold an unclaimed partition of that number.
    #[field(3)]
    #[schemars(length(max = 128))]
    pub store: Option<String>,
}

#[request]
pub struct DropPartitionRequest {
    /// The number of the partition, as `storage/unclaimed.list` shows it.
    #[field(1)]
    pub partition: u32,
    /// The store that holds the partition; may be left out unless several hold an unclaimed partition of that number.
    #[field(2)]
    #[schemars(length(max = 128))]
    pub store: Option<String>,
    /// Also if the partition still holds items, or cannot be read.
    #[field(3)]
    pub force: bool,
}

#[reply]
pub struct DropPartitionReply {}
