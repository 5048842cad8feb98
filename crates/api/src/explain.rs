//! Why an item is not running.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct ExplainItemRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExplainItemReply {
    /// The item.
    #[prost(string, tag = "1")]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// Its state; not known while its partition is faulty.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Everything that stands in its way. None: a lease that waits is about to take it.
    #[prost(message, repeated, tag = "3")]
    pub reasons: Vec<Reason>,
}

/// One thing that stands in an item's way. Beside `code` and `message` it has what belongs to its code.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reason {
    /// `scheduled`, `held`, `paused`, `blocked`, `behind`, `no_worker`, `leased`, `suspended`, `moving`, `partition_faulty` or
    /// `final`.
    #[prost(string, tag = "1")]
    #[schemars(extend("enum" = [
        "scheduled", "held", "paused", "blocked", "behind", "no_worker", "leased", "suspended", "moving",
        "partition_faulty", "final",
    ]))]
    pub code: String,
    /// The same in words, and what to do about it.
    #[prost(string, tag = "2")]
    pub message: String,
    /// `scheduled`: when it is due; `paused`, `blocked`: when the rule lifts itself.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// `held`: the group that is not started.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `paused`, `blocked`: the kind that the rule stands on, if not on the whole queue.
    #[prost(string, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `paused`, `blocked`: what whoever set the rule said; `suspended`: what the worker said.
    #[prost(string, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `paused`, `blocked`: since when the rule stands.
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// `behind`: how many go before it.
    #[prost(uint64, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// `behind`: whether that is their very number. Otherwise there are at least so many, or, in a queue of several
    /// partitions, about so many.
    #[prost(bool, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<bool>,
    /// `leased`: who has it.
    #[prost(string, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// `leased`: until when, unless the lease is extended.
    #[prost(message, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_deadline: Option<Time>,
    /// `moving`: the queue that it goes to.
    #[prost(string, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// `partition_faulty`: what is wrong with the partition.
    #[prost(string, optional, tag = "13")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
