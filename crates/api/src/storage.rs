//! Requests and replies about what is stored: lists, imports, deletions, reloads.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_api_derive::{reply, request};

use crate::error::Details;
use crate::items::{Item, ItemError, MovedTo, Origin, ProduceError};
use crate::payload::Payload;
use crate::time::{Span, Time};

#[request]
pub struct ListItemsRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// A partition of the queue, as `queue.stats` shows it.
    #[field(2)]
    pub partition: u32,
    /// Begin after this item; `not_found` if it is not in the list any more.
    #[field(3)]
    #[schemars(extend("format" = "uuid"))]
    pub pivot: Option<String>,
    /// The most items to show: 1 to 1000, and 1000 if unset.
    #[field(4)]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
}

#[request]
pub struct ListScheduledRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// A partition of the queue, as `queue.stats` shows it.
    #[field(2)]
    pub partition: u32,
    /// Begin after this item; `not_found` if it is not in the list any more.
    #[field(3)]
    #[schemars(extend("format" = "uuid"))]
    pub pivot: Option<String>,
    /// The most items to show: 1 to 1000, and 1000 if unset.
    #[field(4)]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
}

/// A page of a list.
#[reply]
pub struct ListItemsReply {
    /// The items in the order of the list. A page may hold fewer than `limit`, for it is bounded in bytes too: only an
    /// empty page is the end.
    #[field(1)]
    pub items: Vec<Item>,
}

#[request]
pub struct ImportItemsRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// 1 to 1000 items, as a list shows them. All items that are taken become durable in one partition, in the order given
    /// behind what is there, or none does.
    #[field(2)]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<ImportItem>,
}

