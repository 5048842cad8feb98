//! What can come back instead of a reply.

use std::{fmt, iter};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $status:literal;)+) => {
        /// What went wrong, as a word that programs can rely on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The HTTP status it comes with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ }
            }
        }
    };
}

codes! {
    /// A value that can never be right: the message names the field and the rule.
    InvalidArgument = "invalid_argument", 400;
    /// Who is calling is not known.
    Unauthenticated = "unauthenticated", 401;
    /// Who is calling may not do this.
    PermissionDenied = "permission_denied", 403;
    /// No such queue, item, group, cron or path: `details` tells which.
    NotFound = "not_found", 404;
    /// The path is right and the method is not.
    MethodNotAllowed = "method_not_allowed", 405;
    /// There is one of that name.
    AlreadyExists = "already_exists", 409;
    /// An item of that address is not final yet.
    DuplicateAddress = "duplicate_address", 409;
    /// The permit is not, or no longer, the right to the item.
    LeaseLost = "lease_lost", 409;
    /// Not in the state it is in.
    WrongState = "wrong_state", 409;
    /// The group is done or was cancelled.
    GroupFinished = "group_finished", 409;
    /// It still holds something live.
    NotEmpty = "not_empty", 409;
    /// A payload, a result or the request as a whole.
    TooLarge = "too_large", 413;
    /// Neither JSON nor protobuf.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// At a bound: try again after the time in `Retry-After`. Without that header waiting does not help, and `details.limit`
    /// names the bound.
    Overloaded = "overloaded", 429;
    /// A fault of the server.
    Internal = "internal", 500;
    /// It cannot be done now: try again after the time in `Retry-After`.
    Unavailable = "unavailable", 503;
    /// Not done within `request_timeout`.
    Timeout = "timeout", 504;
}

/// The status of `too_large` when the request line and the headers are: they are refused before the request is known.
const LARGE_HEAD_STATUS: u16 = 431;

impl Code {
    /// Every status that the code comes with.
    pub fn statuses(self) -> impl Iterator<Item = u16> {
        let large_head = (self == Self::TooLarge).then_some(LARGE_HEAD_STATUS);
        iter::once(self.status()).chain(large_head)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `details.outcome`: nothing of the request happened, and it is safe to send it again.
pub const NOT_APPLIED: &str = "not_applied";
/// `details.outcome`: the request may or may not have been carried out.
pub const UNKNOWN: &str = "unknown";

/// Every reply that is not 200.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ErrorReply {
    /// What went wrong.
    #[prost(message, required, tag = "1")]
    pub error: Error,
}

/// What went wrong.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Error {
    /// A word that programs can rely on. More of them may come.
    #[prost(string, tag = "1")]
    pub code: String,
    /// What was wrong and what to do.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Only if there is something to tell.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// What a program may want to know beside the code.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Details {
    /// With every 500, 503 and 504: `not_applied` (safe to send again) or `unknown` (it may have happened).
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [NOT_APPLIED, UNKNOWN]))]
    pub outcome: Option<String>,
    /// With `lease_lost`: how the item's latest lease ended, if it was this one.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["expired", "revoked", "cancelled", "completed", "retried", "released", "suspended"]))]
    pub reason: Option<String>,
    /// With `duplicate_address`, where that refuses the whole request: the item that has the address. With `not_found`: the
    /// item that is not there, as the request named it.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// With `wrong_state` of an emit after another number: that of the last event.
    #[prost(uint64, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<u64>,
    /// With an `overloaded` that waiting does not mend: the bound, which is a setting of the server, as `limits.queues`, or
    /// fixed, as `rules_per_queue`.
    #[prost(string, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// With `permission_denied` for the host that a request asked for: that host, without its port.
    #[prost(string, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// With `permission_denied` for the web page that a request came from: its `Origin`, or `cross-site` if there was none.
    #[prost(string, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// With `already_exists` of a call with `exists_ok`: the first field given that is not the same, as `retry.factor`.
    #[prost(string, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// With `not_found`: the queue that is not there; beside `address` or `partition`, the queue that has none of it.
    #[prost(string, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// With `not_found`: the address that no item of `queue` has.
    #[prost(string, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// With `not_found`: the group that is not in its queue.
    #[prost(string, optional, tag = "13")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// With `not_found`: the cron that is not there.
    #[prost(string, optional, tag = "14")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// With `not_found`: the partition that `queue` does not have, or, without `queue`, that is not unclaimed.
    #[prost(uint32, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
}

/// An item of a batch that was judged and refused.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Failed {
    /// The item, as the request named it.
    #[prost(string, tag = "1")]
    pub id: String,
    /// As the request gave it.
    #[prost(uint64, tag = "2")]
    pub permit: u64,
    /// A word that programs can rely on.
    #[prost(string, tag = "3")]
    pub code: String,
    /// What was wrong and what to do.
    #[prost(string, tag = "4")]
    pub message: String,
    /// Only if there is something to tell.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}
