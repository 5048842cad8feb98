//! Changes of items after they were produced: of one, or of all that a filter finds.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_api_derive::{reply, request};

use super::{ItemFilter, ProducedItem};
use crate::storage::FailedItem;
use crate::time::{Span, Time};

/// Only what is given changes: all of it, or nothing. The item is scheduled, waiting, held or suspended.
#[request]
#[schemars(transform = crate::rules_of_fields::at_most_one_payload)]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
#[schemars(transform = crate::rules_of_fields::enqueue_at_or_delay)]
pub struct UpdateItemRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[field(2)]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[field(3)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// 0 to 255: the item goes to its own place among those of that priority.
    #[field(4)]
    #[schemars(range(max = 255))]
    pub priority: Option<u32>,
    /// When a scheduled or waiting item is due. In the past: at once.
    #[field(5)]
    pub enqueue_at: Option<Time>,
    /// So long after the server gets the call, instead of `enqueue_at`; `0s` is at once.
    #[field(6)]
    pub delay: Option<Span>,
    /// Its own limit instead of the queue's; 0 means none. One that is not above the attempts made leaves it one more.
    #[field(7)]
    pub max_attempts: Option<u32>,
    /// How old it may grow before it expires, which it does at once if it is older; `0s` means any age.
    #[field(8)]
    pub dead_timeout: Option<Span>,
    /// At most 512 bytes; empty: none any more.
    #[field(9)]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// At most 32 entries and 4 KiB, instead of all that it has; empty: none any more.
    #[field(10)]
    pub headers: Option<Headers>,
    /// The new payload, if it is a JSON value: any, also null, with at most 128 levels of brackets, 1000 digits in a
    /// number, and no lone surrogate. At most one of `json`, `utf8` and `bytes` is set; none: it stays as it is.
    #[field(11, json)]
    pub json: Option<String>,
    /// The new payload, if it is a text.
    #[field(12)]
    pub utf8: Option<String>,
    /// The new payload, if it is bytes: in JSON, base64 with padding.
    #[field(13)]
    pub bytes: Option<Bytes>,
}

/// `Headers`: a map of its own message, so that "unset" and "empty" differ in protobuf.
#[request(transparent)]
pub struct Headers {
    /// Texts by name.
    #[field(1)]
    pub headers: BTreeMap<String, String>,
}

#[request]
#[schemars(transform = crate::rules_of_fields::id_or_address)]
pub struct RerunItemRequest {
    /// The item. Either this or `queue` and `address` are set.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// The name of the queue that the address is of.
    #[field(2)]
    pub queue: Option<String>,
    /// The item that has this address; if all that had it are final, the latest that is kept.
    #[field(3)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// The new item is due so long after the server gets the call; at once if unset.
    #[field(4)]
    pub delay: Option<Span>,
}

#[reply]
pub struct RerunItemReply {
    /// The new item.
    #[field(1)]
    pub item: ProducedItem,
}

/// Items are judged one by one, the oldest first, each as the call for one item would. A state that the action does not apply to
/// is not matched.
#[request]
pub struct ChangeItemsRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// Which items: it must be there, and `{}` is all of them.
    #[field(2)]
    pub filter: Option<ItemFilter>,
    /// `cancel` (live items), `rerun` (final ones without `moved_to`), `run_now` (scheduled ones), `delete` (any) or
    /// `set_priority` (scheduled, waiting, held and suspended ones).
    #[field(3)]
    #[schemars(extend("enum" = ["cancel", "rerun", "run_now", "delete", "set_priority"]))]
    pub action: String,
    /// With `set_priority`, and only there: 0 to 255.
    #[field(4)]
    #[schemars(range(max = 255))]
    pub priority: Option<u32>,
    /// Change nothing, and count what can be known without doing it.
    #[field(5)]
    pub dry_run: bool,
    /// The most items to match: 1 to 1000, 1000 if unset.
    #[field(6)]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
    /// Go on after the call that ended with this pivot: good for the same queue, filter and action.
    #[field(7)]
    #[schemars(length(min = 1))]
    pub pivot: Option<String>,
}

#[reply]
pub struct ChangeItemsReply {
    /// How many items the filter and the action apply to: those changed and those that failed.
    #[field(1)]
    pub matched: u64,
    /// How many were changed; with `dry_run`, how many would be.
    #[field(2)]
    pub changed: u64,
    /// Items that were refused, at most 100 of them, the oldest first.
    #[field(3)]
    pub failed: Vec<FailedItem>,
    /// Where to go on; unset at the end. A call may have matched little or nothing and still have one.
    #[field(4)]
    pub pivot: Option<String>,
}
