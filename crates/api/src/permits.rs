//! Requests and replies about who holds what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Failed;
use crate::items::Held;
use crate::time::Time;

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue"]))]
pub struct ListPermitsRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Begin after the item of this id, also if it is gone by now.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub pivot: Option<String>,
    /// The most permits to show: 1 to 1000, and 1000 if unset.
    #[prost(uint32, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListPermitsReply {
    /// By the ids of the items.
    #[prost(message, repeated, tag = "1")]
    pub permits: Vec<Permit>,
}

/// An item in the hands of a worker.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Permit {
    /// The item.
    #[prost(string, tag = "1")]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// The right to it.
    #[prost(uint64, tag = "2")]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: u64,
    /// Who has it.
    #[prost(string, tag = "3")]
    pub client_id: String,
    /// What sort of work it is.
    #[prost(string, tag = "4")]
    pub kind: String,
    /// This one included.
    #[prost(uint32, tag = "5")]
    pub attempts: u32,
    /// Since when.
    #[prost(message, required, tag = "6")]
    pub leased_at: Time,
    /// Until when, unless the lease is extended.
    #[prost(message, required, tag = "7")]
    pub lease_deadline: Time,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct RevokeRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// 1 to 1000, each judged by itself.
    #[prost(message, repeated, tag = "2")]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<Held>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RevokeReply {
    /// How many were taken away from their workers.
    #[prost(uint64, tag = "1")]
    pub revoked: u64,
    /// Those that were refused, in the order given.
    #[prost(message, repeated, tag = "2")]
    pub failed: Vec<Failed>,
}
