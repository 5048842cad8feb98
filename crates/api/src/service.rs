//! Requests and replies about the server itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Its name.
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
