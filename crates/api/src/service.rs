//! Requests and replies about the server itself.

use windlass_api_derive::{reply, request};

use crate::time::Time;

#[request]
pub struct ServerInfoRequest {}

#[reply]
pub struct ServerInfoReply {
    /// The server that answers.
    #[field(1)]
    pub server: ServerInfo,
}

/// A server.
#[reply]
pub struct ServerInfo {
    /// The version of Windlass that it runs.
    #[field(1)]
    pub version: String,
    /// When it was started.
    #[field(2)]
    pub started_at: Time,
    /// The name of the server among the nodes of a cluster; unset if the server runs by itself.
    #[field(3)]
    pub node: Option<String>,
    /// Where it keeps its data: `default` first, then those of the configuration.
    #[field(4)]
    pub stores: Vec<StoreInfo>,
    /// The limits of the server as they are configured.
    #[field(5)]
    pub limits: ServerLimits,
}

/// A store of a server.
#[reply]
pub struct StoreInfo {
    /// The name of the store.
    #[field(1)]
    pub store: String,
    /// How it keeps things: `log` is a directory, `memory` is for tests. More kinds may come.
    #[field(2)]
    pub kind: String,
    /// `open`; `full`: its disk is full, and only calls that end or keep work are taken; `closed`: it cannot be had now, and is
    /// tried again.
    #[field(3)]
    #[schemars(extend("enum" = ["open", "full", "closed"]))]
    pub state: String,
    /// Free bytes of the disk of the store, if the disk tells them.
    #[field(4)]
    pub bytes_free: Option<u64>,
}

/// The settings `limits.*` of a server.
#[reply]
pub struct ServerLimits {
    /// Connections at once.
    #[field(1)]
    pub connections: u64,
    /// Requests that wait at once.
    #[field(2)]
    pub waiting_requests: u64,
    /// The largest payload or result.
    #[field(3)]
    pub payload_bytes: u64,
    /// The largest request body.
    #[field(4)]
    pub body_bytes: u64,
    /// The bytes of all request bodies together.
    #[field(5)]
    pub bytes_in_flight: u64,
    /// Queues of the server.
    #[field(6)]
    pub queues: u64,
    /// Partitions of all queues together.
    #[field(7)]
    pub partitions: u64,
    /// The memory that the process may take up, in bytes; unset: no limit.
    #[field(8)]
    pub memory: Option<u64>,
}

#[request]
pub struct BackupRequest {
    /// Its name: 1 to 128 of A-Z a-z 0-9 . _ - ; the time if unset.
    #[field(1)]
    pub backup: Option<String>,
}

#[reply]
pub struct BackupReply {
    /// The name of the backup.
    #[field(1)]
    pub backup: String,
    /// Where it is, on the server's machine.
    #[field(2)]
    pub path: String,
    /// How large it is.
    #[field(3)]
    pub bytes: u64,
    /// What of it is damaged, because the server's data is: at most 100 places. Empty if all of it was read and is sound.
    #[field(4, optional)]
    pub damage: Vec<BackupDamage>,
}

/// A place in a backup that is damaged.
#[reply]
pub struct BackupDamage {
    /// Its name within the backup; unset if no file can be named.
    #[field(1)]
    pub file: Option<String>,
    /// Where in the file, in bytes.
    #[field(2)]
    pub offset: Option<u64>,
    /// What is wrong there.
    #[field(3)]
    pub what: String,
}
