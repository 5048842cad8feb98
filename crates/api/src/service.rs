//! Requests and replies about the server itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerInfoRequest {}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerInfoReply {
    /// The server that answers.
    #[prost(message, required, tag = "1")]
    pub server: ServerInfo,
}

/// A server.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerInfo {
    /// The version of Windlass that it runs.
    #[prost(string, tag = "1")]
    pub version: String,
    /// When it was started.
    #[prost(message, required, tag = "2")]
    pub started_at: Time,
    /// The name of the server among the nodes of a cluster; unset if the server runs by itself.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where it keeps its data: `default` first, then those of the configuration.
    #[prost(message, repeated, tag = "4")]
    pub stores: Vec<StoreInfo>,
    /// The limits of the server as they are configured.
    #[prost(message, required, tag = "5")]
    pub limits: ServerLimits,
}

/// A store of a server.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StoreInfo {
    /// The name of the store.
    #[prost(string, tag = "1")]
    pub store: String,
    /// How it keeps things: `log` is a directory, `memory` is for tests. More kinds may come.
    #[prost(string, tag = "2")]
    pub kind: String,
    /// `open`; `full`: its disk is full, and only calls that end or keep work are taken; `closed`: it cannot be had now, and is
    /// tried again.
    #[prost(string, tag = "3")]
    #[schemars(extend("enum" = ["open", "full", "closed"]))]
    pub state: String,
    /// Free bytes of the disk of the store, if the disk tells them.
    #[prost(uint64, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_free: Option<u64>,
}

/// The settings `limits.*` of a server.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerLimits {
    /// Connections at once.
    #[prost(uint64, tag = "1")]
    pub connections: u64,
    /// Requests that wait at once.
    #[prost(uint64, tag = "2")]
    pub waiting_requests: u64,
    /// The largest payload or result.
    #[prost(uint64, tag = "3")]
    pub payload_bytes: u64,
    /// The largest request body.
    #[prost(uint64, tag = "4")]
    pub body_bytes: u64,
    /// The bytes of all request bodies together.
    #[prost(uint64, tag = "5")]
    pub bytes_in_flight: u64,
    /// Queues of the server.
    #[prost(uint64, tag = "6")]
    pub queues: u64,
    /// Partitions of all queues together.
    #[prost(uint64, tag = "7")]
    pub partitions: u64,
    /// The memory that the process may take up, in bytes; unset: no limit.
    #[prost(uint64, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BackupRequest {
    /// Its name: 1 to 128 of A-Z a-z 0-9 . _ - ; the time if unset.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BackupReply {
    /// The name of the backup.
    #[prost(string, tag = "1")]
    pub backup: String,
    /// Where it is, on the server's machine.
    #[prost(string, tag = "2")]
    pub path: String,
    /// How large it is.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// What of it is damaged, because the server's data is: at most 100 places. Empty if all of it was read and is sound.
    #[prost(message, repeated, tag = "4")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<BackupDamage>,
}

/// A place in a backup that is damaged.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BackupDamage {
    /// Its name within the backup; unset if no file can be named.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where in the file, in bytes.
    #[prost(uint64, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// What is wrong there.
    #[prost(string, tag = "3")]
    pub what: String,
}
