//! What can come back instead of a reply.

use std::{fmt, iter};

use windlass_api_derive::reply;

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
#[reply]
pub struct ErrorReply {
    /// What went wrong.
    #[field(1)]
    pub error: Error,
}

/// What went wrong.
#[reply]
pub struct Error {
    /// A word that programs can rely on. More of them may come.
    #[field(1)]
    pub code: String,
    /// What was wrong and what to do.
    #[field(2)]
    pub message: String,
    /// Only if there is something to tell.
    #[field(3)]
    pub details: Option<Details>,
}

/// What a program may want to know beside the code.
#[reply]
pub struct Details {
    /// With every 500, 503 and 504: `not_applied` (safe to send again) or `unknown` (it may have happened).
    #[field(1)]
    #[schemars(extend("enum" = [NOT_APPLIED, UNKNOWN]))]
    pub outcome: Option<String>,
    /// With `lease_lost`: how the item's latest lease ended, if it was this one.
    #[field(2)]
    #[schemars(extend("enum" = ["expired", "revoked", "cancelled", "completed", "retried", "released", "suspended"]))]
    pub reason: Option<String>,
    /// With `duplicate_address`, where that refuses the whole request: the item that has the address. With `not_found`: the
    /// item that is not there, as the request named it. With `wrong_state` of a rerun: the item that the one named goes on as.
    #[field(3)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// With `wrong_state` of an emit after another number: that of the last event.
    #[field(4)]
    pub last_seq: Option<u64>,
    /// With an `overloaded` that waiting does not mend: the bound, which is a setting of the server, as `limits.queues`, or
    /// fixed, as `rules_per_queue`.
    #[field(5)]
    pub limit: Option<String>,
    /// With `permission_denied` for the host that a request asked for: that host, without its port.
    #[field(6)]
    pub host: Option<String>,
    /// With `permission_denied` for the web page that a request came from: its `Origin`, or `cross-site` if there was none.
    #[field(7)]
    pub origin: Option<String>,
    /// With `already_exists` of a call with `exists_ok`: the first field given that is not the same, as `retry.factor`.
    #[field(10)]
    pub field: Option<String>,
    /// With `not_found`: the queue that is not there; beside `address` or `partition`, the queue that has none of it.
    #[field(11)]
    pub queue: Option<String>,
    /// With `not_found`: the address that no item of `queue` has.
    #[field(12)]
    pub address: Option<String>,
    /// With `not_found`: the group that is not in its queue.
    #[field(13)]
    pub group: Option<String>,
    /// With `not_found`: the cron that is not there.
    #[field(14)]
    pub cron: Option<String>,
    /// With `not_found`: the partition that `queue` does not have, or, without `queue`, that is not unclaimed.
    #[field(15)]
    pub partition: Option<u32>,
}

/// An item of a batch that was judged and refused.
#[reply]
pub struct Failed {
    /// The item, as the request named it.
    #[field(1)]
    pub id: String,
    /// As the request gave it.
    #[field(2)]
    pub permit: u64,
    /// A word that programs can rely on.
    #[field(3)]
    pub code: String,
    /// What was wrong and what to do.
    #[field(4)]
    pub message: String,
    /// Only if there is something to tell.
    #[field(5)]
    pub details: Option<Details>,
    /// With queue.next: the list that named the item.
    #[field(6)]
    #[schemars(extend("enum" = ["complete", "retry", "release", "suspend", "extend"]))]
    pub verb: Option<String>,
}
