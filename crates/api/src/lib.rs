//! The contract: what travels between clients and the server.
//!
//! Every message is one Rust struct under `#[request]` or `#[reply]` (`windlass-api-derive`): it speaks JSON (serde) and protobuf
//! (prost), and describes itself for `/openapi.json` (schemars) and for the schema in `proto/` ([`schema`]). A field that is
//! missing has its default in both encodings; what is allowed is checked by the server, not here.
//!
//! Read [`call`] first: the list of all calls. Then [`items`], [`events`], [`queues`] and [`storage`], their requests and replies, and
//! [`error`], what can come back instead.

pub mod call;
pub mod crons;
pub mod error;
pub mod events;
pub mod explain;
pub mod groups;
pub mod items;
pub mod json;
pub mod openapi;
pub mod payload;
pub mod permits;
pub mod queues;
pub mod rules;
mod rules_of_fields;
pub mod schema;
pub mod service;
pub mod shape;
pub mod storage;
mod tidy;
pub mod time;
pub mod unclaimed;

pub use crate::call::Call;
pub use crate::error::Code;
pub use crate::time::{Span, Time};

/// The port that stands for W-I-N-D on a telephone.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:9463";

pub const JSON: &str = "application/json";
pub const PROTOBUF: &str = "application/protobuf";
/// What the stream of an item comes in.
pub const EVENT_STREAM: &str = "text/event-stream";

/// The header that names a request, in every reply.
pub const REQUEST_ID: &str = "windlass-request-id";
/// The header that tells where a change stands in the order of its partition: `partition:sequence`, several separated by
/// commas. It names at most [`COMMITS_NAMED_MAX`] partitions, and counts the others as `+n` at its end.
pub const COMMIT: &str = "windlass-commit";
/// Proxies take headers of a few KiB, and a queue may have 1,024 partitions.
pub const COMMITS_NAMED_MAX: usize = 32;