/// An item as a list shows it, with all fields. A field that does not apply to an imported item is ignored.
#[request]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
pub struct ImportItem {
    /// The payload, if it is a JSON value: any, also null, with at most 128 levels of brackets, 1000 digits in a
    /// number, and no lone surrogate. Exactly one of `json`, `utf8` and `bytes` is set.
    #[field(1, json)]
    pub json: Option<String>,
    /// The payload, if it is a text.
    #[field(2)]
    pub utf8: Option<String>,
    /// The payload, if it is bytes: in JSON, base64 with padding.
    #[field(3)]
    pub bytes: Option<Bytes>,
    /// Ignored: the item gets a new id.
    #[field(4)]
    #[schemars(extend("pattern" = "^[^\\u0000]*$"))]
    pub id: Option<String>,
    /// Ignored: the request names the queue.
    #[field(5)]
    pub queue: Option<String>,
    /// Ignored: the server chooses the partition.
    #[field(6)]
    pub partition: Option<u32>,
    /// A `scheduled` or `suspended` item comes in as that, a `waiting`, `held` or `leased` one as waiting; if unset,
    /// `enqueue_at` decides. An item that has ended is refused.
    #[field(7)]
    #[schemars(extend("enum" = ["held", "scheduled", "waiting", "leased", "suspended", "completed", "failed", "cancelled", "expired"]))]
    pub state: Option<String>,
    /// What sort of work the item is: 1 to 128 characters, `default` if unset.
    #[field(8)]
    #[schemars(length(min = 1, max = 128), extend("default" = "default"))]
    pub kind: Option<String>,
    /// 0 to 255: items of priority 0 are leased first. 0 if unset.
    #[field(9)]
    #[schemars(range(max = 255), extend("default" = 0))]
    pub priority: Option<u32>,
    /// How often the item was leased: 0 if unset.
    #[field(10)]
    #[schemars(extend("default" = 0))]
    pub attempts: Option<u32>,
    /// The item's own limit of attempts from now on, 0 means none; the queue's limit if unset.
    #[field(11)]
    pub max_attempts: Option<u32>,
    /// When the item was produced: now if unset.
    #[field(12)]
    pub created_at: Option<Time>,
    /// Ignored: events do not come along.
    #[field(13)]
    pub event_count: Option<u64>,
    /// When the item is due, if it is scheduled.
    #[field(14)]
    pub enqueue_at: Option<Time>,
    /// Ignored: the item comes in without a lease.
    #[field(15)]
    #[schemars(range(max = 9007199254740991_u64))]
    pub permit: Option<u64>,
    /// With `started_at`: who had the latest lease of the item. 1 to 128 characters.
    #[field(16)]
    #[schemars(length(min = 1, max = 128))]
    pub client_id: Option<String>,
    /// Ignored: the item comes in without a lease.
    #[field(17)]
    pub leased_at: Option<Time>,
    /// Ignored: the item comes in without a lease.
    #[field(18)]
    pub lease_deadline: Option<Time>,
    /// Ignored: the item comes in without a lease.
    #[field(19)]
    pub cancel_requested: Option<bool>,
    /// What the item waits for, if it is suspended: at most 512 bytes.
    #[field(29)]
    #[schemars(length(max = 512))]
    pub reason: Option<String>,
    /// Ignored: only live items come in.
    #[field(20)]
    pub finished_at: Option<Time>,
    /// The address of the item: refused while another item of that address is not final in this queue.
    #[field(27)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// The group that the item is a member of: `not_found` if this queue has no group of that name.
    #[field(28)]
    pub group: Option<String>,
    /// A text that is shown with the item: at most 512 bytes.
    #[field(21)]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// Texts by name that are shown with the item: at most 32 entries and 4 KiB.
    #[field(22, optional)]
    #[schemars(extend("maxProperties" = 32))]
    pub headers: BTreeMap<String, String>,
    /// The error of the last failed attempt.
    #[field(23)]
    pub error: Option<ItemError>,
    /// Ignored: only live items come in.
    #[field(24)]
    pub result: Option<Payload>,
    /// How old the item may grow, counted from `created_at`; any age if unset, whatever the queue says of new items.
    #[field(25)]
    pub dead_timeout: Option<Span>,
    /// Where the item was moved from before.
    #[field(26)]
    pub origin: Option<Origin>,
    /// When the state of the item last became another: `created_at` if unset or before that, now if in the future.
    #[field(30)]
    pub changed_at: Option<Time>,
    /// With `client_id`: when the latest lease of the item began, whatever became of that lease.
    #[field(31)]
    pub started_at: Option<Time>,
    /// The cron that made the item; there need not be one of that name.
    #[field(32)]
    pub cron: Option<String>,
    /// With `cron`: the time of the schedule that the item was made for.
    #[field(33)]
    pub scheduled_at: Option<Time>,
    /// Ignored: only live items come in.
    #[field(34)]
    pub moved_to: Option<MovedTo>,
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
            changed_at: Some(item.changed_at),
            started_at: item.started_at,
            cron: item.cron,
            scheduled_at: item.scheduled_at,
            moved_to: item.moved_to,
        }
    }
}

#[reply]
pub struct ImportItemsReply {
    /// What became of each item, in the order given.
    #[field(1)]
    pub items: Vec<ImportedItem>,
}

/// What became of one item: either `id` or `error` is set.
#[reply]
pub struct ImportedItem {
    /// The id that the item has from now on.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// Why the item was not taken.
    #[field(2)]
    pub error: Option<ProduceError>,
}

#[request]
pub struct DeleteItemsRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// 1 to 1000 ids of items, each judged by itself.
    #[field(2)]
    #[schemars(length(min = 1, max = 1000))]
    pub ids: Vec<String>,
}

#[reply]
pub struct DeleteItemsReply {
    /// How many items were deleted.
    #[field(1)]
    pub deleted: u64,
    /// The items that were refused, in the order given.
    #[field(2)]
    pub failed: Vec<FailedItem>,
}

/// An item that was judged and refused, by its id alone.
#[reply]
pub struct FailedItem {
    /// The item, as the request named it.
    #[field(1)]
    pub id: String,
    /// A word that programs can rely on.
    #[field(2)]
    pub code: String,
    /// What was wrong and what to do.
    #[field(3)]
    pub message: String,
    /// Set if there is more to tell about the error.
    #[field(4)]
    pub details: Option<Details>,
}

#[request]
pub struct ReloadQueueRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
}

#[reply]
pub struct ReloadQueueReply {}
