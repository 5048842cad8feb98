//! Requests and replies about unclaimed partitions: what a store holds and no queue names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListUnclaimedRequest {
    /// Begin after this partition number.
    #[prost(uint32, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pivot: Option<u32>,
    /// The most partitions to show: 1 to 1000, and 100 if unset. Each of them is read as a whole.
    #[prost(uint32, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 100))]
    pub limit: Option<u32>,
}

/// A page of a list.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListUnclaimedReply {
    /// By number, then by store. A page may hold more than `limit` where several stores hold the same number; an empty page
    /// is the end.
    #[prost(message, repeated, tag = "1")]
    pub partitions: Vec<UnclaimedPartition>,
}

/// A partition that a store holds and no queue names. The partition is kept, and nobody serves it.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UnclaimedPartition {
    /// The number of the partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The name of the store that holds the partition.
    #[prost(string, tag = "2")]
    pub store: String,
    /// The queue that the partition was of when it was last served.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Items that have not ended, or not yet arrived where they go; unset if the partition cannot be read.
    #[prost(uint64, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<u64>,
    /// Items that have ended and are kept; unset if the partition cannot be read.
    #[prost(uint64, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retained: Option<u64>,
    /// Crons that the partition runs once it is served; unset if the partition cannot be read.
    #[prost(uint64, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crons: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["partition", "queue"]))]
pub struct AdoptPartitionRequest {
    /// The number of the partition, as `storage/unclaimed.list` shows it.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The name of the queue that gets the partition.
    #[prost(string, tag = "2")]
    pub queue: String,
    /// The store that holds the partition; may be left out unless several hold an unclaimed partition of that number.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub store: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["partition"]))]
pub struct DropPartitionRequest {
    /// The number of the partition, as `storage/unclaimed.list` shows it.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The store that holds the partition; may be left out unless several hold an unclaimed partition of that number.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub store: Option<String>,
    /// Also if the partition still holds items, or cannot be read.
    #[prost(bool, tag = "3")]
    pub force: bool,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DropPartitionReply {}
