//! Requests and replies about what is stored: lists, imports, deletions, reloads.

use std::collections::BTreeMap;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Details;
use crate::items::{Item, ItemError, Origin, ProduceError};
use crate::payload::{Payload, base64_text, json_text};
use crate::time::{Span, Time};

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "partition"]))]
pub struct ListItemsRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// A partition of the queue, as `queue.stats` shows it.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Begin after this item; `not_found` if it is not in the list any more.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub pivot: Option<String>,
    /// The most items to show: 1 to 1000, and 1000 if unset.
    #[prost(uint32, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "partition"]))]
pub struct ListScheduledRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// A partition of the queue, as `queue.stats` shows it.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Begin after this item; `not_found` if it is not in the list any more.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub pivot: Option<String>,
    /// The most items to show: 1 to 1000, and 1000 if unset.
    #[prost(uint32, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
}

/// A page of a list.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListItemsReply {
    /// The items in the order of the list. A page may hold fewer than `limit`, for it is bounded in bytes too: only an
    /// empty page is the end.
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<Item>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "items"]))]
pub struct ImportItemsRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// 1 to 1000 items, as a list shows them. All items that are taken become durable in one partition, in the order given
    /// behind what is there, or none does.
    #[prost(message, repeated, tag = "2")]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<ImportItem>,
}

/// An item as a list shows it, with all fields. A field that does not apply to an imported item is ignored.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
pub struct ImportItem {
    /// The payload, if it is a JSON value: any, also null, with at most 128 levels of brackets, 1000 digits in a
    /// number, and no lone surrogate. Exactly one of `json`, `utf8` and `bytes` is set.
    #[prost(string, optional, tag = "1")]
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value")]
    pub json: Option<String>,
    /// The payload, if it is a text.
    #[prost(string, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utf8: Option<String>,
    /// The payload, if it is bytes: base64 with padding.
    #[prost(bytes = "bytes", optional, tag = "3")]
    #[serde(with = "base64_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("contentEncoding" = "base64"))]
    pub bytes: Option<Bytes>,
    /// Ignored: the item gets a new id.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[^\\u0000]*$"))]
    pub id: Option<String>,
    /// Ignored: the request names the queue.
    #[prost(string, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Ignored: the server chooses the partition.
    #[prost(uint32, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// A `scheduled` or `suspended` item comes in as that, a `waiting`, `held` or `leased` one as waiting; if unset,
    /// `enqueue_at` decides. An item that has ended is refused.
    #[prost(string, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["held", "scheduled", "waiting", "leased", "suspended", "completed", "failed", "cancelled", "expired"]))]
    pub state: Option<String>,
    /// What sort of work the item is: 1 to 128 characters, `default` if unset.
    #[prost(string, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), extend("default" = "default"))]
    pub kind: Option<String>,
    /// 0 to 255: items of priority 0 are leased first. 0 if unset.
    #[prost(uint32, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 255), extend("default" = 0))]
    pub priority: Option<u32>,
    /// How often the item was leased: 0 if unset.
    #[prost(uint32, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub attempts: Option<u32>,
    /// The item's own limit of attempts from now on, 0 means none; the queue's limit if unset.
    #[prost(uint32, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// When the item was produced: now if unset.
    #[prost(message, optional, tag = "12")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// Ignored: events do not come along.
    #[prost(uint64, optional, tag = "13")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_count: Option<u64>,
    /// When the item is due, if it is scheduled.
    #[prost(message, optional, tag = "14")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enqueue_at: Option<Time>,
    /// Ignored: the item comes in without a lease.
    #[prost(uint64, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: Option<u64>,
    /// Ignored: the item comes in without a lease.
    #[prost(string, optional, tag = "16")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[^\\u0000]*$"))]
    pub client_id: Option<String>,
    /// Ignored: the item comes in without a lease.
    #[prost(message, optional, tag = "17")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased_at: Option<Time>,
    /// Ignored: the item comes in without a lease.
    #[prost(message, optional, tag = "18")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_deadline: Option<Time>,
    /// Ignored: the item comes in without a lease.
    #[prost(bool, optional, tag = "19")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested: Option<bool>,
    /// What the item waits for, if it is suspended: at most 512 bytes.
    #[prost(string, optional, tag = "29")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub reason: Option<String>,
    /// Ignored: only live items come in.
    #[prost(message, optional, tag = "20")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The address of the item: refused while another item of that address is not final in this queue.
    #[prost(string, optional, tag = "27")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// The group that the item is a member of: `not_found` if this queue has no group of that name.
    #[prost(string, optional, tag = "28")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// A text that is shown with the item: at most 512 bytes.
    #[prost(string, optional, tag = "21")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// Texts by name that are shown with the item: at most 32 entries and 4 KiB.
    #[prost(btree_map = "string, string", tag = "22")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub headers: BTreeMap<String, String>,
    /// The error of the last failed attempt.
    #[prost(message, optional, tag = "23")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ItemError>,
    /// Ignored: only live items come in.
    #[prost(message, optional, tag = "24")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// How old the item may grow, counted from `created_at`; any age if unset, whatever the queue says of new items.
    #[prost(message, optional, tag = "25")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_timeout: Option<Span>,
    /// Where the item was moved from before.
    #[prost(message, optional, tag = "26")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

impl From<Item> for ImportItem {
    fn from(item: Item) -> Self {
        Self {
            json: item.json,
            utf8: item.utf8,
            bytes: item.bytes,
            id: Some(item.id),
            queue: Some(item.queue),
            partition: Some(item.partition),
            state: Some(item.state),
            kind: Some(item.kind),
            priority: Some(item.priority),
            attempts: Some(item.attempts),
            max_attempts: item.max_attempts,
            created_at: Some(item.created_at),
            event_count: Some(item.event_count),
            enqueue_at: item.enqueue_at,
            permit: item.permit,
            client_id: item.client_id,
            leased_at: item.leased_at,
            lease_deadline: item.lease_deadline,
            cancel_requested: item.cancel_requested,
            reason: item.reason,
            finished_at: item.finished_at,
            address: item.address,
            group: item.group,
            reference: item.reference,
            headers: item.headers,
            error: item.error,
            result: item.result,
            dead_timeout: item.dead_timeout,
            origin: item.origin,
        }
    }
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ImportItemsReply {
    /// What became of each item, in the order given.
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<ImportedItem>,
}

/// What became of one item: either `id` or `error` is set.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ImportedItem {
    /// The id that the item has from now on.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// Why the item was not taken.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ProduceError>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue", "ids"]))]
pub struct DeleteItemsRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// 1 to 1000 ids of items, each judged by itself.
    #[prost(string, repeated, tag = "2")]
    #[schemars(length(min = 1, max = 1000))]
    pub ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeleteItemsReply {
    /// How many items were deleted.
    #[prost(uint64, tag = "1")]
    pub deleted: u64,
    /// The items that were refused, in the order given.
    #[prost(message, repeated, tag = "2")]
    pub failed: Vec<FailedItem>,
}

/// An item that was judged and refused, by its id alone.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FailedItem {
    /// The item, as the request named it.
    #[prost(string, tag = "1")]
    pub id: String,
    /// A word that programs can rely on.
    #[prost(string, tag = "2")]
    pub code: String,
    /// What was wrong and what to do.
    #[prost(string, tag = "3")]
    pub message: String,
    /// Set if there is more to tell about the error.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["queue"]))]
pub struct ReloadQueueRequest {
    /// The name of the queue.
    #[prost(string, tag = "1")]
    pub queue: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReloadQueueReply {}
